"""Rows of x w + z divided by their root mean square (stabilised by eps), times the gain g."""
import numpy as np


def normalise(total, eps, g):
    return total * g / np.sqrt(np.mean(np.square(total), axis=1, keepdims=True) + eps)


def forward(x, w, eps, z, g):
    return normalise(x @ w + z, eps, g)


def scale(x, w, eps, z, g):
    """The rounding of the sum x w + z as it reaches the output directly and through the mean."""
    total = x @ w + z
    terms = np.abs(x) @ np.abs(w) + np.abs(z)
    mean_square = np.mean(np.square(total), axis=1, keepdims=True) + eps
    through_mean = np.mean(np.abs(total) * terms, axis=1, keepdims=True) / mean_square
    return np.abs(g) * (terms + np.abs(total) * through_mean) / np.sqrt(mean_square)


def without_eps(x, w, eps, z, g):
    return normalise(x @ w + z, 0.0, g)


def without_residual(x, w, eps, z, g):
    return normalise(x @ w, eps, g)


def without_gain(x, w, eps, z, g):
    return normalise(x @ w + z, eps, np.ones_like(g))
