"""Creation of tensors and movement of data: memories, casts, indirection, transposes."""
import numpy as np

from . import formats
from .elementwise import _out
from .formats import ALL, BF16, BOOL, F16, F32, FLOATS, I32, INTEGERS, U8, U16, U32
from .kernel import Expected, oracle

FILLS = [0, 1, 2, 0.5]


def _created(k, text, value, dtype):
    name = k.let("t", text)
    k.store(name, value, dtype)


@oracle("nl.zeros", "nl.ones", "nl.full", "nisa.memset")
def filled(k, api):
    dtype = k.pick(ALL)
    shape = k.shape(k.pick([2, 2, 3]))
    value = {"nl.zeros": 0.0, "nl.ones": 1.0}.get(api, k.pick(FILLS[:2] if not dtype.is_float
                                                              else FILLS))
    if dtype in (F32, BF16) and api in ("nl.full", "nisa.memset") and k.chance(0.3):
        value = k.number()
    number = "" if api in ("nl.zeros", "nl.ones") else f", {value!r}"
    par = f"(nl.par_dim({shape[0]}), {', '.join(map(str, shape[1:]))})"
    size = k.pick([str(shape), str(list(shape)), par])
    tail = "" if api == "nisa.memset" else k.pick(["", ", buffer=nl.sbuf", ", name='made'"])
    if api == "nisa.memset":
        tail = k.pick(["", ", engine=nisa.vector_engine", ", engine=nisa.gpsimd_engine"])
    if api == "nisa.memset":
        k.result(f"nisa.memset({size}{number}, dtype={k.dtype_text(dtype)}{tail}{{}})",
                 np.full(shape, dtype.cast(value)), dtype)
        return
    _created(k, f"{api}({size}{number}, dtype={k.dtype_text(dtype)}{tail})",
             np.full(shape, dtype.cast(value)), dtype)


@oracle("nl.zeros_like", "nl.empty_like")
def like(k, api):
    x = k.operand(k.any_dtype())
    dtype, text = x.dtype, ""
    if k.chance(0.3):
        dtype = k.pick(FLOATS)
        text = f", dtype={k.dtype_text(dtype)}"
    t = k.let("t", f"{api}({x.text}{text}{k.pick(['', ', buffer=nl.sbuf'])})")
    value = np.zeros(x.shape)
    if api == "nl.empty_like":
        value = dtype.cast(x.values)
        k.line(f"{t}[...] = nl.copy({x.text}, dtype={dtype.text})")
    k.store(t, value, dtype)


@oracle("nl.ndarray")
def ndarray(k):
    """Tensors in every memory, with and without block dimensions."""
    kind = k.pick(["sbuf", "psum", "hbm", "blocks"])
    dtype = k.pick([F32, F32, BF16, F16, I32, U8]) if kind != "psum" else F32
    rows, columns = shape = k.partitions(), k.columns()
    values = k.values(dtype, shape)
    source = k.tile(values, dtype, plain=True)
    if kind == "hbm":
        buffer = k.pick(["nl.hbm", "nl.private_hbm", "nl.shared_hbm"])
        t = k.let("t", f"nl.ndarray({shape}, dtype={dtype.text}, buffer={buffer})")
        k.line(f"nl.store({t}, {source.text})")
        k.store(k.let("u", f"nl.load({t})"), values, dtype)
    elif kind == "blocks":
        depth = k.between(1, 3)
        t = k.let("t", f"nl.ndarray(({depth}, nl.par_dim({rows}), {columns}), dtype={dtype.text},"
                       f" buffer=nl.sbuf)")
        loop = k.pick(["nl.affine_range", "nl.sequential_range", "nl.static_range", "range"])
        k.line(f"for b in {loop}({depth}):")
        k.line(f"    {t}[b] = nl.add({source.text}, b, dtype={dtype.text})"
               if dtype is F32 else f"    {t}[b] = nl.copy({source.text})")
        at = k.between(0, depth - 1)
        value = F32.cast(values + at) if dtype is F32 else values
        k.store(f"{t}[{at}]", value, dtype)
    else:
        t = k.let("t", f"nl.ndarray({shape}, dtype={dtype.text}, buffer=nl.{kind})")
        k.line(f"{t}[...] = nl.copy({source.text})")
        k.store(t, values, dtype)


