# expect: rejected/tensor_access_out_of_bound line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((128, 500), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(y[:, 0:512], value=tile)
    return y
