# expect: ok
# args: float32[128,512]
# Zeros in PSUM that no product overwrites: a loop may have no iteration, or the tile be read first.
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    rows, columns = x.shape
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(columns // 128):
        t = nl.load(x[:, 128 * i:128 * (i + 1)])
        empty = nl.zeros((rows, 128), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(rows - 128):
            empty += nl.matmul(t, t)
        read_first = nl.zeros((rows, 128), dtype=nl.float32, buffer=nl.psum)
        partly = nl.copy(read_first)
        read_first += nl.matmul(t, t, transpose_x=True)
        total = nl.add(nl.add(t, empty), nl.add(partly, read_first))
        nl.store(y[:, 128 * i:128 * (i + 1)], total)
    return y
