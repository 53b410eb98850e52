# expect: rejected/tensor_access_out_of_bound line 15
# args: float32[300,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]
    f = nl.arange(512)[None, :]
    for i in nl.affine_range(3):
        inside = i * 128 + p <= 300
        tile = nl.load(x[i * 128 + p, f], mask=inside)
        nl.store(y[i * 128 + p, f], value=tile, mask=inside)
    return y
