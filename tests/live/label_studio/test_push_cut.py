"""A push that is cut off, loses an answer or has to wait: finished by the next, nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bbq_plugin.errors import RemoteError
from tests.live.label_studio.faults import Answer, Asked, Proxy
from tests.live.label_studio.small import Small, by_first, without
from tests.live.label_studio.study import (
    pair,
    without_times,
)

if TYPE_CHECKING:
    from tests.live.label_studio.server import Server


@pytest.mark.usefixtures("no_waiting")
def test_a_push_that_was_cut_off_is_finished_by_the_next(small: Small, proxy: Proxy) -> None:
    before = small.snapshot()
    writes = 0

    def fail_the_third(asked: Asked) -> Answer | None:
        nonlocal writes
        writes += asked.method == "PATCH"
        return Answer(400) if asked.method == "PATCH" and writes > 2 else None

    small.url, proxy.rule = proxy.url, fail_the_third
    with pytest.raises(RemoteError, match="400"):
        small.apply(without(small.bob))
    assert sorted(small.now().values()) == [(2, True)] * 2 + [(3, False)] * 2
    small.url = small.server.url
    done = small.apply(without(small.bob))
    assert len(done) == 2 + 1
    assert set(small.now().values()) == {(3, False)}
    small.undo()
    assert small.snapshot() == before


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("what", ["/api/dm/views/", "/api/tasks/", "/api/predictions/"])
def test_a_write_whose_answer_was_lost_is_found_and_not_done_again(
    small: Small, proxy: Proxy, label_studio: Server, what: str
) -> None:
    """The server did it and then failed: a second try would make a second tab or prediction."""
    label_studio.tasks(small.id, [pair("x", "y")])
    before = small.snapshot()
    goals = without(small.bob, information_bits=by_first, sampling=True)

    def lose(asked: Asked) -> Answer | None:
        lost = asked.method in ("POST", "PATCH") and asked.path.startswith(what)
        return Answer(502, after=True) if lost else None

    small.url, proxy.rule = proxy.url, lose
    with pytest.raises(RemoteError):
        small.apply(goals)
    small.url = small.server.url
    small.apply(goals)
    assert small.apply(goals) == []
    assert len(label_studio.get(f"/api/dm/views/?project={small.id}")) == 1
    listed = label_studio.get(f"/api/predictions/?project={small.id}")
    assert len(listed) == len({one["task"] for one in listed}) == len(small.tasks) + 1
    small.undo()
    same = [
        without_times(one, lambda key: key == "updated_by") for one in (small.snapshot(), before)
    ]
    assert same[0] == same[1]


@pytest.mark.usefixtures("no_waiting")
def test_rate_limits_and_errors_that_pass_are_waited_out(small: Small, proxy: Proxy) -> None:
    seen: set[tuple[str, str]] = set()

    def every_first(asked: Asked) -> Answer | None:
        what = (asked.method, asked.path.split("?")[0])
        if what in seen:
            return None
        seen.add(what)
        return Answer(429 if asked.method == "POST" else 503)

    small.url, proxy.rule = proxy.url, every_first
    small.apply(without(small.bob))
    assert set(small.now().values()) == {(3, False)}