@oracle("nl.ndarray", "nl.full")
def assignments(k, api):
    """tile[...] = tile, number, or a vector that broadcasts along the free axis."""
    dtype = k.pick([F32, F32, BF16, F16, I32])
    rows, columns = shape = k.partitions(), k.columns()
    where, place, full_shape = k._destination(shape)
    background = k.between(0, 2)
    d = k.let("d", f"nl.full({full_shape}, {background}, dtype={dtype.text}, buffer=nl.sbuf)")
    kind = k.pick(["tile", "vector", "number", "other"])
    if kind == "number":
        value = float(k.between(-3, 9)) if dtype.is_integer else k.number()
        text, value = repr(value), np.full(shape, dtype.cast(F32.cast(value)))
    elif kind == "other":
        source = k.operand(k.pick([F32, BF16]), shape, low=-9, high=9)
        text, value = source.text, dtype.cast(source.values)
    else:
        source = k.operand(dtype, shape if kind == "tile" else (rows, 1))
        text, value = source.text, np.broadcast_to(source.values, shape)
    k.line(f"{d}{where} = {text}")
    full = np.full(full_shape, float(background))
    full[place] = value
    k.store(d, full, dtype)
    del api, columns


@oracle("nl.par_dim")
def par_dim(k):
    rows, columns = k.partitions(), k.columns()
    depth = k.between(1, 4)
    x = k.hbm(k.values(F32, (depth, rows, columns)), F32)
    values = k.inputs[-1][1]
    t = k.let("t", f"nl.ndarray(({depth}, nl.par_dim({rows}), {columns}), dtype=nl.float32)")
    k.line(f"for b in nl.affine_range({depth}):")
    k.line(f"    {t}[b, :, :] = nl.load({x}[b, :, :])")
    total = values[0]
    s = k.let("s", f"nl.copy({t}[0])")
    for b in range(1, depth):
        s = k.let("s", f"nl.add({s}, {t}[{b}])")
        total = F32.cast(total + values[b])
    k.store(s, total, F32)


@oracle("nl.shared_constant", "nl.shared_identity_matrix")
def constants(k, api):
    dtype = k.pick([F32, BF16, F16, formats.I8, U8])
    n = k.pick([1, 4, 32, 128])
    text, result = f", dtype={k.dtype_text(dtype)}", dtype
    if api == "nl.shared_identity_matrix":
        if k.chance(0.3):
            text, result = "", U8
        c, value = k.let("c", f"nl.shared_identity_matrix({n}{text})"), np.eye(n)
    else:
        c, value = k.let("c", f"nl.shared_constant(np.identity({n}, dtype=np.int8){text})"), \
            np.eye(n)
    k.store(k.let("t", f"nl.load({c})"), value, result)


@oracle("nl.load")
def load(k):
    """Loads are in every case; here with casts, more dimensions and indirection."""
    kind = k.pick(["cast", "rank", "indirect", "slices"])
    if kind == "cast":
        dtype = k.any_dtype()
        shape = k.shape()
        values = k.values(dtype, shape)
        text, out = _out(k, dtype, [F32, BF16, F16, *FLOATS])
        x = k.hbm(values, dtype)
        k.result(f"nl.load({k.whole(x, shape)}{text}{{}})", values, out)
    elif kind == "rank":
        dtype = k.any_dtype()
        shape = (k.between(1, 4), *k.shape(k.pick([2, 3])))
        x, at = k.hbm(k.values(dtype, shape), dtype), k.between(0, shape[0] - 1)
        values = k.inputs[-1][1][at]
        index = k.pick([f"{x}[{at}]", f"{x}[{at}, {', '.join(grid_of(shape[1:]))}]"])
        k.result(f"nl.load({index}{{}})", values, dtype)
    elif kind == "slices":
        dtype = k.any_dtype()
        rows, columns = k.between(2, 100), k.between(2, 60)
        full = k.values(dtype, (rows, columns))
        a, b = sorted(k.rng.choice(rows + 1, 2, replace=False))
        c, d = sorted(k.rng.choice(columns + 1, 2, replace=False))
        step, stride = k.pick([1, 1, 2, 3]), k.pick([1, 1, 2, 5])
        x = k.hbm(full, dtype)
        where = f"{a}:{b}{f':{step}' if step > 1 else ''}, {c}:{d}{f':{stride}' if stride > 1 else ''}"
        k.result(f"nl.load({x}[{where}]{{}})", full[a:b:step, c:d:stride], dtype)
    else:
        rows, columns = k.between(2, 60), k.columns()
        table = k.values(F32, (rows, columns))
        n = k.between(1, 64)
        index = k.data.integers(0, rows, (n, 1)).astype(np.float64)
        x, i = k.hbm(table, F32), k.tile(index, k.pick([I32, U32]), plain=True)
        rows_text = k.pick([i.text, f"{i.text}[nl.arange({n})[:, None], 0]"])
        if not i.text.isidentifier():
            rows_text = i.text
        k.result(f"nl.load({x}[{rows_text}, nl.arange({columns})[None, :]]{{}})",
                 table[index[:, 0].astype(int)], F32, maskable=False)


