# expect: rejected/hbm_tensor_with_init_value_not_supported line 13
# args: float32[3,128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.full((3, 128, 512), fill_value=1.0, dtype=nl.float32, buffer=nl.shared_hbm)
    return y
