"""the softmax as a running sum, and why the maximum is subtracted before the
exponential
"""

from typing import Any

import torch
import torch.nn.functional as F
from checking import agree, exercise, tensor_work

import annotated_transformer as at


@exercise("1.9")
def in_pieces(answer: Any) -> None:
    q, k, v = torch.randn(2, 5, 8), torch.randn(2, 11, 8), torch.randn(2, 11, 8)
    for size in (1, 4, 11, 20):
        expected = F.scaled_dot_product_attention(q, k, v)
        given = f"for 5 queries, 11 keys and pieces of {size}"
        agree(answer(q, k, v, size), expected, given, "do later pieces rescale sums?")
    far = 200 * q  # exp of such scores overflows
    agree(
        answer(far, k, v, 4),
        F.scaled_dot_product_attention(far, k, v),
        "for scores in the hundreds",
        "subtract the largest score so far before you take exp",
    )
    q, k, v = torch.randn(1, 40, 2), torch.randn(1, 60, 2), torch.randn(1, 60, 2)
    largest, names = answer.ask(tensor_work, q, k, v, 4)
    assert largest < 40 * 60, (
        "the result is right, but for 40 queries and 60 keys a tensor of 2,400 numbers "
        "was built on the way, all scores at once; take the products with one piece of "
        "the keys at a time"
    )
    assert not any("dot_product_attention" in name for name in names), (
        "the result is right, but PyTorch's attention computed it. Hint: write the "
        "loop over the pieces yourself."
    )


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
