# expect: ok
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((512, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    scratch = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.hbm)
    nl.store(scratch, value=nl.load(x))
    again = scratch.reshape((512, 128))
    for i in nl.affine_range(4):
        nl.store(y[i * 128:(i + 1) * 128, :], value=nl.load(again[i * 128:(i + 1) * 128, :]))
    return y
