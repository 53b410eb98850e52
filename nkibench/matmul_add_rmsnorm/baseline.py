"""Product of x and w plus the residual z, then RMS normalisation with gain g."""
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, w, eps, z, g):
    rows, depth = x.shape
    columns = w.shape[1]
    lanes = 128
    width = 512  # columns of one PSUM bank
    assert rows % lanes == 0
    assert depth % lanes == 0
    assert columns % width == 0

    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    first = nl.arange(1)[:, None]
    deep = nl.arange(depth)[None, :]
    whole = nl.arange(columns)[None, :]
    narrow = nl.arange(width)[None, :]

    gain = nl.load(g.reshape((1, columns))[first, whole])

    for i in nl.affine_range(rows // lanes):
        x_tile = nl.load(x[lanes * i + lane, deep])
        product = nl.ndarray((lanes, columns), dtype=x.dtype, buffer=nl.sbuf)
        for n in nl.affine_range(columns // width):
            part = nl.zeros((lanes, width), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // lanes):
                w_tile = nl.load(w[lanes * k:lanes * (k + 1), width * n:width * (n + 1)])
                part += nl.matmul(x_tile[:, lanes * k:lanes * (k + 1)], w_tile)
            part_copy = nl.copy(part, dtype=y.dtype)
            product[lane, width * n + narrow] = part_copy

        z_tile = nl.load(z[lanes * i + lane, whole])
        total = nl.add(product, z_tile)
        squared = nl.square(total)
        square_sum = nl.sum(squared, axis=[1])
        mean_square = nl.add(square_sum / columns, eps)
        inverse_rms = nl.rsqrt(mean_square)
        normalised = nl.multiply(total, inverse_rms)
        normalised[...] = nl.multiply(normalised, gain.broadcast_to((lanes, columns)))
        nl.store(y[lanes * i + lane, whole], value=normalised)
    return y
