"""Overlap of iterations, SBUF residency, spills, hoisting, start-up."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def pipeline(x, depth):
    """Load, `depth` dependent steps on ScalarE and VectorE in turn, store; tile by tile."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    for t in nl.affine_range(tiles):
        tile = nl.load(x[t, row, column])
        for _ in nl.static_range(depth):
            bent = nisa.activation(op=nl.tanh, data=tile)
            tile = nisa.tensor_scalar(bent, op0=nl.multiply, operand0=1.5,
                                      engine=nisa.vector_engine)
        nl.store(y[t, row, column], value=tile)
    return y


@nki.jit
def keep_results(x):
    """Computes all tiles, then uses each twice: what does not fit SBUF has to be spilled."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    kept = nl.ndarray((tiles, nl.par_dim(rows), columns), dtype=nl.float32, buffer=nl.sbuf)
    for t in nl.affine_range(tiles):
        tile = nl.load(x[t, row, column])
        kept[t, row, column] = nisa.activation(op=nl.tanh, data=tile)
    for t in nl.affine_range(tiles):
        total = nl.add(kept[t, row, column], kept[tiles - 1 - t, row, column])
        nl.store(y[t, row, column], value=total)
    return y


@nki.jit
def two_loops(x):
    """Computes all tiles in one loop and stores them in the next, which needs only its own."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    kept = nl.ndarray((tiles, nl.par_dim(rows), columns), dtype=nl.float32, buffer=nl.sbuf)
    for t in nl.affine_range(tiles):
        kept[t, row, column] = nisa.activation(op=nl.tanh, data=nl.load(x[t, row, column]))
    for t in nl.affine_range(tiles):
        scaled = nisa.tensor_scalar(kept[t, row, column], op0=nl.multiply, operand0=1.5)
        nl.store(y[t, row, column], value=scaled)
    return y


@nki.jit
def keep_loads(x, passes):
    """Loads all tiles, then reads them `passes` times: what does not fit SBUF is loaded again."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((passes, tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    kept = nl.ndarray((tiles, nl.par_dim(rows), columns), dtype=x.dtype, buffer=nl.sbuf)
    for t in nl.affine_range(tiles):
        kept[t, row, column] = nl.load(x[t, row, column])
    for p in nl.affine_range(passes):
        for t in nl.affine_range(tiles):
            bent = nisa.activation(op=nl.tanh, data=kept[t, row, column])
            nl.store(y[p, t, row, column], value=bent)
    return y


@nki.jit
def reload_invariant(x, w):
    """Loads w in every iteration: the compiler may load it once."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    for t in nl.affine_range(tiles):
        invariant = nl.load(w[row, column])
        total = nl.add(nl.load(x[t, row, column]), invariant)
        nl.store(y[t, row, column], value=total)
    return y


@nki.jit
def hoist_slab(x, passes):
    """Loads the same tiles in every pass: the compiler may load them once, if they fit SBUF."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((passes, tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    for p in nl.affine_range(passes):
        for t in nl.affine_range(tiles):
            bent = nisa.activation(op=nl.tanh, data=nl.load(x[t, row, column]))
            nl.store(y[p, t, row, column], value=bent)
    return y


@nki.jit
def two_chains(x, length):
    """Two independent chains over ScalarE and VectorE that take turns of `length` steps in program
    order: they overlap as far as the schedule looks ahead."""
    rows, columns = x.shape
    y = nl.ndarray((2, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    held = nl.ndarray((nl.par_dim(rows), 2, columns), dtype=x.dtype, buffer=nl.sbuf)
    for lane in nl.static_range(2):
        held[row, lane, column] = nl.load(x[row, column])
    for _ in nl.sequential_range(8):
        for lane in nl.static_range(2):
            for _ in nl.static_range(length):
                held[row, lane, column] = nisa.activation(op=nl.tanh, data=held[row, lane, column])
                held[row, lane, column] = nisa.tensor_scalar(held[row, lane, column],
                                                             op0=nl.multiply, operand0=1.5,
                                                             engine=nisa.vector_engine)
    for lane in nl.static_range(2):
        nl.store(y[lane, row, column], value=held[row, lane, column])
    return y
