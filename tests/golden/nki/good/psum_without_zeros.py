# expect: ok
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    tile = nl.load(x)
    for k in nl.affine_range(4):
        out += nl.matmul(tile[:, k * 128:(k + 1) * 128], tile, transpose_x=True)
    nl.store(y, value=out)
    return y
