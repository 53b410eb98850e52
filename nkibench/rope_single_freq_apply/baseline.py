"""Rotary embedding: halves a, b of the head dimension become a cos - b sin and a sin + b cos."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, cos, sin):
    head, positions = x.shape
    half = head // 2
    width = 512
    assert head <= 128
    assert positions % width == 0

    rotated = nl.ndarray((head, positions), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(head)[:, None]
    upper = nl.arange(half)[:, None]
    lower = half + upper
    col = nl.arange(width)[None, :]

    for start in range(0, positions, width):
        x_tile = nl.load(x[lane, start + col])
        cos_tile = nl.load(cos[upper, start + col])
        sin_tile = nl.load(sin[upper, start + col])

        # Both operands of an instruction must start at the same partition.
        a = x_tile[upper, col]
        b = nl.copy(x_tile[lower, col])

        a_cos = nisa.tensor_tensor(a, cos_tile, nl.multiply)
        b_cos = nisa.tensor_tensor(b, cos_tile, nl.multiply)
        a_sin = nisa.tensor_tensor(a, sin_tile, nl.multiply)
        b_sin = nisa.tensor_tensor(b, sin_tile, nl.multiply)

        out_tile = nl.ndarray((nl.par_dim(head), width), dtype=x.dtype, buffer=nl.sbuf)
        out_tile[upper, col] = nisa.tensor_tensor(a_cos, b_sin, nl.subtract)
        out_tile[lower, col] = nisa.tensor_tensor(b_cos, a_sin, nl.add)
        nl.store(rotated[lane, start + col], value=out_tile)
    return rotated
