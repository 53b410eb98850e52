# expect: ok
# args: float32[128,2048]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    state = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)
    for k in nl.sequential_range(4):
        tile = nl.load(x[:, nl.ds(k * 512, 512)])
        state[...] = nl.add(state, tile)
        nl.store(y[:, nl.ds(k * 512, 512)], value=state)
    return y
