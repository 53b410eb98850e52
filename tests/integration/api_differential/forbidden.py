"""Kernels that the documentation forbids: the product must refuse them, never run them."""
from . import formats
from .formats import BF16, F16, F32, I32, U8
from .kernel import Expected, forbidden, grid


def _y(k, shape, dtype=F32):
    import numpy as np
    return k.output(shape, dtype.text, Expected(np.zeros(shape), dtype))


def _store(k, text, shape, dtype=F32):
    k.line(f"nl.store({_y(k, shape, dtype)}, {text})")


def _use(k, call, shape, dtype=F32):
    _store(k, k.let("r", call), shape, dtype)


def _pair(k, first, second, dtypes=(F32, F32)):
    return k.operand(dtypes[0], first), k.operand(dtypes[1], second)


# Sizes of tiles.

@forbidden("nl.load")
def too_many_partitions(k):
    rows, columns = k.between(129, 200), k.columns()
    x = k.hbm(k.values(F32, (rows, columns)), F32)
    _use(k, f"nl.load({k.whole(x, (rows, columns))})", (rows, columns))
    k.code = "num_partition_exceed_arch_limit"


@forbidden("nl.ndarray")
def too_many_partitions_created(k):
    rows = k.between(129, 300)
    buffer = k.pick(["sbuf", "psum"])
    t = k.let("t", f"nl.ndarray(({rows}, 4), dtype=nl.float32, buffer=nl.{buffer})")
    k.line(f"{t}[...] = 1.0")
    _store(k, t, (rows, 4))
    k.code = "num_partition_exceed_arch_limit"


@forbidden("nl.zeros")
def too_wide_for_psum(k):
    columns = k.between(4097, 6000)
    t = k.let("t", f"nl.zeros((8, {columns}), dtype=nl.float32, buffer=nl.psum)")
    _store(k, t, (8, columns))


@forbidden("nl.full")
def too_wide_for_sbuf(k):
    columns = 200 * 1024 // 4 + k.between(0, 1000)
    t = k.let("t", f"nl.full((2, {columns}), 1.0, dtype=nl.float32, buffer=nl.sbuf)")
    _store(k, t, (2, columns))
    k.code = "sbuf_capacity"


@forbidden("nl.load")
def out_of_bounds(k):
    rows, columns = k.between(1, 64), k.columns()
    x = k.hbm(k.values(F32, (rows, columns)), F32)
    i, j = grid((rows, columns))
    shift = k.between(1, 9)
    text = k.pick([f"{i} + {shift}, {j}", f"{i}, {j} + {shift}", f"{i}, {shift + 1} * {j} + 1",
                   f"{i}, {j} - {shift}"])
    _use(k, f"nl.load({x}[{text}])", (rows, columns))
    k.code = "tensor_access_out_of_bound"


@forbidden("nl.store")
def store_out_of_bounds(k):
    rows, columns = k.between(1, 64), k.columns()
    t = k.tile(k.values(F32, (rows, columns)), F32, plain=True)
    y = _y(k, (rows, columns))
    i, j = grid((rows, columns))
    k.line(f"nl.store({y}[{i}, {j} + {k.between(1, 5)}], value={t.text})")
    k.code = "tensor_access_out_of_bound"


@forbidden("nl.arange")
def one_dimensional_index(k):
    rows = k.between(2, 64)
    x = k.hbm(k.values(F32, (rows, 8)), F32)
    k.line(f"i = nl.arange({rows})")
    _use(k, f"nl.load({x}[i, nl.arange(8)])", (rows, 8))


@forbidden("nl.load")
def mixed_indexing(k):
    rows = k.between(2, 64)
    x = k.hbm(k.values(F32, (rows, 8)), F32)
    _use(k, f"nl.load({x}[nl.arange({rows})[:, None], 0:8])", (rows, 8))
    k.code = "unsupported_mixing_basic_advanced_tensor_indexing"


# Memories.

@forbidden("nl.load")
def load_from_chip(k):
    t = k.operand(F32)
    _use(k, f"nl.load({t.text})", t.shape)


@forbidden("nl.store")
def store_to_input(k):
    t = k.tile(k.values(F32, (8, 8)), F32, plain=True)
    x = k.inputs[0][0]
    k.line(f"nl.store({x}, {t.text})")
    _store(k, t.text, (8, 8))
    k.code = "cannot_update_immutable_parameter"


