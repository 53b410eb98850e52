# expect: rejected/tensor_creation_on_scratchpad_with_init_value_not_supported line 14
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
    t = nl.full((nl.par_dim(128), 512), 1.0, dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    nl.store(y, t)
    return y
