"""Index arithmetic, loops, launches and decorators."""
import numpy as np

from .formats import F32, I32
from .kernel import Expected, oracle


def _double(k, shape):
    """A small kernel body with a known result."""
    x = k.operand(F32, shape)
    k.store(k.let("r", f"nl.multiply({x.text}, 2.0)"), x.values * 2, F32)


@oracle("nl.arange", "nl.ds")
def indices(k, api):
    rows, columns = k.partitions(), k.between(2, 60)
    values = k.values(F32, (rows, columns))
    start = k.between(0, columns - 1)
    size = k.between(1, columns - start)
    t = k.let("t", f"nl.load({k.hbm(values, F32)})")
    if api == "nl.ds":
        text = k.pick([f"nl.ds({start}, {size})", f"nl.ds(start={start}, size={size})"])
        k.store(f"{t}[:, {text}]", values[:, start:start + size], F32)
        return
    i = f"nl.arange({rows})[:, None]"
    scale = k.between(1, 3)
    size = max(1, (columns - 1 - start) // scale + 1)
    j = k.pick([f"{start} + {scale} * nl.arange({size})[None, :]",
                f"nl.arange({size})[None, :] * {scale} - {-start}"])
    value = values[:, start:start + scale * size:scale]
    if scale == 1:
        j = k.pick([j, f"nl.arange({start}, {start + size})[None, :]"])
    k.store(f"{t}[{i}, {j}]", value[:, :size], F32)


@oracle("nl.affine_range", "nl.sequential_range", "nl.static_range")
def loops(k, api):
    trips, rows, width = k.between(1, 5), k.partitions(), k.between(1, 8)
    values = k.values(F32, (rows, trips * width))
    x = k.hbm(values, F32)
    kind = k.pick(["tiles", "sum"]) if api == "nl.affine_range" else \
        k.pick(["tiles", "carried", "range"])
    if kind == "tiles":
        y = k.output(values.shape, "nl.float32", Expected(F32.cast(values + values), F32))
        k.line(f"for i in {api}({trips}):")
        k.line(f"    t = nl.load({x}[:, nl.ds(i * {width}, {width})])")
        k.line(f"    nl.store({y}[:, i * {width}:(i + 1) * {width}], nl.add(t, t))")
    elif kind == "range":
        first = k.between(0, trips - 1)
        step = k.between(1, 2)
        used = list(range(first, trips, step))
        written = np.zeros(values.shape, bool)
        for i in used:
            written[:, i * width:(i + 1) * width] = True
        y = k.output(values.shape, "nl.float32", Expected(values, F32, 0.0, written))
        tail = f", {step}" if step > 1 or k.chance(0.3) else ""
        k.line(f"for i in {api}({first}, {trips}{tail}):")
        k.line(f"    t = nl.load({x}[:, nl.ds(i * {width}, {width})])")
        k.line(f"    nl.store({y}[:, nl.ds(i * {width}, {width})], t)")
    elif kind == "sum":
        total = np.zeros((rows, width))
        for i in range(trips):
            total = total + values[:, i * width:(i + 1) * width]
        s = k.let("s", f"nl.zeros(({rows}, {width}), dtype=nl.float32, buffer=nl.sbuf)")
        k.line(f"for i in {api}({trips}):")
        k.line(f"    {s} += nl.load({x}[:, nl.ds(i * {width}, {width})])")
        size = np.abs(values).reshape(rows, trips, width).sum(1)
        k.store(s, total, F32, trips * 2.0 ** -24 * size)
    else:
        state = np.zeros((rows, width))
        s = k.let("s", f"nl.zeros(({rows}, {width}), dtype=nl.float32, buffer=nl.sbuf)")
        k.line(f"for i in {api}({trips}):")
        k.line(f"    t = nl.load({x}[:, nl.ds(i * {width}, {width})])")
        k.line(f"    {s}[...] = nl.subtract(t, {s})")
        for i in range(trips):
            state = F32.cast(values[:, i * width:(i + 1) * width] - state)
        k.store(s, state, F32)


@oracle("nl.num_programs", "nl.program_id", "nl.program_ndim")
def programs(k, api):
    """A grid of programs, each of which handles its own tile."""
    k.grid = tuple(k.between(1, 3) for _ in range(k.between(1, 3)))
    shape = k.partitions(), k.columns()
    values = k.values(F32, (*k.grid, *shape))
    x = k.hbm(values, F32)
    axis = k.between(0, len(k.grid) - 1)
    if api == "nl.num_programs":
        text, number = k.pick([("nl.num_programs()", np.prod(k.grid)),
                               (f"nl.num_programs({axis})", k.grid[axis]),
                               (f"nl.num_programs(axes={axis})", k.grid[axis])])
        added = np.full(k.grid, float(number))
    elif api == "nl.program_ndim":
        text, added = "nl.program_ndim()", np.full(k.grid, float(len(k.grid)))
    else:
        text, added = f"nl.program_id({axis})", np.indices(k.grid)[axis].astype(float)
    y = k.output(values.shape, "nl.float32",
                 Expected(F32.cast(values + added[..., None, None]), F32))
    names = ", ".join(k.let("i", f"nl.program_id({a})") for a in range(len(k.grid)))
    k.line(f"t = nl.load({x}[{names}])")
    k.line(f"nl.store({y}[{names}], nl.add(t, {text}, dtype=nl.float32))")


@oracle("nl.num_programs", "nl.program_ndim")
def one_program(k, api):
    """A launch without a grid is one program; whether it counts as one axis is not said."""
    k.line("assert nl.num_programs() == 1" if api == "nl.num_programs"
           else "assert nl.program_ndim() <= 1")
    _double(k, (k.partitions(), k.columns()))


@oracle("nl.program_id")
def rows_of_programs(k):
    """Programs that cover a tensor's rows, the last one masked."""
    rows, height = k.between(2, 300), k.pick([16, 32, 64, 128])
    columns = k.columns()
    k.grid = (-(-rows // height),)
    values = k.values(F32, (rows, columns))
    x = k.hbm(values, F32)
    y = k.output(values.shape, "nl.float32", Expected(-values, F32))
    k.line(f"i = nl.program_id({k.pick(['0', 'axis=0'])}) * {height} + nl.arange({height})[:, None]")
    k.line(f"j = nl.arange({columns})[None, :]")
    k.line(f"t = nl.load({x}[i, j], mask=i < {rows})")
    k.line(f"nl.store({y}[i, j], value=nl.negative(t, mask=i < {rows}), mask=i < {rows})")


@oracle("nl.all_reduce")
def all_reduce(k):
    """Over the one program of a launch without a grid."""
    x = k.operand(k.float_dtype())
    k.store(k.let("r", f"nl.all_reduce({x.text}, op={k.pick(['np.add', 'nl.add', 'np.max'])}, "
                       f"program_axes={k.pick(['0', '[0]', '(0,)'])})"), x.values, x.dtype)


@oracle("nisa.get_nc_version")
def get_nc_version(k):
    k.core_version = k.pick([2, 3])
    k.line(f"assert nisa.get_nc_version() == nisa.nc_version.gen{k.core_version}")
    _double(k, (k.partitions(), k.columns()))


@oracle("nl.device_print")
def device_print(k):
    x = k.operand(k.pick([F32, I32]))
    k.line(f"nl.device_print('value:', {x.text})")
    k.store(k.let("c", f"nl.copy({x.text})"), x.values, x.dtype)


@oracle("nki.jit", "nki.trace", "nki.benchmark", "nki.profile", "nki.baremetal")
def decorators(k, api):
    options = {"nki.jit": ["", "(mode='simulation')", "(platform_target='trn1')"],
               "nki.trace": [""],
               "nki.benchmark": ["(warmup=2, iters=3)", "(save_neff_name='file.neff')"],
               "nki.profile": ["(working_directory='.')", "(profile_nth=2)", ""],
               "nki.baremetal": ["", "(save_neff_name='file.neff')"]}[api]
    k.decorator = f"@{api}{k.pick(options)}"
    _double(k, (k.partitions(), k.columns()))
