# expect: unsupported/mutable_global line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

CALLS = []


@nki.jit
def kernel(x):
    CALLS.append(1)
    return x
