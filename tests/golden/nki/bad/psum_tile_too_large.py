# expect: rejected/psum_capacity line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.zeros((nl.par_dim(128), 8192), dtype=nl.float32, buffer=nl.psum)
    nl.store(y, value=nl.load(x))
    return y
