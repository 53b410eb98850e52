# expect: unsupported/mutable_global line 10
# args: float32[128,512]
import neuronxcc.nki as nki

calls = 0


@nki.jit
def kernel(x):
    global calls
    calls = calls + 1
    return x
