"""A store, and a hook on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bbq_plugin as bbq

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def hook(path: Path) -> Iterator[bbq.Hook]:
    with bbq.Hook(path, refresh_every_s=0) as opened:
        yield opened
