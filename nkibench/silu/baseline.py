"""SiLU, y = x / (1 + exp(-x)), in the four steps exp, add, reciprocal, multiply."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    partitions, rows, columns = x.shape
    block = 1024  # columns moved by one DMA
    width = 512  # columns computed by one instruction
    assert columns % block == 0

    y = nl.ndarray((partitions, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(partitions)[:, None]
    wide = nl.arange(block)[None, :]
    narrow = nl.arange(width)[None, :]
    zero = nisa.memset(shape=(partitions, 1), value=0, dtype=nl.float32)

    for row in nl.affine_range(rows):
        for b in nl.affine_range(columns // block):
            x_tile = nl.load(x[lane, row, block * b + wide])
            y_tile = nl.ndarray((nl.par_dim(partitions), block), dtype=nl.float32, buffer=nl.sbuf)
            for part in nl.affine_range(block // width):
                cut = width * part + narrow
                decay = nisa.activation(op=nl.exp, data=x_tile[lane, cut], bias=zero, scale=-1.0)
                denominator = nisa.tensor_scalar(data=decay, op0=nl.add, operand0=1.0)
                sigmoid = nisa.reciprocal(data=denominator)
                y_tile[lane, cut] = nl.multiply(x_tile[lane, cut], sigmoid)
            nl.store(y[lane, row, block * b + wide], value=y_tile)
    return y
