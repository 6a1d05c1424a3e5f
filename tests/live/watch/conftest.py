"""A folder with a daemon on it, ended after each test whatever happened."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.live.watch.running import Nursery, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    warmed = Nursery()
    yield warmed
    warmed.close()


@pytest.fixture
def place(nursery: Nursery, tmp_path: Path) -> Iterator[Place]:
    made = Place(nursery, tmp_path)
    yield made
    if made.pid is not None:
        made.end(signal.SIGKILL)
