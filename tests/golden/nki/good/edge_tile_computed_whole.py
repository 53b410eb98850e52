# expect: ok
# args: float32[250,512], float32[512]
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

ROWS = nl.tile_size.pmax


@nki.jit
def kernel(x, gain):
    rows, columns = x.shape
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:ROWS, 0:columns]
    g = nl.load(gain.reshape((1, columns))).broadcast_to((ROWS, columns))
    for t in nl.affine_range(-(-rows // ROWS)):
        inside = t * ROWS + p < rows
        tile = nl.load(x[t * ROWS + p, f], mask=inside)
        # Only the store has the mask: rows beyond the end are computed and thrown away.
        scale = nl.rsqrt(nl.sum(nl.square(tile), axis=1, keepdims=True) / columns + 1e-6)
        nl.store(y[t * ROWS + p, f], tile * scale * g, mask=inside)
    return y
