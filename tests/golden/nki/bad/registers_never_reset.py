# expect: rejected/uninitialized_read line 16
# args: float32[128,64]
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
    s = nl.ndarray((128, 1), dtype=nl.float32)
    r = nisa.activation(nl.exp, a, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=s)
    nl.store(y, r)
    return y
