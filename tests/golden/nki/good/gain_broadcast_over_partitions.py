# expect: ok
# args: float32[256,512] float32[512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, g):
    rows, columns = x.shape
    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    gain = nl.load(g.reshape((1, columns)))
    for i in nl.affine_range(rows // 128):
        tile = nl.load(x[i * 128:(i + 1) * 128, :])
        wide = gain.broadcast_to((128, columns))
        nl.store(y[i * 128:(i + 1) * 128, :], value=nl.multiply(tile, wide))
    return y
