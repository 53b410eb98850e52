"""Elementwise engines: cost per element, operands in PSUM, overheads, engine choice.

Four tiles are updated in turn, so that the latency of a result is hidden; `one_chain` shows it."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def load_lanes(x, lanes):
    """`lanes` copies of x in SBUF."""
    rows, columns = x.shape
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    held = nl.ndarray((nl.par_dim(rows), lanes, columns), dtype=x.dtype, buffer=nl.sbuf)
    for lane in nl.static_range(lanes):
        held[row, lane, column] = nl.load(x[row, column])
    return held, row, column


def store_lanes(y, held):
    """Stores the lanes to y, of (lanes, rows, columns)."""
    lanes, rows, columns = y.shape
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    for lane in nl.static_range(lanes):
        nl.store(y[lane, row, column], value=held[row, lane, column])


@nki.jit
def add_from_sbuf(x, w, rounds):
    """tensor_tensor with both operands in SBUF."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    operand = nl.load(w[row, column])
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.tensor_tensor(held[row, lane, column], operand,
                                                         op=nl.add)
    store_lanes(y, held)
    return y


@nki.jit
def add_from_psum(x, w, rounds):
    """tensor_tensor with one operand in PSUM."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    rows, columns = x.shape
    operand = nl.ndarray((nl.par_dim(rows), columns), dtype=nl.float32, buffer=nl.psum)
    operand[row, column] = nl.copy(nl.load(w[row, column]))
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.tensor_tensor(held[row, lane, column],
                                                         operand[row, column], op=nl.add)
    store_lanes(y, held)
    return y


@nki.jit
def add_on_gpsimd(x, w, rounds):
    """tensor_tensor on GpSimd."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    operand = nl.load(w[row, column])
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.tensor_tensor(held[row, lane, column], operand,
                                                         op=nl.add, engine=nisa.gpsimd_engine)
    store_lanes(y, held)
    return y


@nki.jit
def scale_unasked(x, rounds):
    """tensor_scalar on the engine that the compiler chooses."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.tensor_scalar(held[row, lane, column], op0=nl.multiply,
                                                         operand0=0.5)
    store_lanes(y, held)
    return y


@nki.jit
def scale_on_vector(x, rounds):
    """tensor_scalar on VectorE."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.tensor_scalar(held[row, lane, column], op0=nl.multiply,
                                                         operand0=0.5, engine=nisa.vector_engine)
    store_lanes(y, held)
    return y


@nki.jit
def activate(x, rounds):
    """activation on ScalarE."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.activation(op=nl.tanh, data=held[row, lane, column])
    store_lanes(y, held)
    return y


@nki.jit
def one_chain(x, rounds):
    """activation on ScalarE, each waiting for the result of the one before."""
    y = nl.ndarray((1, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 1)
    for _ in nl.sequential_range(rounds):
        held[row, 0, column] = nisa.activation(op=nl.tanh, data=held[row, 0, column])
    store_lanes(y, held)
    return y


@nki.jit
def invert(x, rounds):
    """reciprocal on VectorE."""
    y = nl.ndarray((4, x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held, row, column = load_lanes(x, 4)
    for _ in nl.sequential_range(rounds):
        for lane in nl.static_range(4):
            held[row, lane, column] = nisa.reciprocal(data=held[row, lane, column])
    store_lanes(y, held)
    return y


@nki.jit
def reduce_rows(x, rounds):
    """tensor_reduce on VectorE, a column of results each."""
    rows, columns = x.shape
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    one = nl.arange(1)[None, :]
    y = nl.ndarray((rows, rounds), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[row, column])
    sums = nl.ndarray((nl.par_dim(rows), rounds), dtype=nl.float32, buffer=nl.sbuf)
    for r in nl.affine_range(rounds):
        sums[row, r + one] = nisa.tensor_reduce(nl.add, tile, axis=[1], keepdims=True)
    every = nl.arange(rounds)[None, :]
    nl.store(y[row, every], value=sums[row, every])
    return y


@nki.jit
def scale_by_columns(x, width):
    """tensor_scalar on `width` columns at a time, none of which needs another."""
    rows, columns = x.shape
    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    part = nl.arange(width)[None, :]
    held = nl.load(x[row, column])
    scaled = nl.ndarray((nl.par_dim(rows), columns), dtype=x.dtype, buffer=nl.sbuf)
    for c in nl.affine_range(columns // width):
        scaled[row, width * c + part] = nisa.tensor_scalar(held[row, width * c + part],
                                                           op0=nl.multiply, operand0=0.5,
                                                           engine=nisa.vector_engine)
    nl.store(y[row, column], value=scaled[row, column])
    return y


@nki.jit
def two_engines(x, rounds, in_psum):
    """A chain on ScalarE and one on VectorE side by side, both in PSUM or both in SBUF."""
    rows, columns = x.shape
    y = nl.ndarray((2, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    place = nl.psum if in_psum else nl.sbuf
    bent = nl.ndarray((nl.par_dim(rows), columns), dtype=nl.float32, buffer=place)
    scaled = nl.ndarray((nl.par_dim(rows), columns), dtype=nl.float32, buffer=place)
    held = nl.load(x[row, column])
    bent[row, column] = nisa.tensor_copy(held, engine=nisa.scalar_engine)
    scaled[row, column] = nisa.tensor_copy(held, engine=nisa.vector_engine)
    for _ in nl.sequential_range(rounds):
        bent[row, column] = nisa.activation(op=nl.tanh, data=bent[row, column])
        scaled[row, column] = nisa.tensor_scalar(scaled[row, column], op0=nl.multiply,
                                                 operand0=0.5, engine=nisa.vector_engine)
    nl.store(y[0, row, column], value=nl.copy(bent[row, column]))
    nl.store(y[1, row, column], value=nl.copy(scaled[row, column]))
    return y
