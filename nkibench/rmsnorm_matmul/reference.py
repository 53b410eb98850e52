"""Rows of x divided by their root mean square (no epsilon, no gain), then multiplied by w."""
import numpy as np


def forward(x, w):
    mean_square = np.mean(np.square(x), axis=1, keepdims=True)
    return (x / np.sqrt(mean_square)) @ w
