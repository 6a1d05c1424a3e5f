"""One Label Studio for all tests that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.label_studio.faults import Proxy, proxied
from tests.live.label_studio.server import NoServerError, Server, User, installed, running
from tests.live.label_studio.small import Small
from tests.live.label_studio.study import Bbq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def label_studio(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A real server with an administrator and nothing else."""
    try:
        installed()
    except NoServerError as error:
        pytest.skip(str(error))
    with running(failed=lambda: bool(request.session.testsfailed)) as server:
        yield server


@pytest.fixture(scope="session")
def people(label_studio: Server) -> list[User]:
    """Twelve people who can log in."""
    return [label_studio.sign_up(f"rater{n}@example.com") for n in range(12)]


@pytest.fixture
def bbq(label_studio: Server, tmp_path: Path) -> Bbq:
    """The command line with a store of its own."""
    return Bbq(label_studio, tmp_path / "answers.db")


@pytest.fixture
def proxy(label_studio: Server) -> Iterator[Proxy]:
    """Something between us and the server that can be told to fail."""
    with proxied(label_studio.url) as found:
        yield found


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries that nobody has to sit out."""
    monkeypatch.setattr("bbq_adapters.label_studio.server_project.FIRST_WAIT_S", 0.001)
    monkeypatch.setattr("bbq_adapters.label_studio.server_project.LONGEST_WAIT_S", 0.01)


@pytest.fixture
def small(label_studio: Server, people: list[User], tmp_path: Path) -> Small:
    return Small(label_studio, people, tmp_path / "answers.db")
