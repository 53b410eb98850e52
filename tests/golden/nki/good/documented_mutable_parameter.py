# expect: ok
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x: nt.mutable_tensor):
    t = nl.load(x)
    nl.store(x, value=t + 1)
    return x
