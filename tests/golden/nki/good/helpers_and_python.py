# expect: ok
# args: float32[512,256] 0.5
"""Helpers, closures, comprehensions and constants of the module."""
import math

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

LANES = 128
STEPS = (1, 2, 4)


def tiles_of(n, size=LANES):
    return math.ceil(n / size)


def damped(tile, *, factor):
    scale = sum([s for s in STEPS if s % 2 == 0]) / len(STEPS)
    twice = lambda t: nl.multiply(t, scale * factor)
    return twice(tile)


@nki.jit
def kernel(x, factor):
    rows, columns = x.shape
    assert rows % LANES == 0, f"rows {rows} must be a multiple of {LANES}"
    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(tiles_of(rows)):
        start = i * LANES
        tile = nl.load(x[start:start + LANES, :])
        result = damped(tile, factor=factor)
        nl.store(y[start:start + LANES, :], result)
    return y
