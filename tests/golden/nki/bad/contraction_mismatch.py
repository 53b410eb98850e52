# expect: rejected/num_partition_mismatch line 11
# args: float32[64,128] float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    product = nisa.nc_matmul(nl.load(a), nl.load(b))
    nl.store(out, value=nl.copy(product))
    return out
