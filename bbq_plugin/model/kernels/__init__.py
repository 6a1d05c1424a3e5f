"""Compiled passes over the data: every loop that touches the triples.

A kernel is plain loops over numbers and elements of arrays, with the functions of `math`. NumPy's
slices, sums, products and sorts work in a kernel too, but each is compiled again for every kernel
and kind of array, for up to a second, before the first result that a new user sees
(benchmarks/first_use.py). For the same reason every argument comes in one type alone.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from bbq_plugin.data.triples import INNER, OPTIONS, inner_kernel, kernel

# Sums may be taken in any order; no promise about NaN or infinity is given away.
FAST = {"reassoc", "contract", "arcp"}
fast_kernel: Any = njit(fastmath=FAST, **OPTIONS)
inner_fast_kernel: Any = njit(fastmath=FAST, **INNER)
__all__ = ["fast_kernel", "inner_fast_kernel", "inner_kernel", "kernel"]
