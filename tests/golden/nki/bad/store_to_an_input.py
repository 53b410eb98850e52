# expect: rejected/cannot_update_immutable_parameter line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.load(x)
    nl.store(x, value=nl.exp(tile))
    return x
