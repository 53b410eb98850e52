# expect: ok
# args: float32[128,128]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]
    f = nl.arange(128)[None, :]
    tile = nl.load(x[p, f])
    lower = nisa.affine_select(pred=(p >= f), on_true_tile=tile[p, f], on_false_value=0.0)
    nl.store(y[p, f], value=lower)
    return y
