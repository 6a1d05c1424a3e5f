"""Write docs/benchmarks.md from the results: every number in it comes from a run."""

from __future__ import annotations

import json
from typing import Any

from common import RESULTS, ROOT

ORDER = [
    "optimum", "plain_bt", "paper_table", "coverage", "halves", "calibration", "type_one",
    "verdicts", "reliability", "camps", "attacks", "slices", "covariates", "tiers",
    "more_raters", "evaluate_cost", "log_loss", "signed",
    "humaine_speed", "default_cost",
    "ten_million", "growth", "streaming", "many_items", "command_line", "webhooks", "potato",
    "first_use", "wild",
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
    parts.append(table(["what", "measured", "bar", ""], checks))
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


def main() -> None:
    """Write the page."""
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


if __name__ == "__main__":
    main()
