# expect: resource_limit/memory line 10
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    numbers = [0] * 10**12
    return x
