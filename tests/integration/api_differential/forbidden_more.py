"""More kernels that the documentation forbids: engines, memories and parameters of instructions."""
from . import formats
from .forbidden import _pair, _store, _use, _y
from .formats import BF16, F32, I32, U8
from .kernel import forbidden, grid


@forbidden("nisa.tensor_scalar")
def gpsimd_beyond_rsqrt(k):
    a = k.operand(F32, (16, 8))
    op = k.pick(["add", "maximum", "multiply"])
    _use(k, f"nisa.tensor_scalar({a.text}, op0=nl.{op}, operand0=1.0, engine=nisa.gpsimd_engine)",
         (16, 8))


@forbidden("nisa.tensor_scalar")
def scalar_engine_operators(k):
    a = k.operand(F32, (16, 8))
    op = k.pick(["maximum", "minimum", "subtract", "less"])
    _use(k, f"nisa.tensor_scalar({a.text}, op0=nl.{op}, operand0=1.0, engine=nisa.scalar_engine)",
         (16, 8))


@forbidden("nisa.tensor_tensor")
def power_in_psum(k):
    a = k.operand(F32, (16, 8), low=1, high=2, psum=True)
    b = k.operand(F32, (16, 8), low=1, high=2)
    _use(k, f"nisa.tensor_tensor({a.text}, {b.text}, op=nl.power)", (16, 8))


@forbidden("nisa.tensor_tensor")
def scalar_engine_of_two_tiles(k):
    a, b = _pair(k, (16, 8), (16, 8))
    engine = k.pick(["scalar", "tensor"])
    _use(k, f"nisa.tensor_tensor({a.text}, {b.text}, op=nl.add, engine=nisa.{engine}_engine)",
         (16, 8))


@forbidden("nisa.tensor_tensor_scan")
def scan_of_bits(k):
    a, b = _pair(k, (16, 8), (16, 8), (I32, I32))
    _use(k, f"nisa.tensor_tensor_scan({a.text}, {b.text}, initial=0.0, op0=nl.bitwise_and, "
            "op1=nl.bitwise_or)", (16, 8), I32)


@forbidden("nisa.tensor_tensor_scan")
def initial_is_not_a_vector(k):
    a, b = _pair(k, (16, 8), (16, 8))
    _use(k, f"nisa.tensor_tensor_scan({a.text}, {b.text}, initial={a.text}, op0=nl.multiply, "
            "op1=nl.add)", (16, 8))


@forbidden("nisa.tensor_reduce")
def negated_bits(k):
    a = k.operand(I32, (16, 8))
    _use(k, f"nisa.tensor_reduce(nl.bitwise_or, {a.text}, axis=[1], negate=True)", (16, 1), I32)


@forbidden("nisa.nc_find_index8")
def few_elements(k):
    a, b = _pair(k, (16, k.between(1, 7)), (16, 8))
    _use(k, f"nisa.nc_find_index8(data={a.text}, vals={b.text})", (16, 8), formats.U32)


@forbidden("nisa.max8")
def many_elements(k):
    columns = 16384 + k.between(1, 50)
    x = k.let("x", f"nisa.memset((1, {columns}), 1.0, dtype=nl.float32)")
    _use(k, f"nisa.max8(src={x})", (1, 8))


@forbidden("nisa.select_reduce")
def select_both_in_psum(k):
    a, b = k.operand(F32, (16, 8), psum=True), k.operand(U8, (16, 8), low=0, high=1, psum=True)
    k.line("d = nl.zeros((16, 8), dtype=nl.float32)")
    k.line(f"nisa.select_reduce(dst=d, predicate={b.text}, on_true={a.text}, on_false=0.0)")
    _store(k, "d", (16, 8))


@forbidden("nisa.select_reduce")
def select_by_floats(k):
    a, b = _pair(k, (16, 8), (16, 8), (F32, k.pick([F32, I32])))
    k.line("d = nl.zeros((16, 8), dtype=nl.float32)")
    k.line(f"nisa.select_reduce(dst=d, predicate={b.text}, on_true={a.text}, on_false=0.0)")
    _store(k, "d", (16, 8))


