"""Draws docs/figures/report-*.png from a simulated study: `make figures`. Needs Chromium."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from selenium import webdriver

import bbq_plugin as bbq
from bbq_plugin.analysis import Analysis
from bbq_plugin.analysis.slices import SlicedStudy
from bbq_plugin.analysis.stability import evaluation
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.data.records import GOLD, Comparison
from bbq_plugin.report.charts import (
    FILE,
    chart_specs,
    evaluation_specs,
    finished,
    slices_spec,
    to_svg,
)
from tests.browsing import DESK, PHONE, browsing
from tests.report.studies import result_of
from tests.report.test_browser import show

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
WIDTH = 896  # of the picture of one rater
KNOWN = 5  # every so many questions have a known answer


def answers() -> Iterator[Comparison]:
    """A study with times and known questions, in which those who guess are fast."""
    study = bbq.simulate(
        items=8, raters=30, comparisons=3600, guessers=0.1, inverted=0.05, ties=0.1, spread=0.8,
        seed=3,
    )  # fmt: skip
    theta = dict(zip(study.truth.items, study.truth.theta.tolist(), strict=True))
    quality = dict(zip(study.truth.raters, study.truth.quality.tolist(), strict=True))
    rng = np.random.default_rng(3)
    for n, answer in enumerate(study.comparisons()):
        usual_s = 1.5 if quality[str(answer.rater)] == 0 else 8.0
        gap = theta[answer.left] - theta[answer.right]
        known = n % KNOWN == 0 and abs(gap) > 1
        yield msgspec.structs.replace(
            answer,
            at=1.79e9 + 30.0 * n,
            time_s=float(usual_s * rng.lognormal(0.0, 0.4)),
            tags={GOLD: "left" if gap > 0 else "right"} if known else None,
        )


def taken(browser: webdriver.Chrome, file: str, clip: dict[str, float]) -> None:
    """Write a part of the page as it is now."""
    found = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": {**clip, "scale": 1}, "captureBeyondViewport": True}
    )
    (FIGURES / file).write_bytes(base64.b64decode(found["data"]))
    sys.stdout.write(f"docs/figures/{file}\n")


def with_lengths() -> Iterator[Comparison]:
    """A study in which raters like long answers, and the left side."""
    rng = np.random.default_rng(3)
    theta = np.linspace(0.9, -0.9, 8)[rng.permutation(8)]
    long = np.array([1.2, -0.8, 0.3, 1.5, -1.0, 0.0, 0.4, -0.6])
    lean = rng.normal(0.3, 0.4, 25)
    for n in range(2000):
        r = n // 80
        i, j = rng.choice(8, 2, replace=False)
        gap = 150 * (long[i] - long[j] + rng.normal(0, 1.4))
        d = theta[i] - theta[j] + 0.0022 * gap + lean[r]
        left = rng.random() < 0.5 + 0.85 * (1 / (1 + np.exp(-d)) - 0.5)
        yield Comparison(
            f"c{n}", f"rater-{r}", f"model-{'ABCDEFGH'[i]}", f"model-{'ABCDEFGH'[j]}",
            "left" if left else "right", tags={"length_diff": f"{gap:.0f}"},
        )  # fmt: skip


def in_slices() -> SlicedStudy:
    """A study in two languages, in which one model is much better in German; few German answers."""
    rng = np.random.default_rng(5)
    theta = np.linspace(0.8, -0.8, 6)
    groups: dict[str, list[tuple[str, str, str, float]]] = {"en": [], "de": [], "fr": []}
    for name, n in (("en", 1500), ("de", 500), ("fr", 40)):
        here = theta + (1.2 if name == "de" else 0.0) * (np.arange(6) == 3)
        for _ in range(n):
            i, j = rng.choice(6, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(here[j] - here[i]))
            one = ("ABCDEF"[i], "ABCDEF"[j]) if won else ("ABCDEF"[j], "ABCDEF"[i])
            row = (f"r{rng.integers(20)}", f"model-{one[0]}", f"model-{one[1]}", 1.0)
            groups[name].append(row)
    everything = Comparisons.from_records([row for part in groups.values() for row in part])
    parts = {name: Comparisons.from_records(part) for name, part in groups.items()}
    return SlicedStudy("language", Analysis(bbq.fit(everything)), parts)


def leads_without() -> dict[str, Any]:
    """The lead of the first item without each rater of docs/decisions.md's study, in turn."""
    fit = bbq.fit(bbq.simulate(raters=12, comparisons=480, seed=2).arrays(), camps=1)
    first, second = np.argsort(-fit.theta)[:2].tolist()
    points = 400 / np.log(10)
    rows = []
    for r, name in enumerate(fit.raters):
        theta = fit.theta_without([r])
        lead = points * float(theta[first] - theta[second])
        rows.append({"rater": name, "lead": lead, "which": "first" if lead > 0 else "not first"})
    title = f"lead of {fit.items[first]} over {fit.items[second]} without this rater (points)"
    sort = [row["rater"] for row in sorted(rows, key=lambda row: row["lead"])]
    down = {"field": "rater", "type": "ordinal", "sort": sort, "title": None}
    colour = {
        "field": "which", "type": "nominal", "title": None, "legend": None,
        "scale": {"domain": ["first", "not first"], "range": [FILE["accent"], FILE["exclude"]]},
    }  # fmt: skip
    now = {"datum": points * float(fit.theta[first] - fit.theta[second])}
    along = {"field": "lead", "type": "quantitative", "title": title}
    rule = {"type": "rule", "strokeWidth": 1, "color": FILE["plain"]}
    spec = {
        "width": 560, "height": {"step": 22},
        "layer": [
            {"mark": rule, "encoding": {"x": {"datum": 0}}},
            {"mark": {**rule, "strokeDash": [4, 4]}, "encoding": {"x": now}},
            {"mark": {"type": "point", "filled": True, "opacity": 1, "size": 80},
             "encoding": {"y": down, "x": along, "color": colour}},
        ],
    }  # fmt: skip
    return finished(spec, rows, FILE)


