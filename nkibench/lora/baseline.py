"""x w + (x a) b: first the low-rank branch of all outputs, then the main product slab by slab.

Both are made transposed (columns of w and b on the partitions) and turned back before the store.
Row blocks are taken in two halves; the contraction of the main product in four quarters.
"""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, w, a, b):
    blocks, tiles, lanes, k_tiles, _ = x.shape  # blocks of 512 rows, each of four row tiles
    rank = a.shape[2]
    columns = w.shape[2]
    halves = 2
    half_blocks = blocks // halves
    slab = 1024  # columns of w and b held at a time
    slabs = columns // slab
    width = tiles * lanes  # rows of one block; columns of one instruction and PSUM bank
    bundle = min(8, k_tiles // 2)  # contraction tiles of x moved by one DMA in the low-rank branch
    bundles = k_tiles // bundle
    quarters = 4
    pieces = 2  # DMAs of x per row tile and quarter
    piece = k_tiles // (quarters * pieces)  # contraction tiles moved by one of them
    parts = slab // width
    part_tiles = width // lanes
    assert rank == lanes
    assert half_blocks * halves == blocks
    assert bundles * bundle == k_tiles
    assert quarters * pieces * piece == k_tiles
    assert columns % slab == 0

    y = nl.ndarray((blocks, tiles, lanes, columns // lanes, lanes), dtype=x.dtype,
                   buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    narrow = nl.arange(width)[None, :]
    wide = nl.arange(slab)[None, :]
    deep_lane = nl.arange(lanes)[:, None, None]
    position = nl.arange(lanes)[None, None, :]
    bundle_member = nl.arange(bundle)[None, :, None]
    piece_member = nl.arange(piece)[None, :, None]

    unit = nl.shared_constant(np.identity(lanes, dtype=np.float32))
    identity = nl.load(unit[lane, square])

    a_all = nl.ndarray((bundles, bundle, nl.par_dim(lanes), rank), dtype=nl.float32,
                       buffer=nl.sbuf)
    for k in nl.affine_range(bundles):
        for j in nl.affine_range(bundle):
            a_all[k, j, lane, square] = nl.load(a[bundle * k + j, lane, square])

    # Low-rank branch, transposed.
    branch = nl.ndarray((slabs, parts, part_tiles, halves, half_blocks, nl.par_dim(lanes), width),
                        dtype=nl.float32, buffer=nl.sbuf)
    for d in nl.affine_range(halves):
        xa = nl.ndarray((half_blocks, nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.affine_range(half_blocks):
            x_turned = nl.ndarray((bundles, nl.par_dim(lanes), bundle, width), dtype=nl.float32,
                                  buffer=nl.sbuf)
            for k in nl.affine_range(bundles):
                for r in nl.affine_range(tiles):
                    x_rows = nl.ndarray((nl.par_dim(lanes), bundle * lanes), dtype=nl.float32,
                                        buffer=nl.sbuf)
                    x_rows[deep_lane, lanes * bundle_member + position] = nl.load(
                        x[half_blocks * d + i, r, deep_lane, bundle * k + bundle_member, position])
                    for j in nl.affine_range(bundle):
                        turned = nisa.nc_matmul(x_rows[lane, lanes * j + square], identity,
                                                is_moving_onezero=True, is_transpose=True)
                        x_turned[k, lane, j, lanes * r + square] = nl.copy(turned)
            total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(bundles):
                for j in nl.affine_range(bundle):
                    total[lane, narrow] += nisa.nc_matmul(a_all[k, j, lane, square],
                                                          x_turned[k, lane, j, narrow])
            xa[i, lane, narrow] = nl.copy(total)
        for s in nl.affine_range(slabs):
            b_slab = nl.load(b[lane, slab * s + wide])
            for i in nl.affine_range(half_blocks):
                for p in nl.affine_range(parts):
                    for t in nl.affine_range(part_tiles):
                        product = nisa.nc_matmul(b_slab[lane, width * p + lanes * t + square],
                                                 xa[i, lane, narrow])
                        branch[s, p, t, d, i, lane, narrow] = nl.copy(product)

    # Main product, transposed, quarter by quarter of the contraction.
    main = nl.full((slabs, parts, part_tiles, halves, half_blocks, nl.par_dim(lanes), width),
                   fill_value=0.0, dtype=nl.float32, buffer=nl.sbuf)
    for s in nl.affine_range(slabs):
        for c in nl.sequential_range(quarters):
            w_slab = nl.ndarray((pieces, piece, nl.par_dim(lanes), slab), dtype=nl.float32,
                                buffer=nl.sbuf)
            for k in nl.affine_range(pieces):
                for j in nl.affine_range(piece):
                    w_slab[k, j, lane, wide] = nl.load(
                        w[piece * (pieces * c + k) + j, lane, slab * s + wide])
            for d in nl.affine_range(halves):
                for i in nl.affine_range(half_blocks):
                    x_turned = nl.ndarray((pieces, nl.par_dim(lanes), piece, width),
                                          dtype=nl.float32, buffer=nl.sbuf)
                    for k in nl.affine_range(pieces):
                        for r in nl.affine_range(tiles):
                            x_rows = nl.ndarray((nl.par_dim(lanes), piece * lanes),
                                                dtype=nl.float32, buffer=nl.sbuf)
                            x_rows[deep_lane, lanes * piece_member + position] = nl.load(
                                x[half_blocks * d + i, r, deep_lane,
                                  piece * (pieces * c + k) + piece_member, position])
                            for j in nl.affine_range(piece):
                                turned = nisa.nc_matmul(x_rows[lane, lanes * j + square],
                                                        identity, is_moving_onezero=True,
                                                        is_transpose=True)
                                x_turned[k, lane, j, lanes * r + square] = nl.copy(turned)
                    for p in nl.affine_range(parts):
                        for t in nl.affine_range(part_tiles):
                            total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32,
                                             buffer=nl.psum)
                            for k in nl.affine_range(pieces):
                                for j in nl.affine_range(piece):
                                    total[lane, narrow] += nisa.nc_matmul(
                                        w_slab[k, j, lane, width * p + lanes * t + square],
                                        x_turned[k, lane, j, narrow])
                            main[s, p, t, d, i, lane, narrow] = nl.loop_reduce(
                                total[lane, narrow], op=np.add, loop_indices=[c])

        # Sum of both, turned back.
        for d in nl.affine_range(halves):
            for i in nl.affine_range(half_blocks):
                for p in nl.affine_range(parts):
                    both = nl.ndarray((part_tiles, nl.par_dim(lanes), width), dtype=nl.float32,
                                      buffer=nl.sbuf)
                    for t in nl.affine_range(part_tiles):
                        both[t, lane, narrow] = nl.add(main[s, p, t, d, i, lane, narrow],
                                                       branch[s, p, t, d, i, lane, narrow])
                    for t in nl.affine_range(part_tiles):
                        for r in nl.affine_range(tiles):
                            turned = nisa.nc_matmul(both[t, lane, lanes * r + square], identity,
                                                    is_moving_onezero=True, is_transpose=True)
                            y_tile = nl.copy(turned)
                            nl.store(y[half_blocks * d + i, r, lane,
                                       part_tiles * (parts * s + p) + t, square], value=y_tile)
    return y
