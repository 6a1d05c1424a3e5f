"""Documents that version 0.1.0 wrote: they are still read, and today's have all their fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bbq_plugin.cli import main
from bbq_plugin.report.documents import excluded_names

WRITTEN = Path(__file__).parent / "version_0_1_0"
STUDY = (
    "simulate", "--items", "4", "--raters", "8", "--comparisons", "640", "--guessers", "0.25",
    "--spread", "1.2", "--seed", "5", "-o", "votes.jsonl",
)  # fmt: skip
COMMANDS = {
    "report": ("fit", "votes.jsonl", "--format", "json"),
    "raters": ("raters", "votes.jsonl", "--format", "json"),
    "pairs": ("pairs", "votes.jsonl", "-n", "3", "--format", "json"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study that those documents are about."""
    found = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        assert CliRunner().invoke(main, STUDY).exit_code == 0
    return found


def written(name: str) -> Any:
    return json.loads((WRITTEN / f"{name}.json").read_text(encoding="utf-8"))


def shape(value: Any) -> Any:
    """The fields of a document, without its values; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return None


def still_has(now: Any, before: Any) -> bool:
    """Whether all fields of a shape are there; newer ones may be added."""
    if isinstance(before, dict):
        return all(key in now and still_has(now[key], part) for key, part in before.items())
    if isinstance(before, list):
        return not before or (bool(now) and still_has(now[0], before[0]))
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_a_document_has_the_fields_it_had(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    now = json.loads(CliRunner().invoke(main, COMMANDS[name]).stdout)
    before = written(name)
    assert still_has(shape(now), shape(before))
    assert (now["schema"], now["digest"]) == (before["schema"], before["digest"])
    for row, old in zip(now.get("items", ()), before.get("items", ()), strict=True):
        assert (row["item"], row["rank"]) == (old["item"], old["rank"])
        # Estimated priors: guessers have a quality near 0 since, not exactly that of a coin.
        assert row["rating"] == pytest.approx(old["rating"], abs=1.0)
    for row, old in zip(now.get("raters", ()), before.get("raters", ()), strict=True):
        assert (row["rater"], row["verdict"]) == (old["rater"], old["verdict"])
        assert row["quality"] == pytest.approx(old["quality"], abs=0.06)


@pytest.mark.parametrize("name", ["report", "raters"])
def test_the_raters_that_it_excluded_are_remembered(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (WRITTEN / f"{name}.json").read_bytes()
    out = [row["rater"] for row in written(name)["raters"] if row["verdict"] == "exclude"]
    assert out
    assert excluded_names(document, name) == out
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(
        main, (*COMMANDS["raters"], "--before", str(WRITTEN / f"{name}.json"))
    )
    assert result.exit_code == 0
    verdicts = {row["rater"]: row["verdict"] for row in json.loads(result.stdout)["raters"]}
    assert [rater for rater, verdict in verdicts.items() if verdict == "exclude"] == out
