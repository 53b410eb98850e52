# expect: rejected/annotation_shape_mismatch line 14
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
    t: nt.tensor[128, 512] = nl.zeros((nl.par_dim(128), 128), dtype=nl.float32)
    nl.store(y[:, 0:128], t)
    return y
