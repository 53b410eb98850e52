"""Elementwise functions, operators and selections."""
import numpy as np

from . import formats
from .formats import BF16, BOOL, F16, F32, FLOATS, I32, INTEGERS, U8, f32, of_scalar, promote
from .functions import (ALU, ARITHMETIC, BITWISE, COMPARISONS, EXACT_ALU, LOGICAL, UNARY)
from .kernel import Tile, oracle


def _out(k, default, choices=None):
    """An output dtype: (", dtype=..." or nothing, the dtype)."""
    if k.chance(0.65):
        return "", default
    dtype = k.pick(choices or [F32, F32, BF16, F16, *FLOATS, I32])
    return f", dtype={k.dtype_text(dtype)}", dtype


def _snap(k, values, dtype):
    """Coarse values, so that comparisons meet equality and logic meets zero."""
    return dtype.cast(np.rint(values * 2) / 2) if k.chance(0.7) else values


@oracle(*[f"nl.{name}" for name in UNARY if name != "copy"])
def unary(k, api):
    function = UNARY[api[3:]]
    dtype = k.float_dtype() if k.chance(0.9) else k.pick(INTEGERS)
    low, high = function.low, function.high
    if dtype.is_integer:
        low = max(low, 1) if low > 0 else low
    x = k.operand(dtype, low=low, high=high, psum=k.chance(0.15) and dtype in (F32, BF16))
    value, bound = function.of(x.engine.astype(np.float64))
    text, out = _out(k, dtype)
    k.result(f"{api}({x.text}{text}{{}})", value, out, bound, psum=True)


@oracle("nisa.reciprocal")
def reciprocal(k):
    x = k.operand(low=0.125, high=20, psum=k.chance(0.2))
    value, bound = UNARY["reciprocal"].of(x.engine.astype(np.float64))
    text, out = _out(k, x.dtype)
    k.result(f"nisa.reciprocal({k.pick(['', 'data='])}{x.text}{text}{{}})", value, out, bound,
             psum=True)


@oracle("nl.invert", "nl.logical_not")
def inversions(k, api):
    if api == "nl.invert":
        dtype = k.pick(INTEGERS)
        x = k.operand(dtype, low=dtype.low, high=dtype.high)
        value = np.invert(x.values.astype(np.int64).astype(dtype.code))
        k.result(f"nl.invert({x.text}{{}})", value, dtype)
        return
    dtype = k.pick([F32, BF16, I32, U8])
    x = k.tile(_snap(k, k.values(dtype, k.shape(), -2, 2), dtype), dtype)
    text, out = _out(k, BOOL, [F32, U8, BF16])
    k.result(f"nl.logical_not({x.text}{text}{{}})", x.values == 0, out)


def _broadcast_pair(k, draw, dtypes):
    """Two operands that broadcast: same shapes, a vector per partition, one row, a scalar."""
    rows, columns = shape = (k.partitions(), k.columns())
    kind = k.pick(["same", "same", "same", "vector", "row", "scalar", "scalar", "3d"])
    if kind == "3d":
        shape = k.shape(3)
    a = k.tile(draw(dtypes[0], shape), dtypes[0])
    if kind == "scalar":
        scalar = k.pick([float(draw(F32, ())), int(draw(I32, ()))])
        scalar = round(scalar, 3)
        b = Tile(repr(scalar), np.float64(f32(scalar)), of_scalar(scalar))
        if k.chance(0.15):  # a scalar whose type is given
            typed = k.pick([F16, F32])
            value = typed.cast(scalar)
            b = Tile(f"np.{typed.name}({scalar!r})", np.float64(value), typed)
    else:
        other = {"same": shape, "3d": shape, "vector": (rows, 1), "row": (1, columns)}[kind]
        b = k.tile(draw(dtypes[1], other), dtypes[1])
    return (b, a) if k.chance(0.3) else (a, b)


