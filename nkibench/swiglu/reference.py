"""(silu(x gate) * (x up)) down, silu(v) = v / (1 + exp(-v))."""
import numpy as np


def forward(x, up, down, gate):
    opened = x @ gate
    hidden = opened / (1 + np.exp(-opened))
    hidden *= x @ up
    return hidden @ down


def scale(x, up, down, gate):
    """Terms of the last product, with |v| for silu(v) as for SiLU alone, and the rounding of the
    two products before it, which adds up like noise: 1 / sqrt(K) of its sum of absolute terms."""
    opened, lifted = x @ gate, x @ up
    sigmoid = 1 / (1 + np.exp(-opened))
    slope = sigmoid * (1 + opened * (1 - sigmoid))
    noise = np.abs(x) / np.sqrt(x.shape[1])
    hidden = np.abs(opened * lifted)
    hidden += np.abs(slope * lifted) * (noise @ np.abs(gate))
    hidden += np.abs(opened) * (noise @ np.abs(up))
    return hidden @ np.abs(down)
