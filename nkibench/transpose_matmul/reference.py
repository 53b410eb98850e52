"""The matrix product with the left factor transposed."""
import numpy as np


def forward(lhs, rhs):
    return lhs.T @ rhs


def scale(lhs, rhs):
    return np.abs(lhs).T @ np.abs(rhs)
