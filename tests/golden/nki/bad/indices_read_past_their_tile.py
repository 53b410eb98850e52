# expect: rejected/tensor_access_out_of_bound line 14
# args: float32[128,512] int32[64,1]
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, rows):
    y = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    picked = nl.load(rows)  # [64, 1]: one column
    lane = nl.arange(64)[:, None]
    column = nl.arange(512)[None, :]
    # Column 2 of the indices does not exist.
    tile = nl.load(x[picked[lane, 2], column])
    nl.store(y, value=tile)
    return y
