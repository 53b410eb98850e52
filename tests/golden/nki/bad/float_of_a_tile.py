# expect: rejected/trace_value_access line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    first = float(tile[0:1, 0:1])
    nl.store(y, value=nl.multiply(tile, first))
    return y
