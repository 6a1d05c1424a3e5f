"""The maths: sees arrays, no files and no names of tools."""

from bbq_plugin.model.fit import Fit, Laplace, fit
from bbq_plugin.model.priors import Priors, SignedPriors

__all__ = ["Fit", "Laplace", "Priors", "SignedPriors", "fit"]
