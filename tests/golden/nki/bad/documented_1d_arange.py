# expect: rejected/1d_arange_not_supported line 16
# args: float32[128,1]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    i = nl.arange(64)
    r = nl.exp(t[i, 0])
    nl.store(y[0:64, :], r)
    return y
