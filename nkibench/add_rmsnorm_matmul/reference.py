"""Rows of x + z divided by their root mean square (stabilised by eps), times the gain g, times w."""
import numpy as np


def inverse_rms(total, eps):
    return 1 / np.sqrt(np.mean(np.square(total), axis=1, keepdims=True) + eps)


def forward(x, w, eps, z, g):
    total = x + z
    mean_square = np.mean(np.square(total), axis=1, keepdims=True)
    return (total / np.sqrt(mean_square + eps) * g) @ w


def scale(x, w, eps, z, g):
    # The sum x + z is itself rounded, whatever is left of it after cancellation.
    terms = np.abs(x) + np.abs(z)
    return (terms * inverse_rms(x + z, eps) * np.abs(g)) @ np.abs(w)


def without_eps(x, w, eps, z, g):
    return forward(x, w, 0.0, z, g)
