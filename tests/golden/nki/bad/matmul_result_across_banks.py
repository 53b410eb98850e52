# expect: rejected/size_of_dimension_exceed_arch_limit line 12
# args: float32[128,128] float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    wide = nl.zeros((nl.par_dim(128), 1024), dtype=nl.float32, buffer=nl.psum)
    wide[:, 256:768] += nisa.nc_matmul(nl.load(a), nl.load(b))
    nl.store(out, value=nl.copy(wide[:, 256:768]))
    return out
