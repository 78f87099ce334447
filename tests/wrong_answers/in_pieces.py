"""Wrong answers to the exercise in_pieces."""

from typing import Any

import torch

import annotated_transformer as at


def mean_of_pieces(query, key, value, size):
    """Count every piece's answer alike, however much weight it has."""
    pieces = zip(key.split(size, -2), value.split(size, -2))
    answers = [at.attention(query, k, v)[0] for k, v in pieces]
    return torch.stack(answers).mean(0)


def without_a_maximum(query, key, value, size):
    """Omit the maximum: right for small scores, infinite for large ones."""
    total: Any = 0
    weighted: Any = 0
    for k, v in zip(key.split(size, -2), value.split(size, -2)):
        p = (query @ k.mT / query.size(-1) ** 0.5).exp()
        total, weighted = total + p.sum(-1, keepdim=True), weighted + p @ v
    return weighted / total


def turned_over(query, key, value, size):
    """Build the whole matrix, with keys in the rows."""
    weights = (key @ query.mT / query.size(-1) ** 0.5).softmax(dim=-2)
    return weights.mT @ value


WRONG = [
    mean_of_pieces,
    without_a_maximum,
    lambda query, key, value, size: at.attention(query, key, value)[0],
    turned_over,
    lambda q, k, v, size: torch.nn.functional.scaled_dot_product_attention(q, k, v),
]
