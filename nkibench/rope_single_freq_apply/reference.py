"""Rotary embedding with the pair (i, i + D/2) rotated by the angle of row i."""
import numpy as np


def forward(x, cos, sin):
    first, second = np.split(x, 2, axis=0)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=0)


def scale(x, cos, sin):
    first, second = np.split(np.abs(x), 2, axis=0)
    cos, sin = np.abs(cos), np.abs(sin)
    return np.concatenate([first * cos + second * sin, first * sin + second * cos], axis=0)
