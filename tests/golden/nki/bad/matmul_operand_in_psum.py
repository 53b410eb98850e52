# expect: rejected/unsupported_memory line 14
# args: float32[128,128]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray((nl.par_dim(128), 128), dtype=x.dtype, buffer=nl.psum)
    turned[...] = nisa.nc_transpose(tile)
    product = nisa.nc_matmul(turned, tile)
    nl.store(y, value=nl.copy(product))
    return y