def grid_of(shape):
    from .kernel import grid
    return grid(shape)


@oracle("nl.store")
def store(k):
    """Stores with casts, from PSUM, into parts, and indirect."""
    kind = k.pick(["cast", "psum", "part", "indirect", "loop", "number"])
    rows, columns = shape = k.partitions(), k.columns()
    dtype = k.any_dtype() if kind == "cast" else F32
    values = k.values(dtype, shape)
    if kind == "cast":
        out = k.pick([F32, BF16, F16, *FLOATS])
        k.store(k.tile(values, dtype).text, values, out)
    elif kind == "number":
        dtype = k.pick([F32, BF16, I32])
        number = k.number() if dtype is F32 else k.between(0, 9)
        mask, active = k.mask(shape, engine=False)
        y = k.output(shape, dtype.text, Expected(np.full(shape, dtype.cast(F32.cast(number))),
                                                 dtype, 0.0, active))
        k.line(f"nl.store({k.index(y, shape)}, value={number!r}, mask={mask})")
    elif kind == "psum":
        k.store(k.tile(values, F32, psum=True).text, values, F32)
    elif kind == "part":
        t = k.tile(values, F32)
        big = (rows + k.between(0, 5), columns + k.between(0, 5))
        r, c = k.between(0, big[0] - rows), k.between(0, big[1] - columns)
        full, written = np.zeros(big), np.zeros(big, bool)
        full[r:r + rows, c:c + columns], written[r:r + rows, c:c + columns] = values, True
        y = k.output(big, "nl.float32", Expected(full, F32, 0.0, written))
        k.line(f"nl.store({y}[{r}:{r + rows}, {c}:{c + columns}], {t.text})")
    elif kind == "loop":
        t = k.tile(values, F32, plain=True)
        width = k.between(1, columns)
        y = k.output(shape, "nl.float32", Expected(values, F32))
        k.line(f"for c in {k.pick(['nl.affine_range', 'nl.sequential_range', 'range'])}"
               f"({-(-columns // width)}):")
        k.line(f"    at = c * {width} + nl.arange({width})[None, :]")
        p = f"nl.arange({rows})[:, None]"
        k.line(f"    nl.store({y}[{p}, at], value={t.text}[{p}, at], mask=at < {columns})"
               if t.text.isidentifier() else "    pass")
        if not t.text.isidentifier():
            k.line(f"nl.store({y}, {t.text})")
    else:
        total = rows + k.between(0, 20)
        index = k.data.permutation(total)[:rows].astype(np.float64)[:, None]
        t, i = k.tile(values, F32, plain=True), k.tile(index, I32, plain=True)
        full, written = np.zeros((total, columns)), np.zeros((total, columns), bool)
        full[index[:, 0].astype(int)], written[index[:, 0].astype(int)] = values, True
        y = k.output((total, columns), "nl.float32", Expected(full, F32, 0.0, written))
        k.line(f"nl.store({y}[{i.text}, nl.arange({columns})[None, :]], value={t.text})")


@oracle("nl.copy", "nisa.tensor_copy")
def copies(k, api):
    dtype = k.pick([F32, F32, *FLOATS, *INTEGERS])
    shape = k.shape()
    wide = dtype.is_integer and k.chance(0.5)
    values = k.values(dtype, shape, dtype.low, dtype.high) if wide else k.values(dtype, shape)
    x = k.tile(values, dtype, psum=dtype in (F32, BF16) and k.chance(0.2))
    cast, out = _out(k, dtype, [F32, BF16, F16, *FLOATS])
    engine, value = "", values
    if api == "nisa.tensor_copy" and k.chance(0.5):
        name = k.pick(["vector", "scalar"] if x.psum else ["vector", "scalar", "gpsimd"])
        engine = f", engine=nisa.{name}_engine"
        if name == "scalar":
            value = F32.cast(values)  # "first casting the input tile to FP32"
    if out is not dtype:
        value = F32.cast(values)
    k.result(f"{api}({x.text}{cast}{engine}{{}})", value, out,
             psum="gpsimd" not in engine)


