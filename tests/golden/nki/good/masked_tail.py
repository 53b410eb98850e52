# expect: ok
# args: float32[300,700]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    rows, columns = x.shape
    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]
    f = nl.arange(512)[None, :]
    for i in nl.affine_range((rows + 127) // 128):
        for j in nl.affine_range((columns + 511) // 512):
            inside = (i * 128 + p < rows) & (j * 512 + f < columns)
            tile = nl.load(x[i * 128 + p, j * 512 + f], mask=inside)
            nl.store(y[i * 128 + p, j * 512 + f], value=nl.exp(tile, mask=inside), mask=inside)
    return y
