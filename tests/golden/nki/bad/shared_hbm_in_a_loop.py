# expect: rejected/shared_hbm_must_in_kernel_level line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    for i in nl.affine_range(1):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(y, value=nl.load(x))
    return y
