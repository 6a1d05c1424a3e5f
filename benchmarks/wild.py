"""Files of strangers, read as a new user would: `bbq fit FILE`, then what it says to try.

Each file is given to the command as it is. Where it is refused, the first line that begins with
`Try: bbq ` is pasted into a shell, at most twice. A board is right if the number of comparisons and
of raters, and the wins of every item, are those that plain Python counts in the same file. Files
without votes are right if they are refused. The files belong to others and are not part of the
project: the benchmark reads them where they are.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from common import DATA, Report, Table, arguments

WILD = DATA / "wild"
MOST_PASTES = 2
LEAST_RIGHT = 0.9
SIDES = {"left": 1.0, "right": 0.0, "tie": 0.5}

#: First item, second item, share of the win that the first one gets, weight, rater.
Vote = tuple[str, str, float, float, str | None]


def table(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with (WILD / name).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def document(name: str) -> list[dict[str, object]]:
    """The rows of a JSON array, or of JSON lines."""
    text = (WILD / name).read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def full(m: int) -> float:
    """The weight of a pair of a ranking of m items (docs/method.md)."""
    return 4 * sum((s - 1) / s for s in range(2, m + 1)) / (m * (m - 1))


def ranked(
    levels: dict[str, float], rater: str | None, unranked: list[str] | None = None
) -> Iterator[Vote]:
    """The pairs of a ranking; equal is a tie, and what has no rank stands below."""
    rest = unranked or []
    sizes = [1] * len(levels) + ([len(rest)] if rest else [])
    weight = levels_weight(sizes)
    for a, b in combinations(levels, 2):
        yield a, b, 0.5 if levels[a] == levels[b] else float(levels[a] < levels[b]), weight, rater
    for a in levels:
        for b in rest:
            yield a, b, 1.0, weight, rater


def levels_weight(sizes: list[int]) -> float:
    """The weight that matches the information of a ranking with levels of these sizes."""
    m, position, fisher = sum(sizes), 0, 0.0
    for size in sizes:
        scores = []
        for _ in range(size):
            position += 1
            scores.append(1 - sum(1 / (m - t) for t in range(position)))
        fisher += sum(scores) ** 2 / size
    return 2 * fisher / sum(a * b for a, b in combinations(sizes, 2))


def alpaca() -> Iterator[Vote]:
    """1 is the first, 2 the second; 1.5 and 0 are ties."""
    for row in document("alpacaeval_alpaca7b.json"):
        said = row["preference"]
        if said is not None:
            share = 0.5 if said in (0, 1.5) else float(float(str(said)) < 1.5)
            yield str(row["generator_1"]), str(row["generator_2"]), share, 1, str(row["annotator"])


def won(name: str, winner: str, loser: str, rater: str) -> Callable[[], Iterator[Vote]]:
    """A table of winners and losers."""
    return lambda: ((r[winner], r[loser], 1.0, 1.0, r[rater]) for r in table(name))


def deepfunding() -> Iterator[Vote]:
    """1 is repo_a, 2 is repo_b."""
    for r in table("deepfunding_pairs.csv"):
        yield r["repo_a"], r["repo_b"], float(r["choice"] == "1"), 1, r["juror"]


def shootouts() -> Iterator[Vote]:
    """The winner is named."""
    for r in table("football_shootouts.csv"):
        yield r["home_team"], r["away_team"], float(r["winner"] == r["home_team"]), 1, None


def nava() -> Iterator[Vote]:
    """Left, right or tie."""
    for r in document("nava_votes.jsonl"):
        yield (
            str(r["left_model"]),
            str(r["right_model"]),
            SIDES[str(r["choice"])],
            1,
            str(r["user_id"]),
        )


def judgeaudit() -> Iterator[Vote]:
    """A is the first item."""
    for r in table("judgeaudit_pairs.csv"):
        yield r["item_a"], r["item_b"], float(r["winner_ab"] == "A"), 1, None


def gppl() -> Iterator[Vote]:
    """No header: winner, loser."""
    with (WILD / "gppl_humor_pairs.csv").open(encoding="utf-8") as file:
        yield from ((a, b, 1.0, 1.0, None) for a, b in csv.reader(file))


def numbers(
    name: str, first: tuple[str, str], second: tuple[str, str], rater: str | None, *, higher: bool
) -> Callable[[], Iterator[Vote]]:
    """Two items with a number each."""

    def votes() -> Iterator[Vote]:
        for r in table(name):
            try:
                a, b = float(r[first[1]]), float(r[second[1]])
            except ValueError:
                continue
            share = 0.5 if a == b else float((a > b) == higher)
            yield r[first[0]], r[second[0]], share, 1, r[rater] if rater else None

    return votes


def trueskill() -> Iterator[Vote]:
    """Five systems a row, with ties."""
    for r in table("wmt_trueskill_fr-en.csv"):
        ranks = {r[f"system{i}Id"]: float(r[f"system{i}rank"]) for i in range(1, 6)}
        yield from ranked(ranks, r["judgeId"])


def best_worst() -> Iterator[Vote]:
    """Four words: the best beats three, and three beat the worst."""
    weight = levels_weight([1, 2, 1])
    for r in table("bws_aoa.csv"):
        middle = [r["option1"], r["option2"]]
        for other in [*middle, r["worst"]]:
            yield r["best"], other, 1, weight, None
        for other in middle:
            yield other, r["worst"], 1, weight, None


def userstudy() -> Iterator[Vote]:
    """Names by rank, without the vigilance trials."""
    for r in table("userstudy3d_rankings.csv"):
        if r["kind"] == "main":
            yield from ranked({r[f"m_rank{i}"]: i for i in range(1, 7)}, r["workerId"])


def copilot() -> Iterator[Vote]:
    """0 is the first."""
    for r in table("copilot_arena_examples.csv"):
        if r["acceptedIndex"]:
            yield r["model_a"], r["model_b"], float(float(r["acceptedIndex"]) == 0), 1, None


def ballots() -> Iterator[Vote]:
    """One column a candidate; those without a rank stand below."""
    for r in table("rcv_votes.csv"):
        ranks = {name: float(rank) for name, rank in r.items() if rank}
        yield from ranked(ranks, None, [name for name, rank in r.items() if not rank])


def matrix() -> Iterator[Vote]:
    """A row is preferred to a column where the cell is 1."""
    rows = list(csv.reader((WILD / "speaker_prefmatrix.csv").open(encoding="utf-8")))
    names = rows[0]
    for name, cells in zip(names, rows[1:], strict=False):
        for other, cell in zip(names, cells, strict=True):
            if int(cell):
                yield name, other, 1, 1, None


def netflix() -> Iterator[Vote]:
    """As many ballots of an order as it says."""
    names, text = {}, (WILD / "preflib_netflix.soc").read_text(encoding="utf-8")
    for line in text.splitlines():
        if found := re.match(r"# ALTERNATIVE NAME (\d+): (.*)", line):
            names[found[1]] = found[2]
        elif line and not line.startswith("#"):
            n, order = line.split(": ")
            for _ in range(int(n)):
                yield from ranked({names[one]: i for i, one in enumerate(order.split(","))}, None)


def mllm() -> Iterator[Vote]:
    """A, B, or C for a tie."""
    for r in document("mllm_judge_pair_lite.jsonl"):
        if said := r.get("human_answer"):
            first, second = r["answer1"], r["answer2"]
            share = {"A": 1.0, "B": 0.0, "C": 0.5}[str(said)]
            yield first["name"], second["name"], share, 1, None  # type: ignore[index]


def pandalm() -> Iterator[Vote]:
    """Three annotators in columns; 0 is a tie."""
    for r in document("pandalm_testset.json"):
        a, b = str(r["cmp_key"]).split("_")
        for i in (1, 2, 3):
            share = {1: 1.0, 2: 0.0, 0: 0.5}[int(str(r[f"annotator{i}"]))]
            yield a, b, share, 1, f"annotator{i}"


def smash() -> Iterator[Vote]:
    """1: A won, 0: B won; what 0.25 means is not known, so it is left out."""
    for r in document("smash_battles.json"):
        if r["outcome"] in (0, 1):
            yield str(r["userA"]), str(r["userB"]), float(str(r["outcome"])), 1, None


def choix() -> Iterator[Vote]:
    """Pairs of winner and loser."""
    found = json.loads((WILD / "choix_pairwise.json").read_text(encoding="utf-8"))
    yield from ((str(a), str(b), 1.0, 1.0, None) for a, b in found["data"])


def food() -> Iterator[Vote]:
    """Left, right or tie."""
    for r in table("evalica_food.csv"):
        yield r["left"], r["right"], SIDES[r["winner"]], 1, None


#: The votes of a file; or, where it has none, a word that the refusal has to say about it.
FILES: dict[str, Callable[[], Iterator[Vote]] | str] = {
    "alpacaeval_alpaca7b.json": alpaca,
    "cj_davies2021.csv": won(
        "cj_davies2021.csv", "candidate_chosen", "candidate_not_chosen", "judge"
    ),
    "cj_she2014.csv": won("cj_she2014.csv", "Candidate.Chosen", "Candidate.Not.Chosen", "Judge"),
    "wikisurvey_grit_votes.csv": won(
        "wikisurvey_grit_votes.csv", "Winner Text", "Loser Text", "Session ID"
    ),
    "deepfunding_pairs.csv": deepfunding,
    "football_shootouts.csv": shootouts,
    "nava_votes.jsonl": nava,
    "judgeaudit_pairs.csv": judgeaudit,
    "gppl_humor_pairs.csv": gppl,
    "wmt16it_eng-bul.csv": numbers(
        "wmt16it_eng-bul.csv", ("system1Id", "system1rank"), ("system2Id", "system2rank"),
        "judgeID", higher=False,
    ),
    "wmt_trueskill_fr-en.csv": trueskill,
    "football_results.csv": numbers(
        "football_results.csv", ("home_team", "home_score"), ("away_team", "away_score"), None,
        higher=True,
    ),
    "bws_aoa.csv": best_worst,
    "userstudy3d_rankings.csv": userstudy,
    "copilot_arena_examples.csv": copilot,
    "rcv_votes.csv": ballots,
    "speaker_prefmatrix.csv": matrix,
    "preflib_netflix.soc": netflix,
    "mllm_judge_pair_lite.jsonl": mllm,
    "pandalm_testset.json": pandalm,
    "smash_battles.json": smash,
    "choix_pairwise.json": choix,
    "evalica_food.csv": food,
    # No votes, or none of which a board could be made.
    "hh_harmless_test.jsonl.gz": "texts",
    "ls_rlhf_output.json": "names of the items",
    "chess.pgn": "chess",
    "538_candy.csv": "competitorname",
    "psy_2afc.xlsx": "thisRow.t",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one file."""

    file: str
    verdict: str
    pastes: int
    said: str
    votes: bool = True


