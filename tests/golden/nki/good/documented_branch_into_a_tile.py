# expect: ok
# args: float32[128,512] float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x, z):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        t = nl.ndarray(shape=x.shape, dtype=x.dtype)
        if i < 2:
            t[...] = nl.load(x)
        else:
            t[...] = nl.load(z)
        nl.store(y, t)
    return y