@oracle("nl.static_cast")
def static_cast(k):
    x = k.operand(k.any_dtype())
    out = k.pick([F32, BF16, F16])
    k.result(f"nl.static_cast({x.text}, {k.dtype_text(out)})", F32.cast(x.values), out,
             maskable=False)


@oracle("nl.broadcast_to")
def broadcast_to(k):
    dtype = k.any_dtype()
    kind = k.pick(["partition", "free", "same"])
    columns = k.columns()
    if kind == "partition":
        rows = k.partitions()
        x = k.operand(dtype, (1, columns))
    else:
        rows = k.partitions()
        x = k.operand(dtype, (rows, 1 if kind == "free" else columns))
    shape = (rows, columns)
    r = k.let("r", f"nl.broadcast_to({x.text}, shape={k.pick([shape, list(shape)])})")
    k.store(r, np.broadcast_to(x.values, shape), dtype)


@oracle("nl.expand_dims")
def expand_dims(k):
    x = k.operand()
    axis = len(x.shape)
    r = k.let("r", f"nl.expand_dims({x.text}, {axis})")
    k.store(k.let("c", f"nl.copy({r})"), x.values[..., None], x.dtype, plain=True)


@oracle("nl.load_transpose2d")
def load_transpose2d(k):
    rows, columns = k.between(1, 200), k.partitions()
    dtype = k.pick([F32, F32, BF16, F16])
    values = k.values(dtype, (rows, columns))
    cast, out = _out(k, dtype, [F32, BF16])
    x = k.hbm(values, dtype)
    k.result(f"nl.load_transpose2d({k.whole(x, values.shape)}{cast}{{}})", values.T, out,
             maskable=False)


@oracle("nisa.dma_transpose")
def dma_transpose(k):
    rank = k.pick([2, 2, 3, 4])
    on_chip = k.chance(0.4)
    shape = [k.between(1, 6) for _ in range(rank)]
    if rank == 2:
        shape = [k.between(1, 128 if on_chip else 200), k.partitions()]
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[rank]
    dtype = k.pick([F32, F32, BF16, F16])
    values = k.values(dtype, tuple(shape))
    x = k.hbm(values, dtype)
    source = k.let("t", f"nl.load({x})") if on_chip else x
    axes = f", axes={order}" if k.chance(0.4) else ""
    r = k.let("r", f"nisa.dma_transpose({source}{axes})")
    k.store(r, values.transpose(order), dtype)


