"""A lead decides about a rater: it holds everywhere, is on record, and can be taken back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bbq_plugin.cli import main
from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.push import goals_of
from bbq_plugin.store import Store
from tests.live.server.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-the-page-0123456789"  # noqa: S105


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Five raters who agree, and bob, who says the opposite of all of them."""
    path = tmp_path / "answers.db"
    with Engine(path) as engine:
        engine.add(
            Comparison(f"{rater}{n}", rater, left, right, "right" if rater == "bob" else "left")
            for rater in ("ann", "bob", "cat", "dan", "eve", "fay")
            for n, (left, right) in enumerate([("a", "b"), ("b", "c"), ("a", "c")] * 15)
        )
        engine.refresh()
        engine.keep_verdicts(engine.analysis())
    return path


def verdicts(store: Path, *more: str) -> dict[str, dict[str, str]]:
    words = ["raters", "--store", str(store), "--format", "json", *more]
    result = CliRunner().invoke(main, words, prog_name="bbq")
    assert result.exit_code == 0, result.output
    return {row["rater"]: row for row in json.loads(result.stdout)["raters"]}


def decide(store: Path, word: str, because: str = "I have looked at the answers") -> None:
    verdicts(store, "--set", word, "--because", because, "--by", "Lea")


def test_a_leads_word_is_the_verdict_everywhere_and_the_models_stands_beside_it(
    store: Path,
) -> None:
    before = verdicts(store)
    assert (before["ann"]["verdict"], before["bob"]["model_verdict"]) == ("keep", "exclude")
    decide(store, "bob=keep", "the keys were swapped")
    decide(store, "ann=exclude", "a friend of the author")
    found = verdicts(store)
    bob, ann = found["bob"], found["ann"]
    assert (bob["verdict"], bob["model_verdict"]) == ("keep", "exclude")
    assert (ann["verdict"], ann["model_verdict"]) == ("exclude", "keep")
    assert "Lea has decided" in ann["lead_word"]
    assert "a friend of the author" in ann["reasons"][0]
    with Engine(store) as engine:
        analysis = engine.analysis()
        assert analysis.raters.excluded == ("ann",)
        assert set(goals_of(analysis).excluded) == {"ann"}
        assert analysis.raters.without_excluded is not None
        pairs = analysis.pairs(4, raters=["ann", "bob", "cat"])
        assert {row.rater for row in pairs} == {"bob", "cat"}
        # What the model holds against a rater is remembered, and what a lead says is not mixed in.
        engine.keep_verdicts(analysis)
        assert engine.store.excluded() == {"bob"}
        assert [(w.rater, w.verdict, w.by) for w in engine.store.lead_journal()] == [
            ("bob", "keep", "Lea"), ("ann", "exclude", "Lea"),
        ]  # fmt: skip
    decide(store, "ann=model")
    decide(store, "bob=model")
    again = verdicts(store)
    assert {name: row["verdict"] for name, row in again.items()} == {
        name: row["verdict"] for name, row in before.items()
    }
    with Store(store, writable=False) as opened:
        assert len(opened.lead_journal("ann")) == 2


def test_a_word_needs_a_store_a_reason_and_a_rater_who_is_there(store: Path) -> None:
    def refused(*words: str) -> str:
        result = CliRunner().invoke(main, ["raters", *words], prog_name="bbq")
        assert result.exit_code == 2, result.output
        return result.stderr

    db = ("--store", str(store))
    assert "--because" in refused(*db, "--set", "ann=keep")
    assert "RATER=exclude" in refused(*db, "--set", "ann=bad", "--because", "x")
    assert "did you mean" in refused(*db, "--set", "anm=keep", "--because", "x")


def test_pseudonymous_reports_keep_the_reason_to_the_store(store: Path, tmp_path: Path) -> None:
    decide(store, "ann=exclude", "Ann Smith told me so")
    key = tmp_path / "key"
    key.write_text("a key of thirty-two characters .")
    key.chmod(0o600)
    found = verdicts(store, "--pseudonym-key-file", str(key))
    said = [row for row in found.values() if row["lead_word"]]
    assert [row["verdict"] for row in said] == ["exclude"]
    assert "Smith" not in json.dumps(found)
    assert "ann" not in found


def test_a_lead_decides_on_the_page_after_logging_in(store: Path) -> None:
    with serving(store, BBQ_PAGE_TOKEN=TOKEN) as here:
        here.wait_for(270)
        form = {"Origin": here.url, "Content-Type": "application/x-www-form-urlencoded"}
        body = b"name=ann&verdict=exclude&reason=<b>asleep</b>&by=Lea"
        assert here.ask("/rater/word", body, form).status == 403
        login = here.ask("/login", f"token={TOKEN}".encode(), form)
        known = {**form, "Cookie": login.headers["set-cookie"].split(";")[0]}
        assert here.ask("/rater/word", b"name=ann&verdict=exclude", known).status == 400
        assert here.ask("/rater/word", b"name=x&verdict=keep&reason=y&by=z", known).status == 400
        assert here.ask("/rater/word", body, known).status == 303
        page = here.ask("/rater?name=ann").text
        assert "because &lt;b&gt;asleep&lt;/b&gt;" in page
        assert "The model says keep." in page
        assert "exclude 2" in here.ask("/raters").text
        words = ["raters", "--store", str(store), "--set", "ann=keep", "--because", "x"]
        busy = CliRunner().invoke(main, words, prog_name="bbq")
        assert busy.exit_code == 1
        assert "decide on the rater's page" in busy.stderr
    assert verdicts(store)["ann"]["verdict"] == "exclude"
