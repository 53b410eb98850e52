# expect: rejected/size_of_dimension_exceed_arch_limit line 15
# args: float32[128,128]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.zeros(shape=[128, 512], dtype=nl.float32, buffer=nl.sbuf)
    r = nl.transpose(t)
    nl.store(y, r)
    return y