@oracle("nisa.dma_copy")
def dma_copy(k):
    kind = k.pick(["hbm", "sbuf", "cast", "gather", "skip", "accumulate", "down", "up", "masked"])
    rows, columns = shape = k.partitions(), k.columns()
    values = k.values(F32, shape)
    if kind in ("hbm", "cast"):
        out = k.pick([BF16, F16]) if kind == "cast" else F32
        x = k.hbm(values, F32)
        y = k.output(shape, out.text, Expected(values, out))
        where = k.pick([(y, x), (f"{y}[...]", f"{x}[...]"), (k.index(y, shape), k.index(x, shape))])
        k.line(f"nisa.dma_copy(dst={where[0]}, src={where[1]})")
    elif kind == "masked":
        x = k.hbm(values, F32)
        mask, active = k.mask(shape, engine=False)
        y = k.output(shape, "nl.float32", Expected(values, F32, 0.0, active))
        k.line(f"nisa.dma_copy(dst={k.index(y, shape)}, src={k.index(x, shape)}, mask={mask})")
    elif kind == "down":
        x = k.hbm(values, F32)
        d = k.let("d", f"nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)")
        k.line(f"nisa.dma_copy(dst={d}, src={x})")
        k.store(d, values, F32)
    elif kind == "up":
        t = k.tile(values, F32)
        y = k.output(shape, "nl.float32", Expected(values, F32))
        k.line(f"nisa.dma_copy(dst={y}, src={t.text})")
    elif kind == "sbuf":
        t = k.tile(values, F32)
        d = k.let("d", f"nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)")
        k.line(f"nisa.dma_copy(dst={k.whole(d, shape)}, src={t.text})")
        k.store(d, values, F32)
    elif kind in ("gather", "skip"):
        n = k.between(1, 64)
        top = rows if kind == "gather" else rows + k.between(1, 20)
        index = k.data.integers(0, top, (n, 1)).astype(np.float64)
        x = k.hbm(values, F32)
        i = k.tile(index, I32, plain=True)
        d = k.let("d", f"nisa.memset(shape=({n}, {columns}), value=-1, dtype=nl.float32)")
        k.line(f"ix, iy = nl.mgrid[0:{n}, 0:{columns}]")
        mode = ", oob_mode=nisa.oob_mode.skip" if kind == "skip" else \
            k.pick(["", ", oob_mode=nisa.oob_mode.error"])
        k.line(f"nisa.dma_copy(src={x}[{i.text}, iy], dst={d}[ix, iy]{mode})")
        picked = index[:, 0].astype(int)
        inside = picked < rows
        full = np.full((n, columns), -1.0)
        full[inside] = values[picked[inside]]
        k.store(d, full, F32)
    else:
        n = rows + k.between(0, 10)
        index = k.data.permutation(n)[:rows].astype(np.float64)[:, None]
        t, i = k.tile(values, F32, plain=True), k.tile(index, I32, plain=True)
        ones = k.let("o", f"nisa.memset(shape=({min(n, 128)}, {columns}), value=1, "
                          "dtype=nl.float32)")
        full = np.ones((n, columns))
        full[index[:, 0].astype(int)] += values
        y = k.output((n, columns), "nl.float32", Expected(F32.cast(full), F32))
        k.line(f"nl.store({y}[0:{min(n, 128)}, :], {ones})")
        if n > 128:
            k.line(f"nl.store({y}[128:{n}, :], {ones}[0:{n - 128}, :])")
        k.line(f"nisa.dma_copy(dst={y}[{i.text}, nl.arange({columns})[None, :]], src={t.text}, "
               "dst_rmw_op=np.add)")


@oracle("nl.atomic_rmw")
def atomic_rmw(k):
    rows, columns = shape = k.partitions(), k.columns()
    n = rows
    old, new = k.values(F32, shape), k.values(F32, shape)
    index = k.data.permutation(n).astype(np.float64)[:, None]
    base = k.tile(old, F32, plain=True)
    value, i = k.tile(new, F32, plain=True), k.tile(index, I32, plain=True)
    full = old.copy()
    full[index[:, 0].astype(int)] += new
    y = k.output(shape, "nl.float32", Expected(F32.cast(full), F32))
    k.line(f"nl.store({y}, {base.text})")
    k.line(f"nl.atomic_rmw({y}[{i.text}, nl.arange({columns})[None, :]], value={value.text}, "
           "op=np.add)")


@oracle("nl.gather_flattened")
def gather_flattened(k):
    rows = k.partitions()
    data_shape = (rows, k.between(1, 30)) if k.chance(0.6) else (rows, k.between(1, 5),
                                                                k.between(1, 6))
    index_shape = (rows, k.between(1, 20)) if k.chance(0.6) else (rows, 2, k.between(1, 6))
    size = int(np.prod(data_shape[1:]))
    data = k.operand(k.pick([F32, F32, BF16, I32]), data_shape)
    index = k.data.integers(0, size, index_shape).astype(np.float64)
    i = k.tile(index, U32)
    value = np.take_along_axis(data.values.reshape(rows, -1),
                               index.reshape(rows, -1).astype(int), 1).reshape(index_shape)
    names = k.pick([("", ""), ("data=", "indices=")])
    k.result(f"nl.gather_flattened({names[0]}{data.text}, {names[1]}{i.text}{{}})", value,
             data.dtype, maskable=False)


