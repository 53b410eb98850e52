"""Direct allocation and the decorators of nki.compiler: where a tile lies never changes its values."""
import numpy as np

from .formats import BF16, F32
from .kernel import Expected, oracle


def _modulo(k, memory, tile_bytes, depth, base):
    """A mod_alloc of `depth` physical tiles, or the same written out as a function."""
    if memory == "psum":
        count = f", num_bank_tiles=({depth},)" if depth else ""
        return f"ncc.psum.mod_alloc(base_bank={base}{count})"
    count = f", num_free_tiles=({depth},)" if depth else ""
    del tile_bytes
    return f"ncc.sbuf.mod_alloc(base_addr={base}{count})"


def _function(k, memory, tile_bytes, depth, base):
    """The text of alloc(func) with the placement of `_modulo`."""
    name = k.name("place")
    k.line(f"def {name}(idx, pdim_size, fdim_size):")
    slot = f"idx[0] % {depth}" if depth else "0"
    if memory == "psum":
        k.line(f"    return ({base} + {slot}, 0, 0)")
        return f"ncc.psum.alloc({name})"
    k.line(f"    return (0, {base} + ({slot}) * fdim_size)")
    return f"ncc.sbuf.alloc({name})"


@oracle("nki.compiler.sbuf.alloc", "nki.compiler.sbuf.mod_alloc", "nki.compiler.psum.alloc",
        "nki.compiler.psum.mod_alloc")
def direct(k, api):
    """Double buffering as the examples do it: `blocks` logical tiles on `depth` physical ones."""
    place = _function if api.endswith(".alloc") else _modulo
    through_psum = ".psum." in api
    rows, columns = k.partitions(), 8 * k.between(1, 8)
    blocks, depth = k.between(1, 5), k.pick([0, 1, 2, 3])
    tile_bytes = columns * 4
    shape = (blocks, rows, columns)
    values = k.values(F32, shape)
    x = k.hbm(values, F32)
    step = max(depth, 1) * tile_bytes
    a, b, c = (k.name("t") for _ in range(3))
    lead = f"({blocks}, nl.par_dim({rows}), {columns})" if depth else f"(nl.par_dim({rows}), {columns})"
    buffer = place(k, "sbuf", tile_bytes, depth, 0)
    out = place(k, "sbuf", tile_bytes, depth, step)
    middle = place(k, "psum", tile_bytes, depth, k.between(0, 3)) if through_psum else None
    y = k.output(shape, "nl.float32", Expected(F32.cast(values * 2), F32))

    def declare(indent):
        for name, where in ((a, buffer), (b, middle), (c, out)):
            if where:
                k.line(f"{indent}{name} = nl.ndarray({lead}, dtype=nl.float32, buffer={where})")

    if depth:
        declare("")
    k.line(f"for i in nl.affine_range({blocks}):")
    if not depth:
        declare("    ")
    at = "[i, :, :]" if depth else "[:, :]"
    k.line(f"    {a}{at} = nl.load({x}[i])")
    source = f"{a}{at}"
    if through_psum:
        k.line(f"    {b}{at} = nl.copy({source})")
        source = f"{b}{at}"
    k.line(f"    {c}{at} = nl.multiply({source}, 2.0)")
    k.line(f"    nl.store({y}[i], value={c}{at})")


@oracle("nki.compiler.sbuf.auto_alloc", "nki.compiler.psum.auto_alloc")
def automatic(k, api):
    shape = k.partitions(), k.columns()
    dtype = k.pick([F32, BF16])
    x = k.operand(dtype, shape)
    buffer = api.replace("nki.compiler", "ncc") + "()"
    t = k.let("t", f"nl.ndarray({shape}, dtype={dtype.text}, buffer={buffer})")
    k.line(f"{t}[...] = nl.copy({x.text})")
    k.store(t, x.values, dtype)


@oracle("nki.compiler.skip_middle_end_transformations", "nki.compiler.enable_stack_allocator",
        "nki.compiler.force_auto_alloc")
def decorators(k, api):
    name = api.replace("nki.compiler", k.pick(["ncc", "nki.compiler"]))
    above = "@ncc.skip_middle_end_transformations\n" if "stack" in api else ""
    tail = "(log_level=50)" if "stack" in api and k.chance(0.3) else ""
    k.decorator = f"@{name}{tail}\n{above}@nki.jit"
    x = k.operand(F32)
    k.store(k.let("r", f"nl.multiply({x.text}, 2.0)"), x.values * 2, F32)


@oracle("nki.compiler.allocation_scope", "nki.compiler.no_reorder", "nki.compiler.multi_buffer")
def scopes(k, api):
    """Guards around a part of a kernel."""
    shape = k.partitions(), k.columns()
    x = k.operand(F32, shape)
    d = k.let("d", f"nl.ndarray({shape}, dtype=nl.float32)")
    factor = k.pick(["", "2", "factor=3"]) if "multi" in api else ""
    k.line(f"with {api.replace('nki.compiler', 'ncc')}({factor}):")
    k.line(f"    {d}[...] = nl.multiply({x.text}, 2.0)")
    k.store(d, x.values * 2, F32)


@oracle("nl.finfo")
def finfo(k):
    dtype = k.pick([F32, BF16])
    limit = {F32: float(np.finfo(np.float32).max), BF16: 255.0 * 2.0 ** 120}[dtype]
    name, value = k.pick([("max", limit), ("min", -limit)])
    shape = k.partitions(), k.columns()
    t = k.let("t", f"nl.full({shape}, nl.finfo({dtype.text}).{name}, dtype=nl.float32)")
    k.store(t, np.full(shape, value), F32)
