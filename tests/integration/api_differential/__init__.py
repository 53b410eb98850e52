"""The second reading of the NKI 1 documentation: random cases of every API with a numpy oracle.

`formats` holds the number formats, `kernel` a kernel under construction with what it must give;
every other module draws cases of a family of APIs and registers them with `kernel.oracle`.
Expected values come from the documentation alone (neuronxcc.nki, the pages before October 2025),
never from the product."""
from . import (allocation, elementwise, errors, forbidden, forbidden_more, language, movement,  # noqa: F401
               products, reductions)
from .kernel import ORACLES, REFUSALS

# APIs of the table for which no expectation can be computed, each with its reason.
WITHOUT_ORACLE = {
    "nisa.builtin_custom_op": "runs code of the user that the documentation does not describe",
    "nki.simulate_kernel": "launches a kernel from outside of it",
    "nl.gemm_grid": "the documentation does not say what it gives",
    "nl.gemm_stationary_grid": "the documentation does not say what it gives",
    "nl.nc": "part of a launch's grid, outside of a kernel",
    "nl.spmd_dim": "part of a launch's grid, outside of a kernel",
}

__all__ = ["ORACLES", "REFUSALS", "WITHOUT_ORACLE"]
