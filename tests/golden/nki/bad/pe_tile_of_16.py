# expect: rejected/type_error line 15
# args: bfloat16[32,32]
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
    r = nisa.nc_matmul(a, a, tile_position=(0, 16), tile_size=(64, 32))
    nl.store(y, r)
    return y
