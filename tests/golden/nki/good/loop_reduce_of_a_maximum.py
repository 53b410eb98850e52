# expect: ok
# args: float32[128,2048]
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim


@nki.jit
def kernel(x):
    y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.ndarray((par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf)
    p = nl.arange(128)[:, None]
    for k in nl.affine_range(4):
        tile = nl.load(x[p, 512 * k + nl.arange(512)[None, :]])
        part = nisa.tensor_reduce(np.max, data=tile, axis=[1], dtype=np.float32)
        largest[p, 0] = nl.loop_reduce(part, op=np.max, loop_indices=[k], dtype=np.float32)
    nl.store(y[p, 0], value=largest[p, 0])
    return y
