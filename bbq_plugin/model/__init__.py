"""The maths: sees arrays, no files and no names of tools."""

from bbq_plugin.model.fit import Fit, fit
from bbq_plugin.model.priors import Priors, SignedPriors
from bbq_plugin.model.solvers import Laplace

__all__ = ["Fit", "Laplace", "Priors", "SignedPriors", "fit"]
