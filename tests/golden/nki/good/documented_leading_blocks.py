# expect: ok
# args: float32[8,128,64]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((128, 8, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(8):
        rows[0:128, i, 0:64] = nl.load(x[i])
        nl.store(y[i], value=rows[0:128, i, 0:64])
    return y