@forbidden("nl.store")
def store_to_chip(k):
    t = k.operand(F32, (8, 8))
    k.line("d = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)")
    k.line(f"nl.store(d, {t.text})")
    _store(k, "d", (8, 8))


@forbidden("nl.exp")
def compute_in_hbm(k):
    x = k.hbm(k.values(F32, (8, 8)), F32)
    _use(k, f"{k.pick(['nl.exp', 'nl.tanh', 'nl.square', 'nl.copy'])}({x})", (8, 8))


@forbidden("nl.ndarray")
def reads_what_nothing_wrote(k):
    columns = k.between(2, 30)
    buffer = k.pick(["sbuf", "psum"])
    t = k.let("t", f"nl.ndarray((16, {columns}), dtype=nl.float32, buffer=nl.{buffer})")
    if k.chance(0.5):
        x = k.operand(F32, (16, columns - 1))
        k.line(f"{t}[:, 0:{columns - 1}] = nl.copy({x.text})")
    _store(k, t, (16, columns))
    k.code = "uninitialized_read"


@forbidden("nl.ndarray")
def never_stored(k):
    _y(k, (8, 8))
    k.operand(F32, (8, 8))
    k.code = "tensor_output_not_written_to"


@forbidden("nl.copy")
def partition_start(k):
    rows = k.between(2, 60)
    start = k.pick([1, 3, 16, 31, 33, 40])
    t = k.let("t", f"nl.load({k.hbm(k.values(F32, (128, 8)), F32)})")
    _use(k, f"nl.copy({t}[{start}:{start + rows}, :])", (rows, 8))


@forbidden("nl.copy")
def partition_step(k):
    t = k.let("t", f"nl.load({k.hbm(k.values(F32, (128, 8)), F32)})")
    step = k.between(2, 4)
    rows = 128 // step
    _use(k, f"nl.copy({t}[{step} * nl.arange({rows})[:, None], nl.arange(8)[None, :]])", (rows, 8))


# Masks.

@forbidden("nl.square")
def mask_with_or(k):
    t = k.operand(F32, (32, 16))
    i, j = grid((32, 16))
    mask = f"({i} < {k.between(1, 31)}) | ({j} < {k.between(1, 15)})"
    d = k.let("d", "nl.zeros((32, 16), dtype=nl.float32)")
    k.line(f"{d}[...] = nl.square({t.text}, mask={mask})")
    _store(k, d, (32, 16))
    k.code = "unsupported_expression_in_mask"


@forbidden("nl.exp")
def mask_not_affine(k):
    t = k.operand(F32, (32, 16))
    i, j = grid((32, 16))
    mask = k.pick([f"{i} * {j} < 9", f"{i} * {i} < 100"])
    d = k.let("d", "nl.zeros((32, 16), dtype=nl.float32)")
    k.line(f"{d}[...] = nl.exp({t.text}, mask={mask})")
    _store(k, d, (32, 16))


# Elementwise.

@forbidden("nl.add")
def shapes_do_not_broadcast(k):
    rows, columns = k.between(2, 64), k.between(2, 20)
    a, b = _pair(k, (rows, columns), k.pick([(rows, columns + 1), (rows + 1, columns)]))
    _use(k, f"{k.pick(['nl.add', 'nl.multiply', 'nl.maximum', 'nl.less'])}({a.text}, {b.text})",
         (rows, columns))


@forbidden("nisa.tensor_tensor")
def both_in_psum(k):
    a = k.operand(F32, (32, 16), psum=True)
    b = k.operand(F32, (32, 16), psum=True)
    _use(k, f"nisa.tensor_tensor({a.text}, {b.text}, op=nl.{k.pick(['add', 'multiply'])})",
         (32, 16))


@forbidden("nisa.scalar_tensor_tensor")
def both_in_psum_scalar(k):
    a = k.operand(F32, (32, 16), psum=True)
    b = k.operand(F32, (32, 16), psum=True)
    _use(k, f"nisa.scalar_tensor_tensor(data={a.text}, op0=nl.add, operand0=1.0, op1=nl.multiply, "
            f"operand1={b.text})", (32, 16))


@forbidden("nisa.tensor_tensor_scan")
def both_in_psum_scan(k):
    a = k.operand(F32, (32, 16), psum=True)
    b = k.operand(F32, (32, 16), psum=True)
    _use(k, f"nisa.tensor_tensor_scan({a.text}, {b.text}, initial=0.0, op0=nl.multiply, "
            "op1=nl.add)", (32, 16))


