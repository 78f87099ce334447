"""the softmax as a running sum, and why the maximum is subtracted before the
exponential
"""

from typing import Any

import torch
import torch.nn.functional as F

from transformer_workshop.exercises.checking import agree, tensor_work


def judge(answer: Any) -> None:
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
