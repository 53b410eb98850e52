# expect: ok
# args: float32[128,128] float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    product = nl.matmul(nl.load(a), nl.load(b))
    result = nl.copy(product, dtype=out.dtype)
    nl.store(out, value=result)
    return out
