# expect: rejected/activation_scale_scalar_or_vector line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scale = nisa.memset((1, 128), 1.5, dtype=nl.float32)
    nl.store(y, value=nisa.activation(op=nl.exp, data=nl.load(x), scale=scale))
    return y
