"""Gated feed-forward network in three sweeps: gate, up (with the activation), down.

The activated hidden layer passes from the second to the third sweep through HBM.
"""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, up, down, gate):
    blocks, tiles, lanes, k_tiles, _ = x.shape  # blocks of 512 rows, each of four row tiles
    hidden = up.shape[2]
    columns = down.shape[2]
    slab = 1024  # columns of gate and up held at a time
    width = tiles * lanes  # rows of one block; columns of one instruction and PSUM bank
    slabs = hidden // slab
    h_tiles = slab // lanes  # hidden tiles of one slab
    assert hidden % slab == 0
    assert columns % width == 0

    y = nl.ndarray((blocks * tiles, lanes, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    active_store = nl.ndarray((slabs, h_tiles, blocks, lanes, width), dtype=x.dtype,
                              buffer=nl.hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    narrow = nl.arange(width)[None, :]
    wide = nl.arange(slab)[None, :]
    across = nl.arange(columns)[None, :]
    deep_lane = nl.arange(lanes)[:, None, None]
    member = nl.arange(k_tiles)[None, :, None]
    position = nl.arange(lanes)[None, None, :]

    zero = nisa.memset(shape=(lanes, 1), value=0, dtype=nl.float32)
    unit = nl.shared_constant(np.identity(lanes, dtype=np.float32))
    identity = nl.load(unit[lane, square])

    # Sweep 1: hidden columns of x gate on the partitions, rows of x along the free dimension.
    opened = nl.ndarray((slabs, h_tiles, blocks, nl.par_dim(lanes), width), dtype=nl.float32,
                        buffer=nl.sbuf)
    for s in nl.affine_range(slabs):
        gate_slab = nl.ndarray((k_tiles, nl.par_dim(lanes), slab), dtype=nl.float32,
                               buffer=nl.sbuf)
        for k in nl.affine_range(k_tiles):
            gate_slab[k, lane, wide] = nl.load(gate[k, lane, slab * s + wide])
        for b in nl.affine_range(blocks):
            x_turned = nl.ndarray((nl.par_dim(lanes), k_tiles, width), dtype=nl.float32,
                                  buffer=nl.sbuf)
            for r in nl.affine_range(tiles):
                x_rows = nl.ndarray((nl.par_dim(lanes), k_tiles * lanes), dtype=nl.float32,
                                    buffer=nl.sbuf)
                x_rows[deep_lane, lanes * member + position] = nl.load(
                    x[b, r, deep_lane, member, position])
                for k in nl.affine_range(k_tiles):
                    turned = nisa.nc_matmul(x_rows[lane, lanes * k + square], identity,
                                            is_moving_onezero=True, is_transpose=True)
                    x_turned[lane, k, lanes * r + square] = nl.copy(turned)
            for h in nl.affine_range(h_tiles):
                total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
                for k in nl.affine_range(k_tiles):
                    total[lane, narrow] += nisa.nc_matmul(
                        gate_slab[k, lane, lanes * h + square], x_turned[lane, k, narrow])
                opened[s, h, b, lane, narrow] = nl.copy(total)

    # Sweep 2: the same for x up, multiplied by the activated gate.
    for s in nl.affine_range(slabs):
        up_slab = nl.ndarray((k_tiles, nl.par_dim(lanes), slab), dtype=nl.float32, buffer=nl.sbuf)
        for k in nl.affine_range(k_tiles):
            up_slab[k, lane, wide] = nl.load(up[k, lane, slab * s + wide])
        for b in nl.affine_range(blocks):
            x_turned = nl.ndarray((nl.par_dim(lanes), k_tiles, width), dtype=nl.float32,
                                  buffer=nl.sbuf)
            for r in nl.affine_range(tiles):
                x_rows = nl.ndarray((nl.par_dim(lanes), k_tiles * lanes), dtype=nl.float32,
                                    buffer=nl.sbuf)
                x_rows[deep_lane, lanes * member + position] = nl.load(
                    x[b, r, deep_lane, member, position])
                for k in nl.affine_range(k_tiles):
                    turned = nisa.nc_matmul(x_rows[lane, lanes * k + square], identity,
                                            is_moving_onezero=True, is_transpose=True)
                    x_turned[lane, k, lanes * r + square] = nl.copy(turned)
            for h in nl.affine_range(h_tiles):
                lifted = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
                for k in nl.affine_range(k_tiles):
                    lifted[lane, narrow] += nisa.nc_matmul(
                        up_slab[k, lane, lanes * h + square], x_turned[lane, k, narrow])
                decay = nisa.activation(op=nl.exp, data=opened[s, h, b, lane, narrow], bias=zero,
                                        scale=-1.0)
                denominator = nisa.tensor_scalar(data=decay, op0=nl.add, operand0=1.0)
                sigmoid = nisa.reciprocal(data=denominator)
                silu = nl.multiply(opened[s, h, b, lane, narrow], sigmoid)
                active = nl.multiply(silu, lifted[lane, narrow])
                nl.store(active_store[s, h, b, lane, narrow], value=active)

    # Sweep 3: the hidden layer times down, which is held whole.
    down_all = nl.ndarray((slabs, h_tiles, nl.par_dim(lanes), columns), dtype=nl.float32,
                          buffer=nl.sbuf)
    for s in nl.affine_range(slabs):
        for h in nl.affine_range(h_tiles):
            down_all[s, h, lane, across] = nl.load(down[h_tiles * s + h, lane, across])
    for b in nl.affine_range(blocks):
        active_block = nl.ndarray((slabs, h_tiles, nl.par_dim(lanes), width), dtype=nl.float32,
                                  buffer=nl.sbuf)
        for s in nl.affine_range(slabs):
            for h in nl.affine_range(h_tiles):
                active_block[s, h, lane, narrow] = nl.load(active_store[s, h, b, lane, narrow])
        for r in nl.affine_range(tiles):
            y_tile = nl.ndarray((nl.par_dim(lanes), columns), dtype=nl.float32, buffer=nl.sbuf)
            for n in nl.affine_range(columns // width):
                total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
                for s in nl.affine_range(slabs):
                    for h in nl.affine_range(h_tiles):
                        total[lane, narrow] += nisa.nc_matmul(
                            active_block[s, h, lane, lanes * r + square],
                            down_all[s, h, lane, width * n + narrow])
                y_tile[lane, width * n + narrow] = nl.copy(total)
            nl.store(y[tiles * b + r, lane, across], value=y_tile)
    return y
