"""An empty store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bbq_plugin.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(":memory:") as opened:
        yield opened
