# expect: rejected/type_error line 15
# args: float32[64,32]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.load(x[0:32, 0:1])
    r = nl.load(x[i, nl.arange(32)[None, :]])
    nl.store(y[0:32, :], r)
    return y
