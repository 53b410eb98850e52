"""Reductions, scans and statistics."""
import numpy as np

from . import formats
from .elementwise import _out, apply_reversed, draw_activation, op_text, scalar_operand
from .formats import BF16, BOOL, F16, F32, FLOATS, I32, INTEGERS, f32
from .functions import ALU, EXACT_ALU, ULP
from .kernel import Expected, oracle

UNIT = ULP / 2


def reduce_values(name, values, axes, keepdims=True):
    """(value, bound) of a reduction in float32, any order of additions."""
    count = int(np.prod([values.shape[a] for a in axes]))
    wide = values.astype(np.float64)
    if name in ("add", "sum"):
        value = wide.sum(axes, keepdims=keepdims)
        return value, count * UNIT * np.abs(wide).sum(axes, keepdims=keepdims)
    if name in ("multiply", "prod"):
        value = wide.prod(axes, keepdims=keepdims)
        return value, 1.1 * count * UNIT * np.abs(value) + 1e-37
    value = {"maximum": np.max, "max": np.max, "minimum": np.min, "min": np.min,
             "logical_and": lambda v, a, keepdims: np.all(v != 0, a, keepdims=keepdims),
             "logical_or": lambda v, a, keepdims: np.any(v != 0, a, keepdims=keepdims),
             }[name](wide, axes, keepdims=keepdims).astype(np.float64)
    return value, np.zeros(value.shape)


def _axes(k, rank):
    """Trailing axes, as the documentation wants them, and their text."""
    first = k.between(1, rank - 1)
    axes = tuple(range(first, rank))
    if len(axes) == 1 and k.chance(0.4):
        return axes, str(axes[0])
    return axes, str(list(axes)) if k.chance(0.6) else str(axes)


def _small(k, name, dtype, shape):
    """Operand values; products stay in range."""
    if name in ("multiply", "prod"):
        return k.values(dtype, shape, 0.5, 1.5) if dtype.is_float else k.values(dtype, shape, 1, 1)
    if dtype.is_integer:
        return k.values(dtype, shape, -2, 2)
    return k.values(dtype, shape)


def reduced(k, call, value, out, bound, shape, axes, keepdims, maskable=False):
    """Checks a reduction. Without keepdims the reduced axes are gone; a tile keeps at least one
    free axis, which the examples write as a column."""
    value, bound = np.asarray(value, np.float64), np.asarray(bound, np.float64)
    if not keepdims:
        kept = tuple(n for a, n in enumerate(shape) if a not in axes)
        kept = kept if len(kept) > 1 else (*kept, 1)
        value, bound = value.reshape(kept), bound.reshape(kept)
        if k.chance(0.5) or kept[1:] == (1,):
            r = k.let("r", call.replace("{}", ""))
            y = k.output(kept, out.text, Expected(value, out, bound))
            k.line(f"nl.store({k.index(y, kept)}, value={r})")
            return
    k.result(call, value, out, bound, maskable=maskable)


@oracle("nl.sum", "nl.max", "nl.min", "nl.prod")
def reductions(k, api):
    name = api[3:]
    shape = k.shape(k.pick([2, 2, 3, 4]))
    dtype = k.float_dtype() if k.chance(0.8) else k.pick(INTEGERS)
    x = k.tile(_small(k, name, dtype, shape), dtype)
    axes, text = _axes(k, len(shape))
    value, bound = reduce_values(name, x.engine, axes)
    cast, out = _out(k, dtype, [F32, F32, BF16, F16])
    keepdims = k.chance(0.6)
    keep = ", keepdims=True" if keepdims else ""
    if out.is_integer and (value.min() < out.low or value.max() > out.high):
        cast, out = ", dtype=nl.float32", F32
    reduced(k, f"{api}({x.text}, {k.pick(['', 'axis='])}{text}{keep}{cast}{{}})", value, out, bound,
            shape, axes, keepdims)


