"""AdamW step: theta - 1e-5 theta - 0.01 m' / (sqrt(1000 v') + 1e-8)."""
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(theta, g, m, v):
    rows, columns = theta.shape
    lanes = 128
    block = 1024  # columns moved by one DMA
    width = 512  # columns computed by one instruction
    assert columns % block == 0

    updated = nl.ndarray((rows, columns), dtype=theta.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(lanes)[:, None]
    wide = nl.arange(block)[None, :]
    narrow = nl.arange(width)[None, :]
    zero = nisa.memset(shape=(lanes, 1), value=0, dtype=nl.float32)

    for t in nl.affine_range((rows + lanes - 1) // lanes):
        row = lanes * t + lane
        live = row < rows  # the last row tile may be cut short
        for b in nl.affine_range(columns // block):
            col = block * b + wide
            theta_tile = nl.load(theta[row, col], mask=live)
            m_tile = nl.load(m[row, col], mask=live)
            v_tile = nl.load(v[row, col], mask=live)
            g_tile = nl.load(g[row, col], mask=live)
            new_tile = nl.ndarray((nl.par_dim(lanes), block), dtype=nl.float32, buffer=nl.sbuf)
            for part in nl.affine_range(block // width):
                cut = width * part + narrow

                # Weight decay.
                decay = nisa.tensor_scalar(data=theta_tile[lane, cut], op0=nl.multiply,
                                           operand0=1e-5, mask=live)
                decayed = nl.subtract(theta_tile[lane, cut], decay, mask=live)

                # First moment, times the step size.
                m_part = nisa.tensor_scalar(data=m_tile[lane, cut], op0=nl.multiply,
                                            operand0=0.9, mask=live)
                g_part = nisa.tensor_scalar(data=g_tile[lane, cut], op0=nl.multiply,
                                            operand0=0.1, mask=live)
                first = nl.add(m_part, g_part, mask=live)
                step = nisa.tensor_scalar(data=first, op0=nl.multiply, operand0=0.01, mask=live)

                # Second moment.
                v_part = nisa.tensor_scalar(data=v_tile[lane, cut], op0=nl.multiply,
                                            operand0=0.999, mask=live)
                g_small = nisa.tensor_scalar(data=g_tile[lane, cut], op0=nl.multiply,
                                             operand0=0.001, mask=live)
                g_square = nl.multiply(g_small, g_tile[lane, cut], mask=live)
                second = nl.add(v_part, g_square, mask=live)

                # Update.
                root = nisa.activation(op=nl.sqrt, data=second, bias=zero, scale=1000.0, mask=live)
                shifted = nisa.tensor_scalar(data=root, op0=nl.add, operand0=1e-8, mask=live)
                inverse = nisa.reciprocal(data=shifted, mask=live)
                change = nl.multiply(step, inverse, mask=live)
                new_tile[lane, cut] = nl.subtract(decayed, change, mask=live)
            nl.store(updated[row, col], value=new_tile, mask=live)
    return updated
