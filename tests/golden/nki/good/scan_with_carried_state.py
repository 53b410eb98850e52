# expect: ok
# args: float32[128,1024] float32[128,1024]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, b):
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    state = nl.zeros((128, 1), dtype=nl.float32)
    for k in nl.static_range(2):
        cut = slice(k * 512, (k + 1) * 512)
        steps = nisa.tensor_tensor_scan(nl.load(a[:, cut]), nl.load(b[:, cut]), initial=state,
                                        op0=nl.multiply, op1=nl.add)
        state[...] = steps[0:128, 511]
        nl.store(y[:, cut], value=steps)
    return y
