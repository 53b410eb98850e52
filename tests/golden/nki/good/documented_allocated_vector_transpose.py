# expect: ok
# args: float32[32,32]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray((nl.par_dim(32), 32), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    r = nl.ndarray((nl.par_dim(32), 32), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=0))
    a[...] = nl.load(x)
    r[...] = nisa.nc_transpose(a, engine=nisa.vector_engine)
    nl.store(y, r)
    return y
