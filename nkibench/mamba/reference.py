"""State-space scan: h[t] = exp(delta[t] a) h[t - 1] + delta[t] u[t] b[t], output sum of c[t] h[t].

Channels and states are independent of each other; time steps are not.
"""
import numpy as np

STEPS = 256  # time steps whose factors are made at once


def scan(delta, drive, a, b, c, decay_function):
    """Output (channel, time) of the scan driven by drive[t] b[t]."""
    channels, length = delta.shape
    result = np.empty((channels, length), dtype=delta.dtype)
    state = np.zeros(a.shape, dtype=delta.dtype)
    for start in range(0, length, STEPS):
        span = slice(start, min(start + STEPS, length))
        decay = decay_function(delta[:, span].T[:, :, None] * a)
        states = drive[:, span].T[:, :, None] * b[:, span].T[:, None, :]
        for factor, row in zip(decay, states):
            row += factor * state
            state = row
        result[:, span] = np.einsum("tcs,st->ct", states, c[:, span])
        state = state.copy()
    return result


def forward(delta, u, a, b, c):
    return scan(delta, delta * u, a, b, c, np.exp)


def scale(delta, u, a, b, c):
    """The same scan over absolute terms."""
    return scan(delta, np.abs(delta * u), a, np.abs(b), np.abs(c), np.exp)


def without_decay(delta, u, a, b, c):
    """States are summed up and never decay or grow: a = 0."""
    return scan(delta, delta * u, a, b, c, np.ones_like)
