# expect: ok
# args: float32[4,128,256]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((4, nl.par_dim(128), 256), dtype=x.dtype, buffer=nl.sbuf)
    p = nl.arange(128)[:, None]
    f = nl.arange(256)[None, :]
    for i in nl.affine_range(4):
        tiles[i, p, f] = nl.load(x[i, p, f])
    for i in nl.affine_range(4):
        nl.store(y[i, p, f], value=nl.tanh(tiles[i, p, f]))
    return y
