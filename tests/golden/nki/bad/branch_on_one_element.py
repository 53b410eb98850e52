# expect: rejected/while_loop_requires_unconditional_entry line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    flag = nl.load(x[0:1, 0:1])
    while flag:
        nl.store(y, value=nl.load(x))
    return y
