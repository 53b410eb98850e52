# expect: rejected/value_error line 10
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    tiles = x.shape[0] // (128 - x.shape[0])
    return x
