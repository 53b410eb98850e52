"""What the microbenchmarks compute, in float64 numpy, by entry: for the tests."""
import numpy as np


def copy_columns(x, width):
    rows, columns = x.shape
    return x.reshape(rows, columns // width, width).transpose(1, 0, 2)


def lanes(values, count=4):
    return np.broadcast_to(values, (count,) + values.shape)


def repeat(step, x, rounds):
    for _ in range(rounds):
        x = step(x)
    return x


def pipeline(x, depth):
    return repeat(lambda v: 1.5 * np.tanh(v), x, depth)


REFERENCES = {
    "copy_tiles": lambda x: x,
    "gather_runs": lambda x: x[..., : x.shape[-1] // 2],
    "copy_columns": copy_columns,
    "load_transposed": lambda x: x.transpose(0, 2, 1),
    "transposed_by_array": lambda x: x.transpose(0, 2, 1),
    "add_from_sbuf": lambda x, w, rounds: lanes(x + rounds * w),
    "add_from_psum": lambda x, w, rounds: lanes(x + rounds * w),
    "add_on_gpsimd": lambda x, w, rounds: lanes(x + rounds * w),
    "scale_unasked": lambda x, rounds: lanes(x * 0.5**rounds),
    "scale_on_vector": lambda x, rounds: lanes(x * 0.5**rounds),
    "activate": lambda x, rounds: lanes(repeat(np.tanh, x, rounds)),
    "one_chain": lambda x, rounds: lanes(repeat(np.tanh, x, rounds), 1),
    "invert": lambda x, rounds: lanes(repeat(np.reciprocal, x, rounds)),
    "reduce_rows": lambda x, rounds: np.repeat(x.sum(axis=1, keepdims=True), rounds, axis=1),
    "scale_by_columns": lambda x, width: 0.5 * x,
    "two_engines": lambda x, rounds, in_psum: np.stack(
        [repeat(np.tanh, x, rounds), x * 0.5**rounds]),
    "two_loops": lambda x: 1.5 * np.tanh(x),
    "accumulate": lambda x, w: np.einsum("kjm,gkn->gmn", w, x),
    "pipeline": pipeline,
    "keep_results": lambda x: np.tanh(x) + np.tanh(x)[::-1],
    "keep_loads": lambda x, passes: lanes(np.tanh(x), passes),
    "hoist_slab": lambda x, passes: lanes(np.tanh(x), passes),
    "two_chains": lambda x, length: lanes(pipeline(x, 8 * length), 2),
    "reload_invariant": lambda x, w: x + w,
}
