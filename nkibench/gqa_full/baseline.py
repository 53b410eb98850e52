"""Grouped-query attention in phases: transposed queries, all logits, then one head after another.

Query heads are taken in two halves; the keys come in two halves of 512-position blocks.
"""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(q, k, v):
    row_tiles, lanes, query_heads, depth = q.shape
    _, blocks, block_tiles, _, kv_heads, _ = k.shape
    halves = 2
    half_heads = query_heads // halves  # query heads moved by one DMA
    shared = query_heads // kv_heads  # query heads per key-value head
    half_kv = kv_heads // halves
    half_blocks = blocks // halves
    width = block_tiles * lanes  # positions of one key block; columns of one PSUM bank
    inverse_root = 0.08838835154663706  # 1 / sqrt(128)
    assert depth == lanes
    assert half_heads * halves == query_heads and half_kv * halves == kv_heads
    assert half_blocks * halves == blocks

    y = nl.ndarray((1, kv_heads, shared, row_tiles, lanes, depth), dtype=q.dtype,
                   buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    narrow = nl.arange(width)[None, :]
    value_span = nl.arange(kv_heads * depth)[None, :]
    deep_lane = nl.arange(lanes)[:, None, None]
    position = nl.arange(depth)[None, None, :]
    q_member = nl.arange(half_heads)[None, :, None]
    k_member = nl.arange(kv_heads)[None, :, None]

    unit = nl.shared_constant(np.identity(lanes, dtype=np.float32))
    identity = nl.load(unit[lane, square])

    # Queries with the head dimension on the partitions.
    q_turned = nl.ndarray((halves, row_tiles, nl.par_dim(lanes), half_heads, lanes),
                          dtype=nl.float32, buffer=nl.sbuf)
    for r in nl.affine_range(row_tiles):
        for a in nl.affine_range(halves):
            q_rows = nl.ndarray((nl.par_dim(lanes), half_heads * depth), dtype=nl.float32,
                                buffer=nl.sbuf)
            q_rows[deep_lane, depth * q_member + position] = nl.load(
                q[r, deep_lane, half_heads * a + q_member, position])
            for h in nl.affine_range(half_heads):
                turned = nisa.nc_matmul(q_rows[lane, depth * h + square], identity,
                                        is_moving_onezero=True, is_transpose=True)
                q_turned[a, r, lane, h, square] = nl.copy(turned)

    # Scaled logits of all heads, with the maximum of each row. Index `half_kv * a + c` is a
    # key-value head, `e` one of the query heads that share it.
    logit = nl.ndarray((row_tiles, halves, half_kv, shared, halves, half_blocks,
                        nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.sbuf)
    peak = nl.ndarray((halves, half_kv, shared, row_tiles, nl.par_dim(lanes), 1),
                      dtype=nl.float32, buffer=nl.sbuf)
    for d in nl.affine_range(halves):
        k_turned = nl.ndarray((half_blocks, nl.par_dim(lanes), kv_heads, width), dtype=nl.float32,
                              buffer=nl.sbuf)
        for j in nl.affine_range(half_blocks):
            for t in nl.affine_range(block_tiles):
                k_rows = nl.ndarray((nl.par_dim(lanes), kv_heads * depth), dtype=nl.float32,
                                    buffer=nl.sbuf)
                k_rows[deep_lane, depth * k_member + position] = nl.load(
                    k[0, half_blocks * d + j, t, deep_lane, k_member, position])
                for h in nl.affine_range(kv_heads):
                    turned = nisa.nc_matmul(k_rows[lane, depth * h + square], identity,
                                            is_moving_onezero=True, is_transpose=True)
                    k_turned[j, lane, h, lanes * t + square] = nl.copy(turned)
        for a in nl.affine_range(halves):
            for c in nl.affine_range(half_kv):
                for j in nl.affine_range(half_blocks):
                    for e in nl.affine_range(shared):
                        for r in nl.affine_range(row_tiles):
                            product = nisa.nc_matmul(q_turned[a, r, lane, shared * c + e, square],
                                                     k_turned[j, lane, half_kv * a + c, narrow])
                            logit[r, a, c, e, d, j, lane, narrow] = nisa.tensor_scalar(
                                data=product, op0=nl.multiply, operand0=inverse_root)
                            highest = nisa.tensor_reduce(
                                nl.max, data=logit[r, a, c, e, d, j, lane, narrow], axis=[1])
                            peak[a, c, e, r, lane, 0] = nl.loop_reduce(highest, op=np.max,
                                                                       loop_indices=[d, j])

    value = nl.ndarray((blocks, block_tiles, nl.par_dim(lanes), kv_heads * depth),
                       dtype=nl.float32, buffer=nl.sbuf)
    for j in nl.affine_range(blocks):
        for t in nl.affine_range(block_tiles):
            value[j, t, lane, value_span] = nl.load(v[0, block_tiles * j + t, lane, value_span])

    # Softmax of one row tile of one query head, transposed for the product with the values.
    for e in nl.affine_range(shared):
        for a in nl.affine_range(halves):
            for c in nl.affine_range(half_kv):
                for r in nl.affine_range(row_tiles):
                    minus_peak = nisa.tensor_scalar(data=peak[a, c, e, r, lane, 0],
                                                    op0=nl.maximum, operand0=-3.4028235e38,
                                                    op1=nl.multiply, operand1=-1.0)
                    weight = nl.ndarray((halves, half_blocks, nl.par_dim(lanes), width),
                                        dtype=nl.float32, buffer=nl.sbuf)
                    row_sum = nl.ndarray((nl.par_dim(lanes), 1), dtype=nl.float32, buffer=nl.sbuf)
                    for d in nl.affine_range(halves):
                        for j in nl.affine_range(half_blocks):
                            weight[d, j, lane, narrow] = nisa.activation(
                                op=nl.exp, data=logit[r, a, c, e, d, j, lane, narrow],
                                bias=minus_peak, scale=1.0)
                            partial = nisa.tensor_reduce(nl.add, data=weight[d, j, lane, narrow],
                                                         axis=[1])
                            row_sum[lane, 0] = nl.loop_reduce(partial, op=np.add,
                                                              loop_indices=[j, d])
                    inverse = nisa.reciprocal(data=row_sum)

                    probability = nl.ndarray((blocks, block_tiles, nl.par_dim(lanes), lanes),
                                             dtype=nl.float32, buffer=nl.sbuf)
                    for d in nl.affine_range(halves):
                        for j in nl.affine_range(half_blocks):
                            scaled = nisa.tensor_scalar(data=weight[d, j, lane, narrow],
                                                        op0=nl.multiply, operand0=inverse)
                            for t in nl.affine_range(block_tiles):
                                turned = nisa.nc_matmul(scaled[lane, lanes * t + square],
                                                        identity, is_moving_onezero=True,
                                                        is_transpose=True)
                                probability[half_blocks * d + j, t, lane, square] = nl.copy(turned)

                    total = nl.zeros((nl.par_dim(lanes), depth), dtype=nl.float32, buffer=nl.psum)
                    for j in nl.affine_range(blocks):
                        for t in nl.affine_range(block_tiles):
                            total[lane, square] += nisa.nc_matmul(
                                probability[j, t, lane, square],
                                value[j, t, lane, depth * (half_kv * a + c) + square])
                    y_tile = nl.copy(total)
                    nl.store(y[0, half_kv * a + c, e, r, lane, square], value=y_tile)
    return y
