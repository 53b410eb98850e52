"""The wrong examples of the documentation's error page (nki.errors), over random sizes."""
from .forbidden import _store, _use, _y
from .formats import F32, I32
from .kernel import forbidden, grid


@forbidden("nl.zeros")
def initialised_in_hbm(k):
    shape = k.shape(2)
    text = k.pick([f"nl.zeros({shape}", f"nl.full({shape}, 1.0", f"nl.ones({shape}"])
    k.line(f"t = {text}, dtype=nl.float32, buffer=nl.{k.pick(['shared_hbm', 'hbm'])})")
    _use(k, "nl.load(t)", shape)
    k.code = "hbm_tensor_with_init_value_not_supported"


@forbidden("nl.add")
def not_a_tile(k):
    depth, rows, columns = k.between(2, 4), k.between(2, 32), k.between(1, 9)
    k.line(f"a = nl.zeros(({depth}, nl.par_dim({rows}), {columns}), dtype=nl.float32)")
    k.line(f"c = {k.pick(['nl.add(a, 32)', 'nl.exp(a)', 'nl.multiply(a, a)'])}")
    _store(k, "c[0]", (rows, columns))
    k.code = "failed_to_infer_tile_from_local_tensor"


@forbidden("nl.transpose")
def transpose_of_three(k):
    a = k.operand(F32, (k.between(2, 32), 4, 2))
    _use(k, f"nl.transpose({a.text})", (8, a.shape[0]))
    k.code = "exceed_max_supported_dimension"


@forbidden("nl.transpose")
def transpose_of_many(k):
    rows, columns = k.partitions(), k.between(129, 300)
    a = k.operand(F32, (rows, columns))
    _use(k, f"nl.transpose({a.text})", (columns, rows))


@forbidden("nl.full")
def smaller_destination(k):
    rows, columns = k.partitions(), k.between(2, 20)
    x = k.operand(F32, (rows, columns))
    k.line(f"y = nl.zeros(({rows}, 1), dtype=nl.float32)")
    k.line(f"y[...] = {x.text}")
    _store(k, "y", (rows, 1))
    k.code = "store_dst_shape_smaller_than_other_shape"


@forbidden("nl.affine_range")
def shared_in_a_loop(k):
    shape = k.shape(2)
    t = k.tile(k.values(F32, shape), F32, plain=True)
    k.line(f"for i in {k.pick(['nl.affine_range', 'nl.sequential_range', 'range'])}(2):")
    k.line(f"    b = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.shared_hbm)")
    k.line(f"    nl.store(b, {t.text})")
    _store(k, t.text, shape)
    k.code = "shared_hbm_must_in_kernel_level"


@forbidden("nl.affine_range")
def same_place_in_every_iteration(k):
    rows, columns = k.partitions(), k.columns()
    k.line(f"a = nl.ndarray(({rows}, {columns}), dtype=nl.float32, buffer=nl.sbuf)")
    k.line(f"for i in nl.affine_range({k.between(2, 5)}):")
    k.line(f"    a[...] = {k.pick(['0', 'nl.full((%d, %d), 1, dtype=nl.float32)' % (rows, columns)])}")
    _store(k, "a", (rows, columns))
    k.code = "unexpected_output_dependencies"


@forbidden("nl.sequential_range")
def used_out_of_scope(k):
    shape = k.shape(2)
    x = k.hbm(k.values(F32, shape), F32)
    k.line(f"for i in {k.pick(['nl.sequential_range', 'nl.affine_range'])}(3):")
    k.line(f"    t = nl.load({x})")
    _store(k, "t", shape)
    k.code = "local_variable_used_out_of_scope"


@forbidden("nl.arange")
def assigned_index(k):
    k.line("g = nl.mgrid[0:1, 0:8]")
    k.line(f"g.x[0, {k.between(0, 7)}] = 1024")
    _use(k, "nisa.iota(g.x, dtype=nl.int32)", (1, 8), I32)
    k.code = "cannot_assign_to_index"


@forbidden("nl.arange")
def branch_on_an_index(k):
    x = k.hbm(k.values(F32, (8, 64)), F32)
    y = _y(k, (8, 64))
    k.line("for j0 in nl.affine_range(4):")
    k.line("    j = j0 * 16 + nl.arange(16)[None, :]")
    k.line("    p = nl.arange(8)[:, None]")
    k.line(f"    if j > {k.between(0, 60)}:")
    k.line(f"        nl.store({y}[p, j], nl.load({x}[p, j]))")
    k.code = "control_flow_condition_depending_on_arange"


@forbidden("nl.load")
def branch_on_loaded(k):
    x = k.hbm(k.values(F32, (1, 1)), F32)
    k.line(f"c = nl.load({x})")
    k.line("if c:")
    k.line("    pass")
    _store(k, "c", (1, 1))


@forbidden("nl.load")
def truth_of_many(k):
    a = k.tile(k.values(F32, (8, 8)), F32, plain=True)
    k.line(f"b = {k.pick(['not (A > 0)', '(A > 0) and (A < 1)', '(A > 0) or (A < 1)'])}"
           .replace("A", a.text))
    _store(k, a.text, (8, 8))


@forbidden("nisa.tensor_tensor")
def one_partition_is_not_repeated(k):
    rows, columns = k.between(2, 128), k.columns()
    a, b = k.operand(F32, (rows, columns)), k.operand(F32, (1, columns))
    _use(k, f"nisa.tensor_tensor({a.text}, {b.text}, op=nl.add)", (rows, columns))
    k.code = "num_partition_mismatch"


@forbidden("nl.store")
def mask_of_a_remainder(k):
    rows, columns = k.partitions(), k.between(4, 20)
    t = k.tile(k.values(F32, (rows, columns)), F32, plain=True)
    y = _y(k, (rows, columns))
    i, j = grid((rows, columns))
    text = t.text if not t.text.isidentifier() else f"{t.text}[{i}, {j}]"
    k.line(f"nl.store({y}[{i}, {j}], value={text}, mask=({j} % 4) < 2)")


@forbidden("nl.store")
def loop_past_the_end(k):
    rows, width = k.partitions(), k.between(2, 8)
    columns = 3 * width + k.between(1, width - 1)
    y = _y(k, (rows, columns))
    k.line("for i in nl.affine_range(4):")
    k.line(f"    g = nl.mgrid[0:{rows}, 0:{width}]")
    k.line(f"    nl.store({y}[g.p, i * {width} + g.x], value=0)")
    k.code = "tensor_access_out_of_bound"


@forbidden("nl.load_transpose2d")
def indirect_transpose(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    i = k.tile(k.data.integers(0, 16, (4, 1)), I32, plain=True)
    _use(k, f"nl.load_transpose2d({x}[{i.text}, nl.arange(8)[None, :]])", (8, 4))


@forbidden("nl.load")
def indirect_on_the_free_axis(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    i = k.tile(k.data.integers(0, 8, (16, 1)), I32, plain=True)
    _use(k, f"nl.load({x}[nl.arange(16)[:, None], {i.text}])", (16, 1))


@forbidden("nl.store")
def dead_loop(k):
    shape = k.shape(2)
    t = k.tile(k.values(F32, shape), F32, plain=True)
    y = _y(k, shape)
    k.line("for i in nl.affine_range(128 // 129):")
    k.line(f"    nl.store({y}, {t.text})")
    k.code = "tensor_output_not_written_to"
