"""What may be asked of a fit, and what is told before it begins."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from bbq_plugin.comparisons import Comparisons
from bbq_plugin.errors import UsageError
from bbq_plugin.model import kernels
from bbq_plugin.model.priors import Priors
from bbq_plugin.model.signed import SignedPriors

__all__ = ["Model", "Solver", "check_choices", "check_priors", "warnings_of"]

Model = Literal["bbq", "bbq-signed", "bayes-bt", "crowd-bt"]
Solver = Literal["auto", "em"]


def check_choices(model: str, solver: str, tol: float) -> None:
    """Refuse what no fit can be asked for."""
    for name, value, choices in (
        ("model", model, get_args(Model)),
        ("solver", solver, get_args(Solver)),
    ):
        if value not in choices:
            raise UsageError(f"{name}={value!r}: expected one of {', '.join(choices)}")
    if not 0 < tol < 1:
        raise UsageError(f"tol={tol!r}: expected nats above 0 and below 1, such as 1e-6")


def check_priors(model: Model, priors: Priors | SignedPriors | str) -> None:
    """Refuse priors that a model does not have."""
    if isinstance(priors, str) and priors not in ("paper", "auto"):
        raise UsageError(f"priors={priors!r}: expected 'paper', 'auto' or a Priors")
    usual = priors in (Priors(), "paper")
    if model == "bbq-signed" and not (usual or isinstance(priors, SignedPriors)):
        raise UsageError(
            "bbq-signed has priors of its own, which are not estimated: leave priors out "
            "(in Python SignedPriors may be given), or fit model='bbq'"
        )
    if model != "bbq-signed" and isinstance(priors, SignedPriors):
        raise UsageError(f"SignedPriors belong to model='bbq-signed', not to {model!r}")
    if model == "crowd-bt" and not usual:
        raise UsageError("crowd-bt has priors of its own (Chen et al. 2013); leave priors out")


def warnings_of(data: Comparisons, model: Model) -> list[str]:
    """What is to be known about these data, whatever comes out."""
    warnings = _connection_warnings(data)
    if model == "bbq" and not data.has_raters:
        warnings.append("no rater is known: fitted without rater quality, as bayes-bt")
    return warnings


def _connection_warnings(data: Comparisons) -> list[str]:
    """Groups of items that nobody compared with each other."""
    t = data.triples
    group = kernels.groups(t.winner, t.loser, t.n_items)
    labels, sizes = np.unique(group, return_counts=True)
    if labels.size < 2:
        return []
    examples = []
    for label, size in zip(labels[:4], sizes[:4], strict=True):
        some = ", ".join(data.items[i] for i in np.flatnonzero(group == label)[:3])
        examples.append(f"{{{some}, …}}" if size > 3 else f"{{{some}}}")
    shown = " | ".join(examples) + (" | …" if labels.size > 4 else "")
    return [
        (
            f"the items fall into {labels.size} groups that were never compared with each other: "
            f"{shown}; ratings across groups rest on the prior alone"
        )
    ]