def run(line: str) -> tuple[int, str, str]:
    """One line in a shell, as a person pastes it."""
    folder = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=WILD, env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def tried(file: str) -> Outcome:
    """The file, read as the messages say."""
    line, pastes = f"bbq fit {file} --format json", 0
    facts = FILES[file]
    while True:
        code, out, err = run(line)
        proposals = [one[len("Try: ") :] for one in err.splitlines() if one.startswith("Try: bbq ")]
        if code == 0 or not proposals or pastes == MOST_PASTES:
            break
        line, pastes = proposals[0], pastes + 1
    said = (err.splitlines() or [""])[0].removeprefix("Error: ")[:160]
    if code not in (0, 1, 2) or "Traceback" in err:
        return Outcome(file, "traceback", pastes, said, votes=callable(facts))
    if isinstance(facts, str):
        verdict = "wrong board" if code == 0 else "refused" if facts in err else "no word"
        return Outcome(file, verdict, pastes, said, votes=False)
    if code != 0:
        return Outcome(file, "stays out", pastes, said)
    wrong = difference(json.loads(out), list(facts()))
    return Outcome(file, "wrong board" if wrong else "right", pastes, wrong)


def difference(report: dict[str, object], votes: list[Vote]) -> str:
    """What a report says otherwise than plain counting; empty where it is right."""
    votes = [vote for vote in votes if vote[0] != vote[1]]
    wins: Counter[str] = Counter()
    for a, b, share, weight, _ in votes:
        wins[a.strip()] += share * weight  # type: ignore[assignment]
        wins[b.strip()] += (1 - share) * weight  # type: ignore[assignment]
    items = {row["item"]: row["wins"] for row in report["items"]}  # type: ignore[attr-defined]
    raters = {vote[4] for vote in votes} - {None}
    counts = (report["n_comparisons"], report["n_items"], report["n_raters"])
    expected = (len(votes), len(wins), len(raters))
    if counts != expected:
        return f"comparisons, items and raters are {counts}, not {expected}"
    for name, n in wins.items():
        if abs(items.get(name, -1) - n) > 1e-6 * max(1, n):
            return f"{name} has {items.get(name)} wins, not {n}"
    return ""


