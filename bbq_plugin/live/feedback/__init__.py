"""Projects on a labelling tool's server: answers pulled into the store, feedback pushed back."""

from __future__ import annotations

from bbq_plugin.live.feedback.pull import Pulled, pull
from bbq_plugin.live.feedback.push import apply, by_hand, goals_of, make_plan, settle, undo
from bbq_plugin.live.feedback.rounds import OpenProject, Pusher, Round, Rounds, act
from bbq_plugin.plugins import tool
from bbq_plugin.store.memory import Memory, Standing, standing

__all__ = [
    "Memory",
    "OpenProject",
    "Pulled",
    "Pusher",
    "Round",
    "Rounds",
    "Standing",
    "act",
    "apply",
    "by_hand",
    "goals_of",
    "make_plan",
    "pull",
    "settle",
    "standing",
    "tool",
    "undo",
]
