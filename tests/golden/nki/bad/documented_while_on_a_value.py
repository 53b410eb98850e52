# expect: rejected/while_loop_requires_unconditional_entry line 16
# args: float32[1,1]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    s = nt.scalar(t)
    while s < 10:
        s = s + 1
    nl.store(y, t)
    return y
