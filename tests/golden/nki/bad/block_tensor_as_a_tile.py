# expect: rejected/failed_to_infer_tile_from_local_tensor line 12
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.zeros((4, nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)
    shifted = nl.add(tiles, 1.0)
    nl.store(y, value=shifted)
    return y
