# expect: rejected/tensor_access_out_of_bound line 13
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]
    f = nl.arange(512)[None, :]
    tile = nl.load(x[p, f - 1])
    nl.store(y[p, f], value=tile)
    return y
