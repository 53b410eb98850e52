# expect: rejected/leading_dimension_of_tensor_must_be_partition line 12
# args: float32[128,64]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.load(x)
    stacked = rows.reshape((1, 128, 64))
    nl.store(y, value=stacked[0])
    return y
