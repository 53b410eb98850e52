# expect: rejected/type_error line 15
# args: float32[32,8]
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
    nisa.nc_stream_shuffle(src=a, dst=a, shuffle_mask=[32] * 32)
    nl.store(y, a)
    return y
