# expect: unsupported/unknown_api line 16
# args: float32[128,64] float32[128,1]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x, z):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.load(z)
    r = nisa.range_select(on_true_tile=a, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=b, bound1=b)
    nl.store(y, r)
    return y
