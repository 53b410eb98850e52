# expect: resource_limit/steps
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    n = 0
    while True:
        n = (n + 1) % 7
    return x
