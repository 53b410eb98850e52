"""Matrix product: one 1024-column slab of rhs at a time is held for all rows of lhs."""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(lhs, rhs):
    row_tiles, lanes, k_tiles, _ = lhs.shape
    columns = rhs.shape[2]
    slab = 1024  # columns of rhs held at a time
    width = 512  # columns of one instruction and of one PSUM bank
    bundle = 8  # contraction tiles of lhs moved by one DMA
    bundles = k_tiles // bundle
    assert k_tiles % bundle == 0
    assert columns % slab == 0

    product = nl.ndarray((row_tiles, lanes, columns), dtype=lhs.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    narrow = nl.arange(width)[None, :]
    wide = nl.arange(slab)[None, :]
    # A bundle of lhs seen as (row, contraction tile, position in it), and where it goes.
    deep_lane = nl.arange(lanes)[:, None, None]
    member = nl.arange(bundle)[None, :, None]
    position = nl.arange(lanes)[None, None, :]

    unit = nl.shared_constant(np.identity(lanes, dtype=np.float32))
    identity = nl.load(unit[lane, square])

    for s in nl.affine_range(columns // slab):
        rhs_slab = nl.ndarray((bundles, bundle, nl.par_dim(lanes), slab), dtype=nl.float32,
                              buffer=nl.sbuf)
        for k in nl.affine_range(bundles):
            for j in nl.affine_range(bundle):
                rhs_slab[k, j, lane, wide] = nl.load(rhs[bundle * k + j, lane, slab * s + wide])

        for r in nl.affine_range(row_tiles):
            # Put the contraction of this row tile on the partitions.
            lhs_turned = nl.ndarray((bundles, nl.par_dim(lanes), bundle, lanes), dtype=nl.float32,
                                    buffer=nl.sbuf)
            for k in nl.affine_range(bundles):
                lhs_rows = nl.ndarray((nl.par_dim(lanes), bundle * lanes), dtype=nl.float32,
                                      buffer=nl.sbuf)
                lhs_rows[deep_lane, lanes * member + position] = nl.load(
                    lhs[r, deep_lane, bundle * k + member, position])
                for j in nl.affine_range(bundle):
                    turned = nisa.nc_matmul(lhs_rows[lane, lanes * j + square], identity,
                                            is_moving_onezero=True, is_transpose=True)
                    lhs_turned[k, lane, j, square] = nl.copy(turned)

            row_slab = nl.ndarray((nl.par_dim(lanes), slab), dtype=nl.float32, buffer=nl.sbuf)
            for n in nl.affine_range(slab // width):
                total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
                for k in nl.affine_range(bundles):
                    for j in nl.affine_range(bundle):
                        total[lane, narrow] += nisa.nc_matmul(
                            lhs_turned[k, lane, j, square],
                            rhs_slab[k, j, lane, width * n + narrow])
                row_slab[lane, width * n + narrow] = nl.copy(total)
            nl.store(product[r, lane, slab * s + wide], value=row_slab)
    return product
