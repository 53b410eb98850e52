# expect: rejected/activation_bias_invalid_type line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    bias = nisa.memset((128, 1), 1, dtype=nl.int8)
    nl.store(y, value=nisa.activation(op=nl.exp, data=nl.load(x), bias=bias))
    return y
