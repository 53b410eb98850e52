# expect: rejected/mixed_allocation line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile = nl.load(x)
    out[...] = nl.multiply(tile, 2.0)
    nl.store(y, value=out)
    return y
