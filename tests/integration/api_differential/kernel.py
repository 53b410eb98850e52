"""A kernel under construction, with its inputs and what its outputs must hold."""
import dataclasses
from typing import Callable, Optional

import numpy as np

from . import formats
from .formats import BF16, F32, Format, f32

HEADER = """import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
"""

ORACLES = {}  # API name -> [function(kernel)], each draws one case
REFUSALS = []  # (API name, function(kernel)): cases that the documentation forbids


def oracle(*names):
    """Registers a generator of cases; a generator of several names takes the name too."""
    def register(function):
        for name in names:
            draw = function if len(names) == 1 else (lambda k, n=name: function(k, n))
            ORACLES.setdefault(name, []).append(draw)
        return function
    return register


def forbidden(name):
    def register(function):
        REFUSALS.append((name, function))
        return function
    return register


@dataclasses.dataclass
class Tile:
    """An expression of the kernel and the values it has."""
    text: str
    values: np.ndarray
    dtype: Format
    psum: bool = False

    @property
    def shape(self):
        return self.values.shape

    @property
    def engine(self):
        """What an engine computes with."""
        return f32(self.values)


@dataclasses.dataclass
class Expected:
    """One output: value +- bound before the write, rounded monotonically by the dtype, so that
    cast(value - bound) <= got <= cast(value + bound). `written`: elements a store touched."""
    value: np.ndarray
    dtype: Format
    bound: object = 0.0
    written: Optional[np.ndarray] = None
    check: Optional[Callable] = None  # got -> boolean array; instead of value and bound

    def wrong(self, got):
        """Boolean array: the elements that are not as they must be."""
        if self.check is not None:
            bad = ~self.check(got)
        else:
            with np.errstate(all="ignore"):
                low = self.dtype.cast(self.value - np.asarray(self.bound))
                high = self.dtype.cast(self.value + np.asarray(self.bound))
                bad = ~((low <= got) & (got <= high))
            infinite = np.isinf(self.value) | np.isnan(self.value)
            exact = self.dtype.cast(self.value)
            same = (got == exact) | (np.isnan(got) & np.isnan(exact))
            bad = np.where(infinite, ~same, bad)
        return bad if self.written is None else bad & self.written


class Draw:
    """Random choices of one case: `rng` decides what the kernel is, `data` what it is given, so
    that one kernel can be drawn again with other data."""

    def __init__(self, seed, data=0):
        self.rng = np.random.default_rng(seed)
        self.data = np.random.default_rng([*seed, 1 + data])

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability):
        return self.rng.random() < probability

    def between(self, low, high):
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low=-2.0, high=2.0):
        return round(float(self.rng.uniform(low, high)), 3)

    # Shapes and values.

    def partitions(self):
        return self.pick([1, 2, 5, 16, 31, 32, 64, 100, 128])

    def columns(self, high=40):
        return self.pick([1, 2, 3, self.between(1, high), self.between(1, high)])

    def shape(self, rank=None):
        rank = rank or self.pick([2, 2, 2, 2, 3])
        if rank == 2:
            return self.partitions(), self.columns()
        return (self.partitions(), *(self.between(1, 6) for _ in range(rank - 1)))

    def values(self, dtype, shape, low=None, high=None):
        """Values of a dtype; floats normal, or uniform in [low, high]."""
        if dtype is formats.BOOL:
            return self.data.integers(0, 2, shape).astype(np.float64)
        if dtype.is_integer:
            low = max(dtype.low, -100 if low is None else np.ceil(low))
            high = min(dtype.high, 100 if high is None else np.floor(high))
            return self.data.integers(int(low), int(high) + 1, shape).astype(np.float64)
        if low is not None:
            # Rounding must not leave the interval.
            drawn = self.data.uniform(low, high, shape)
            return np.clip(dtype.cast(drawn), low, high) if dtype is F32 else dtype.cast(drawn)
        return dtype.cast(self.data.normal(size=shape) * self.pick([0.25, 1.0, 1.0, 8.0]))

    def float_dtype(self):
        return self.pick([F32, F32, F32, *formats.FLOATS])

    def any_dtype(self):
        return self.pick([F32, F32, *formats.FLOATS, *formats.INTEGERS])


def startable(active):
    """Whether an instruction may cover these partitions: more than 64 start at 0, more than 32 at
    0 or 64, others at 0, 32, 64 or 96."""
    rows = np.flatnonzero(active.reshape(active.shape[0], -1).any(axis=1))
    return rows[0] % (128 if len(rows) > 64 else 64 if len(rows) > 32 else 32) == 0


