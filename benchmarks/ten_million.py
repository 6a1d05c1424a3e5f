"""10 million comparisons by 200,000 raters of 100 items: from coded arrays to Laplace intervals.

The clock runs over `Comparisons.from_arrays` (from int64 codes, rows in random order), `fit` and
`covariance()`, in a process that does nothing else; compiled code is loaded before. The yardstick
is one `numpy.unique` over the 10 million int64 keys (rater, winner, loser), timed in the same run
in a process of its own. numpy.unique has two ways to work: with `return_inverse=True` it sorts;
plain, newer versions use a hash table, which is slower here. The faster one is the yardstick.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from big import ask
from common import Report, Table, arguments

ITEMS, RATERS, COMPARISONS = 100, 200_000, 10_000_000
TIMES_UNIQUE = 8.0
PEAK_BYTES = 2.5e9
CORES = 1.3


def main() -> None:
    """Measure it."""
    quick: bool = arguments(__doc__ or "").quick
    part = 20 if quick else 1
    report = Report("ten_million", "10 million comparisons", __doc__ or "", quick)
    with TemporaryDirectory() as folder:
        ask("draw", folder, ITEMS, RATERS // part, COMPARISONS // part, 0)
        unique = ask("unique", folder, 1 if quick else 2)
        whole = ask("whole", folder, "laplace", 1 if quick else 2)
    yardstick = min(unique.values())
    ratio = whole["seconds"] / yardstick
    report.check(
        "time, in numpy.unique of the same keys", f"{ratio:.1f} times",
        f"≤ {TIMES_UNIQUE:g} times", ok=ratio <= TIMES_UNIQUE,
    )  # fmt: skip
    peak = whole["peak"]
    report.check(
        "peak memory", f"{peak / 1e9:.2f} GB", f"< {PEAK_BYTES / 1e9} GB", ok=peak < PEAK_BYTES
    )
    report.check(
        "cores used (CPU time / wall time)", f"{whole['cores']:.2f}", f"> {CORES}",
        ok=whole["cores"] > CORES,
    )  # fmt: skip
    rows = [
        ["numpy.unique(keys)", f"{unique['plain']:.2f}"],
        ["numpy.unique(keys, return_inverse=True)", f"{unique['inverse']:.2f}"],
        ["from arrays to Laplace intervals, all", f"{whole['seconds']:.2f}"],
        [f"of this: checks and {whole['triples']:,} triples", f"{whole['aggregated_s']:.2f}"],
        [f"of this: fit, {whole['steps']} steps", f"{whole['fitted_s']:.2f}"],
        ["of this: Laplace, quality integrated out", f"{whole['laplace_s']:.2f}"],
    ]
    report.tables.append(Table("Seconds", ["what", "s"], rows))
    given = 3 * 8 * COMPARISONS // part
    report.notes.append(
        f"Of the peak, {given / 1e9:.2f} GB are the arrays that were given, and "
        f"{whole['peak_before'] / 1e9:.2f} GB the interpreter with its libraries."
    )
    report.values = {"unique": unique, "whole": whole, "ratio": ratio}
    report.finish()


if __name__ == "__main__":
    main()
