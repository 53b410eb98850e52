"""Batched matrix product: per batch member and 1024-column slab of rhs, row group by row group."""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(lhs, rhs):
    batch, rows, depth = lhs.shape
    columns = rhs.shape[2]
    lanes = 128
    group = min(8, rows // (2 * lanes))  # row tiles worked on together
    slab = 1024  # columns of rhs held at a time
    width = 512  # columns of one instruction and of one PSUM bank
    assert depth <= lanes
    assert rows % (lanes * group) == 0
    assert columns % slab == 0

    product = nl.ndarray((batch, rows // lanes, lanes, columns), dtype=lhs.dtype,
                         buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    deep_lane = nl.arange(depth)[:, None]
    deep = nl.arange(depth)[None, :]
    narrow = nl.arange(width)[None, :]
    wide = nl.arange(slab)[None, :]

    unit = nl.shared_constant(np.identity(lanes, dtype=np.float32))
    identity = nl.load(unit[lane, square])

    for b in nl.affine_range(batch):
        for s in nl.affine_range(columns // slab):
            rhs_slab = nl.load(rhs[b, deep_lane, slab * s + wide])
            for i in nl.affine_range(rows // (lanes * group)):
                # Put the contraction of the group's rows on the partitions.
                lhs_turned = nl.ndarray((nl.par_dim(depth), group * lanes), dtype=nl.float32,
                                        buffer=nl.sbuf)
                for r in nl.affine_range(group):
                    lhs_tile = nl.load(lhs[b, lanes * (group * i + r) + lane, deep])
                    turned = nisa.nc_matmul(lhs_tile, identity, is_moving_onezero=True,
                                            is_transpose=True)
                    lhs_turned[deep_lane, lanes * r + square] = nl.copy(turned)

                for r in nl.affine_range(group):
                    row_slab = nl.ndarray((nl.par_dim(lanes), slab), dtype=nl.float32,
                                          buffer=nl.sbuf)
                    for n in nl.affine_range(slab // width):
                        tile = nisa.nc_matmul(lhs_turned[deep_lane, lanes * r + square],
                                              rhs_slab[deep_lane, width * n + narrow])
                        row_slab[lane, width * n + narrow] = nl.copy(tile)
                    nl.store(product[b, group * i + r, lane, slab * s + wide], value=row_slab)
    return product
