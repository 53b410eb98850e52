# expect: ok
# args: float32[128,1024]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    parts = []
    for k in nl.static_range(4):
        parts.append(nl.load(x[:, k * 256:(k + 1) * 256]))
    total = nl.add(parts[0], parts[1])
    rest = nl.add(parts[2], parts[3])
    nl.store(y, value=nl.add(total, rest))
    return y
