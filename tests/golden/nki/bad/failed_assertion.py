# expect: rejected/assertion_failed line 10
# args: float32[100,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    assert x.shape[0] % 128 == 0, f"rows {x.shape[0]}"
    return x