@oracle("nisa.local_gather")
def local_gather(k):
    cores = k.pick([1, 2, 4, 8])
    rows, per_index = 16 * cores, k.pick([1, 1, 2, 4])
    elements, columns = k.between(2, 20), k.between(1, 4)
    valid = k.pick([16 * columns, 16 * columns, k.between(1, 16 * columns)])
    dtype = k.pick([F32, F32, BF16])
    shape = (rows, elements, per_index) if per_index > 1 else (rows, elements)
    data = k.operand(dtype, shape, plain=True)
    index = k.data.integers(0, elements, (rows, columns))
    i = k.tile(index * float(per_index), U16, plain=True)
    source = data.values.reshape(rows, elements, per_index)
    value = np.zeros((rows, valid, per_index))
    for core in range(cores):
        part = slice(16 * core, 16 * core + 16)
        order = index[part].flatten(order="F")[:valid]
        value[part] = np.take(source[part], order, axis=1)
    text = f"nisa.local_gather({data.text}, {i.text}"
    if per_index > 1 or valid != 16 * columns or k.chance(0.5):
        text += f", {per_index}, {valid}"
    # The examples assign to a tile with the gathered elements in any shape: here one free axis.
    value = value.reshape(rows, -1)
    if per_index == 1:
        d = k.let("d", f"nl.ndarray({value.shape}, dtype={dtype.text}, buffer=nl.sbuf)")
        k.line(f"{d}[...] = {text})")
        k.store(d, value, dtype)
    else:
        shape = (rows, valid, per_index)
        d = k.let("d", f"nl.ndarray({shape}, dtype={dtype.text}, buffer=nl.sbuf)")
        k.line(f"{d}[...] = {text})")
        k.store(d, value.reshape(shape), dtype)


@oracle("nisa.nc_stream_shuffle")
def nc_stream_shuffle(k):
    quadrants = k.pick([1, 1, 2, 4])
    rows, columns = 32 * quadrants, k.columns()
    dtype = k.pick([F32, F32, BF16])
    src = k.operand(dtype, (rows, columns), plain=True)
    table = [int(v) for v in k.rng.integers(0, 32, 32)]
    if k.chance(0.3):
        table = [255 if k.chance(0.2) else v for v in table]
    if k.chance(0.3):
        dst, old = src.text, src.values
        if not dst.isidentifier():
            dst = k.let("d", f"nl.copy({dst})")
            src.text = dst
    else:
        old = k.values(dtype, (rows, columns))
        dst = k.let("d", f"nl.copy({k.tile(old, dtype).text})")
    value = old.copy()
    for q in range(quadrants):
        for i, v in enumerate(table):
            if v != 255:
                value[32 * q + i] = src.values[32 * q + v]
    k.line(f"nisa.nc_stream_shuffle(src={src.text}, dst={k.whole(dst, value.shape)}, "
           f"shuffle_mask={table})")
    k.store(dst, value, dtype)