@forbidden("nisa.tensor_copy_predicated")
def copy_both_in_psum(k):
    a, b = k.operand(F32, (16, 8), psum=True), k.operand(U8, (16, 8), low=0, high=1, psum=True)
    k.line("d = nl.zeros((16, 8), dtype=nl.float32)")
    k.line(f"nisa.tensor_copy_predicated(src={a.text}, dst=d, predicate={b.text})")
    _store(k, "d", (16, 8))


@forbidden("nisa.sequence_bounds")
def other_ids(k):
    dtype = k.pick([BF16, formats.U8, formats.I16])
    a = k.operand(dtype, (1, 8), low=0, high=3)
    _use(k, f"nisa.sequence_bounds(segment_ids={a.text})", (1, 2, 8), dtype)


@forbidden("nisa.nc_stream_shuffle")
def shuffle_between_dtypes(k):
    a = k.operand(F32, (32, 8))
    k.line("d = nl.zeros((32, 8), dtype=nl.bfloat16)")
    k.line(f"nisa.nc_stream_shuffle(src={a.text}, dst=d, shuffle_mask=[0] * 32)")
    _store(k, "d", (32, 8), BF16)


@forbidden("nisa.nc_stream_shuffle")
def shuffle_of_other_widths(k):
    a = k.operand(F32, (32, 8))
    k.line("d = nl.zeros((32, 9), dtype=nl.float32)")
    k.line(f"nisa.nc_stream_shuffle(src={a.text}, dst=d, shuffle_mask=[0] * 32)")
    _store(k, "d", (32, 9))


@forbidden("nisa.nc_stream_shuffle")
def shuffle_beyond_the_quadrant(k):
    a = k.operand(F32, (32, 8))
    k.line("d = nl.zeros((32, 8), dtype=nl.float32)")
    bad = k.pick([32, 40, 254, 256])
    k.line(f"nisa.nc_stream_shuffle(src={a.text}, dst=d, shuffle_mask=[{bad}] * 32)")
    _store(k, "d", (32, 8))


@forbidden("nisa.dropout")
def rate_of_integers(k):
    a = k.operand(I32, (16, 8))
    rate = k.operand(BF16, (16, 1), low=0, high=1)
    _use(k, f"nisa.dropout({a.text}, {rate.text})", (16, 8), I32)


