# expect: ok
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    out = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)
    out[0:64, :] = nl.copy(tile[64:128, :])
    out[64:128, :] = nl.negative(tile[0:64, :])
    nl.store(y, value=out)
    return y