@oracle("nl.sum", "nl.max", "nl.min", "nisa.tensor_reduce")
def masked_reductions(k, api):
    """A mask over the tile that is read: only its active elements are reduced."""
    name = {"nl.sum": "add", "nl.max": "maximum", "nl.min": "minimum"}.get(
        api, k.pick(["add", "maximum", "minimum"]))
    rows, columns = k.partitions(), k.columns()
    x = k.tile(k.values(F32, (rows, columns)), F32)
    p, f = k.between(1, rows), k.between(1, columns)
    first = k.between(0, f - 1)
    i, j = f"nl.arange({rows})[:, None]", f"nl.arange({columns})[None, :]"
    mask = f"({i} < {p}) & ({j} < {f})" + (f" & ({j} >= {first})" if first else "")
    value, bound = reduce_values(name, x.engine[:p, first:f], (1,))
    full, slack = np.full((rows, 1), 7.0), np.zeros((rows, 1))
    full[:p], slack[:p] = value, bound
    d = k.let("d", f"nl.full(({rows}, 1), 7.0, dtype=nl.float32)")
    call = f"{api}({x.text}, axis=[1], keepdims=True, mask={mask})" if api != "nisa.tensor_reduce" \
        else f"nisa.tensor_reduce({op_text(k, name)}, {x.text}, axis=[1], mask={mask})"
    k.line(f"{d}[...] = {call}")
    k.store(d, full, F32, slack)


@oracle("nl.mean", "nl.var", "nl.all")
def averages(k, api):
    shape = k.shape(k.pick([2, 2, 3]))
    dtype = k.float_dtype()
    if api == "nl.all":
        dtype = k.pick([F32, BF16, I32, formats.U8, BOOL])
    elif api == "nl.mean" and k.chance(0.2):
        dtype = k.pick(INTEGERS)
    values = k.values(dtype, shape)
    if api == "nl.all":
        values = np.where(k.data.random(shape) < 0.1, 0.0, np.where(values == 0, 1.0, values))
    x = k.tile(values, dtype)
    axes, text = _axes(k, len(shape))
    wide = x.engine.astype(np.float64)
    count = int(np.prod([shape[a] for a in axes]))
    mean = wide.mean(axes, keepdims=True)
    total = np.abs(wide).mean(axes, keepdims=True)
    if api == "nl.mean":
        value, bound = mean, (count + 3) * UNIT * total
        # "float32 intermediate and return values are used for integer inputs"
        default = F32 if not dtype.is_float else dtype
    elif api == "nl.var":
        value = wide.var(axes, keepdims=True)
        squares = ((np.abs(wide) + total) ** 2).mean(axes, keepdims=True)
        bound, default = 4 * (count + 6) * UNIT * squares, dtype
    else:
        value, default = np.all(wide != 0, axes, keepdims=True).astype(np.float64), BOOL
        bound = np.zeros(value.shape)
    cast, out = _out(k, default, [F32, BF16, F16])
    keepdims = api == "nl.mean" and k.chance(0.5)
    keep = ", keepdims=True" if keepdims else ""
    reduced(k, f"{api}({x.text}, axis={text}{keep}{cast}{{}})", value, out, bound, shape, axes,
            keepdims)


@oracle("nl.softmax")
def softmax(k):
    shape = k.shape(k.pick([2, 2, 3]))
    x = k.operand(F32, shape)
    axes, text = _axes(k, len(shape))
    wide = x.engine.astype(np.float64)
    shifted = wide - wide.max(axes, keepdims=True)
    value = np.exp(shifted)
    value /= value.sum(axes, keepdims=True)
    count = int(np.prod([shape[a] for a in axes]))
    reach = np.abs(shifted).max()
    k.result(f"nl.softmax({x.text}, axis={text}{{}})", value, F32,
             value * UNIT * (count + 16 + 2 * reach) + 1e-37, maskable=False)


@oracle("nl.rms_norm")
def rms_norm(k):
    rows, columns = shape = k.partitions(), k.columns()
    x = k.operand(F32, shape)
    w = k.operand(F32, k.pick([(1, columns), (rows, columns)]), plain=True)
    wide = x.engine.astype(np.float64)
    n = k.pick([columns, columns, 2 * columns])
    epsilon, text = 1e-6, ""
    if k.chance(0.5):
        epsilon = k.pick([1e-5, 0.5])
        text = f", epsilon={epsilon!r}"
    root = np.sqrt((wide ** 2).sum(1, keepdims=True) / n + epsilon)
    value = wide / root * w.values
    k.result(f"nl.rms_norm({x.text}, {w.text}, axis={k.pick(['1', '[1]'])}, n={n}{text}{{}})",
             value, F32, np.abs(value) * UNIT * (columns + 16), maskable=False)


