# expect: ok
# args: float32[3,128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray((3, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(3):
        nl.store(dst=y[i, :, :], value=1.0)
    return y
