# expect: rejected/annotation_shape_mismatch line 11
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile: nt.tensor[128, 256] = nl.load(x)
    nl.store(y, value=tile)
    return y
