# expect: ok
# args: float32[64,512] int32[64,1]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x, index):
    y = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.load(index)
    ip = nl.arange(64)[:, None]
    jf = nl.arange(512)[None, :]
    nl.store(y, nl.load(x[i[ip, 0], jf]))
    return y