@forbidden("nisa.tensor_tensor")
def partition_counts_differ(k):
    rows = k.between(2, 60)
    a, b = _pair(k, (rows, 8), (rows + k.between(1, 4), 8))
    _use(k, f"nisa.tensor_tensor({a.text}, {b.text}, op=nl.add)", (rows, 8))


@forbidden("nisa.tensor_tensor")
def bits_of_floats(k):
    dtype = k.pick([F32, BF16])
    a, b = _pair(k, (16, 8), (16, 8), (dtype, dtype))
    op = k.pick(["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift"])
    _use(k, f"nisa.tensor_tensor({a.text}, {b.text}, op=nl.{op})", (16, 8), dtype)


@forbidden("nl.bitwise_and")
def bits_of_floats_language(k):
    a, b = _pair(k, (16, 8), (16, 8))
    op = k.pick(["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
    _use(k, f"nl.{op}({a.text}, {b.text})", (16, 8))


@forbidden("nisa.tensor_scalar")
def mixed_kinds_of_operators(k):
    a = k.operand(I32, (16, 8))
    ops = k.pick([("add", "bitwise_and"), ("bitwise_or", "multiply")])
    _use(k, f"nisa.tensor_scalar({a.text}, op0=nl.{ops[0]}, operand0=1, op1=nl.{ops[1]}, "
            "operand1=2)", (16, 8), I32)


@forbidden("nisa.tensor_scalar")
def operand_is_not_a_vector(k):
    a, b = _pair(k, (16, 8), k.pick([(16, 8), (16, 2), (8, 1)]))
    _use(k, f"nisa.tensor_scalar({a.text}, op0=nl.add, operand0={b.text})", (16, 8))


@forbidden("nisa.tensor_scalar")
def operand_missing(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nisa.tensor_scalar({a.text}, op0=nl.add, operand0=1.0, op1=nl.add)", (16, 8))


@forbidden("nisa.activation")
def not_an_activation(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nisa.activation(op={k.pick(['nl.add', 'np.add', 'nl.maximum', 'nl.cos'])}, "
            f"data={a.text})", (16, 8))


@forbidden("nisa.activation")
def bias_of_integers(k):
    a, b = _pair(k, (16, 8), (16, 1), (F32, I32))
    _use(k, f"nisa.activation(op=nl.exp, data={a.text}, bias={b.text})", (16, 8))
    k.code = "activation_bias_invalid_type"


@forbidden("nisa.activation")
def scale_of_another_type(k):
    a, b = _pair(k, (16, 8), (16, 1), (F32, k.pick([BF16, F16])))
    _use(k, f"nisa.activation(op=nl.exp, data={a.text}, scale={b.text})", (16, 8))
    k.code = "activation_scale_invalid_type"


@forbidden("nisa.activation")
def scale_is_not_a_vector(k):
    a, b = _pair(k, (16, 8), (16, 8))
    _use(k, f"nisa.activation(op=nl.exp, data={a.text}, scale={b.text})", (16, 8))
    k.code = "activation_scale_scalar_or_vector"


@forbidden("nisa.activation")
def reciprocal_with_bias(k):
    a, b = _pair(k, (16, 8), (16, 1))
    _use(k, f"nisa.activation(op=nl.reciprocal, data={a.text}, bias={b.text})", (16, 8))


@forbidden("nisa.affine_select")
def two_predicates(k):
    a = k.operand(F32, (16, 8))
    i, j = grid((16, 8))
    _use(k, f"nisa.affine_select(pred=({i} < {j}) & ({j} < 4), on_true_tile={a.text}, "
            "on_false_value=0.0)", (16, 8))


@forbidden("nisa.affine_select")
def wide_integers(k):
    dtype = k.pick([I32, formats.U32])
    a = k.operand(dtype, (16, 8))
    i, j = grid((16, 8))
    _use(k, f"nisa.affine_select(pred={i} < {j}, on_true_tile={a.text}, on_false_value=0.0)",
         (16, 8), dtype)


# Reductions.

@forbidden("nl.sum")
def over_partitions(k):
    a = k.operand(F32, (16, 8))
    name = k.pick(["sum", "max", "min", "mean", "prod"])
    _use(k, f"nl.{name}({a.text}, axis={k.pick(['0', '[0]', '[0, 1]'])})", (16, 1))


@forbidden("nisa.tensor_reduce")
def over_partitions_isa(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nisa.tensor_reduce(nl.add, {a.text}, axis={k.pick(['0', '[0]', '[0, 1]'])})",
         (16, 1))


@forbidden("nisa.tensor_reduce")
def not_the_last_axes(k):
    a = k.operand(F32, (16, 3, 4))
    _use(k, f"nisa.tensor_reduce(nl.add, {a.text}, axis=[1])", (16, 4))


@forbidden("nisa.tensor_reduce")
def no_reduction_operator(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nisa.tensor_reduce({k.pick(['nl.power', 'nl.equal', 'nl.exp'])}, {a.text}, axis=[1])",
         (16, 1))


@forbidden("nisa.tensor_reduce")
def bit_reduction_of_floats(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nisa.tensor_reduce(nl.bitwise_or, {a.text}, axis=[1])", (16, 1))


@forbidden("nisa.activation_reduce")
def reduces_by_maximum(k):
    a = k.operand(F32, (16, 8))
    k.line("c = nl.ndarray((16, 1), dtype=nl.float32)")
    _use(k, f"nisa.activation_reduce(op=nl.exp, data={a.text}, reduce_op=nl.maximum, reduce_res=c)",
         (16, 8))


@forbidden("nisa.tensor_scalar_reduce")
def bit_operator(k):
    a = k.operand(I32, (16, 8))
    k.line("c = nl.ndarray((16, 1), dtype=nl.float32)")
    _use(k, f"nisa.tensor_scalar_reduce(data={a.text}, op0=nl.bitwise_and, operand0=1, "
            "reduce_op=nl.add, reduce_res=c)", (16, 8), I32)


@forbidden("nisa.bn_stats")
def too_many_elements(k):
    columns = k.between(513, 700)
    a = k.operand(F32, (16, columns))
    _use(k, f"nisa.bn_stats({a.text})", (16, 6))


@forbidden("nisa.bn_aggr")
def not_triples(k):
    columns = k.pick([1, 2, 4, 5, 7])
    a = k.operand(F32, (16, columns))
    _use(k, f"nisa.bn_aggr({a.text})", (16, 2))


@forbidden("nisa.max8")
def fewer_than_eight(k):
    a = k.operand(F32, (16, k.between(1, 7)))
    _use(k, f"nisa.max8(src={a.text})", (16, 8))


@forbidden("nisa.nc_find_index8")
def not_eight_values(k):
    a, b = _pair(k, (16, 20), (16, k.pick([7, 9])))
    _use(k, f"nisa.nc_find_index8(data={a.text}, vals={b.text})", (16, 8), formats.U32)


@forbidden("nisa.nc_find_index8")
def index_dtype(k):
    a, b = _pair(k, (16, 20), (16, 8))
    _use(k, f"nisa.nc_find_index8(data={a.text}, vals={b.text}, dtype=nl.float32)", (16, 8))


@forbidden("nisa.nc_match_replace8")
def not_eight_values_to_replace(k):
    a, b = _pair(k, (16, 20), (16, k.pick([7, 9])))
    _use(k, f"nisa.nc_match_replace8(data={a.text}, vals={b.text}, imm=0.0)", (16, 20))


@forbidden("nisa.tensor_partition_reduce")
def no_partition_operator(k):
    a = k.operand(F32, (16, 8))
    op = k.pick(["multiply", "minimum", "subtract"])
    _use(k, f"nisa.tensor_partition_reduce(nl.{op}, {a.text})", (1, 8))


# Selections.

@forbidden("nisa.tensor_copy_predicated")
def predicate_of_floats(k):
    a, b = _pair(k, (16, 8), (16, 8), (F32, k.pick([F32, formats.I8, I32])))
    k.line("d = nl.zeros((16, 8), dtype=nl.float32)")
    k.line(f"nisa.tensor_copy_predicated(src={a.text}, dst=d, predicate={b.text})")
    _store(k, "d", (16, 8))


@forbidden("nisa.tensor_copy_predicated")
def another_dtype(k):
    a, b = _pair(k, (16, 8), (16, 8), (BF16, U8))
    k.line("d = nl.zeros((16, 8), dtype=nl.float32)")
    k.line(f"nisa.tensor_copy_predicated(src={a.text}, dst=d, predicate={b.text})")
    _store(k, "d", (16, 8))


@forbidden("nisa.select_reduce")
def wide_integers_selected(k):
    a, b = _pair(k, (16, 8), (16, 8), (I32, U8))
    k.line("d = nl.zeros((16, 8), dtype=nl.int32)")
    k.line(f"nisa.select_reduce(dst=d, predicate={b.text}, on_true={a.text}, on_false=0.0)")
    _store(k, "d", (16, 8), I32)


@forbidden("nisa.select_reduce")
def reduces_by_addition(k):
    a, b = _pair(k, (16, 8), (16, 8), (F32, U8))
    k.line("d = nl.zeros((16, 8), dtype=nl.float32)")
    k.line("c = nl.zeros((16, 1), dtype=nl.float32)")
    k.line(f"nisa.select_reduce(dst=d, predicate={b.text}, on_true={a.text}, on_false=0.0, "
           "reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=c, reduce_op=nl.add)")
    _store(k, "d", (16, 8))


@forbidden("nisa.range_select")
def on_the_second_generation(k):
    a, b = _pair(k, (16, 8), (16, 1))
    _use(k, f"nisa.range_select(on_true_tile={a.text}, comp_op0=np.greater_equal, "
            f"comp_op1=np.less, bound0={b.text}, bound1={b.text}, reduce_op=np.max)", (16, 8))


@forbidden("nisa.sequence_bounds")
def two_partitions(k):
    a = k.operand(F32, (k.between(2, 9), 8), low=0, high=3)
    _use(k, f"nisa.sequence_bounds(segment_ids={a.text})", (a.shape[0], 2, 8))


# Tensor Engine.

@forbidden("nisa.nc_matmul")
def too_large(k):
    kind = k.pick(["stationary", "moving"])
    m, n = (k.between(129, 160), 64) if kind == "stationary" else (64, k.between(513, 600))
    a, b = _pair(k, (32, m), (32, n))
    _use(k, f"nisa.nc_matmul({a.text}, {b.text})", (m, n))


@forbidden("nisa.nc_matmul")
def contraction_differs(k):
    rows = k.between(2, 120)
    a, b = _pair(k, (rows, 16), (rows + k.between(1, 8), 16))
    _use(k, f"nisa.nc_matmul({a.text}, {b.text})", (16, 16))


@forbidden("nisa.nc_matmul")
def operand_in_psum(k):
    which = k.pick([0, 1])
    a, b = (k.operand(F32, (32, 16), psum=which == i) for i in range(2))
    _use(k, f"nisa.nc_matmul({a.text}, {b.text})", (16, 16))


@forbidden("nisa.nc_matmul")
def product_in_sbuf(k):
    a, b = _pair(k, (32, 16), (32, 16))
    k.line("s = nl.zeros((16, 16), dtype=nl.float32, buffer=nl.sbuf)")
    k.line(f"nisa.nc_matmul({a.text}, {b.text}, dst=s)")
    _store(k, "s", (16, 16))


@forbidden("nisa.nc_matmul")
def integers(k):
    dtype = k.pick([I32, formats.I8, U8])
    a, b = _pair(k, (32, 16), (32, 16), (dtype, dtype))
    _use(k, f"nisa.nc_matmul({a.text}, {b.text})", (16, 16))


@forbidden("nl.matmul")
def shapes_do_not_meet(k):
    a, b = _pair(k, (16, 32), (33, 16))
    _use(k, f"nl.matmul({a.text}, {b.text})", (16, 16))


@forbidden("nisa.nc_transpose")
def too_large_to_transpose(k):
    engine = k.pick(["tensor", "vector"])
    limit = 128 if engine == "tensor" else 32
    shape = k.pick([(8, limit + k.between(1, 9)), (limit, limit + 1)])
    a = k.operand(F32, shape)
    _use(k, f"nisa.nc_transpose({a.text}, engine=nisa.{engine}_engine)", shape[::-1])


@forbidden("nisa.tensor_copy")
def gpsimd_and_psum(k):
    a = k.operand(F32, (16, 8), psum=True)
    _use(k, f"nisa.tensor_copy({a.text}, engine=nisa.gpsimd_engine)", (16, 8))


@forbidden("nisa.tensor_copy")
def no_such_engine(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nisa.tensor_copy({a.text}, engine=nisa.tensor_engine)", (16, 8))


# Movement.

@forbidden("nisa.local_gather")
def not_sixteen_partitions(k):
    rows = k.pick([8, 17, 30])
    a, i = _pair(k, (rows, 20), (rows, 2), (F32, formats.U16))
    _use(k, f"nisa.local_gather({a.text}, {i.text})", (rows, 32))


@forbidden("nisa.local_gather")
def three_elements_per_index(k):
    a = k.operand(F32, (16, 20))
    i = k.tile(k.values(formats.U16, (16, 2), 0, 3), formats.U16)
    _use(k, f"nisa.local_gather({a.text}, {i.text}, {k.pick([3, 5, 64])})", (16, 96))


@forbidden("nisa.local_gather")
def index_is_not_uint16(k):
    a = k.operand(F32, (16, 20))
    dtype = k.pick([I32, formats.U32])
    i = k.tile(k.values(dtype, (16, 2), 0, 3), dtype)
    _use(k, f"nisa.local_gather({a.text}, {i.text})", (16, 32))


@forbidden("nl.gather_flattened")
def index_is_not_uint32(k):
    a = k.operand(F32, (16, 20))
    dtype = k.pick([F32, formats.U16])
    i = k.tile(k.values(dtype, (16, 2), 0, 3), dtype)
    _use(k, f"nl.gather_flattened({a.text}, {i.text})", (16, 2))


@forbidden("nisa.nc_stream_shuffle")
def short_shuffle_mask(k):
    a = k.operand(F32, (32, 8))
    k.line("d = nl.zeros((32, 8), dtype=nl.float32)")
    n = k.pick([1, 31, 33])
    k.line(f"nisa.nc_stream_shuffle(src={a.text}, dst=d, shuffle_mask=[0] * {n})")
    _store(k, "d", (32, 8))


@forbidden("nisa.dma_transpose")
def other_axes(k):
    a = k.operand(F32, (16, 3, 4))
    _use(k, f"nisa.dma_transpose({a.text}, axes={k.pick([(0, 2, 1), (1, 0, 2)])})", (16, 4, 3))


@forbidden("nisa.dma_copy")
def shapes_of_a_copy(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    y = _y(k, (16, k.pick([7, 9])))
    k.line(f"nisa.dma_copy(dst={y}, src={x})")


@forbidden("nisa.memset")
def memset_engine(k):
    _use(k, f"nisa.memset((16, 8), 1.0, dtype=nl.float32, engine=nisa."
            f"{k.pick(['scalar', 'tensor'])}_engine)", (16, 8))


@forbidden("nl.expand_dims")
def expand_in_front(k):
    a = k.operand(F32, (16, 8))
    r = k.let("r", f"nl.expand_dims({a.text}, 0)")
    _use(k, f"nl.copy({r})", (1, 16, 8))


@forbidden("nl.affine_range")
def carried_dependency(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    k.line("s = nl.zeros((16, 1), dtype=nl.float32)")
    k.line("for i in nl.affine_range(8):")
    k.line(f"    t = nl.load({x}[:, nl.ds(i, 1)])")
    k.line("    s[...] = nl.subtract(t, s)")
    _store(k, "s", (16, 1))
    k.code = "unexpected_output_dependencies"


@forbidden("nl.sequential_range")
def branch_on_a_value(k):
    x = k.operand(F32, (16, 8))
    k.line(f"if {x.text}[0, 0] > 0:" if x.text.isidentifier() else f"if {x.text} > 0:")
    k.line("    pass")
    _store(k, x.text, (16, 8))


@forbidden("nl.shared_identity_matrix")
def identity_beyond_partitions(k):
    n = k.between(129, 200)
    c = k.let("c", f"nl.shared_identity_matrix({n}, dtype=nl.float32)")
    _use(k, f"nl.load({c})", (n, n))


@forbidden("nl.broadcast_to")
def broadcast_of_many(k):
    a = k.operand(F32, (2, 8))
    _use(k, f"nl.broadcast_to({a.text}, shape=(16, 8))", (16, 8))


@forbidden("nl.load_transpose2d")
def transposed_beyond_partitions(k):
    columns = k.between(129, 200)
    x = k.hbm(k.values(F32, (16, columns)), F32)
    _use(k, f"nl.load_transpose2d({x})", (columns, 16))


@forbidden("nl.where")
def where_shapes(k):
    a, b = _pair(k, (16, 8), (16, 7))
    _use(k, f"nl.where(nl.less({a.text}, 0.0), {a.text}, {b.text})", (16, 8))


@forbidden("nl.dropout")
def rate_of_many(k):
    a, b = _pair(k, (16, 8), (16, 8))
    _use(k, f"nl.dropout({a.text}, {b.text})", (16, 8))
