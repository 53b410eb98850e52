# expect: rejected/cannot_assign_to_index line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    grid = nl.mgrid[0:1, 0:8]
    grid.x[0, 5] = 3
    nl.store(y, value=nl.load(x))
    return y