@oracle("nisa.tensor_reduce")
def tensor_reduce(k):
    shape = k.shape(k.pick([2, 2, 3, 4]))
    axes, text = _axes(k, len(shape))
    if k.chance(0.15):
        name, dtype = k.pick(["bitwise_and", "bitwise_or", "bitwise_xor"]), k.pick(INTEGERS)
        x = k.operand(dtype, shape, low=dtype.low, high=dtype.high)
        value = getattr(np, name).reduce(x.values.astype(np.int64), axis=axes, keepdims=True)
        k.result(f"nisa.tensor_reduce({op_text(k, name)}, {x.text}, axis={text}, keepdims=True{{}})",
                 value, dtype, maskable=False)
        return
    name = k.pick(["add", "add", "maximum", "minimum", "multiply", "logical_and", "logical_or"])
    if name == "add" and k.chance(0.3):
        dtype = k.pick(INTEGERS)
    else:
        dtype = k.float_dtype()
    psum = dtype is F32 and k.chance(0.2)
    x = k.tile(_small(k, name, dtype, shape), dtype, psum=psum)
    value, bound = reduce_values(name, x.engine, axes)
    extra = ""
    if k.chance(0.2) and "logical" not in name:
        extra, value = ", negate=True", -value
    cast, out = _out(k, dtype, [F32, F32, BF16, F16])
    if out.is_integer and (value.min() < out.low or value.max() > out.high):
        cast, out = ", dtype=nl.float32", F32
    keepdims = k.chance(0.6)
    extra += ", keepdims=True" if keepdims else ""
    op = op_text(k, name) if name not in ("maximum", "minimum") or k.chance(0.5) else \
        f"{k.pick(['np', 'nl'])}.{name[:3]}"
    reduced(k, f"nisa.tensor_reduce({op}, {k.pick(['', 'data='])}{x.text}, axis={text}{extra}"
            f"{cast}{{}})", value, out, bound, shape, axes, keepdims)


@oracle("nisa.tensor_partition_reduce")
def tensor_partition_reduce(k):
    shape = k.shape(k.pick([2, 2, 3]))
    name = k.pick(["add", "add", "maximum", "bitwise_or", "bitwise_and"])
    if name.startswith("bitwise"):
        dtype = k.pick(INTEGERS)
        x = k.operand(dtype, shape, low=dtype.low, high=dtype.high)
        value = getattr(np, name).reduce(x.values.astype(np.int64), axis=0, keepdims=True)
        k.result(f"nisa.tensor_partition_reduce({op_text(k, name)}, {x.text}{{}})", value, dtype,
                 maskable=False)
        return
    x = k.operand(None, shape)
    value, bound = reduce_values(name, x.engine, (0,))
    cast, out = _out(k, x.dtype, FLOATS)
    op = op_text(k, name) if name == "add" or k.chance(0.5) else k.pick(["nl.max", "np.max"])
    k.result(f"nisa.tensor_partition_reduce({op}, {x.text}{cast}{{}})", value, out, bound,
             maskable=False)


def _result_column(k, rows, dtype=F32):
    return k.let("a", f"nl.ndarray(({rows}, 1), dtype={dtype.text}, buffer=nl.sbuf)")


