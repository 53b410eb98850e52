"""Product lhs^T rhs: 1024 columns of lhs are held while rhs streams by in 1024-column slabs."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(lhs, rhs):
    lanes, k_tiles, rows = lhs.shape
    columns = rhs.shape[2]
    slab = 1024  # columns of lhs and of rhs held at a time
    width = 512  # columns of one instruction and of one PSUM bank
    tiles = slab // lanes
    assert rows % slab == 0

    product = nl.ndarray((rows // lanes, lanes, columns), dtype=lhs.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    square = nl.arange(lanes)[None, :]
    narrow = nl.arange(width)[None, :]
    wide = nl.arange(slab)[None, :]

    for i in nl.affine_range(rows // slab):
        lhs_slab = nl.ndarray((k_tiles, nl.par_dim(lanes), slab), dtype=nl.float32, buffer=nl.sbuf)
        for k in nl.affine_range(k_tiles):
            lhs_slab[k, lane, wide] = nl.load(lhs[lane, k, slab * i + wide])

        for s in nl.affine_range((columns + slab - 1) // slab):
            inside = slab * s + wide < columns  # the last slab may be cut short
            rhs_slab = nl.ndarray((k_tiles, nl.par_dim(lanes), slab), dtype=nl.float32,
                                  buffer=nl.sbuf)
            for k in nl.affine_range(k_tiles):
                rhs_slab[k, lane, wide] = nl.load(rhs[lane, k, slab * s + wide], mask=inside)

            for r in nl.affine_range(tiles):
                row_slab = nl.ndarray((nl.par_dim(lanes), slab), dtype=nl.float32, buffer=nl.sbuf)
                for n in nl.affine_range(slab // width):
                    live = slab * s + width * n + narrow < columns
                    total = nl.zeros((nl.par_dim(lanes), width), dtype=nl.float32, buffer=nl.psum)
                    for k in nl.affine_range(k_tiles):
                        total[lane, narrow] += nisa.nc_matmul(
                            lhs_slab[k, lane, lanes * r + square],
                            rhs_slab[k, lane, width * n + narrow], mask=live)
                    row_slab[lane, width * n + narrow] = nl.copy(total[lane, narrow], mask=live)
                nl.store(product[tiles * i + r, lane, slab * s + wide], value=row_slab,
                         mask=inside)
    return product
