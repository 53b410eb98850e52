# expect: ok
# args: float32[32,64]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


def place(idx, pdim_size, fdim_size):
    return (32, 0)


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((nl.par_dim(32), 64), dtype=nl.float32, buffer=ncc.sbuf.alloc(place))
    t[...] = nl.load(x)
    nl.store(y, t)
    return y
