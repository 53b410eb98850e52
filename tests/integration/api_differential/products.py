"""Products and transposes of the Tensor Engine."""
import numpy as np

from .formats import BF16, E4M3, E5M2, F16, F32, TF32
from .functions import ULP
from .kernel import Expected, oracle

UNIT = ULP / 2
TENSOR_ENGINE = [F32, F32, BF16, F16, TF32, E4M3, E5M2]


def product(a, b):
    """(a.T @ b, bound) with float32 accumulation in any order."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a.T @ b, (a.shape[0] + 2) * UNIT * (np.abs(a).T @ np.abs(b))


@oracle("nisa.nc_matmul")
def nc_matmul(k):
    depth, m, n = k.partitions(), k.pick([1, 8, 33, 128]), k.pick([1, 7, 64, 200, 512])
    dtype = k.pick(TENSOR_ENGINE)
    a, b = (k.operand(dtype, (depth, size), low=-2, high=2) for size in (m, n))
    value, bound = product(a.values, b.values)
    kind = k.pick(["call", "accumulate", "names", "psum"])
    if kind == "accumulate":
        trips = k.between(2, 3)
        s = k.let("s", f"nl.zeros(({m}, {n}), dtype=nl.float32, buffer=nl.psum)")
        k.line(f"for i in nl.affine_range({trips}):")
        k.line(f"    {s} += nisa.nc_matmul({a.text}, {b.text})")
        k.store(s, trips * value, F32, trips * bound + trips * trips * UNIT * np.abs(value)
                + trips * bound)
        return
    text = f"nisa.nc_matmul({a.text}, {b.text})"
    if kind == "names":
        text = f"nisa.nc_matmul(stationary={a.text}, moving={b.text})"
    if kind == "psum":
        s = k.let("s", f"nl.ndarray(({m}, {n}), dtype=nl.float32, buffer=nl.psum)")
        k.line(f"{s}[...] = {text}")
        k.store(s, value, F32, bound)
        return
    k.store(k.let("r", text), value, F32, bound)


@oracle("nisa.nc_matmul")
def nc_matmul_integers(k):
    """Whole numbers: every partial sum is exact, in any order and with any split of float32."""
    depth, m, n = k.partitions(), k.between(1, 128), k.between(1, 100)
    dtype = k.pick(TENSOR_ENGINE)
    limit = 4 if dtype in (E4M3, E5M2) else 60
    a, b = (k.tile(np.rint(k.data.uniform(-limit, limit, (depth, size))), dtype)
            for size in (m, n))
    flags = ""
    if k.chance(0.3):
        b = k.tile((b.values > 0) * 1.0, dtype)
        flags = ", is_moving_onezero=True"
    k.store(k.let("r", f"nisa.nc_matmul({a.text}, {b.text}{flags})"), a.values.T @ b.values, F32)


@oracle("nisa.nc_matmul", "nl.matmul")
def masked_contraction(k, api):
    """A mask on the partitions of both operands cuts the contraction short."""
    depth, m, n = k.between(2, 128), k.between(1, 64), k.between(1, 64)
    active = k.between(1, depth)
    a, b = (k.tile(np.rint(k.data.uniform(-9, 9, (depth, size))), F32, plain=True)
            for size in (m, n))
    i, j = f"nl.arange({depth})[:, None]", "nl.arange({})[None, :]"
    text = f"{a.text}[{i}, {j.format(m)}], {b.text}[{i}, {j.format(n)}]"
    if not (a.text.isidentifier() and b.text.isidentifier()):
        text = f"{a.text}, {b.text}"
    extra = ", transpose_x=True" if api == "nl.matmul" else ""
    mask = k.pick([f"{i} < {active}", f"({i} <= {active - 1})"])
    k.store(k.let("r", f"{api}({text}{extra}, mask={mask})"),
            a.values[:active].T @ b.values[:active], F32)


@oracle("nisa.nc_matmul")
def tiled_array(k):
    """PE tiling changes where the product is computed, not what it is."""
    size = (k.pick([32, 64, 128]), k.pick([64, 128]))
    place = tuple(k.pick(range(0, 129 - n, 32 if n == 32 else 64)) for n in size)
    depth, m, n = k.between(1, size[0]), k.between(1, size[1]), k.between(1, 100)
    a, b = (k.tile(np.rint(k.data.uniform(-9, 9, (depth, cols))), BF16, plain=True)
            for cols in (m, n))
    k.store(k.let("r", f"nisa.nc_matmul({a.text}, {b.text}, tile_position={place}, "
                       f"tile_size={size})"), a.values.T @ b.values, F32)


@oracle("nl.matmul")
def matmul(k):
    depth, m, n = k.partitions(), k.pick([1, 8, 33, 128]), k.pick([1, 7, 64, 200, 512])
    dtype = k.pick(TENSOR_ENGINE[:4])
    transposed = k.chance(0.5)
    a = k.operand(dtype, (depth, m) if transposed else (m, depth), low=-2, high=2)
    b = k.operand(dtype, (depth, n), low=-2, high=2)
    value, bound = product(a.values if transposed else a.values.T, b.values)
    text = f"nl.matmul({a.text}, {b.text}{', transpose_x=True' if transposed else ''})"
    if k.chance(0.3):
        trips = k.between(2, 3)
        s = k.let("s", f"nl.zeros(({m}, {n}), dtype=nl.float32, buffer=nl.psum)")
        k.line(f"for i in nl.affine_range({trips}):")
        k.line(f"    {s} += {text}")
        k.store(s, trips * value, F32, 2 * trips * bound + trips * trips * UNIT * np.abs(value))
        return
    k.store(k.let("r", text), value, F32, bound)


@oracle("nisa.nc_transpose")
def nc_transpose(k):
    engine = k.pick(["", "tensor", "vector"])
    limit = 32 if engine == "vector" else 128
    rows, columns = k.between(1, limit), k.between(1, limit)
    dtype = k.pick([F32, F32, BF16, F16])
    shape = (rows, columns)
    if k.chance(0.3):
        columns += columns % 2
        shape = (rows, 2, columns // 2)
    x = k.operand(dtype, shape)
    text = f", engine=nisa.{engine}_engine" if engine else ""
    value = x.values.reshape(rows, columns).T
    if k.chance(0.3) and engine != "vector":
        s = k.let("s", f"nl.ndarray(({columns}, {rows}), dtype={dtype.text}, buffer=nl.psum)")
        k.line(f"{s}[...] = nisa.nc_transpose({x.text}{text})")
        k.store(k.let("c", f"nl.copy({s})"), value, dtype)
        return
    k.store(k.let("r", f"nisa.nc_transpose({x.text}{text})"), value, dtype)


@oracle("nisa.nc_transpose")
def masked_transpose(k):
    rows, columns = k.between(1, 32), k.between(1, 32)
    x = k.tile(k.values(F32, (rows, columns)), F32, plain=True)
    p, f = k.between(1, rows), k.between(1, columns)
    d = k.let("d", f"nl.zeros(({columns}, {rows}), dtype=nl.float32, buffer=nl.psum)")
    k.line(f"{d}[...] = nisa.nc_transpose({x.text}, mask=(nl.arange({rows})[:, None] < {p}) & "
           f"(nl.arange({columns})[None, :] < {f}))")
    value = np.zeros((columns, rows))
    value[:f, :p] = x.values[:p, :f].T
    k.store(k.let("c", f"nl.copy({d})"), value, F32)


@oracle("nl.transpose")
def transpose(k):
    x = k.operand(k.pick([F32, F32, BF16, F16]), (k.partitions(), k.between(1, 128)))
    k.store(k.let("r", f"nl.transpose({x.text})"), x.values.T, x.dtype)


@oracle("nl.loop_reduce")
def loop_reduce(k):
    trips, rows, columns = k.between(1, 4), k.partitions(), k.columns()
    values = k.values(F32, (trips, rows, columns))
    x = k.hbm(values, F32)
    name = k.pick(["add", "maximum", "minimum"])
    start = 0.0 if name == "add" else -100.0 if name == "maximum" else 100.0
    b = k.let("b", f"nl.full(({rows}, {columns}), {start}, dtype=nl.float32, buffer=nl.sbuf)")
    k.line(f"for i in nl.affine_range({trips}):")
    k.line(f"    a = nl.load({x}[i])")
    k.line(f"    {b}[...] = nl.loop_reduce(a, op=np.{name}, loop_indices=[i], dtype=nl.float32)")
    total = {"add": values.sum(0), "maximum": values.max(0), "minimum": values.min(0)}[name]
    bound = trips * UNIT * np.abs(values).sum(0) if name == "add" else 0.0
    y = k.output((rows, columns), "nl.float32", Expected(total, F32, bound + np.zeros_like(total)))
    k.line(f"nl.store({y}, {b})")
