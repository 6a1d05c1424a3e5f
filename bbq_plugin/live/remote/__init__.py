"""Projects on a labelling tool's server: answers pulled into the store, feedback pushed back."""

from __future__ import annotations

from bbq_plugin.live.remote.line import Line
from bbq_plugin.live.remote.memory import Memory, Standing, standing
from bbq_plugin.live.remote.pull import Pulled, pull
from bbq_plugin.live.remote.push import apply, by_hand, make_plan, settle, undo, wishes_of
from bbq_plugin.live.remote.rounds import Round, Rounds, act
from bbq_plugin.live.remote.tools import Address, adapter_options, address, settings_of, tool

__all__ = [
    "Address",
    "Line",
    "Memory",
    "Pulled",
    "Round",
    "Rounds",
    "Standing",
    "act",
    "adapter_options",
    "address",
    "apply",
    "by_hand",
    "make_plan",
    "pull",
    "settings_of",
    "settle",
    "standing",
    "tool",
    "undo",
    "wishes_of",
]
