"""softmax(q k^T / sqrt(D)) v for every query head; consecutive query heads share one k and v."""
import numpy as np

ROWS = 256  # query rows worked on at once


def attention(q, k, v, rows_function):
    """Result (batch, query head, position, D), made by `rows_function` from a block of query
    rows, and the keys and values of its head."""
    batch, positions, query_heads, depth = q.shape
    shared = query_heads // k.shape[2]
    result = np.empty((batch, query_heads, positions, depth), dtype=q.dtype)
    for b in range(batch):
        for head in range(query_heads):
            keys = np.ascontiguousarray(k[b, :, head // shared].T)
            values = np.ascontiguousarray(v[b, :, head // shared])
            for start in range(0, positions, ROWS):
                rows = np.ascontiguousarray(q[b, start:start + ROWS, head])
                result[b, head, start:start + ROWS] = rows_function(rows, keys, values)
    return result


def softmax(logits):
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


def forward(q, k, v):
    factor = 1 / float(np.sqrt(q.shape[3]))

    def rows_function(rows, keys, values):
        return softmax(rows @ keys * factor) @ values

    return attention(q, k, v, rows_function)


def scale(q, k, v):
    """Sum of p |v| (1 + t + sum of p t), t = |q||k| / sqrt(D): what rounding of the logits does."""
    factor = 1 / float(np.sqrt(q.shape[3]))

    def rows_function(rows, keys, values):
        terms = np.abs(rows) @ np.abs(keys) * factor
        probability = softmax(rows @ keys * factor)
        mean = np.einsum("ij,ij->i", probability, terms)
        terms += 1 + mean[:, None]
        terms *= probability
        return terms @ np.abs(values)

    return attention(q, k, v, rows_function)
