# expect: ok
# args: float32[128,128]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.copy(nisa.nc_transpose(tile))
    nl.store(y, value=turned)
    return y