@oracle("nisa.tensor_scalar_reduce")
def tensor_scalar_reduce(k):
    rows, columns = shape = k.partitions(), k.columns()
    del columns
    name = k.pick([n for n, op in EXACT_ALU.items() if not op.truth])
    data = k.operand(None, shape, low=-4, high=4)
    operand, operand_value = scalar_operand(k, ALU[name], rows)
    value, _ = apply_reversed(ALU[name], data.engine, np.broadcast_to(operand_value, shape), False)
    reduce_op = k.pick(["add", "maximum", "minimum"])
    total, bound = reduce_values(reduce_op, value, (1,))
    accumulator = _result_column(k, rows)
    cast, out = _out(k, data.dtype, FLOATS)
    if out is not F32 and data.dtype is not F32:  # whether the reduction sees the cast is not said
        cast, out = ", dtype=nl.float32", F32
    r = k.let("r", f"nisa.tensor_scalar_reduce(data={data.text}, op0={op_text(k, name)}, "
                   f"operand0={operand}, reduce_op={op_text(k, reduce_op)}, "
                   f"reduce_res={accumulator}{k.pick(['', '[...]'])}{cast})")
    k.store(r, value, out)
    if out is F32:
        k.store(accumulator, total, F32, bound)


def _activation_reduction(k):
    rows, columns = shape = k.partitions(), k.columns()
    del columns
    text, value, bound, dtype = draw_activation(k, shape, reduce=True)
    cast = "" if dtype is F32 else ", dtype=nl.float32"
    total, slack = reduce_values("add", value, (1,))
    slack = slack + np.broadcast_to(bound, shape).sum(1, keepdims=True) * 1.01
    return shape, rows, text + cast, value, bound, total, slack


@oracle("nisa.activation_reduce")
def activation_reduce(k):
    _, rows, text, value, bound, total, slack = _activation_reduction(k)
    accumulator = _result_column(k, rows)
    r = k.let("r", f"nisa.activation_reduce({text}, reduce_op={op_text(k, 'add')}, "
                   f"reduce_res={accumulator}{k.pick(['', '[...]', '[:, 0:1]'])})")
    k.store(r, value, F32, bound)
    k.store(accumulator, total, F32, slack)


@oracle("nisa.activation")
def activation_accumulators(k):
    """The reduce_cmd registers: reset, accumulate over calls, read out at the end."""
    rows, columns = shape = k.partitions(), k.columns()
    calls = k.between(1, 3)
    total, slack = np.zeros((rows, 1)), np.zeros((rows, 1))
    accumulator = _result_column(k, rows)
    for call in range(calls):
        text, value, bound, dtype = draw_activation(k, shape, reduce=True)
        cast = "" if dtype is F32 else ", dtype=nl.float32"
        added, error = reduce_values("add", value, (1,))
        total = total + added
        slack = slack + error + np.broadcast_to(bound, shape).sum(1, keepdims=True) * 1.01
        command = "reset_reduce" if call == 0 else "reduce"
        read = f", reduce_res={accumulator}" if call == calls - 1 else ""
        r = k.let("r", f"nisa.activation({text}, reduce_op={op_text(k, 'add')}, "
                       f"reduce_cmd=nisa.reduce_cmd.{command}{read}{cast})")
        if call == calls - 1:
            k.store(r, value, F32, bound)
    del columns
    k.store(accumulator, total, F32, slack + calls * UNIT * np.abs(total))


