# expect: rejected/control_flow_condition_depending_on_arange line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    f = nl.arange(512)[None, :]
    if f > 100:
        nl.store(y, value=nl.load(x))
    return y
