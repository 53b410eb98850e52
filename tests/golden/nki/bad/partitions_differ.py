# expect: rejected/num_partition_mismatch line 11
# args: float32[128,512] float32[1,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, g):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nisa.tensor_tensor(nl.load(x), nl.load(g), op=nl.add)
    nl.store(y, value=total)
    return y
