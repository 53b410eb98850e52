# expect: ok
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
    nl.store(y, nl.load(x[i, nl.arange(32)[None, :]]))
    return y