def charts_alone() -> None:
    """Draw what needs no browser."""
    data = Comparisons.from_comparisons(with_lengths())
    held = Analysis(bbq.fit(data, covariates=("length_diff", "side")))
    study = bbq.simulate(
        raters=40, comparisons=3000, guessers=0.15, ties=0.1, spread=0.6, seed=4
    ).arrays()
    fits = [
        bbq.fit(study, "bbq", "paper", camps=1, ties="half"),
        bbq.fit(study, "bayes-bt", "paper", camps=1, ties="half"),
        bbq.fit(study, "crowd-bt", camps=1, ties="half"),
    ]
    grown = evaluation_specs(evaluation(fits, 50))["by-raters"]
    wanted = {
        "covariates": chart_specs(held)["covariates"],
        "evaluation": grown(narrow=False),
        "slices": slices_spec(in_slices(), FILE, narrow=False),
        "fragility": leads_without(),
    }
    for name, spec in wanted.items():
        text = to_svg({**spec, "background": FILE["surface"]})
        (FIGURES / f"{name}.svg").write_text(text, encoding="utf-8")
        sys.stdout.write(f"docs/figures/{name}.svg\n")


def main() -> None:
    """Draw all of them."""
    charts_alone()
    result = result_of(Comparisons.from_comparisons(answers()), priors="auto")
    text = result.html(
        title="A study",
        command="bbq fit votes.jsonl -o report.html",
    )
    with TemporaryDirectory() as folder, browsing(Path(folder), "performance") as browser:
        page = Path(folder) / "report.html"
        page.write_text(text, encoding="utf-8")
        show(browser, page)
        taken(browser, "report-desk.png", {"x": 0, "y": 0, "width": DESK, "height": 1100})
        show(browser, page, WIDTH)
        box = browser.execute_script(
            "const box = document.querySelector('section.page').getBoundingClientRect();"
            "return {x: 0, y: box.top + scrollY - 16, height: box.height + 32}"
        )
        taken(browser, "report-rater.png", {**box, "width": WIDTH})
        show(browser, page, PHONE, "dark")
        taken(browser, "report-phone.png", {"x": 0, "y": 0, "width": PHONE, "height": 1100})


if __name__ == "__main__":
    main()