@oracle("nisa.tensor_copy_dynamic_src", "nisa.tensor_copy_dynamic_dst")
def dynamic_copies(k, api):
    rows, columns = k.partitions(), k.between(2, 40)
    width = k.between(1, min(columns, 6))
    trips = k.between(1, 4)
    dtype = k.pick([F32, F32, BF16])
    if api.endswith("src"):
        offsets = k.data.integers(0, columns - width + 1, (1, trips)).astype(np.float64)
        values = k.values(dtype, (rows, columns))
        t, o = k.tile(values, dtype, plain=True), k.tile(offsets, I32, plain=True)
        t = k.let("s", f"nl.copy({t.text})")
        o = k.let("o", f"nl.copy({o.text})")
        d = k.let("d", f"nl.ndarray(({rows}, {trips * width}), dtype={dtype.text}, buffer=nl.sbuf)")
        k.line(f"ix, iy = nl.mgrid[0:{rows}, 0:{width}]")
        k.line(f"for i in nl.affine_range({trips}):")
        k.line(f"    {d}[ix, i * {width} + iy] = nisa.tensor_copy_dynamic_src("
               f"{t}[ix, {o}[0, i] + iy])")
        value = np.concatenate([values[:, int(a):int(a) + width] for a in offsets[0]], 1)
    else:
        offsets = (k.data.permutation(columns // width)[:trips] * width).astype(np.float64)[None]
        trips = offsets.shape[1]
        values = k.values(dtype, (rows, trips * width))
        t, o = k.tile(values, dtype, plain=True), k.tile(offsets, I32, plain=True)
        t = k.let("s", f"nl.copy({t.text})")
        o = k.let("o", f"nl.copy({o.text})")
        d = k.let("d", f"nl.zeros(({rows}, {columns}), dtype={dtype.text}, buffer=nl.sbuf)")
        k.line(f"ix, iy = nl.mgrid[0:{rows}, 0:{width}]")
        k.line(f"for i in nl.static_range({trips}):")
        k.line(f"    nisa.tensor_copy_dynamic_dst(dst={d}[ix, {o}[0, i] + iy], "
               f"src={t}[ix, i * {width} + iy])")
        value = np.zeros((rows, columns))
        for i, a in enumerate(offsets[0]):
            value[:, int(a):int(a) + width] = values[:, i * width:(i + 1) * width]
    k.store(d, value, dtype)


@oracle("nisa.iota")
def iota(k):
    rows, columns = k.partitions(), k.columns()
    dtype = k.pick([I32, I32, F32, formats.I16, U32, BF16])
    kind = k.pick(["both", "row", "column", "3d"])
    a, b, c = k.between(0, 3), k.between(1, 4), k.between(0, 9)
    if dtype not in (U32, BF16) and k.chance(0.4):
        a, b = -a, -b
    if dtype is BF16:
        a, b, c, rows, columns = 0, 1, 0, min(rows, 16), min(columns, 16)
    p, f = np.arange(rows)[:, None], np.arange(columns)[None, :]
    i, j = f"nl.arange({rows})[:, None]", f"nl.arange({columns})[None, :]"
    if kind == "both":
        text, value = f"{a} * {i} + {b} * {j} + {c}", a * p + b * f + c
    elif kind == "row":
        start = k.between(0, 5)
        text = f"{b} * nl.arange({start}, {start + columns})[None, :] + {c}"
        value = b * (f + start) + c
    elif kind == "column":
        text, value = f"{c} + {b} * {i}", b * p + c
    else:
        i, j, m = (f"nl.arange({n})[{w}]" for n, w in
                   ((rows, ":, None, None"), (columns, "None, :, None"), (3, "None, None, :")))
        text = f"{i} + {b} * {j} + {m}"
        value = p[:, :, None] + b * f[:, :, None] + np.arange(3)[None, None, :]
        if dtype is BF16:
            dtype = F32
    k.result(f"nisa.iota({text}, dtype={k.dtype_text(dtype)}{{}})", value, dtype)


@oracle("nl.dropout", "nisa.dropout")
def dropout(k, api):
    rows, columns = shape = k.partitions(), k.between(1, 200)
    values = k.values(k.pick([F32, F32, BF16]), shape, 1, 3)
    x = k.tile(values, F32 if k.chance(0.6) else BF16)
    x.values = x.dtype.cast(values)
    x = k.tile(x.values, x.dtype)
    kind = k.pick(["scalar", "vector"]) if api == "nisa.dropout" else "scalar"
    if kind == "scalar":
        rate = k.pick([0.0, 1.0, 0.5, 0.25])
        text, rates = repr(rate), np.full((rows, 1), rate)
    else:
        vector = k.tile(k.data.choice([0.0, 1.0, 0.5], (rows, 1)), F32)
        text, rates = vector.text, vector.values
    r = k.let("r", f"{api}({x.text}, {text})")

    def fits(got):
        """Each element is kept or zero, always or never at rates 0 and 1, else about as often."""
        kept, dropped = got == x.values, got == 0
        good = np.where(rates == 0, kept, np.where(rates == 1, dropped, kept | dropped))
        open_rows = np.broadcast_to((rates > 0) & (rates < 1), shape)
        n, mean = open_rows.sum(), (open_rows * rates).sum()
        spread = 6 * np.sqrt((open_rows * rates * (1 - rates)).sum()) + 1
        return good & (abs((dropped & open_rows).sum() - mean) <= spread if n else True)

    k.store_checked(r, shape, x.dtype, fits)


@oracle("nl.rand", "nl.random_seed")
def rand(k, api):
    shape = k.partitions(), k.between(1, 60)
    if api == "nl.random_seed":
        seed = k.between(0, 1000)
        k.line(f"nl.random_seed({seed})")
        a = k.let("r", f"nl.rand({shape})")
        k.line(f"nl.random_seed({seed})")
        b = k.let("r", f"nl.rand({shape})")
        # The same seed gives the same sequence.
        k.store(k.let("e", f"nl.equal({a}, {b})"), np.ones(shape), BOOL)
        return
    text, dtype = k.pick([("", F32), (", dtype=nl.float32", F32), (", dtype=nl.bfloat16", BF16)])
    r = k.let("r", f"nl.rand({shape}{text})")

    def fits(got):
        uniform = (got >= 0) & (got <= 1)
        return uniform & (got.size < 64 or (abs(got.mean() - 0.5) < 6 * 0.29 / got.size ** 0.5
                                            and got.std() > 0.1))

    k.store_checked(r, shape, dtype, fits)
