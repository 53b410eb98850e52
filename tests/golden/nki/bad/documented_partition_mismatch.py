# expect: rejected/num_partition_mismatch line 16
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
    a = nl.load(x)
    b = nl.zeros(shape=[1, 512], dtype=nl.float32, buffer=nl.sbuf)
    r = nisa.tensor_tensor(a, b, op=nl.add)
    nl.store(y, r)
    return y