@oracle("nisa.tensor_tensor_scan")
def tensor_tensor_scan(k):
    rows, columns = shape = k.partitions(), k.columns()
    op0, op1 = k.pick(["multiply", "add", "maximum", "minimum", "subtract"]), \
        k.pick(["add", "maximum", "minimum", "subtract", "multiply"])
    in_psum = k.pick([None, None, 0, 1])
    dtypes = [F32 if in_psum is not None else k.pick([F32, F32, BF16, F16]) for _ in range(2)]
    a, b = (k.operand(dtype, shape, low=-1, high=1, psum=in_psum == i)
            for i, dtype in enumerate(dtypes))
    if k.chance(0.5):
        number = k.number(-1, 1)
        initial, state = repr(number), np.full(rows, f32(number))
    else:
        vector = k.operand(F32, (rows, 1), low=-1, high=1)
        initial, state = vector.text, vector.engine[:, 0]
    reverse0, reverse1 = k.chance(0.25), k.chance(0.25)
    value = np.zeros(shape, np.float32)
    for i in range(columns):
        state = f32(apply_reversed(ALU[op0], a.engine[:, i], state, reverse0)[0])
        state = f32(apply_reversed(ALU[op1], state, b.engine[:, i], reverse1)[0])
        value[:, i] = state
    cast, out = _out(k, formats.promote(a.dtype, b.dtype), [F32, BF16, F16])
    flags = (", reverse0=True" if reverse0 else "") + (", reverse1=True" if reverse1 else "")
    if k.chance(0.25):  # a masked scan ends early
        p, f = k.between(1, rows), k.between(1, columns)
        flags += (f", mask=(nl.arange({rows})[:, None] < {p}) & "
                  f"(nl.arange({columns})[None, :] < {f})")
        d = k.let("d", f"nl.zeros({shape}, dtype={out.text})")
        k.line(f"{d}[...] = nisa.tensor_tensor_scan({a.text}, {b.text}, {initial}, "
               f"{op_text(k, op0)}, {op_text(k, op1)}{flags}{cast})")
        full = np.zeros(shape)
        full[:p, :f] = value[:p, :f]
        k.store(d, full, out)
        return
    k.result(f"nisa.tensor_tensor_scan({a.text}, {b.text}, initial={initial}, "
             f"op0={op_text(k, op0)}, op1={op_text(k, op1)}{flags}{cast}{{}})", value, out,
             psum=True, maskable=False)


def _statistics(values):
    """bn_stats of one partition's elements, even and odd apart: values and bounds."""
    stats, bounds = [], []
    for part in (values[:, 0::2], values[:, 1::2]):
        n = part.shape[1]
        size = np.abs(part).mean(1) if n else np.zeros(len(part))
        mean = part.mean(1) if n else np.zeros(len(part))
        m2 = ((part - mean[:, None]) ** 2).sum(1)
        slack = 4 * (n + 6) * UNIT * ((np.abs(part) + size[:, None]) ** 2).sum(1)
        stats += [np.full(len(part), float(n)), mean, m2]
        bounds += [np.zeros(len(part)), (n + 3) * UNIT * size, slack]
    return np.stack(stats, 1), np.stack(bounds, 1)


@oracle("nisa.bn_stats")
def bn_stats(k):
    shape = k.partitions(), k.between(2, 64) if k.chance(0.9) else 512
    x = k.operand(k.pick([F32, F32, BF16, F16]), shape)
    value, bound = _statistics(x.engine.astype(np.float64))
    cast, out = ("", x.dtype) if x.dtype is F32 else (", dtype=nl.float32", F32)
    if x.dtype is not F32 and k.chance(0.3):
        cast, out = "", x.dtype
    k.result(f"nisa.bn_stats({x.text}{cast}{{}})", value, out, bound, maskable=False)


@oracle("nisa.bn_aggr")
def bn_aggr(k):
    rows, groups = k.partitions(), k.between(1, 4)
    stats = np.zeros((rows, 3 * groups))
    samples = []
    for g in range(groups):
        part = k.values(F32, (rows, k.between(1, 9)))
        samples.append(part)
        mean = part.mean(1)
        stats[:, 3 * g:3 * g + 3] = np.stack(
            [np.full(rows, float(part.shape[1])), mean, ((part - mean[:, None]) ** 2).sum(1)], 1)
    stats = F32.cast(stats)
    x = k.tile(stats, F32)
    count, mean, m2 = (stats[:, i::3] for i in range(3))
    n = count.sum(1)
    total = (count * mean).sum(1) / n
    variance = (m2 + count * (mean - total[:, None]) ** 2).sum(1) / n
    size = (count * np.abs(mean)).sum(1) / n
    spread = (m2 + count * (np.abs(mean) + size[:, None]) ** 2).sum(1) / n
    value = np.stack([total, variance], 1)
    bound = np.stack([8 * groups * UNIT * size, 16 * groups * UNIT * spread], 1)
    k.result(f"nisa.bn_aggr({x.text}{{}})", value, F32, bound + 1e-37, maskable=False)


