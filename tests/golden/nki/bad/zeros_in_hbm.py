# expect: rejected/hbm_tensor_with_init_value_not_supported line 10
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, value=nl.load(x))
    return y
