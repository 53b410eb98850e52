# expect: rejected/cannot_assign_to_index line 15
# args: float32[1,8]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:1, 0:8]
    j[0, 5] = 1024
    nl.store(y, nisa.iota(j, dtype=nl.float32))
    return y
