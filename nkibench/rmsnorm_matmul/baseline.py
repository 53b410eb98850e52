"""Row-wise RMS normalisation of x, then the product with w.

Rows are worked on in groups: a group is normalised and transposed tile by tile, then multiplied
with one 1024-column slab of w after the other.
"""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, w):
    row_tiles, lanes, hidden = x.shape
    columns = w.shape[2]
    width = 512  # columns of one instruction and of one PSUM bank
    slab = 1024  # columns of w held at a time
    k_tiles = hidden // lanes
    per_width = width // lanes
    group = min(8, row_tiles // 2)  # row tiles worked on together
    assert row_tiles % group == 0
    assert hidden % width == 0
    assert columns % slab == 0

    y = nl.ndarray((row_tiles, lanes, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    narrow = nl.arange(width)[None, :]
    whole = nl.arange(hidden)[None, :]
    wide = nl.arange(slab)[None, :]

    zero = nisa.memset(shape=(lanes, 1), value=0, dtype=nl.float32)
    unit = nl.shared_constant(np.identity(lanes, dtype=np.float32))
    identity = nl.load(unit[lane, square])

    for i in nl.affine_range(row_tiles // group):
        # Normalise, and transpose to put the contraction on the partitions.
        xt = nl.ndarray((group, k_tiles, nl.par_dim(lanes), lanes), dtype=nl.float32,
                        buffer=nl.sbuf)
        for r in nl.affine_range(group):
            x_tile = nl.load(x[group * i + r, lane, whole])
            mean_square = nl.ndarray((nl.par_dim(lanes), 1), dtype=nl.float32, buffer=nl.sbuf)
            for h in nl.affine_range(hidden // width):
                squared = nisa.activation(op=nl.square, data=x_tile[lane, width * h + narrow],
                                          bias=zero, scale=1.0)
                share = nisa.tensor_scalar(data=squared, op0=nl.multiply, operand0=1.0 / hidden)
                partial = nisa.tensor_reduce(nl.add, data=share, axis=[1])
                mean_square[lane, 0] = nl.loop_reduce(partial, op=np.add, loop_indices=[h])
            inverse_rms = nisa.activation(op=nl.rsqrt, data=mean_square, bias=zero, scale=1.0)

            x_again = nl.load(x[group * i + r, lane, whole])
            for h in nl.affine_range(hidden // width):
                scaled = nisa.tensor_scalar(data=x_again[lane, width * h + narrow],
                                            op0=nl.multiply, operand0=inverse_rms)
                for k in nl.affine_range(per_width):
                    turned = nisa.nc_matmul(scaled[lane, lanes * k + square], identity,
                                            is_moving_onezero=True, is_transpose=True)
                    xt[r, per_width * h + k, lane, square] = nl.copy(turned)

        for s in nl.affine_range(columns // slab):
            w_slab = nl.ndarray((k_tiles, nl.par_dim(lanes), slab), dtype=nl.float32,
                                buffer=nl.sbuf)
            for k in nl.affine_range(k_tiles):
                w_slab[k, lane, wide] = nl.load(w[k, lane, slab * s + wide])
            for r in nl.affine_range(group):
                y_tile = nl.ndarray((nl.par_dim(lanes), slab), dtype=nl.float32, buffer=nl.sbuf)
                for n in nl.affine_range(slab // width):
                    total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
                    for k in nl.affine_range(k_tiles):
                        total[lane, narrow] += nisa.nc_matmul(
                            xt[r, k, lane, square], w_slab[k, lane, width * n + narrow])
                    y_tile[lane, width * n + narrow] = nl.copy(total)
                nl.store(y[group * i + r, lane, slab * s + wide], value=y_tile)
    return y
