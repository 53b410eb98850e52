# expect: rejected/tensor_access_out_of_bound line 16
# args: float32[128,4000]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((4000 + 512 - 1) // 512):
        tile = nl.mgrid[0:128, 0:512]
        nl.store(y[tile.p, i * 512 + tile.x], value=0)
    return y
