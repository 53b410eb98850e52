"""State-space scan: one hardware scan along time per state and 128 channels, summed over states."""
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(delta, u, a, b, c):
    channels, length = delta.shape
    states = a.shape[1]
    lanes = 128
    tiles = channels // lanes
    assert channels % lanes == 0

    y = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((tiles, nl.par_dim(lanes), length), dtype=delta.dtype)

    for s in nl.affine_range(states):
        for i in nl.affine_range(tiles):
            first = lanes * i
            delta_tile = nl.load(delta[first:first + lanes, 0:length])
            a_column = nl.load(a[first:first + lanes, s])
            decay = nisa.activation(op=nl.exp, data=delta_tile, scale=a_column)

            u_tile = nl.load(u[first:first + lanes, 0:length])
            b_row = nl.load(b[s:s + 1, 0:length])
            drive = nisa.tensor_tensor(delta_tile, u_tile, op=nl.multiply)
            drive_b = nisa.tensor_tensor(drive, b_row.broadcast_to((lanes, length)),
                                         op=nl.multiply)

            state = nisa.tensor_tensor_scan(decay, drive_b, initial=0, op0=np.multiply,
                                            op1=np.add)

            c_row = nl.load(c[s:s + 1, 0:length])
            share = nisa.tensor_tensor(state, c_row.broadcast_to((lanes, length)),
                                       op=nl.multiply)
            total[i, 0:lanes, 0:length] += share

    for i in nl.affine_range(tiles):
        nl.store(y[lanes * i:lanes * (i + 1), 0:length], total[i, 0:lanes, 0:length])
    return y
