"""x w plus the low-rank branch (x a) b."""
import numpy as np


def forward(x, w, a, b):
    y = x @ w
    y += (x @ a) @ b
    return y


def scale(x, w, a, b):
    """Terms of both products, and the rounding of x a, which adds up like noise: 1 / sqrt(K) of
    its sum of absolute terms."""
    total = np.abs(x) @ np.abs(w)
    total += (np.abs(x @ a) + np.abs(x) @ np.abs(a) / np.sqrt(x.shape[1])) @ np.abs(b)
    return total


def without_low_rank(x, w, a, b):
    return x @ w
