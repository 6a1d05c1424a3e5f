"""One Label Studio for all tests that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.label_studio.server import NoServerError, Server, installed, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def label_studio(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A real server with an administrator and nothing else."""
    try:
        installed()
    except NoServerError as error:
        pytest.skip(str(error))
    with running(failed=lambda: bool(request.session.testsfailed)) as server:
        yield server
