"""What `bbq evaluate` costs with all figures: 10,000 comparisons, three models.

100 raters, 12 items, a tenth guessers, a tenth ties, 200 resamples; reading the file, fits,
resamples, curves, priors, forecast and drawing the page, in CPU seconds of one process.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner
from common import Report, arguments

from bbq_plugin.cli.main import main as bbq


def main() -> None:
    """Measure and report."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("evaluate_cost", "The cost of an evaluation", __doc__ or "", quick)
    n = 1_000 if quick else 10_000
    with TemporaryDirectory() as folder:
        votes, page = Path(folder) / "votes.jsonl", Path(folder) / "page.html"
        simulate = f"simulate --items 12 --raters 100 --comparisons {n} --guessers 0.1 --ties 0.1"
        CliRunner().invoke(bbq, [*simulate.split(), "--seed", "1", "-o", str(votes)])
        evaluate = ["evaluate", str(votes), "-o", str(page)]
        CliRunner().invoke(bbq, [*evaluate, "--resamples", "2"])
        began = time.process_time()
        found = CliRunner().invoke(bbq, evaluate, catch_exceptions=False)
        spent = time.process_time() - began
        size = page.stat().st_size
    report.check(
        f"CPU seconds, {n:,} comparisons, three models", f"{spent:.1f}", "at most 30",
        ok=spent <= 30 and found.exit_code == 0,
    )  # fmt: skip
    report.check("size of the page, kB", f"{size / 1000:.0f}")
    report.finish()


if __name__ == "__main__":
    main()
