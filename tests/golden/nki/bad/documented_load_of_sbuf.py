# expect: rejected/unsupported_memory line 15
# args: float32[4,4]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
    r = nl.load(t)
    nl.store(y, r)
    return y
