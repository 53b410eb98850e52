# expect: ok
# args: float32[256,128] float32[256,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(2):
        left = nl.load(a[k * 128:(k + 1) * 128, :])
        right = nl.load(b[k * 128:(k + 1) * 128, :])
        total += nisa.nc_matmul(left, right)
    nl.store(out, value=nl.copy(total))
    return out
