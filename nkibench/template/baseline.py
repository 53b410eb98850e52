"""Columns scaled and shifted, 128 rows at a time: where a search starts from."""
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, gain, shift):
    rows, columns = x.shape
    lanes = 128
    width = 512  # columns of one tile
    assert columns % width == 0

    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    first = nl.arange(1)[:, None]
    narrow = nl.arange(width)[None, :]

    for c in nl.affine_range(columns // width):
        col = width * c + narrow
        gain_row = nl.load(gain[first, col])
        for r in nl.affine_range((rows + lanes - 1) // lanes):
            row = lanes * r + lane
            live = row < rows  # the last row tile may be cut short
            x_tile = nl.load(x[row, col], mask=live)
            product = nl.multiply(x_tile, gain_row.broadcast_to((lanes, width)), mask=live)
            nl.store(y[row, col], value=nl.add(product, shift, mask=live), mask=live)
    return y
