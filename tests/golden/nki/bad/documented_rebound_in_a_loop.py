# expect: rejected/local_variable_used_out_of_scope line 16
# args: float32[128,128]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    data = nl.zeros((nl.par_dim(128), 128), dtype=nl.float32)
    for i in nl.sequential_range(4):
        data = data + i
    nl.store(y, value=data)
    return y
