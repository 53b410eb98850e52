# expect: rejected/size_of_dimension_exceed_arch_limit line 11
# args: float32[128,256] float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray((256, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    product = nl.matmul(nl.load(a), nl.load(b), transpose_x=True)
    nl.store(out, value=nl.copy(product))
    return out
