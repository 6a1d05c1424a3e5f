"""The chart of the raters: quality against agreement, as the paper's figure 2."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import floor, isfinite
from typing import TYPE_CHECKING, Any

from bbq_plugin.report.charts.drawing import Palette, finished

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bbq_plugin.analysis.raters import RaterRow

VERDICTS = ("keep", "watch", "exclude")
_SHAPES = {"keep": "circle", "watch": "triangle-up", "exclude": "square"}
DOTS_DRAWN = 400  # raters drawn one by one; beyond, near ones share a dot whose area counts them
GRID = 40  # near: within the same fortieth of either axis

# The small chart on a rater's page: of fixed size, because the page puts a mark into it.
_PLOT_WIDTH, _PLOT_HEIGHT = 250, 150
_MARGIN = {"left": 40, "top": 12, "right": 14, "bottom": 42}
SMALL_WIDTH = _PLOT_WIDTH + _MARGIN["left"] + _MARGIN["right"]
SMALL_HEIGHT = _PLOT_HEIGHT + _MARGIN["top"] + _MARGIN["bottom"]


@dataclass(frozen=True)
class Scatter:
    """Dots, and the lower ends of both axes (the upper ends are 1)."""

    dots: list[dict[str, Any]]
    least_agreement: float
    least_quality: float

    @classmethod
    def of(cls, raters: Iterable[RaterRow]) -> Scatter | None:
        """The dots of all raters with a known quality; None if there are none."""
        known = [row for row in raters if isfinite(row.quality) and isfinite(row.agreement)]
        if not known:
            return None
        step = None if len(known) <= DOTS_DRAWN else GRID
        places = Counter(
            (_snap(row.agreement, step), _snap(row.quality, step), row.verdict) for row in known
        )
        dots = [
            {"agreement": x, "quality": y, "verdict": verdict, "count": count}
            # The few that matter are drawn last, on top of the many.
            for (x, y, verdict), count in sorted(
                places.items(), key=lambda place: VERDICTS.index(place[0][2])
            )
        ]
        return cls(
            dots,
            _tenth_below(min([0.4, *(row.agreement for row in known)])),
            _tenth_below(min([0.0, *(row.quality for row in known)])),
        )

    @property
    def grouped(self) -> bool:
        """Whether a dot may stand for several raters."""
        return any(dot["count"] > 1 for dot in self.dots)

    def spec(self, palette: Palette, *, narrow: bool) -> dict[str, Any]:
        """The chart of the page, or of a paper."""
        width, height = (285, 250) if narrow else (720, 380)
        return finished(self._layers(palette, width, height, ticks=4 if narrow else 6), self.dots,
                        palette)  # fmt: skip

    def small_spec(self, palette: Palette) -> dict[str, Any]:
        """The chart on a rater's page, into which their own mark is put."""
        layers = self._layers(palette, _PLOT_WIDTH, _PLOT_HEIGHT, ticks=3, small=True)
        size = {"autosize": {"type": "none"}, "padding": _MARGIN}
        return finished(layers, self.dots, palette, **size)

    def place(self, row: RaterRow) -> tuple[float, float]:
        """Where a rater is in the small chart, in its pixels."""
        across = (row.agreement - self.least_agreement) / (1 - self.least_agreement)
        up = (row.quality - self.least_quality) / (1 - self.least_quality)
        return _MARGIN["left"] + _PLOT_WIDTH * across, _MARGIN["top"] + _PLOT_HEIGHT * (1 - up)

    def _layers(
        self, palette: Palette, width: int, height: int, ticks: int, *, small: bool = False
    ) -> dict[str, Any]:
        present = [v for v in VERDICTS if any(dot["verdict"] == v for dot in self.dots)]
        legend = {"orient": "top", "title": None, "symbolOpacity": 1, "symbolSize": 90}
        verdict: dict[str, Any] = {"field": "verdict", "type": "nominal", "legend": None}
        if len(present) > 1 and not small:
            verdict["legend"] = legend
        across = {"domain": [self.least_agreement, 1], "nice": False, "zero": False}
        dots = {
            "mark": {"type": "point", "filled": True, "opacity": 0.75, "strokeWidth": 0},
            "encoding": {
                "x": {
                    "field": "agreement",
                    "type": "quantitative",
                    "scale": across,
                    "title": "agreement with the ranking",
                    "axis": {"format": "%", "tickCount": ticks, "labelFlush": True},
                },
                "y": {
                    "field": "quality",
                    "type": "quantitative",
                    "scale": {"domain": [self.least_quality, 1], "nice": False},
                    "title": None if small else "rater quality q",
                    "axis": {"tickCount": 3 if small else 5},
                },
                "size": self._size(palette, small=small),
                "color": {
                    **verdict,
                    "scale": {"domain": present, "range": [palette[v] for v in present]},
                },
                "shape": {
                    **verdict,
                    "scale": {"domain": present, "range": [_SHAPES[v] for v in present]},
                },
            },
        }
        chance = {
            "data": {"values": [{"agreement": 0.5, "what": "random"}]},
            "encoding": {"x": {"field": "agreement", "type": "quantitative", "scale": across}},
            "layer": [
                {"mark": {"type": "rule", "strokeDash": [4, 4], "color": palette["axis"]}},
                {
                    "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 5, "dy": 5,
                             "fontSize": 11, "color": palette["muted"]},
                    "encoding": {"y": {"value": 0}, "text": {"field": "what"}},
                },
            ],
        }  # fmt: skip
        return {"width": width, "height": height, "layer": [chance, dots]}

    def _size(self, palette: Palette, *, small: bool) -> dict[str, Any]:
        if not self.grouped:
            return {"value": 28 if small else 70 if len(self.dots) <= 150 else 44}
        most = max(dot["count"] for dot in self.dots)
        counts = sorted({1, (most + 1) // 2, most})
        legend = {
            "title": "raters",
            "values": counts,
            "orient": "bottom",
            "format": "d",
            "symbolFillColor": palette["muted"],
            "symbolStrokeColor": "transparent",
        }
        return {
            "field": "count",
            "type": "quantitative",
            # By area, but so that a single rater can still be seen.
            "scale": {"domain": [1, most], "range": [12, 100] if small else [20, 420]},
            "legend": None if small else legend,
        }


def _snap(value: float, step: int | None) -> float:
    return value if step is None else round(value * step) / step


def _tenth_below(value: float) -> float:
    return floor(value * 10) / 10
