# expect: resource_limit/memory line 10
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((100000, 100000), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y[0:128, 0:512], value=nl.load(x))
    return y
