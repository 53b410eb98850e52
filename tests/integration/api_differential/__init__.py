"""The second reading of the NKI 1 documentation: random cases of every API with a numpy oracle.

`formats` holds the number formats, `kernel` a kernel under construction with what it must give;
every other module draws cases of a family of APIs and registers them with `kernel.oracle`.
Expected values come from the documentation alone (neuronxcc.nki, the pages before October 2025),
never from the product."""
from . import allocation, elementwise, errors, forbidden, language, movement, products, reductions  # noqa: F401
from .kernel import ORACLES, REFUSALS

# APIs of the table for which no expectation can be computed, each with its reason.
WITHOUT_ORACLE = {
    "nisa.builtin_custom_op": "runs code of the user that the documentation does not describe",
    "nki.simulate_kernel": "launches a kernel from outside of it",
    "nl.gemm_grid": "the documentation does not say what it gives",
    "nl.gemm_stationary_grid": "the documentation does not say what it gives",
    "nl.all_reduce": "over the programs of a launch with a grid; cases run without one",
    "nl.nc": "part of a launch's grid, outside of a kernel",
    "nl.spmd_dim": "part of a launch's grid, outside of a kernel",
    "nl.gemm_grid": "documented without what it returns",
    "nl.gemm_stationary_grid": "documented without what it returns",
    "nl.finfo": "documented without what it returns",
    "nki.simulate_kernel": "runs a kernel, outside of it",
    "nki.compiler.sbuf.alloc": "places tiles and changes no value; tests/unit/nki",
    "nki.compiler.sbuf.mod_alloc": "places tiles and changes no value; tests/unit/nki",
    "nki.compiler.sbuf.auto_alloc": "places tiles and changes no value; tests/unit/nki",
    "nki.compiler.psum.alloc": "places tiles and changes no value; tests/unit/nki",
    "nki.compiler.psum.mod_alloc": "places tiles and changes no value; tests/unit/nki",
    "nki.compiler.psum.auto_alloc": "places tiles and changes no value; tests/unit/nki",
    "nki.compiler.skip_middle_end_transformations": "says how to compile",
    "nki.compiler.enable_stack_allocator": "says how to compile",
    "nki.compiler.force_auto_alloc": "says how to compile",
    "nki.compiler.allocation_scope": "says how to compile",
    "nki.compiler.no_reorder": "says how to compile",
    "nki.compiler.multi_buffer": "says how to compile",
}

__all__ = ["ORACLES", "REFUSALS", "WITHOUT_ORACLE"]
