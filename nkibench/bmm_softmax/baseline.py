"""Batched softmax(lhs rhs): all scores of a batch member first, then its rows are normalised."""
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
    groups = rows // (lanes * group)
    slabs = columns // slab
    parts = slab // width
    assert depth <= lanes
    assert rows % (lanes * group) == 0
    assert columns % slab == 0

    probability = nl.ndarray((batch, rows // lanes, lanes, columns), dtype=lhs.dtype,
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
        score = nl.ndarray((groups, group, slabs, parts, nl.par_dim(lanes), width),
                           dtype=nl.float32, buffer=nl.sbuf)
        peak = nl.ndarray((groups, group, nl.par_dim(lanes), 1), dtype=nl.float32, buffer=nl.sbuf)
        for s in nl.affine_range(slabs):
            rhs_slab = nl.load(rhs[b, deep_lane, slab * s + wide])
            for i in nl.affine_range(groups):
                # Put the contraction of the group's rows on the partitions.
                lhs_turned = nl.ndarray((nl.par_dim(depth), group * lanes), dtype=nl.float32,
                                        buffer=nl.sbuf)
                for r in nl.affine_range(group):
                    lhs_tile = nl.load(lhs[b, lanes * (group * i + r) + lane, deep])
                    turned = nisa.nc_matmul(lhs_tile, identity, is_moving_onezero=True,
                                            is_transpose=True)
                    lhs_turned[deep_lane, lanes * r + square] = nl.copy(turned)

                for r in nl.affine_range(group):
                    for n in nl.affine_range(parts):
                        tile = nisa.nc_matmul(lhs_turned[deep_lane, lanes * r + square],
                                              rhs_slab[deep_lane, width * n + narrow])
                        score[i, r, s, n, lane, narrow] = nl.copy(tile)
                        highest = nisa.tensor_reduce(nl.max, data=score[i, r, s, n, lane, narrow],
                                                     axis=[1])
                        peak[i, r, lane, 0] = nl.loop_reduce(highest, op=np.max,
                                                             loop_indices=[s, n])

        for i in nl.affine_range(groups):
            for r in nl.affine_range(group):
                minus_peak = nisa.tensor_scalar(data=peak[i, r, lane, 0], op0=nl.maximum,
                                                operand0=-3.4028235e38, op1=nl.multiply,
                                                operand1=-1.0)
                weight = nl.ndarray((slabs, parts, nl.par_dim(lanes), width), dtype=nl.float32,
                                    buffer=nl.sbuf)
                row_sum = nl.ndarray((nl.par_dim(lanes), 1), dtype=nl.float32, buffer=nl.sbuf)
                for s in nl.affine_range(slabs):
                    for n in nl.affine_range(parts):
                        weight[s, n, lane, narrow] = nisa.activation(
                            op=nl.exp, data=score[i, r, s, n, lane, narrow], bias=minus_peak,
                            scale=1.0)
                        partial = nisa.tensor_reduce(nl.add, data=weight[s, n, lane, narrow],
                                                     axis=[1])
                        row_sum[lane, 0] = nl.loop_reduce(partial, op=np.add,
                                                          loop_indices=[s, n])
                inverse = nisa.reciprocal(data=row_sum)
                for s in nl.affine_range(slabs):
                    row_slab = nl.ndarray((nl.par_dim(lanes), slab), dtype=nl.float32,
                                          buffer=nl.sbuf)
                    for n in nl.affine_range(parts):
                        row_slab[lane, width * n + narrow] = nisa.tensor_scalar(
                            data=weight[s, n, lane, narrow], op0=nl.multiply, operand0=inverse)
                    nl.store(probability[b, group * i + r, lane, slab * s + wide], value=row_slab)
    return probability
