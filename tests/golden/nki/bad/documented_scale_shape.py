# expect: rejected/activation_scale_scalar_or_vector line 16
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
    s = nisa.memset((128, 128), 1.5, dtype=nl.float32)
    r = nisa.activation(op=nl.exp, data=t, scale=s)
    nl.store(y, r)
    return y
