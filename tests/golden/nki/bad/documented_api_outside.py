# expect: rejected/nki_api_outside_of_nki_kernel line 7
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


TILE = nl.zeros((128, 512), dtype=nl.float32)


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x))
    return y
