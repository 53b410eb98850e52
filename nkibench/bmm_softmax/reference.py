"""Softmax over the last axis of a batched matrix product, stabilised by the row maximum."""
import numpy as np

# An exponential below the smallest normal float32 may come out as zero: an absolute error of
# 2**-126, which is 2**-102 in units of 2**-24.
UNDERFLOW = 2.0**-102


def forward(lhs, rhs):
    probability = np.empty((lhs.shape[0], lhs.shape[1], rhs.shape[2]), dtype=lhs.dtype)
    for b, rows in enumerate(probability):
        np.matmul(lhs[b], rhs[b], out=rows)
        rows -= rows.max(axis=1, keepdims=True)
        np.exp(rows, out=rows)
        rows /= rows.sum(axis=1, keepdims=True)
    return probability


def scale(lhs, rhs):
    """p (1 + t + sum of p t), t = |lhs||rhs| + |logit - max|: what rounding of the logits does."""
    total = np.empty((lhs.shape[0], lhs.shape[1], rhs.shape[2]))
    for b, rows in enumerate(total):
        shifted = lhs[b] @ rhs[b]
        shifted -= shifted.max(axis=1, keepdims=True)
        np.matmul(np.abs(lhs[b]), np.abs(rhs[b]), out=rows)
        rows -= shifted
        probability = np.exp(shifted, out=shifted)
        probability /= probability.sum(axis=1, keepdims=True)
        rows += 1 + np.einsum("ij,ij->i", probability, rows)[:, None]
        rows *= probability
        np.maximum(rows, UNDERFLOW, out=rows)
    return total
