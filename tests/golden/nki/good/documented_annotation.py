# expect: ok
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
    t: nt.tensor[128, 512] = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32)
    nl.store(y, t)
    return y
