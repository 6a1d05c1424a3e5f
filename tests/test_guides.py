"""The guides of the site show what the commands print.

python tests/test_guides.py      rewrites the outputs of the pages in PAGES
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import bbq_plugin as bbq
from tests.cli.test_docs import normalised, output, rendered

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = ["start.md", "guide-arena.md", "guide-vision.md", "guide-label-studio.md"]

_STUDY = re.compile(r"<!-- study: (.*) -->")
_QUOTE = re.compile(r"(<!-- quote: (\S+) ?(\S*) -->\n)> .*")


def quoted(votes: str, names: str) -> str:
    """What a paper would say of a study, from the fields of its report."""
    pairs = [line.split(",") for line in Path(names).read_text().split()] if names else []
    fit = bbq.fit(bbq.read(votes, rename=dict(pairs) or None))
    board, raters = bbq.leaderboard(fit), bbq.rater_report(fit)
    first, last = board[0], board[-1]
    excluded = sum(row.verdict == "exclude" for row in raters)
    best = "> 0.99" if first.p_best > 0.995 else f"= {first.p_best:.2f}"
    return (
        f"{first.item} is preferred to a random other item in {first.win_share:.0%} of the "
        f"comparisons (95% interval {first.win_share_lower:.0%} to {first.win_share_upper:.0%}; "
        f"P(best) {best}), {last.item} in {last.win_share:.0%} ({last.win_share_lower:.0%} to "
        f"{last.win_share_upper:.0%}). {fit.data.n_comparisons:,} comparisons by "
        f"{len(raters)} raters, of whom {excluded} would be excluded; "
        f"bbq {bbq.__version__}, data {fit.data.digest[:16]}."
    )


def shown(page: str) -> str:
    """The page with the outputs and sentences of now."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for words in _STUDY.findall(page):
                output(f"simulate {words}")
            page = rendered(page)
            return _QUOTE.sub(lambda found: f"{found[1]}> {quoted(found[2], found[3])}", page)
        finally:
            os.chdir(before)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_the_commands_print(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    hint = "run: python tests/test_guides.py"
    assert normalised(shown(page)).splitlines() == normalised(page).splitlines(), hint


if __name__ == "__main__":
    for one in PAGES:
        text = (DOCS / one).read_text(encoding="utf-8")
        (DOCS / one).write_text(shown(text), encoding="utf-8")
        sys.stdout.write(f"{one} is up to date\n")
