# expect: rejected/store_dst_shape_smaller_than_other_shape line 16
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.zeros(shape=(128, 1), dtype=nl.float32, buffer=nl.sbuf)
    b[...] = a
    nl.store(y[:, 0:1], b)
    return y