def grid(shape):
    """The index arrays of a tile, as kernel text."""
    rank = len(shape)
    texts = []
    for axis, size in enumerate(shape):
        place = ", ".join(":" if k == axis else "None" for k in range(rank))
        texts.append(f"nl.arange({size})[{place}]")
    return texts


class Kernel(Draw):
    """Collects lines, inputs and outputs; then `source()`."""

    def __init__(self, api, seed, data=0):
        super().__init__(seed, data)
        self.api = api
        self.core_version = 2  # of the NeuronCore
        self.grid = ()  # of the launch
        self.lines = []
        self.inputs = []  # (name, values, dtype)
        self.outputs = []  # (name, Expected)
        self.names = 0
        self.depth = 1
        self.decorator = "@nki.jit"
        self.refused = False  # the documentation forbids the kernel
        self.code = None  # of the refusal, where the documentation names one

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def let(self, prefix, text):
        name = self.name(prefix)
        self.line(f"{name} = {text}")
        return name

    def source(self):
        arguments = ", ".join(name for name, _, _ in self.inputs)
        returned = ", ".join(name for name, _ in self.outputs)
        end = [f"    return {returned}"] if returned else []
        return "\n".join([HEADER, self.decorator, f"def kernel({arguments}):", *self.lines, *end,
                          ""])

    def repeated(self, other):
        """This kernel and `other`, which differs from it in data only, as the iterations of a loop
        over tensors of one more dimension; None where the texts differ."""
        if self.lines != other.lines or self.decorator != other.decorator or self.grid:
            return None
        loop = Kernel(self.api, [0])
        loop.core_version, loop.decorator = self.core_version, self.decorator
        body = [f"{name} = {name}s[w]" for name, _, _ in self.inputs]
        for (name, values, dtype), (_, others, _) in zip(self.inputs, other.inputs):
            loop.inputs.append((f"{name}s", np.stack([values, others]), dtype))
        for (name, first), (_, second) in zip(self.outputs, other.outputs):
            if first.check is not None:
                return None
            shape = first.value.shape
            written = [np.ones(shape, bool) if e.written is None else e.written
                       for e in (first, second)]
            bounds = [np.broadcast_to(e.bound, shape) for e in (first, second)]
            joined = Expected(np.stack([first.value, second.value]), first.dtype,
                              np.stack(bounds), np.stack(written))
            loop.outputs.append((f"{name}s", joined))
            loop.line(f"{name}s = nl.ndarray({(2, *shape)}, dtype={first.dtype.text}, "
                      "buffer=nl.shared_hbm)")
            body.append(f"{name} = {name}s[w]")
        made = tuple(f"    {name} = nl.ndarray(" for name, _ in self.outputs)
        inner = [line for line in self.lines if not line.startswith(made)]
        if any("nl.shared_hbm" in line for line in inner):
            return None  # only at the top level of a kernel
        kind = self.pick(["nl.affine_range", "nl.affine_range", "nl.sequential_range",
                          "nl.static_range", "range"])
        loop.line(f"for w in {kind}(2):")
        loop.lines += ["        " + line for line in body]
        loop.lines += ["    " + line for line in inner]
        return loop

    def dtype_text(self, dtype):
        if dtype in (formats.BF16, formats.TF32, formats.E4M3, formats.E5M2) or self.chance(0.7):
            return dtype.text
        return dtype.text.replace("nl.", "np.")

    # Inputs.

    def hbm(self, values, dtype):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, np.asarray(values, np.float64), dtype))
        return name

    def filler(self, dtype, shape):
        return self.values(dtype, shape)

    def whole(self, name, shape):
        """A whole tensor, written in one of the ways that mean it."""
        kind = self.pick(["name", "dots", "slices", "index", "mgrid"])
        if kind == "name":
            return name
        if kind == "dots":
            return f"{name}[...]"
        if kind == "slices":
            return f"{name}[{', '.join(self.pick([':', f'0:{n}']) for n in shape)}]"
        if kind == "index":
            return f"{name}[{', '.join(grid(shape))}]"
        mesh = self.let("m", f"nl.mgrid[{', '.join(f'0:{n}' for n in shape)}]")
        letters = "pxyzw"[:len(shape)]
        return f"{name}[{', '.join(f'{mesh}.{c}' for c in letters)}]"

    def last_axis(self, name, shape, offset, step):
        """`name` with its last axis taken from offset in steps: slice, arange or ds."""
        *lead, columns = shape
        kind = self.pick(["slice", "index", "ds" if step == 1 else "index"])
        if kind == "index":
            *index, last = grid(shape)
            last = self.pick([f"{step} * {last} + {offset}", f"{offset} + {last} * {step}"])
            return f"{name}[{', '.join([*index, last])}]"
        if kind == "ds":
            last = f"nl.ds({offset}, {columns})"
        else:
            last = f"{offset}:{offset + step * (columns - 1) + 1}" + (f":{step}" if step > 1 else "")
        return f"{name}[{', '.join([':'] * len(lead) + [last])}]"

    def tile(self, values, dtype, psum=False, plain=False):
        """A tile of these values: loaded from HBM and, unless plain, seen through a view."""
        values = np.asarray(values, np.float64)
        kinds = ["plain", "hbm_view", "tile_view", "reversed", "copied"]
        if values.shape[0] <= 64:
            kinds.append("partitions")
        if values.ndim == 2:
            kinds += ["middle", "blocks", "loop"]
        kind = "plain" if plain else self.pick(kinds)
        text = getattr(self, f"_tile_{kind}")(values, dtype)
        if psum:
            copy = self.name("p")
            self.line(f"{copy} = nl.ndarray({values.shape}, dtype={dtype.text}, buffer=nl.psum)")
            self.line(f"{copy}[...] = {self.pick(['nl.copy', 'nisa.tensor_copy'])}({text})")
            text = copy
        return Tile(text, values, dtype, psum)

    def _tile_plain(self, values, dtype):
        x = self.hbm(values, dtype)
        return self.let("t", f"nl.load({self.whole(x, values.shape)})")

    def _tile_copied(self, values, dtype):
        return self.whole(self.let("t", f"nl.copy({self._tile_plain(values, dtype)})"),
                          values.shape)

    def _spread(self, values, dtype):
        step, offset = self.between(1, 3), self.between(0, 4)
        *lead, columns = values.shape
        big = self.filler(dtype, (*lead, offset + step * columns + self.between(0, 2)))
        big[..., offset:offset + step * columns:step] = values
        return big, offset, step

    def _tile_hbm_view(self, values, dtype):
        big, offset, step = self._spread(values, dtype)
        x = self.hbm(big, dtype)
        return self.let("t", f"nl.load({self.last_axis(x, values.shape, offset, step)})")

    def _tile_tile_view(self, values, dtype):
        big, offset, step = self._spread(values, dtype)
        x = self.hbm(big, dtype)
        return self.last_axis(self.let("t", f"nl.load({x})"), values.shape, offset, step)

    def _tile_reversed(self, values, dtype):
        x = self.hbm(values[..., ::-1], dtype)
        *index, last = grid(values.shape)
        last = f"{values.shape[-1] - 1} - {last}"
        return self.let("t", f"nl.load({x}[{', '.join([*index, last])}])")

    def _tile_partitions(self, values, dtype):
        rows = values.shape[0]
        start = self.pick([0, 32, 64, 96] if rows <= 32 else [0, 64])
        total = self.between(start + rows, 128)
        big = self.filler(dtype, (total, *values.shape[1:]))
        big[start:start + rows] = values
        t = self.let("t", f"nl.load({self.hbm(big, dtype)})")
        if self.chance(0.5):
            return f"{t}[{start}:{start + rows}{', :' * (values.ndim - 1)}]"
        index = grid(values.shape)
        index[0] = f"{start} + {index[0]}"
        return f"{t}[{', '.join(index)}]"

    def _tile_middle(self, values, dtype):
        rows, columns = values.shape
        depth = self.between(1, 3)
        at = self.between(0, depth - 1)
        big = self.filler(dtype, (rows, depth, columns))
        big[:, at, :] = values
        t = self.let("t", f"nl.load({self.hbm(big, dtype)})")
        if self.chance(0.5):
            return f"{t}[:, {at}, :]"
        i, j = grid(values.shape)
        return f"{t}[{i}, {at}, {j}]"

    def _tile_blocks(self, values, dtype):
        rows, columns = values.shape
        depth = self.between(1, 3)
        at = self.between(0, depth - 1)
        big = self.filler(dtype, (depth, rows, columns))
        big[at] = values
        x = self.hbm(big, dtype)
        t = self.let("t", f"nl.ndarray(({depth}, nl.par_dim({rows}), {columns}), "
                          f"dtype={dtype.text}, buffer=nl.sbuf)")
        self.line(f"for b in nl.affine_range({depth}):")
        self.line(f"    {t}[b] = nl.load({x}[b])")
        return self.pick([f"{t}[{at}]", f"{t}[{at}, :, :]"])

    def _tile_loop(self, values, dtype):
        rows, columns = values.shape
        width = self.between(1, columns)
        trips = -(-columns // width)
        x = self.hbm(values, dtype)
        t = self.let("t", f"nl.ndarray(({rows}, {columns}), dtype={dtype.text}, buffer=nl.sbuf)")
        i, j = grid((rows, width))
        self.line(f"for c in nl.affine_range({trips}):")
        self.line(f"    at = {width} * c + {j}")
        mask = f", mask=at < {columns}" if trips * width > columns else ""
        self.line(f"    {t}[{i}, at] = nl.load({x}[{i}, at]{mask})")
        return t

    def operand(self, dtype=None, shape=None, psum=False, low=None, high=None, plain=False):
        """A tile of random values."""
        dtype = dtype or self.float_dtype()
        shape = shape or self.shape()
        return self.tile(self.values(dtype, shape, low, high), dtype, psum, plain)

    # Results.

    def mask(self, shape, engine=True):
        """A mask over a tile of this shape: (text, boolean array), at least one element set. For an
        engine the partitions left start where an instruction may start; a DMA does not mind."""
        texts, active = [], np.ones(shape, bool)
        for axis in self.rng.permutation(len(shape))[:self.between(1, len(shape))]:
            for _ in range(self.pick([1, 1, 2])):
                index = np.arange(shape[axis]).reshape(
                    [-1 if k == axis else 1 for k in range(len(shape))])
                scale, shift = self.pick([(1, 0), (1, 0), (1, 0), (2, 1), (3, -2), (-1, 5)])
                name = grid(shape)[axis]
                left = name if (scale, shift) == (1, 0) else f"{scale} * {name} + {shift}"
                limit = scale * self.between(0, shape[axis] - 1) + shift + self.between(0, 1)
                symbol, test = self.pick([("<", np.less), ("<=", np.less_equal),
                                          (">", np.greater), (">=", np.greater_equal)])
                chosen = active & test(scale * index + shift, limit)
                if not chosen.any() or (engine and axis == 0 and not startable(chosen)):
                    continue
                active = chosen
                if self.chance(0.2):
                    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[symbol]
                    texts.append(f"({limit} {flipped} {left})")
                else:
                    texts.append(f"({left} {symbol} {limit})")
        if not texts:
            texts = [f"({grid(shape)[0]} < {shape[0]})"]
        text = " & ".join(texts)
        return (text[1:-1] if len(texts) == 1 and self.chance(0.5) else text), active

    def result(self, call, value, dtype, bound=0.0, psum=False, maskable=True, new=True):
        """Uses a call (text with place for `{}`, ", mask=..." or nothing) and checks its result:
        taken as a new tile, or written into a (strided, masked) part of an existing one. psum: the
        destination may lie in PSUM."""
        value = np.asarray(value, np.float64)
        bound = np.broadcast_to(np.asarray(bound, np.float64), value.shape)
        extra, active = "", np.ones(value.shape, bool)
        if maskable and self.chance(0.3):
            text, active = self.mask(value.shape)
            extra = f", mask={text}"
        call = call.replace("{}", extra)
        if new and self.chance(0.5):
            r = self.let("r", call)
            written = None if active.all() else active
            if extra:
                y = self.output(value.shape, f"{r}.dtype", Expected(value, dtype, bound, written))
                self.line(f"nl.store({self.index(y, value.shape)}, "
                          f"value={self.index(r, value.shape)}{extra})")
            else:
                self.store(r, value, dtype, bound, dtype_text=f"{r}.dtype")
            return
        where, place, shape = self._destination(value.shape)
        fits = int(np.prod(shape[1:])) * max(dtype.size, 4) <= 2048
        in_psum = psum and fits and dtype in (F32, BF16) and self.chance(0.4)
        background = self.pick([0, 1, 2]) if dtype is not formats.BOOL else self.between(0, 1)
        d = self.let("d", f"nl.full({shape}, {background}, dtype={dtype.text}, "
                          f"buffer={'nl.psum' if in_psum else 'nl.sbuf'})")
        self.line(f"{d}{where} = {call}")
        full, slack = np.full(shape, float(background)), np.zeros(shape)
        full[place] = np.where(active, value, background)
        slack[place] = np.where(active, bound, 0.0)
        self.store(d, full, dtype, slack)

    def _destination(self, shape):
        """A part of a tile that takes a result: (index text, numpy index, shape of the tile)."""
        rows, *lead, columns = shape
        rest = [":"] * len(lead)
        kinds = ["whole", "whole", "columns", "columns"]
        if rows <= 64:
            kinds.append("rows")
        if len(shape) == 2:
            kinds.append("middle")
        kind = self.pick(kinds)
        if kind == "whole":
            text = self.pick(["[...]", f"[{', '.join([':', *rest, ':'])}]",
                              f"[{', '.join(grid(shape))}]"])
            return text, np.s_[...], tuple(shape)
        if kind == "rows":
            start = self.pick([0, 32, 64, 96] if rows <= 32 else [0, 64])
            text = self.pick([f"[{', '.join([f'{start}:{start + rows}', *rest, ':'])}]",
                              f"[{', '.join([f'{start} + {grid(shape)[0]}', *grid(shape)[1:]])}]"])
            total = self.between(start + rows, 128)
            return text, np.s_[start:start + rows], (total, *lead, columns)
        if kind == "middle":
            depth = self.between(1, 3)
            at = self.between(0, depth - 1)
            i, j = grid(shape)
            return self.pick([f"[:, {at}, :]", f"[{i}, {at}, {j}]"]), np.s_[:, at, :], \
                (rows, depth, columns)
        step, offset = self.between(1, 3), self.between(0, 3)
        return self.last_axis("", shape, offset, step), \
            np.s_[..., offset:offset + step * columns:step], \
            (rows, *lead, offset + step * columns)

    def index(self, name, shape):
        return f"{name}[{', '.join(grid(shape))}]"

    def output(self, shape, dtype_text, expected):
        y = f"y{len(self.outputs)}"
        self.line(f"{y} = nl.ndarray({tuple(shape)}, dtype={dtype_text}, buffer=nl.shared_hbm)")
        self.outputs.append((y, expected))
        return y

    def store_checked(self, text, shape, dtype, check):
        """Stores a tile whose elements are judged together."""
        y = self.output(shape, f"{text}.dtype", Expected(np.zeros(shape), dtype, check=check))
        self.line(f"nl.store({y}, {text})")

    def store(self, text, value, dtype, bound=0.0, dtype_text=None, plain=False):
        """Stores a whole tile in one of several ways."""
        value = np.asarray(value, np.float64)
        bound = np.broadcast_to(np.asarray(bound, np.float64), value.shape)
        shape = value.shape
        dtype_text = dtype_text or dtype.text
        kinds = ["plain", "index", "reversed", "spread"]
        if text.isidentifier():
            kinds += ["split", "masked"]
        kind = "plain" if plain else self.pick(kinds)
        if kind == "plain":
            y = self.output(shape, dtype_text, Expected(value, dtype, bound))
            self.line(f"nl.store({y}, {self.pick(['', 'value='])}{text})")
        elif kind == "index":
            y = self.output(shape, dtype_text, Expected(value, dtype, bound))
            self.line(f"nl.store({self.index(y, shape)}, value={text})")
        elif kind == "reversed":
            y = self.output(shape, dtype_text,
                            Expected(value[..., ::-1], dtype, bound[..., ::-1]))
            *lead, last = grid(shape)
            last = f"{shape[-1] - 1} - {last}"
            self.line(f"nl.store({y}[{', '.join([*lead, last])}], value={text})")
        elif kind == "spread":
            step, offset = self.between(1, 3), self.between(0, 3)
            wide = (*shape[:-1], offset + step * shape[-1])
            view = np.s_[..., offset:offset + step * shape[-1]:step]
            full, slack, written = np.zeros(wide), np.zeros(wide), np.zeros(wide, bool)
            full[view], slack[view], written[view] = value, bound, True
            y = self.output(wide, dtype_text, Expected(full, dtype, slack, written))
            self.line(f"nl.store({self.last_axis(y, shape, offset, step)}, value={text})")
        elif kind == "split":
            rows = shape[0]
            height = self.between(1, rows)
            y = self.output(shape, dtype_text, Expected(value, dtype, bound))
            first, *rest = grid(shape)
            self.line(f"for s in nl.affine_range({-(-rows // height)}):")
            self.line(f"    nl.store({self.index(y, shape)}, value={self.index(text, shape)}, "
                      f"mask=({first} >= {height} * s) & ({first} < {height} * s + {height}))")
        else:
            mask, active = self.mask(shape, engine=False)
            y = self.output(shape, dtype_text, Expected(value, dtype, bound, active))
            self.line(f"nl.store({self.index(y, shape)}, value={self.index(text, shape)}, "
                      f"mask={mask})")
