# expect: rejected/num_partition_exceed_arch_limit line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    buffer = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)
    nl.store(y, value=nl.load(x))
    return y
