"""Bayesian Bradley-Terry with rater quality: leaderboards and rater reports from pairwise votes.

    import bbq_plugin as bbq
    fit = bbq.fit(bbq.read("votes.jsonl"))
    bbq.leaderboard(fit), bbq.rater_report(fit), bbq.next_pairs(fit, 50)

Names load when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from bbq_plugin import errors
    from bbq_plugin.analysis import leaderboard, next_pairs, rater_report
    from bbq_plugin.analysis.leaderboard import compare
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.files import read, read_by
    from bbq_plugin.data.rankings import break_choice, break_ranking
    from bbq_plugin.data.records import Comparison, Note, Skipped, Source
    from bbq_plugin.errors import BBQError
    from bbq_plugin.live.engine import Engine
    from bbq_plugin.live.python_hook import AsyncHook, Hook, Update
    from bbq_plugin.model import Fit, Priors, SignedPriors, fit
    from bbq_plugin.scale.prepared_set import open_dataset
    from bbq_plugin.simulation import simulate

__all__ = [
    "AsyncHook", "BBQError", "Comparison", "Comparisons", "Engine", "Fit", "Hook", "Note",
    "Priors", "SignedPriors", "Skipped", "Source", "Update", "__version__", "break_choice",
    "break_ranking", "compare", "errors", "fit", "leaderboard", "next_pairs", "open_dataset",
    "rater_report", "read", "read_by", "simulate",
]  # fmt: skip

_MODULES = {
    "analysis": ("leaderboard", "next_pairs", "rater_report"),
    "analysis.leaderboard": ("compare",),
    "data.dataset": ("Comparisons",),
    "data.files": ("read", "read_by"),
    "data.rankings": ("break_choice", "break_ranking"),
    "data.records": ("Comparison", "Note", "Skipped", "Source"),
    "errors": ("BBQError",),
    "live.engine": ("Engine",),
    "live.python_hook": ("AsyncHook", "Hook", "Update"),
    "model": ("Fit", "Priors", "SignedPriors", "fit"),
    "scale.prepared_set": ("open_dataset",),
    "simulation": ("simulate",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("bbq_plugin.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'bbq_plugin' has no attribute {name!r}")
    value = getattr(import_module(f"bbq_plugin.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