@forbidden("nisa.dma_copy")
def accumulates_otherwise(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    y = _y(k, (16, 8))
    k.line(f"nl.store({y}, 1.0)")
    k.line(f"nisa.dma_copy(dst={y}, src={x}, dst_rmw_op=np.{k.pick(['multiply', 'maximum'])})")


@forbidden("nisa.dma_copy")
def accumulates_and_skips(k):
    t = k.tile(k.values(F32, (16, 8)), F32, plain=True)
    i = k.tile(k.data.integers(0, 16, (16, 1)), I32, plain=True)
    y = _y(k, (16, 8))
    k.line(f"nl.store({y}, 1.0)")
    k.line(f"nisa.dma_copy(dst={y}[{i.text}, nl.arange(8)[None, :]], src={t.text}, "
           "dst_rmw_op=np.add, oob_mode=nisa.oob_mode.skip)")


@forbidden("nisa.dma_copy")
def hardware_descriptors(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    y = _y(k, (16, 8))
    k.line(f"nisa.dma_copy(dst={y}, src={x}, dge_mode=nisa.dge_mode.hwdge)")


@forbidden("nisa.dma_copy")
def gather_out_of_bounds(k):
    """The default mode raises an error at run time."""
    x = k.hbm(k.values(F32, (16, 8)), F32)
    i = k.tile([[float(k.between(16, 30))]] * 4, I32, plain=True)
    k.line("d = nl.zeros((4, 8), dtype=nl.float32)")
    k.line(f"nisa.dma_copy(src={x}[{i.text}, nl.arange(8)[None, :]], dst=d)")
    _store(k, "d", (4, 8))


@forbidden("nl.load")
def indirect_out_of_bounds(k):
    x = k.hbm(k.values(F32, (16, 8)), F32)
    i = k.tile([[float(k.between(16, 30))]] * 4, I32, plain=True)
    _use(k, f"nl.load({x}[{i.text}, nl.arange(8)[None, :]])", (4, 8))
    k.code = "tensor_access_out_of_bound"


@forbidden("nl.atomic_rmw")
def atomic_otherwise(k):
    t = k.tile(k.values(F32, (16, 8)), F32, plain=True)
    i = k.tile(k.data.integers(0, 16, (16, 1)), I32, plain=True)
    y = _y(k, (16, 8))
    k.line(f"nl.store({y}, 1.0)")
    k.line(f"nl.atomic_rmw({y}[{i.text}, nl.arange(8)[None, :]], value={t.text}, op=np.multiply)")


@forbidden("nisa.iota")
def not_affine(k):
    i, j = grid((16, 8))
    _use(k, f"nisa.iota({i} * {j}, dtype=nl.int32)", (16, 8), I32)


@forbidden("nl.softmax")
def softmax_over_partitions(k):
    a = k.operand(F32, (16, 8))
    _use(k, f"nl.softmax({a.text}, axis={k.pick(['0', '[0]'])})", (16, 8))


@forbidden("nisa.activation_reduce")
def result_is_not_a_vector(k):
    a = k.operand(F32, (16, 8))
    k.line("c = nl.ndarray((16, 2), dtype=nl.float32)")
    _use(k, f"nisa.activation_reduce(op=nl.exp, data={a.text}, reduce_op=nl.add, reduce_res=c)",
         (16, 8))


@forbidden("nisa.tensor_scalar_reduce")
def reverse_is_not_supported(k):
    a = k.operand(F32, (16, 8))
    k.line("c = nl.ndarray((16, 1), dtype=nl.float32)")
    _use(k, f"nisa.tensor_scalar_reduce(data={a.text}, op0=nl.subtract, operand0=1.0, "
            "reduce_op=nl.add, reduce_res=c, reverse0=True)", (16, 8))


@forbidden("nisa.nc_matmul")
def array_tile_alone(k):
    a, b = _pair(k, (32, 16), (32, 16))
    only = k.pick(["tile_position=(0, 0)", "tile_size=(64, 64)",
                   "tile_position=(0, 0), tile_size=(32, 32)",
                   "tile_position=(16, 0), tile_size=(64, 64)",
                   "tile_position=(0, 0), tile_size=(48, 64)"])
    _use(k, f"nisa.nc_matmul({a.text}, {b.text}, {only})", (16, 16))


@forbidden("nki.compiler.sbuf.alloc")
def misplaced(k):
    """Beyond the partition, at a start that the partitions forbid, overlapping."""
    rows = k.pick([16, 64, 128])
    place = k.pick(["(0, 192 * 1024)", f"({ {16: 8, 64: 32, 128: 32}[rows] }, 0)", "(0, -64)"])
    k.line(f"def place(idx, pdim_size, fdim_size):\n        return {place}")
    x = k.hbm(k.values(F32, (rows, 8)), F32)
    k.line(f"t = nl.ndarray((nl.par_dim({rows}), 8), dtype=nl.float32, "
           "buffer=ncc.sbuf.alloc(place))")
    k.line(f"t[...] = nl.load({x})")
    _store(k, "t", (rows, 8))


@forbidden("nki.compiler.psum.alloc")
def misplaced_in_psum(k):
    place = k.pick(["(8, 0, 0)", "(0, 32, 0)", "(0, 0, 64)", "(-1, 0, 0)"])
    k.line(f"def place(idx, pdim_size, fdim_size):\n        return {place}")
    k.line("def low(idx, pdim_size, fdim_size):\n        return (0, 0)")
    x = k.hbm(k.values(F32, (16, 8)), F32)
    k.line("s = nl.ndarray((nl.par_dim(16), 8), dtype=nl.float32, buffer=ncc.sbuf.alloc(low))")
    k.line("t = nl.ndarray((nl.par_dim(16), 8), dtype=nl.float32, buffer=ncc.psum.alloc(place))")
    k.line(f"s[...] = nl.load({x})")
    k.line("t[...] = nl.copy(s)")
    k.line("s[...] = nl.copy(t)")
    _store(k, "s", (16, 8))


@forbidden("nki.compiler.sbuf.mod_alloc")
def value_at_creation(k):
    t = k.let("t", "nl.full((nl.par_dim(16), 8), 1.0, dtype=nl.float32, "
                   f"buffer=ncc.sbuf.mod_alloc(base_addr={k.pick([0, 64, 1024])}))")
    _store(k, t, (16, 8))
    k.code = "tensor_creation_on_scratchpad_with_init_value_not_supported"
