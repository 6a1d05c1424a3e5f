"""20,000 items, 5 million comparisons, 50,000 raters: a fit without dense matrices.

One dense K × K matrix of doubles would have 3.2 GB, one R × K 8 GB. The peak memory of a process
that does nothing but read the arrays and fit shows that neither is made.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from big import ask
from common import Report, Table, arguments

ITEMS, RATERS, COMPARISONS = 20_000, 50_000, 5_000_000
SHARE = 0.5


def main() -> None:
    """Measure it."""
    quick: bool = arguments(__doc__ or "").quick
    part = 10 if quick else 1
    items, raters, comparisons = ITEMS, RATERS // part, COMPARISONS // part
    report = Report("many_items", "20,000 items, 5 million comparisons", __doc__ or "", quick)
    with TemporaryDirectory() as folder:
        ask("draw", folder, items, raters, comparisons, 2)
        found = ask("whole", folder, "fit", 1)
    dense = 8 * items**2
    report.check(
        "fits, with nats still to go", f"{found['error']:.0e}", "≤ 1e-6", ok=found["error"] <= 1e-6
    )
    ratio = found["peak"] / dense
    shown = f"{found['peak'] / 1e9:.2f} GB, {ratio:.2f} of one dense K × K"
    report.check("peak memory", shown, f"≤ {SHARE} of it", ok=ratio <= SHARE)
    report.check("time", f"{found['seconds']:.1f} s")
    rows = [
        ["one dense K × K of doubles", f"{dense / 1e9:.2f}"],
        ["one dense R × K of doubles", f"{8 * items * raters / 1e9:.2f}"],
        ["peak of the process that fits", f"{found['peak'] / 1e9:.2f}"],
        ["of this: the arrays that were given", f"{24 * comparisons / 1e9:.2f}"],
        ["of this: interpreter and libraries", f"{found['peak_before'] / 1e9:.2f}"],
    ]
    report.tables.append(Table("Memory", ["what", "GB"], rows))
    report.values = found
    report.finish()


if __name__ == "__main__":
    main()
