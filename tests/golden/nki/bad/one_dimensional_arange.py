# expect: rejected/1d_arange_not_supported line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    column = nl.exp(tile[nl.arange(128), 0])
    nl.store(y, value=column)
    return y
