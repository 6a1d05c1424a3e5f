"""Label Studio is down while `bbq serve` and `bbq watch` run: told once, and when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.study import Bbq, fill
from tests.live.label_studio.test_push_alone import exported, said
from tests.live.server.serving import serving
from tests.live.watch.running import Nursery, Place, put
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.label_studio.server import Server, User


def out_of_order(_: Asked) -> Answer:
    return Answer(503, headers={"Retry-After": "0"})


def test_serve_tells_of_an_outage_once_and_when_it_is_over(
    label_studio: Server, people: list[User], proxy: Proxy, tmp_path: Path
) -> None:
    crowd = fill(label_studio, people[:10], n_tasks=30, n_guessers=0)
    bbq = Bbq(label_studio, tmp_path / "state.db", url=proxy.url)
    bbq.pull(crowd.project)
    place = {"LABEL_STUDIO_URL": proxy.url, "LABEL_STUDIO_API_KEY": label_studio.token}
    words = ("--project", str(crowd.project), "--reconcile", "0.2s", "--push")
    again = " server_recovered"
    with serving(bbq.store, *words, "--push-every-s", "0.2", **place) as here:
        said(here, " feedback planned=")
    asked = len(proxy.asked)
    proxy.rule = out_of_order
    with serving(bbq.store, *words, "--push-every-s", "0.2", **place) as here:
        said(here, " server_failed ")
        # Five tries each, so many times over.
        wait_until(lambda: len(proxy.asked) > asked + 40, "more rounds")
        assert again not in here.log
        proxy.rule = lambda _: None
        said(here, again)
        said(here, " feedback planned=")
    # One outage has one name, whatever needs the server.
    assert here.log.count("_failed ") == here.log.count(" server_failed ") == 1
    assert here.log.count("_recovered") == here.log.count(again) == 1


def test_watch_tells_of_an_outage_once_in_its_own_log(
    label_studio: Server, people: list[User], proxy: Proxy, tmp_path: Path
) -> None:
    crowd = fill(label_studio, people[:10], n_tasks=30, n_guessers=0)
    token = tmp_path / "token"
    token.write_text(label_studio.token)
    nursery = Nursery()
    more = {"project": crowd.project, "url": proxy.url, "token_file": token}
    place = Place(nursery, tmp_path, push=True, push_every_s=0.2, **more)
    proxy.rule = out_of_order
    try:
        place.start()
        put(place.folder / "first.json", exported(label_studio, crowd.project))
        place.await_said("server_failed")
        wait_until(lambda: len(proxy.asked) > 20, "more rounds")
        proxy.rule = lambda _: None
        place.await_said("feedback")
        assert place.end() == 0
    finally:
        if place.pid is not None:
            place.end()
        nursery.close()
    (outage,) = place.said("server_failed")
    assert outage["reason"] == "Label Studio answered 503"
    assert len(place.said("server_recovered")) == 1
    for event in ("feedback_failed", "feedback_recovered"):
        assert place.said(event) == []
    assert "Note:" not in place.log.read_text()