@oracle("nisa.bn_aggr")
def bn_aggr_of_stats(k):
    """The documented pair: mean and variance of a tile."""
    rows, columns = k.partitions(), k.between(2, 64)
    x = k.operand(F32, (rows, columns))
    wide = x.values
    r = k.let("r", f"nisa.bn_aggr(nisa.bn_stats({x.text}))")
    size = np.abs(wide).mean(1)
    spread = ((np.abs(wide) + size[:, None]) ** 2).mean(1)
    value = np.stack([wide.mean(1), wide.var(1)], 1)
    k.store(r, value, F32, np.stack([4 * (columns + 8) * UNIT * size,
                                     8 * (columns + 16) * UNIT * spread], 1))


def distinct(k, shape, dtype):
    """Rows of distinct values."""
    rows, columns = shape[0], int(np.prod(shape[1:]))
    values = np.stack([k.data.permutation(columns) for _ in range(rows)]) - columns // 2
    return dtype.cast(values * 0.5 if dtype.is_float else values + columns // 2).reshape(shape)


@oracle("nisa.max8")
def max8(k):
    shape = k.pick([(k.partitions(), k.between(8, 60)), (k.partitions(), 4, k.between(2, 9))])
    dtype = k.pick([F32, F32, BF16, F16])
    values = k.values(dtype, shape)  # may hold equal values: they count one by one
    x = k.tile(values, dtype)
    value = -np.sort(-values.reshape(shape[0], -1), axis=1)[:, :8]
    cast, out = _out(k, dtype, [F32, BF16, F16])
    k.result(f"nisa.max8(src={x.text}{cast}{{}})", value, out, maskable=False)


def _eight(k, values):
    """Eight elements of each partition, any order."""
    flat = values.reshape(values.shape[0], -1)
    where = np.stack([k.data.permutation(flat.shape[1])[:8] for _ in range(len(flat))])
    return np.take_along_axis(flat, where, 1), where


@oracle("nisa.nc_find_index8")
def nc_find_index8(k):
    shape = k.pick([(k.partitions(), k.between(8, 60)), (k.partitions(), 3, k.between(3, 9))])
    dtype = k.pick([F32, F32, BF16, F16])
    values = distinct(k, shape, dtype)
    wanted, where = _eight(k, values)
    if dtype is BF16 or dtype is F16:  # exact: at most 60 halves
        assert np.array_equal(dtype.cast(values), values)
    data, vals = k.tile(values, dtype), k.tile(wanted, dtype)
    cast, out = k.pick([("", formats.U32), (", dtype=nl.uint16", formats.U16),
                        (", dtype=nl.uint32", formats.U32)])
    k.result(f"nisa.nc_find_index8(data={data.text}, vals={vals.text}{cast}{{}})", where, out,
             maskable=False)


@oracle("nisa.nc_match_replace8")
def nc_match_replace8(k):
    shape = k.pick([(k.partitions(), k.between(8, 60)), (k.partitions(), 3, k.between(3, 9))])
    values = k.values(F32, shape)
    if k.chance(0.3):
        values = np.rint(values)  # repeated values: the first occurrence not yet replaced
    wanted, _ = _eight(k, values)
    data, vals = k.tile(values, F32), k.tile(wanted, F32)
    imm = k.pick([0.0, -100.5, 3.0e38])
    flat, indices = values.reshape(shape[0], -1).copy(), np.zeros((shape[0], 8))
    for row, (line, eight) in enumerate(zip(flat, wanted)):
        for j, want in enumerate(eight):
            found = np.flatnonzero(line == want)
            indices[row, j] = found[0]
            line[found[0]] = F32.cast(imm)
    extra = ""
    if k.chance(0.5):
        index = k.let("i", f"nl.ndarray(({shape[0]}, 8), dtype=nl.uint32)")
        extra = f", dst_idx={index}{k.pick(['', '[...]'])}"
    r = k.let("r", f"nisa.nc_match_replace8(data={data.text}, vals={vals.text}, imm={imm!r}"
                   f"{extra})")
    k.store(r, flat.reshape(shape), F32)
    if extra:
        k.store(index, indices, formats.U32)


@oracle("nisa.select_reduce")
def select_reduce(k):
    rows, columns = shape = k.partitions(), k.columns()
    del columns
    dtype = k.pick([F32, F32, BF16, F16])
    predicate_dtype = k.pick([formats.U8, formats.I8, formats.U16, formats.I16])
    predicate = k.tile(np.abs(k.values(predicate_dtype, shape, 0, 1)), predicate_dtype)
    on_true = k.operand(dtype, shape)
    if k.chance(0.5):
        number = k.number()
        text, false = repr(number), np.full(shape, np.float64(f32(number)))
    else:
        vector = k.operand(F32, (rows, 1))
        text, false = vector.text, np.broadcast_to(vector.values, shape)
    chosen, extra = predicate.values != 0, ""
    if k.chance(0.3):
        chosen, extra = ~chosen, ", reverse_pred=True"
    value = np.where(chosen, on_true.values, false)
    d = k.let("d", f"nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)")
    reduce = k.chance(0.5)
    if reduce:
        column = _result_column(k, rows)
        extra += (f", reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res={column}, "
                  f"reduce_op={k.pick(['nl.max', 'np.max'])}")
    k.line(f"nisa.select_reduce(dst={d}, predicate={predicate.text}, on_true={on_true.text}, "
           f"on_false={text}{extra})")
    k.store(d, value, F32)
    if reduce:
        k.store(column, value.max(1, keepdims=True), F32)


@oracle("nisa.range_select")
def range_select(k):
    k.core_version = 3  # "Available only on NeuronCore-v3 and beyond"
    rows, columns = shape = k.partitions(), k.columns()
    x = k.operand(k.pick([F32, F32, BF16]), shape)
    compare = [("equal", np.equal), ("less", np.less), ("less_equal", np.less_equal),
               ("greater", np.greater), ("greater_equal", np.greater_equal)]
    (name0, test0), (name1, test1) = k.pick(compare), k.pick(compare)
    start = k.pick([0, 0, k.between(1, 50)])
    bounds = [k.tile(start + k.values(formats.I8, (rows, 1), -3, columns), F32) for _ in range(2)]
    index = start + np.arange(columns)[None, :]
    chosen = test0(index, bounds[0].values) & test1(index, bounds[1].values)
    lowest = float(np.finfo(np.float32).min)
    value = np.where(chosen, x.values, lowest)
    column = _result_column(k, rows)
    text = f", range_start={start}" if start or k.chance(0.3) else ""
    text += k.pick(["", ", on_false_value=nl.fp32.min"])
    reduce = k.chance(0.6)
    if reduce:
        text += (f", reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res={column}, "
                 f"reduce_op={k.pick(['np.max', 'np.amax', 'nl.max'])}")
    cast = "" if x.dtype is F32 else ", dtype=nl.float32"
    r = k.let("r", f"nisa.range_select(on_true_tile={x.text}, comp_op0={op_text(k, name0)}, "
                   f"comp_op1={op_text(k, name1)}, bound0={bounds[0].text}, "
                   f"bound1={bounds[1].text}{text}{cast})")
    k.store(r, value, F32)
    if reduce:
        k.store(column, value.max(1, keepdims=True), F32)


@oracle("nisa.sequence_bounds")
def sequence_bounds(k):
    n = k.between(1, 40)
    dtype = k.pick([F32, I32])
    ids = np.sort(k.data.integers(0, 5, n)) if k.chance(0.5) else \
        np.repeat(k.data.integers(0, 4, n), k.data.integers(1, 4, n))[:n]
    starts, ends = np.full(n, float(n)), np.full(n, -1.0)
    for i in range(n):
        if ids[i] != 0:
            starts[i] = starts[i - 1] if i > 0 and ids[i] == ids[i - 1] else i
    for i in reversed(range(n)):
        if ids[i] != 0:
            ends[i] = ends[i + 1] if i < n - 1 and ids[i] == ids[i + 1] else i + 1
    x = k.tile(ids[None, :].astype(np.float64), dtype)
    cast, out = k.pick([("", dtype), (", dtype=nl.float32", F32), (", dtype=nl.int32", I32)])
    k.result(f"nisa.sequence_bounds(segment_ids={x.text}{cast})", np.stack([starts, ends])[None],
             out, maskable=False)
