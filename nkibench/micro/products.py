"""TensorE: shapes and dtypes of products, in groups of eight that accumulate in PSUM."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def accumulate(x, w):
    """y[g] = sum over j of w[:, j].T @ x[g]: x is (groups, K, N), w is (K, 8, M)."""
    groups, contraction, moving = x.shape
    _, members, stationary = w.shape
    y = nl.ndarray((groups, stationary, moving), dtype=nl.float32, buffer=nl.shared_hbm)
    k = nl.arange(contraction)[:, None]
    n = nl.arange(moving)[None, :]
    m = nl.arange(stationary)[None, :]
    result_row = nl.arange(stationary)[:, None]
    deep_k = nl.arange(contraction)[:, None, None]
    member = nl.arange(members)[None, :, None]
    deep_m = nl.arange(stationary)[None, None, :]
    weights = nl.ndarray((nl.par_dim(contraction), members, stationary), dtype=w.dtype,
                         buffer=nl.sbuf)
    weights[deep_k, member, deep_m] = nl.load(w[deep_k, member, deep_m])
    for g in nl.affine_range(groups):
        tile = nl.load(x[g, k, n])
        total = nl.zeros((nl.par_dim(stationary), moving), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(members):
            total[result_row, n] += nisa.nc_matmul(weights[k, j, m], tile)
        nl.store(y[g, result_row, n], value=nl.copy(total[result_row, n]))
    return y
