# expect: rejected/unsupported_mixing_basic_advanced_tensor_indexing line 16
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
    a = nl.load(x)
    i = nl.arange(4)[:, None]
    r = nl.exp(a[i, :])
    nl.store(y, r)
    return y
