# expect: rejected/copy_dynamic_indirect_indices_not_natively_supported line 19
# args: float32[128,8,4] int32[1,8]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x, index):
    y = nl.ndarray((128, 8, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    i = nl.load(index)
    r = nl.ndarray((128, 8, 4), dtype=x.dtype, buffer=nl.sbuf)
    ix, _, iz = nl.mgrid[0:128, 0:1, 0:4]
    for k in nl.affine_range(8):
        r[ix, k, iz] = t[ix, i[0, k], iz]
    nl.store(y, r)
    return y
