"""DMA: length and distance of contiguous runs, rows, transposed loads."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def copy_tiles(x):
    """HBM to HBM through SBUF, one tile of (rows, columns) at a time: runs of `columns`."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    for t in nl.affine_range(tiles):
        tile = nl.load(x[t, row, column])
        nl.store(y[t, row, column], value=tile)
    return y


@nki.jit
def gather_runs(x):
    """Reads the first half of every run of x, so that the runs of a row do not touch; the transfers
    stay large, whatever the length of their runs."""
    tiles, rows, runs, pitch = x.shape
    length = pitch // 2
    y = nl.ndarray((tiles, rows, runs, length), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None, None]
    run = nl.arange(runs)[None, :, None]
    position = nl.arange(length)[None, None, :]
    for t in nl.affine_range(tiles):
        tile = nl.load(x[t, row, run, position])
        nl.store(y[t, row, run, position], value=tile)
    return y


@nki.jit
def copy_columns(x, width):
    """Reads blocks of `width` columns whose rows lie a whole row of x apart in HBM."""
    rows, columns = x.shape
    blocks = columns // width
    y = nl.ndarray((blocks, rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(width)[None, :]
    for b in nl.affine_range(blocks):
        tile = nl.load(x[row, width * b + column])
        nl.store(y[b, row, column], value=tile)
    return y


@nki.jit
def load_transposed(x):
    """Transposes square tiles while they are loaded."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    turned_row = nl.arange(columns)[:, None]
    turned_column = nl.arange(rows)[None, :]
    for t in nl.affine_range(tiles):
        turned = nl.load_transpose2d(x[t, row, column])
        nl.store(y[t, turned_row, turned_column], value=turned)
    return y


@nki.jit
def transposed_by_array(x):
    """The same by the systolic array: what a transposed load is compared with."""
    tiles, rows, columns = x.shape
    y = nl.ndarray((tiles, columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.arange(rows)[:, None]
    column = nl.arange(columns)[None, :]
    turned_row = nl.arange(columns)[:, None]
    turned_column = nl.arange(rows)[None, :]
    for t in nl.affine_range(tiles):
        tile = nl.load(x[t, row, column])
        turned = nl.copy(nisa.nc_transpose(tile, engine=nisa.tensor_engine))
        nl.store(y[t, turned_row, turned_column], value=turned)
    return y