def main() -> None:
    """Try all of them."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("wild", "Files of strangers", __doc__ or "", quick)
    if not WILD.is_dir():
        print(f"there is no {WILD}: nothing to try")
        return
    found = []
    for file in FILES:
        if quick and (WILD / file).stat().st_size > 1_000_000:
            continue
        found.append(tried(file))
        print(f"{found[-1].verdict:12} {found[-1].pastes} {file}  {found[-1].said}", flush=True)
    held = [one for one in found if one.votes]
    right = [one for one in held if one.verdict == "right"]
    at_once = sum(one.pastes == 0 for one in right)
    others = [one for one in found if not one.votes]
    wrong = sum(one.verdict == "wrong board" for one in found)
    report.check("files with votes, right at once", f"{at_once} of {len(held)}")
    report.check(
        "right at once or after at most two pasted lines", f"{len(right)} of {len(held)}",
        f"≥ {LEAST_RIGHT:.0%}", ok=len(right) >= LEAST_RIGHT * len(held),
    )  # fmt: skip
    report.check("wrong boards", f"{wrong}", "0", ok=wrong == 0)
    refused = sum(one.verdict == "refused" for one in others)
    report.check(
        "files without votes, refused with what they are", f"{refused} of {len(others)}", "all",
        ok=refused == len(others),
    )  # fmt: skip
    broken = sum(one.verdict == "traceback" for one in found)
    report.check("tracebacks", f"{broken}", "0", ok=broken == 0)
    rows = [[one.file, one.verdict, str(one.pastes)] for one in found]
    report.tables.append(Table("Each file", ["file", "result", "lines pasted"], rows))
    report.finish()


if __name__ == "__main__":
    main()
