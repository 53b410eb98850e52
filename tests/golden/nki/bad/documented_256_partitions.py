# expect: rejected/num_partition_exceed_arch_limit line 14
# args: float32[128,1024]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.zeros(shape=[256, 1024], dtype=nl.float32, buffer=nl.sbuf)
    nl.store(y, t)
    return y
