"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# The first example of a test may have to compile a kernel, which no deadline foresees.
settings.register_profile("bbq", deadline=None)
settings.load_profile("bbq")