@oracle(*[f"nl.{name}" for name in ARITHMETIC])
def arithmetic(k, api):
    operator = ARITHMETIC[api[3:]]
    integers = k.chance(0.2) and api not in ("nl.divide", "nl.power")
    pool = INTEGERS if integers else FLOATS
    first = F32 if k.chance(0.3) and not integers else k.pick(pool)
    second = first if k.chance(0.6) else k.pick(pool if k.chance(0.8) else [F32, I32])

    def draw(dtype, shape):
        if dtype.is_integer:
            # Products and sums stay inside 8 bits: what an overflowing cast does is not documented.
            return k.values(dtype, shape, max(operator.low, 1 if operator.low > 0 else -7), 7)
        return k.values(dtype, shape, operator.low, operator.high)

    a, b = _broadcast_pair(k, draw, (first, second))
    value, bound = operator.of(*np.broadcast_arrays(a.engine, b.engine))
    default = promote(a.dtype, b.dtype)
    text, out = _out(k, default)
    if out.is_integer and not out.signed and value.min() < 0:
        text, out = ", dtype=nl.float32", F32
    k.result(f"{api}({a.text}, {b.text}{text}{{}})", value, out, bound, psum=True)


@oracle(*[f"nl.{name}" for name in {**COMPARISONS, **LOGICAL}])
def truths(k, api):
    operator = {**COMPARISONS, **LOGICAL}[api[3:]]
    pool = [F32, F32, BF16, F16, I32, U8, *FLOATS]
    first = k.pick(pool)
    second = first if k.chance(0.7) else k.pick(pool)

    def draw(dtype, shape):
        return dtype.cast(np.rint(k.values(dtype, shape, -2, 2) * 2) / 2)

    a, b = _broadcast_pair(k, draw, (first, second))
    value, _ = operator.of(*np.broadcast_arrays(a.engine, b.engine))
    text, out = _out(k, BOOL, [F32, U8, BF16, I32])
    k.result(f"{api}({a.text}, {b.text}{text}{{}})", value, out)


def _integers(k, dtype, shape, shift=False, wide=True):
    """Values for bitwise work: any bits; small and not negative for shifts, so that neither
    overflow nor the kind of right shift matters (the documentation contradicts itself there)."""
    if shift:
        return k.values(dtype, shape, 0, 15)
    return k.values(dtype, shape, dtype.low if wide else 0, dtype.high if wide else 100)


def _bitwise(name, a, b):
    return BITWISE[name](a.astype(np.int64), b.astype(np.int64)).astype(np.float64)


@oracle(*[f"nl.{name}" for name in BITWISE])
def bitwise(k, api):
    name = api[3:]
    shift = "shift" in name
    dtype = k.pick(INTEGERS)
    a = k.tile(_integers(k, dtype, k.shape(), shift), dtype)
    if k.chance(0.3):
        number = k.between(0, 3)
        b = Tile(str(number), np.float64(number), I32)
        text = "" if dtype is I32 else f", dtype={k.dtype_text(dtype)}"
        if dtype.signed and not shift:
            a.values = np.abs(a.values)
            a = k.tile(np.minimum(a.values, dtype.high), dtype)
    else:
        values = k.values(dtype, a.shape, 0, 3) if shift else _integers(k, dtype, a.shape)
        b, text = k.tile(values, dtype), ""
    value = _bitwise(name, *np.broadcast_arrays(a.values, b.values))
    k.result(f"{api}({a.text}, {b.text}{text}{{}})", value, dtype)


@oracle("nl.where")
def where(k):
    shape = k.shape()
    condition_dtype = k.pick([BOOL, U8, F32, I32])
    condition = k.tile(np.abs(np.rint(k.values(condition_dtype, shape, -1, 1))), condition_dtype)
    x = k.operand(shape=shape)
    if k.chance(0.3):
        number = k.number()
        y = Tile(repr(number), np.float64(f32(number)), F32)
    else:
        y = k.operand(x.dtype if k.chance(0.6) else None, shape)
    text, out = _out(k, promote(x.dtype, y.dtype), FLOATS)
    value = np.where(condition.values != 0, x.values, y.values)
    k.result(f"nl.where({condition.text}, {x.text}, {y.text}{text}{{}})", value, out)


def op_text(k, name):
    return f"{k.pick(['nl', 'np'])}.{name}"


