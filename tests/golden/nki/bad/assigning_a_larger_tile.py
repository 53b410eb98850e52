# expect: rejected/store_dst_shape_smaller_than_other_shape line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    narrow = nl.zeros((nl.par_dim(128), 1), dtype=x.dtype)
    narrow[...] = nl.load(x)
    nl.store(y, value=narrow)
    return y
