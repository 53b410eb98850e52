#pragma once

namespace accelopt::eval {

/// Python source of `draw(generator, out, kind, ...)`, which fills a float32 array from one of the
/// distributions of problem.yaml (distribution.h), in place where a full-size temporary can be
/// avoided. `generator` is numpy's Generator, or the Legacy class for published seeds.
inline constexpr const char* kInputDrawing = R"python(
import numpy as np


class Legacy:
    """The numpy generator that published input sets were drawn with, behind the newer interface."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed)

    def standard_normal(self, dtype, out):
        out[...] = self.state.standard_normal(out.shape)

    def random(self, size=None, dtype=None, out=None):
        if out is None:
            return self.state.random_sample(size)
        out[...] = self.state.random_sample(out.shape)

    def integers(self, low, high, size=None):
        return self.state.randint(low, high, size)

    def permutation(self, values):
        return self.state.permutation(values)


def normal(generator, out):
    generator.standard_normal(dtype=np.float32, out=out)


def signs(generator, out):
    """Turns the sign of about half of the elements, a block of rows at a time."""
    flat = out.reshape(-1)
    for first in range(0, flat.size, 1 << 20):
        block = flat[first:first + (1 << 20)]
        block[generator.integers(0, 2, size=block.size) == 0] *= -1


def along(axis, values, out):
    shape = [1] * out.ndim
    shape[axis] = out.shape[axis]
    return np.asarray(values, np.float32).reshape(shape)


def needle_positions(generator, lines, extent):
    """One position per line: every index if there are lines enough, the last index always."""
    if lines >= extent:
        return generator.permutation((extent - 1 - np.arange(lines)) % extent)
    positions = generator.permutation(extent - 1)[:lines]
    positions[generator.integers(0, lines)] = extent - 1
    return positions


def draw(generator, out, kind, axis, at, low, high, value, deviation, start, end, background, base,
         scale):
    here = [slice(None)] * out.ndim
    here[axis] = at
    here = tuple(here)
    if kind in ("normal", "abs_normal"):
        normal(generator, out)
        if kind == "abs_normal":
            np.abs(out, out=out)
    elif kind in ("uniform", "wide_range", "positive_wide_range"):
        generator.random(dtype=np.float32, out=out)
        out *= np.float32(high - low)
        out += np.float32(low)
        if kind != "uniform":
            np.exp2(out, out=out)
        if kind == "wide_range":
            signs(generator, out)
    elif kind == "offset":
        normal(generator, out)
        out *= np.float32(deviation)
        out += np.float32(value)
    elif kind == "integers":
        flat = out.reshape(-1)
        for first in range(0, flat.size, 1 << 20):
            block = flat[first:first + (1 << 20)]
            block[...] = generator.integers(int(low), int(high) + 1, size=block.size)
    elif kind == "constant":
        out[...] = value
    elif kind == "spikes":
        normal(generator, out)
        if base == "abs_normal":
            np.abs(out, out=out)
        out[here] += np.float32(value)
    elif kind == "growing":
        normal(generator, out)
        out += along(axis, np.linspace(start, end, out.shape[axis]), out)
    elif kind == "needle":
        normal(generator, out)
        out *= np.float32(background)
        lines = np.moveaxis(out, axis, -1)
        extent = lines.shape[-1]
        positions = needle_positions(generator, lines.size // extent, extent)
        np.put_along_axis(lines, positions.reshape(lines.shape[:-1] + (1,)), np.float32(value), -1)
    elif kind == "impulse":
        normal(generator, out)
        out *= np.float32(background)
        out[here] = value
    else:
        raise ValueError("unknown distribution " + kind)
    if scale != 1:
        out *= np.float32(scale)
)python";

}  // namespace accelopt::eval
