"""The demo: files with bad raters among them fall into a folder, and the daemon finds them."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from rich.text import Text

from bbq_plugin.analysis import Analysis
from bbq_plugin.analysis.leaderboard import to_rating
from bbq_plugin.errors import BBQError
from bbq_plugin.model import fit
from bbq_plugin.report.terminal_tables import leaderboard_table, raters_table
from bbq_plugin.simulation import simulate, write_study, write_truth
from bbq_plugin.store import Store, read_store
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rich.console import Console

    from bbq_plugin.analysis import Leaderboard, RaterReport
    from bbq_plugin.analysis.raters import Verdict
    from bbq_plugin.simulation import Study, Truth


@dataclass(frozen=True)
class TruthCheck:
    """What the fit got right: intervals that hold the truth, and bad raters by verdict."""

    rating: Mapping[str, float]
    kind: Mapping[str, str]
    held: int
    n_bad: int
    n_honest: int
    #: The names of the bad raters, and of the honest ones, by verdict.
    bad: Mapping[Verdict, list[str]]
    honest: Mapping[Verdict, list[str]]

    def lines(self) -> list[str]:
        """Say it in words."""
        bad = (
            f"{self.n_bad} raters guess or give inverted answers: {len(self.bad['exclude'])} of "
            f"them to exclude, {len(self.bad['watch'])} to watch, "
            f"{_counted(self.bad['keep'])} missed."
        )
        honest = (
            f"{self.n_honest} raters are honest: {_counted(self.honest['exclude'])} of them "
            f"excluded wrongly, {_counted(self.honest['watch'])} to watch."
        )
        return [f"{self.held} of {len(self.rating)} intervals hold the true rating.", bad, honest]


def check_against_truth(board: Leaderboard, raters: RaterReport, truth: Truth) -> TruthCheck:
    """Compare a leaderboard and a rater report with what the study was drawn from."""
    true_rating = _true_rating(board, truth)
    kind = dict(zip(truth.raters, truth.kind, strict=True))
    bad: dict[Verdict, list[str]] = {"exclude": [], "watch": [], "keep": []}
    honest: dict[Verdict, list[str]] = {"exclude": [], "watch": [], "keep": []}
    for row in raters:
        (honest if kind[row.rater] == "honest" else bad)[row.verdict].append(row.rater)
    held = sum(r.rating_lower <= true_rating[r.item] <= r.rating_upper for r in board)
    n_bad = sum(k != "honest" for k in kind.values())
    return TruthCheck(true_rating, kind, held, n_bad, len(kind) - n_bad, bad, honest)


def _true_rating(board: Leaderboard, truth: Truth) -> dict[str, float]:
    """The truth on the leaderboard's scale, relative to the same items."""
    theta = dict(zip(truth.items, truth.theta.tolist(), strict=True))
    known = np.array([theta[row.item] for row in board])
    rating = to_rating(known - known.mean(), board.scale)
    return dict(zip((row.item for row in board), rating.tolist(), strict=True))


