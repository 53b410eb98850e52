# expect: rejected/activation_bias_invalid_type line 16
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
    t = nl.load(x)
    b = nisa.memset((128, 1), 2, dtype=nl.int8)
    r = nisa.activation(op=nl.exp, data=t, bias=b)
    nl.store(y, r)
    return y
