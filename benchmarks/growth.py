"""Growth from 10⁴ to 10⁷ comparisons: time per comparison falls or stays flat.

50 comparisons a rater of 100 items, so raters grow with comparisons and nearly all triples are
distinct: aggregation saves nothing. The clock runs over `Comparisons.from_arrays` and `fit`, the
best of several runs, compiled code loaded before. A size may be 10% over the smallest before it:
from 10⁵ on the arrays no longer fit into the processor's caches.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from big import ask
from common import Report, Table, arguments, figure

ITEMS, EACH = 100, 50
SIZES = [10**4, 10**5, 10**6, 10**7]
FLAT = 1.1


def main() -> None:
    """Measure all sizes."""
    quick: bool = arguments(__doc__ or "").quick
    report = Report("growth", "Growth from 10⁴ to 10⁷ comparisons", __doc__ or "", quick)
    rows: list[list[str]] = []
    each: list[float] = []
    sizes = SIZES[:-1] if quick else SIZES
    for n in sizes:
        with TemporaryDirectory() as folder:
            ask("draw", folder, ITEMS, n // EACH, n, 1)
            found = ask("whole", folder, "fit", 3 if n >= 10**7 else 7)
        each.append(1e9 * found["seconds"] / n)
        rows.append(
            [
                f"{n:,}", f"{n // EACH:,}", f"{found['triples']:,}", f"{found['seconds']:.4f}",
                f"{each[-1]:.0f}", f"{found['steps']}", f"{found['cores']:.2f}",
            ]
        )  # fmt: skip
        print(" | ".join(rows[-1]), flush=True)
        report.values[str(n)] = found
    for before, n in enumerate(sizes[1:], start=1):
        least = min(each[:before])
        what = f"ns a comparison at {n:,}"
        bar = f"≤ {FLAT:g} × {least:.0f}"
        report.check(what, f"{each[before]:.0f}", bar, ok=each[before] <= FLAT * least)
    header = ["comparisons", "raters", "triples", "s", "ns each", "steps", "cores used"]
    report.tables.append(Table("Cold fit under the paper's priors", header, rows))
    with figure(report, "growth") as axes:
        axes.loglog(sizes, each, marker="o")
        for n, value in zip(sizes, each, strict=True):
            axes.annotate(f"{value:.0f} ns", (n, value), (0, 8), textcoords="offset points")
        axes.set_ylim(min(each) / 3, max(each) * 3)
        axes.set_xlabel("comparisons")
        axes.set_ylabel("time per comparison, ns")
    report.finish()


if __name__ == "__main__":
    main()