@oracle("nisa.tensor_tensor")
def tensor_tensor(k):
    shape = k.shape()
    if k.chance(0.15):
        name, dtype = k.pick(list(BITWISE)), k.pick(INTEGERS)
        shift = "shift" in name
        a = k.tile(_integers(k, dtype, shape, shift), dtype)
        b = k.tile(k.values(dtype, shape, 0, 3) if shift else _integers(k, dtype, shape), dtype)
        k.result(f"nisa.tensor_tensor({a.text}, {b.text}, op={op_text(k, name)}{{}})",
                 _bitwise(name, a.values, b.values), dtype)
        return
    if k.chance(0.1):  # 32-bit integers, exactly: GpSimd
        name = k.pick(["add", "subtract", "multiply"])
        limit = 40000 if name == "multiply" else 2 ** 30 - 1
        a, b = (k.tile(k.values(I32, shape, -limit, limit), I32) for _ in range(2))
        value = getattr(np, name)(a.values.astype(np.int64), b.values.astype(np.int64))
        engine = k.pick(["", ", engine=nisa.gpsimd_engine"])
        k.result(f"nisa.tensor_tensor({a.text}, {b.text}, {op_text(k, name)}{engine}{{}})", value,
                 I32)
        return
    name = k.pick(list(ALU))
    operator = ALU[name]
    in_psum = k.pick([None, None, 0, 1])
    dtypes = [F32 if in_psum is not None else k.float_dtype() for _ in range(2)]
    if name == "power":
        in_psum = None
    a, b = (k.tile(_snap(k, k.values(dtype, shape, operator.low, operator.high), dtype)
                   if operator.truth else k.values(dtype, shape, operator.low, operator.high),
                   dtype, psum=in_psum == i) for i, dtype in enumerate(dtypes))
    value, bound = operator.of(a.engine, b.engine)
    text, out = _out(k, promote(a.dtype, b.dtype))
    names = k.pick([("", ""), ("data1=", "data2=")])
    k.result(f"nisa.tensor_tensor({names[0]}{a.text}, {names[1]}{b.text}, op={op_text(k, name)}"
             f"{text}{{}})", value, out, bound, psum=name != "power")


def scalar_operand(k, operator, rows):
    """An immediate or a vector per partition: (text, float32 array that broadcasts)."""
    if k.chance(0.5):
        number = k.number(operator.low, operator.high)
        if operator.truth:
            number = round(number * 2) / 2
        return repr(number), f32(number)
    vector = k.operand(k.pick([F32, F32, BF16]), (rows, 1), low=operator.low, high=operator.high)
    return vector.text, vector.engine


def apply_reversed(operator, a, b, swap):
    return operator.of(b, a) if swap else operator.of(a, b)


@oracle("nisa.tensor_scalar")
def tensor_scalar(k):
    rows, columns = shape = k.partitions(), k.columns()
    if k.chance(0.15):
        name, dtype = k.pick(list(BITWISE)[:3]), k.pick(INTEGERS)
        a = k.tile(k.values(dtype, shape, 0, 100), dtype)
        number = k.between(0, 100)
        value = _bitwise(name, a.values, np.float64(number))
        k.result(f"nisa.tensor_scalar({a.text}, {op_text(k, name)}, {number}{{}})", value, dtype)
        return
    if k.chance(0.05):  # the GpSimd square root of "NKI Engine Selection"
        a = k.operand(F32, shape, low=0.1, high=50)
        value, bound = UNARY["rsqrt"].of(a.values)
        k.result(f"nisa.tensor_scalar({a.text}, op0=nl.rsqrt, operand0=0.0{{}})", value, F32,
                 bound)
        return
    del columns
    name0 = k.pick(list(ALU if k.chance(0.3) else EXACT_ALU))
    operator = ALU[name0]
    data = k.operand(None if k.chance(0.8) else I32, shape, low=operator.low, high=operator.high,
                     psum=False)
    if k.chance(0.2) and data.dtype in (F32, BF16):
        data = k.tile(data.values, data.dtype, psum=True)
    operand0, value0 = scalar_operand(k, operator, rows)
    reverse0 = k.chance(0.3)
    value, bound = apply_reversed(operator, data.engine, np.broadcast_to(value0, shape), reverse0)
    text = f"op0={op_text(k, name0)}, operand0={operand0}"
    text += ", reverse0=True" if reverse0 else ""
    if operator.ulps == 0 and k.chance(0.5):
        name1 = k.pick(list(EXACT_ALU))
        operator = ALU[name1]
        operand1, value1 = scalar_operand(k, operator, rows)
        reverse1 = k.chance(0.3)
        value, bound = apply_reversed(operator, f32(value), np.broadcast_to(value1, shape),
                                      reverse1)
        text += f", op1={op_text(k, name1)}, operand1={operand1}"
        text += ", reverse1=True" if reverse1 else ""
    elif operator.ulps == 0 and k.chance(0.2):
        text += ", engine=nisa.vector_engine"
    cast, out = _out(k, data.dtype)
    if out.is_integer and (bound.any() or value.min() < out.low or value.max() > out.high):
        cast, out = ", dtype=nl.float32", F32
    k.result(f"nisa.tensor_scalar({k.pick(['', 'data='])}{data.text}, {text}{cast}{{}})", value,
             out, bound, psum=name0 != "power")


