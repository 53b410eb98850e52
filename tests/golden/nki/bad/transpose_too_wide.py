# expect: rejected/size_of_dimension_exceed_arch_limit line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((512, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    turned = nl.transpose(nl.load(x))
    nl.store(y, value=turned)
    return y
