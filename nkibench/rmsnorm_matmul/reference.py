"""Rows of x divided by their root mean square (no epsilon, no gain), then multiplied by w."""
import numpy as np


def normalised(x):
    return x / np.sqrt(np.mean(np.square(x), axis=1, keepdims=True))


def forward(x, w):
    return normalised(x) @ w


def scale(x, w):
    return np.abs(normalised(x)) @ np.abs(w)
