# expect: ok
# args: float32[256,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    grid = nl.mgrid[0:128, 0:512]
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 128 + grid.p, grid.x])
        nl.store(y[i * 128 + grid.p, grid.x], value=nl.sigmoid(tile))
    return y
