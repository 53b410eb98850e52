"""Rows of x + z divided by their root mean square (stabilised by eps), times the gain g, times w."""
import numpy as np


def forward(x, w, eps, z, g):
    total = x + z
    mean_square = np.mean(np.square(total), axis=1, keepdims=True)
    return (total / np.sqrt(mean_square + np.float32(eps)) * g) @ w
