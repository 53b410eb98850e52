# expect: rejected/start_partition line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((32, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    part = nl.exp(tile[16:48, :])
    nl.store(y, value=part)
    return y
