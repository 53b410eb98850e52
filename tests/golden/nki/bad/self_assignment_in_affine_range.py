# expect: rejected/unexpected_output_dependencies line 13
# args: float32[128,2048]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
    for k in nl.affine_range(4):
        total[...] = total + nl.load(x[:, k * 512:(k + 1) * 512])
    nl.store(out, value=total)
    return out
