"""Studies with a known truth: drawn from the model, and written as the files people have."""

from bbq_plugin.simulation.study import Kind, Study, Truth, simulate

__all__ = ["Kind", "Study", "Truth", "simulate"]
