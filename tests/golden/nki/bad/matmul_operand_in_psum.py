# expect: rejected/unsupported_memory line 13
# args: float32[128,128]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    gram = nisa.nc_matmul(tile, tile)
    product = nisa.nc_matmul(gram, tile)
    nl.store(y, value=nl.copy(product))
    return y
