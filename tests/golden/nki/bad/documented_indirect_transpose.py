# expect: rejected/indirect_indices_are_not_supported_with_nki_api line 15
# args: float32[64,32] int32[32,1]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x, index):
    y = nl.ndarray((32, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.load(index)
    r = nl.load_transpose2d(x[i, nl.arange(32)[None, :]])
    nl.store(y, r)
    return y
