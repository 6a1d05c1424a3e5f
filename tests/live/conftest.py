"""A store, a hook on it, and a folder that is read into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bbq_plugin as bbq
from tests.live.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def hook(path: Path) -> Iterator[bbq.Hook]:
    with bbq.Hook(path, refresh_every_s=0) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    assert made.store.check() == []
    made.store.close()