def _counted(names: list[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"


RATERS_SHOWN = 12
# Votes that arrive with each file: few at first, so that it shows how little they tell.
FILES = (200, 400, 600, 1200, 2400)
# For eyes to follow, and only where there are any.
PAUSE_S = 1.2


def run_demo(folder: Path, seed: int, console: Console) -> Path:
    """Show the daemon at work in a folder; the report that it has written at the end."""
    study = simulate(
        items=8,
        raters=40,
        comparisons=sum(FILES),
        guessers=0.15,
        inverted=0.05,
        left_bias=0.5,
        ties=0.1,
        spread=1.0,
        seed=seed,
    )
    inbox, out, store = folder / "inbox", folder / "results", folder / "votes.db"
    inbox.mkdir()
    with (folder / "truth.json").open("w", encoding="utf-8") as file:
        write_truth(study.truth, file)
    console.print(
        Text("Votes of 40 raters on 8 items; 8 raters guess or give inverted answers", "bold")
    )
    console.print(Text("Started: bbq watch inbox --store votes.db --out results"))
    with _daemon(inbox, store, out) as daemon:
        shown = _Shown(console)
        for number, lines in enumerate(_parts(study, seed), 1):
            name = f"votes-{number}.jsonl"
            _drop(inbox / name, lines)
            daemon.wait("refreshed")
            shown.show(name, msgspec.json.decode((out / "report.json").read_bytes()))
            if console.is_terminal:
                time.sleep(PAUSE_S)
    console.print(Text("Stopped. All of it again, from the store, and beside the truth:", "bold"))
    _conclude(console, store, study)
    page = out / "report.html"
    return page if page.exists() else out / "report.json"


def _parts(study: Study, seed: int) -> Iterator[str]:
    """The votes as Arena lines, a few hundred at a time, of the raters at work."""
    whole = io.StringIO()
    write_study(study, whole, "arena")
    lines = whole.getvalue().splitlines(keepends=True)
    random.Random(seed).shuffle(lines)  # noqa: S311 (no secret)
    start = 0
    for n in FILES:
        yield "".join(lines[start : start + n])
        start += n


def _drop(path: Path, text: str) -> None:
    """Put a file into its place as a whole, as an export script should."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


class _Daemon:
    """`bbq watch` as a process of its own, of which only the log is known."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last = ""

    def wait(self, event: str) -> None:
        """Read its log until this happens."""
        log = self._process.stderr
        for line in log or ():
            self._last = line
            found: dict[str, Any] = msgspec.json.decode(line) if line.startswith("{") else {}
            if found.get("event") == event:
                return
        raise BBQError(f"the daemon ended before it {event}; its last words: {plain(self._last)}")


@contextmanager
def _daemon(inbox: Path, store: Path, out: Path) -> Iterator[_Daemon]:
    command = [
        sys.executable, "-m", "bbq_plugin", "watch", str(inbox), "--store", str(store),
        "--out", str(out), "--debounce-s", "0.1", "--idle-full-s", "3600", "--log-format", "json",
    ]  # fmt: skip
    with subprocess.Popen(  # noqa: S603 (this program itself)
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        daemon = _Daemon(process)
        try:
            daemon.wait("started")
            yield daemon
        finally:
            process.terminate()
            # What it still has to say must not fill the pipe and hold it up.
            process.communicate()
        if process.returncode:
            raise BBQError(f"the daemon left with exit code {process.returncode}")


class _Shown:
    """What was shown last, so that changes can be told."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rank: dict[str, int] = {}
        self._excluded: set[str] = set()

    def show(self, file: str, report: dict[str, Any]) -> None:
        """One file more: the leaderboard and who is no longer listened to."""
        console = self._console
        console.print(Text(f"\n{file} arrived: {report['n_comparisons']:,} votes", "bold"))
        for row in report["items"]:
            console.print(self._line(row))
        excluded = {row["rater"]: row for row in report["raters"] if row["verdict"] == "exclude"}
        for name in sorted(excluded.keys() - self._excluded):
            reason = "; ".join(excluded[name]["reasons"][:1])
            console.print(Text(f"  exclude {plain(name)}: {plain(reason)}", "red"))
        for name in sorted(self._excluded - excluded.keys()):
            console.print(Text(f"  back: {plain(name)}", "green"))
        self._excluded = set(excluded)
        self._rank = {row["item"]: row["rank"] for row in report["items"]}

    def _line(self, row: dict[str, Any]) -> Text:
        up = self._rank.get(row["item"], row["rank"]) - row["rank"]
        move = f"up {up}" if up > 0 else f"down {-up}" if up < 0 else ""
        text = Text(
            f"  {row['rank']}  {plain(row['item']):<8} {row['rating']:>6,.0f}  "
            f"({row['rating_lower']:,.0f} … {row['rating_upper']:,.0f})"
        )
        return text.append(f"  {move}" if move else "", "green" if up > 0 else "yellow")


def _conclude(console: Console, store: Path, study: Study) -> None:
    with Store(store, writable=False) as opened:
        excluded = opened.excluded()
    analysis = Analysis(fit(read_store(store), priors="auto"), previously_excluded=excluded)
    board, raters = analysis.leaderboard, analysis.raters
    check = check_against_truth(board, raters, study.truth)
    console.print(leaderboard_table(board, check.rating))
    where = "the report has all"
    shown = raters_table(raters, RATERS_SHOWN, kinds=check.kind, reasons=False, where=where)
    console.print(shown)
    worst = min(raters, key=lambda row: row.quality)
    for reason in worst.reasons:
        console.print(Text(f"{worst.rater} {reason}."))
    console.print(Text("Where the truth was:", style="bold"))
    for line in check.lines():
        console.print(Text(line))
