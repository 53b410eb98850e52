# expect: ok
# args: float32[128,1024]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    top = nl.max(tile, axis=[1], keepdims=True)
    weights = nl.exp(tile - top)
    total = nl.sum(weights, axis=1, keepdims=True)
    nl.store(y, value=weights / total)
    return y