@oracle("nisa.scalar_tensor_tensor")
def scalar_tensor_tensor(k):
    rows, columns = shape = k.partitions(), k.columns()
    del columns
    name0, name1 = k.pick(list(EXACT_ALU)), k.pick(list(EXACT_ALU))
    in_psum = k.pick([None, None, 0, 1])
    dtypes = [F32 if in_psum is not None else k.float_dtype() for _ in range(2)]
    data = k.operand(dtypes[0], shape, low=-4, high=4, psum=in_psum == 0)
    other = k.operand(dtypes[1], shape, low=-4, high=4, psum=in_psum == 1)
    operand0, value0 = scalar_operand(k, ALU[name0], rows)
    reverse0, reverse1 = k.chance(0.3), k.chance(0.3)
    value, _ = apply_reversed(ALU[name0], data.engine, np.broadcast_to(value0, shape), reverse0)
    value, bound = apply_reversed(ALU[name1], f32(value), other.engine, reverse1)
    cast, out = _out(k, data.dtype, FLOATS)
    flags = (", reverse0=True" if reverse0 else "") + (", reverse1=True" if reverse1 else "")
    k.result(f"nisa.scalar_tensor_tensor(data={data.text}, op0={op_text(k, name0)}, "
             f"operand0={operand0}, op1={op_text(k, name1)}, operand1={other.text}{flags}{cast}"
             "{})", value, out, bound, psum=True)


def draw_activation(k, shape=None, reduce=False):
    """An activation: (call text up to the mask, value, bound, input dtype)."""
    names = [name for name, f in UNARY.items() if f.activation]
    if reduce:
        names = [name for name in names if name not in ("log", "copy")]
    name = k.pick(names)
    function = UNARY[name]
    shape = shape or k.shape()
    rows = shape[0]
    scale_kind = k.pick(["none", "scalar", "vector"])
    bias = k.chance(0.5) and name != "reciprocal"
    width = function.high - function.low
    # data * scale + bias stays where the function is documented.
    low, high = function.low, function.high
    if scale_kind != "none" or bias:
        low, high = low + 0.3 * width, high - 0.3 * width
    data = k.operand(None, shape, low=low, high=high, psum=False)
    if k.chance(0.2) and data.dtype in (F32, BF16):
        data = k.tile(data.values, data.dtype, psum=True)
    argument, slack = data.engine.astype(np.float64), np.zeros(shape)
    column = (rows,) + (1,) * (len(shape) - 1)
    text = ""
    # Values rounded to an 8-bit format may lie a little outside [low, high].
    reach = max(1.0, np.abs(argument).max() / max(abs(low), abs(high)))
    if scale_kind == "scalar":
        scale = k.number(0.8, 1.2 / reach if reach < 1.4 else 0.85)
        text += f", scale={scale!r}"
        argument = argument * np.float64(f32(scale))
        slack = slack + np.abs(argument) * 2.0 ** -23
    elif scale_kind == "vector":
        vector = k.operand(F32, (rows, 1), low=0.8, high=1.2)
        text += f", scale={vector.text}"
        argument = argument * vector.values.reshape(column)
        slack = slack + np.abs(argument) * 2.0 ** -23
    if bias:
        dtype = k.pick([F32, F32, BF16, F16])
        vector = k.operand(dtype, (rows, 1), low=-0.02 * width, high=0.02 * width)
        text += f", bias={vector.text}"
        argument = argument + vector.values.reshape(column)
        slack = slack + np.abs(argument) * 2.0 ** -23
    if function.low >= 0:
        argument = np.maximum(argument, 0.0)
    value, bound = function.of(argument, slack)
    if name == "sign":
        bound = np.where(np.abs(argument) <= slack, 2.0, 0.0)
    if name == "square":
        value = argument * argument
        bound = np.abs(argument) * slack * 2 + np.abs(value) * 2.0 ** -23
    op = f"np.{name}" if function.numpy and k.chance(0.3) else f"nl.{name}"
    return f"op={op}, data={data.text}{text}", value, bound, data.dtype


