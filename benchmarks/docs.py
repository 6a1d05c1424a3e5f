"""Write docs/benchmarks.md and docs/evidence.md: every number in them comes from a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from common import RESULTS, ROOT

ORDER = [
    "optimum", "plain_bt", "paper_table", "coverage", "halves", "calibration", "type_one",
    "verdicts", "reliability", "camps", "attacks", "slices", "covariates", "tiers",
    "more_raters", "evaluate_cost", "log_loss", "signed",
    "humaine_speed", "default_cost",
    "ten_million", "scale", "growth", "streaming", "many_items", "command_line", "webhooks",
    "potato", "first_use", "wild",
]  # fmt: skip

HEAD = """\
# Benchmarks

This page is written by `make bench-docs` from `benchmarks/results/`; do not edit it by hand.

Each benchmark is one command, `make bench-NAME`. It prints what it measured beside the bar it has
to meet and exits with 1 if it misses one; `python benchmarks/NAME.py --quick` is a smaller run in
seconds. Ratios are between things timed in the same run; of repeated timings the shortest counts,
after a warm-up that loads compiled code. Simulated studies come from `bbq_plugin.simulate` with
fixed seeds. Real sets are HiFiC's, MT-Bench's and LLMFAO's public comparisons, read where they are.

Half weights are treated the same way everywhere: a tie is two comparisons of half the weight, one
each way, and enters the likelihood as p^w. The fit, the Laplace intervals and the bootstrap use it
as it stands. The Gibbs sampler draws whole numbers of informed answers, so it serves data with
whole weights; with fractions `sample()` draws from the same posterior by Metropolis steps.
"""


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown; columns of numbers are aligned right."""
    aligned = [
        "---:" if rows and all(row[c][:1].isdigit() or not row[c] for row in rows) else "---"
        for c in range(len(header))
    ]
    lines = [header, aligned, *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def verdict(ok: bool | None) -> str:  # noqa: FBT001 (three values, straight from the JSON)
    """The word for a check."""
    return {None: "", True: "pass", False: "**missed**"}[ok]


def section(result: dict[str, Any]) -> str:
    """One benchmark."""
    parts = [f"## {result['title']}", f"`make bench-{result['name']}`", result["about"].strip()]
    checks = [[c["what"], c["measured"], c["bar"], verdict(c["ok"])] for c in result["checks"]]
    parts.append(table(["what", "measured", "bar", "result"], checks))
    for other in result["tables"]:
        parts += [f"{other['caption']}:", table(other["header"], other["rows"])]
    parts += [f"![{result['title']}]({figure})" for figure in result["figures"]]
    parts += result["notes"]
    where = ", ".join(f"{key} {value}" for key, value in result["environment"].items())
    parts.append(f"<sub>{where}; {result['seconds']:.0f} s in all</sub>")
    return "\n\n".join(parts)


def summary(results: list[dict[str, Any]]) -> str:
    """All bars on one page."""
    rows = []
    for result in results:
        judged = [c for c in result["checks"] if c["ok"] is not None]
        missed = [c for c in judged if not c["ok"]]
        shown = [c for c in (missed or judged) if c["ok"] is not None][:3]
        said = "; ".join(f"{c['what']}: {c['measured']} (bar {c['bar']})" for c in shown)
        more = len(missed or judged) - len(shown)
        name = result["name"]
        rows.append(
            [
                f"[{name}](#{anchor(result['title'])})",
                said + (f"; and {more} more" if more > 0 else ""),
                f"**{len(missed)} of {len(judged)} missed**" if missed else f"{len(judged)} pass",
            ]
        )
    return table(["benchmark", "measured", "bars"], rows)


def anchor(title: str) -> str:
    """The link that Markdown viewers give to a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


EVIDENCE_HEAD = """\
# Evidence from the world

Simulated studies show that a program does what its author thinks. This page has only data that
this project did not make: answers of real raters, and files that others published. They are not
part of the project and are read where they are; nothing of them is copied here. `make evidence`
measures everything again and writes this page from `benchmarks/results/`; do not edit it by hand.
What was chosen while looking at some of these data is said in each place, and
[what failed](#what-failed) has a section of its own.
"""

#: Heading, text, and the checks and tables that belong to it: a result, what its rows have to
#: match (the first cell), and the columns that are shown.
EVIDENCE: list[tuple[str, str, list[tuple[str, str]], list[tuple[str, str, str, list[str]]]]] = [
    (
        "Halves of real raters",
        ("Would another panel of the same kind have said the same? The raters of each published "
        "study of comparative judgement are split at random into two halves, ten times, and each "
        "half is fitted by itself. If 95% intervals mean what they say, the halves agree within "
        "them in 95% of the cases. Half of the studies were used to choose how few clusters are "
        "handled; the mean of the others is shown apart. `laplace` takes the answers of a rater as "
        "independent."),
        [("halves", "")],
        [("halves", "", "By study",
          ["study", "used", "items", "raters", "camps", "differences", "win_share"])],
    ),
    (
        "Trap questions",
        ("Workers of a crowd (JPEG AIC: quality of images) were shown hidden questions with a "
        "known answer. The fit is not told which questions these are. Do the verdicts find the "
        "workers who failed them, and no other?"),
        [("reliability", "JPEG AIC")],
        [],
    ),
    (
        "Divided panels",
        ("Is a rater who disagrees a bad rater, or one with another taste? Studies of skill (which "
        "proof is better?) should have one camp. In Spehar's studies people say which picture they "
        "like, and many want the opposite of others. `strength` is the largest "
        "direction of disagreement relative to chance; `correlation` is between the rankings of "
        "the two largest camps."),
        [("camps", "Spehar")],
        [("camps", "", "Real studies",
          ["study", "items", "raters", "strength", "camps", "shares", "correlation", "excluded"])],
    ),
    (
        "Files of strangers",
        ("Files as people publish them, each given to `bbq fit` as it is. Where it asks, the line "
        "that it prints is pasted, at most twice. A leaderboard is right if plain Python counts "
        "the same comparisons, raters and wins in the file. These files were known while the "
        "reading of tables was written; files that nobody had seen go wrong more often."),
        [("wild", "")],
        [("wild", "", "Each file", ["file", "result", "lines pasted"])],
    ),
    (
        "Answers that the fit has not seen",
        ("A fifth of the answers is held out and predicted. The difference is to a Bradley-Terry "
        "model without raters; below zero is better."),
        [("log_loss", "")],
        [("log_loss", "", "Nats an answer, answers held out",
          ["set", "bayes-bt, one tie rate", "own outcome, distance",
           "last less first, millinats"])],
    ),
    (
        "More raters",
        ("From a third of the raters of a study: which ranking will twice as many have? The "
        "forecast is an interval of 90% for Kendall's tau; then the other raters are looked at."),
        [("more_raters", "")],
        [("more_raters", "", "By study", ["study", "raters", "items", "splits", "held", "width"])],
    ),
    (
        "Slices",
        ("Does a leaderboard for each prompt or image predict held-out answers better than one for "
        "all, or than one of each slice alone?"),
        [],
        [("slices", "^(?!simulated)", "Nats a held-out answer",
          ["set", "slices", "one board", "each slice alone", "pooled", "pooled − one",
           "pooled − alone"])],
    ),
]  # fmt: skip


def number(text: str) -> float:
    """The first number of a cell."""
    found = re.search(r"[-+]?\d+(?:\.\d+)?", text.replace("−", "-"))
    return float(found[0]) if found else 0.0


#: A result, the start of its table's caption, and which rows are a failure, with the words for it.
FAILURES: list[tuple[str, str, str, Callable[[dict[str, str]], bool], str]] = [
    (
        "halves", "", "Halves agree less often than nine times in ten on the win share",
        lambda row: number(row["win_share"]) < 90,
        "{study}: {win_share} (differences {differences}; {items} items, {raters} raters)",
    ),
    (
        "log_loss", "Nats an answer, answers held out",
        "Held-out answers are predicted worse than without raters, by more than the standard error",
        lambda row: number(row["last less first, millinats"])
        > number(row["last less first, millinats"].split("±")[1]),
        "{set}: {last less first, millinats} millinats",
    ),
    (
        "log_loss", "Nats an answer, raters held out",
        "The same, of raters of whom no answer was known",
        lambda row: number(row["last less first, millinats"]) > 0,
        "{set}: {last less first, millinats} millinats",
    ),
    (
        "more_raters", "",
        "The forecast with more raters came true less often than three times in four (it says 90%)",
        lambda row: number(row["held"]) < 75,
        "{study}: {held} of {splits} splits, tau {tau less forecast} from the forecast",
    ),
    (
        "camps", "Real studies",
        "A rater of a divided panel, or of a panel of experts, is excluded",
        lambda row: number(row["excluded"]) > 0,
        "{study}: {excluded} of {raters}",
    ),
    (
        "wild", "", "A file is refused first, and it takes a pasted line to read it",
        lambda row: number(row["lines pasted"]) > 0,
        "{file}",
    ),
    (
        "slices", "Nats", "Slices by themselves predict better than pooled ones",
        lambda row: not row["set"].startswith("simulated") and number(row["pooled − alone"]) > 0,
        "{set}: {pooled − alone} millinats",
    ),
]  # fmt: skip


def evidence(results: dict[str, dict[str, Any]]) -> str:
    """The page of what data of others showed."""
    parts, missed = [EVIDENCE_HEAD.strip()], []
    for heading, text, checks, tables in EVIDENCE:
        parts += [f"## {heading}", text]
        rows = []
        for name, pattern in checks:
            for one in results[name]["checks"]:
                if re.search(pattern, one["what"]):
                    rows.append([one["what"], one["measured"], one["bar"], verdict(one["ok"])])
                    if one["ok"] is False:
                        missed.append(f"- {heading}, {one['what']}: {one['measured']} "
                                      f"(bar: {one['bar']})")  # fmt: skip
        if rows:
            parts.append(table(["what", "measured", "bar", "result"], rows))
        for name, pattern, caption, columns in tables:
            found = table_of(results[name], caption)
            kept = [
                [row[c] for c in columns] for row in found if re.search(pattern, row[columns[0]])
            ]
            parts += [
                f'<details markdown="1"><summary>{caption} ({len(kept)})</summary>',
                table(columns, kept),
                "</details>",
            ]
        named = dict.fromkeys(name for name, *_ in [*checks, *tables])
        links = ", ".join(
            f"[{name}](benchmarks.md#{anchor(results[name]['title'])})" for name in named
        )
        parts.append(f"The whole run: {links}.")
    parts += ["## What failed", "Bars that these data missed:", "\n".join(missed) or "- none"]
    for name, caption, words, failed, shape in FAILURES:
        found = [row for row in table_of(results[name], caption) if failed(row)]
        lines = "; ".join(shape.format(**row) for row in found) or "none"
        parts.append(f"**{words}** ({len(found)}): {lines}.")
    parts.append(
        "What still works against an honest rater, found by attacks on simulated panels: "
        "[decisions.md](decisions.md#rater-verdicts)."
    )
    return "\n\n".join(parts) + "\n"


def table_of(result: dict[str, Any], caption: str) -> list[dict[str, str]]:
    """The rows of the table whose caption begins so, or of the only one."""
    tables = result["tables"]
    found = [one for one in tables if one["caption"].startswith(caption)] or tables[:1]
    return [dict(zip(found[0]["header"], row, strict=True)) for row in found[0]["rows"]]


def main() -> None:
    """Write both pages."""
    results = []
    others = sorted({path.stem for path in RESULTS.glob("*.json")} - set(ORDER))
    for name in [*ORDER, *others]:
        path = RESULTS / f"{name}.json"
        if path.exists():
            results.append(json.loads(path.read_text(encoding="utf-8")))
        else:
            print(f"{name} has no result yet: run `make bench-{name}`")
    page = "\n\n".join([HEAD.strip(), summary(results), *map(section, results)]) + "\n"
    target = ROOT / "docs" / "benchmarks.md"
    target.write_text(page, encoding="utf-8")
    print(f"Wrote docs/benchmarks.md from {len(results)} results")
    target = ROOT / "docs" / "evidence.md"
    target.write_text(evidence({one["name"]: one for one in results}), encoding="utf-8")
    print("Wrote docs/evidence.md")


if __name__ == "__main__":
    main()
