# expect: rejected/leading_dimension_of_tensor_must_be_partition line 13
# args: float32[8,128,64]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((8, 128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(8):
        rows[i] = nl.load(x[i])
        nl.store(y[i], value=rows[i])
    return y