@oracle("nisa.activation")
def activation(k):
    text, value, bound, dtype = draw_activation(k)
    cast, out = _out(k, dtype, FLOATS)
    k.result(f"nisa.activation({text}{cast}{{}})", value, out, bound, psum=True)


@oracle("nisa.affine_select")
def affine_select(k):
    rows, columns = shape = k.partitions(), k.columns()
    dtype = k.pick([F32, F32, BF16, F16, *FLOATS, formats.I8, formats.U8, formats.I16,
                    formats.U16])
    data = k.operand(dtype, shape)
    p, f = np.arange(rows)[:, None], np.arange(columns)[None, :]
    a, b, c = k.pick([-2, -1, 0, 1, 1, 3]), k.pick([-1, 1, 1, 2]), k.between(-20, 20)
    symbol, test = k.pick([("<", np.less), ("<=", np.less_equal), (">", np.greater),
                           (">=", np.greater_equal), ("==", np.equal)])
    i, j = k.pick([(f"nl.arange({rows})[:, None]", f"nl.arange({columns})[None, :]"),
                   ("g.p", "g.x")])
    if i == "g.p":
        k.line(f"g = nl.mgrid[0:{rows}, 0:{columns}]")
    pred = k.pick([f"{a} * {i} + {b} * {j} + {c} {symbol} 0", f"{b} * {j} {symbol} {-a} * {i} - {c}"])
    chosen = np.broadcast_to(test(a * p + b * f + c, 0), shape)
    number = k.pick([0.0, 1.0, -3.0]) if dtype.is_float else float(k.between(0, 5))
    text, out = _out(k, dtype, FLOATS if dtype.is_float else [F32, dtype])
    if k.chance(0.1) and out.is_float:
        false, value_false = "nl.fp32.min", float(np.finfo(np.float32).min)
    else:
        false, value_false = repr(number), number
    value = np.where(chosen, data.values, value_false)
    k.result(f"nisa.affine_select(pred=({pred}), on_true_tile={data.text}, "
             f"on_false_value={false}{text}{{}})", value, out)


@oracle("nisa.tensor_copy_predicated")
def tensor_copy_predicated(k):
    shape = k.shape()
    dtype = k.pick([F32, F32, BF16, F16, I32, U8])
    predicate_dtype = k.pick([formats.U8, formats.U16, formats.U32])
    predicate = k.tile(k.values(predicate_dtype, shape, 0, 2), predicate_dtype)
    old = k.values(dtype, shape)
    dst = k.let("d", f"nl.copy({k.tile(old, dtype).text})")
    scalar = k.chance(0.2)
    if scalar:
        number = k.number() if dtype.is_float else k.between(0, 9)
        text, new = repr(number), np.full(shape, dtype.cast(f32(number)))
    else:
        src = k.operand(dtype, shape, psum=dtype is F32 and k.chance(0.2))
        text, new = src.text, src.values
    chosen = predicate.values != 0
    flags = ""
    if k.chance(0.3):
        flags, chosen = ", reverse_pred=True", ~chosen
    active = np.ones(shape, bool)
    if k.chance(0.2):
        mask, active = k.mask(shape)
        flags += f", mask={mask}"
    k.line(f"nisa.tensor_copy_predicated(src={text}, dst={k.whole(dst, shape)}, "
           f"predicate={predicate.text}{flags})")
    k.store(dst, np.where(chosen & active, new, old), dtype)
