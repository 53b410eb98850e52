# expect: resource_limit/memory line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    text = "tile"
    while True:
        text = text + text
    return x
