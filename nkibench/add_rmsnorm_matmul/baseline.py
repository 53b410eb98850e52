"""Residual sum of x and z, RMS normalisation with gain g, then the product with w."""
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, w, eps, z, g):
    rows, hidden = x.shape
    columns = w.shape[1]
    lanes = 128
    width = 512  # columns of one PSUM bank
    assert rows % lanes == 0
    assert hidden % lanes == 0
    assert columns % width == 0

    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    first = nl.arange(1)[:, None]
    whole = nl.arange(hidden)[None, :]
    narrow = nl.arange(width)[None, :]

    gain = nl.load(g.reshape((1, hidden))[first, whole])

    for i in nl.affine_range(rows // lanes):
        x_tile = nl.load(x[lanes * i + lane, whole])
        z_tile = nl.load(z[lanes * i + lane, whole])
        total = nl.add(x_tile, z_tile)

        squared = nl.square(total)
        square_sum = nl.sum(squared, axis=[1])
        mean_square = nl.add(square_sum / hidden, eps)
        inverse_rms = nl.rsqrt(mean_square)
        normalised = nl.multiply(total, inverse_rms)
        scaled = nl.multiply(normalised, gain.broadcast_to((lanes, hidden)))

        for n in nl.affine_range(columns // width):
            product = nl.zeros((lanes, width), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(hidden // lanes):
                w_tile = nl.load(w[lanes * k:lanes * (k + 1), width * n:width * (n + 1)])
                product += nl.matmul(scaled[:, lanes * k:lanes * (k + 1)], w_tile)
            y_tile = nl.copy(product, dtype=y.dtype)
            nl.store(y[lanes * i + lane, width * n + narrow], value=y_tile)
    return y
