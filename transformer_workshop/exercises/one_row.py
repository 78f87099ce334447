"""scores, the softmax, and the weighted mean; what a mask does to a row"""

from typing import Any

import torch
from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import numbers_of


def judge(answer: Any) -> None:
    asked = "give three lists of numbers: ([…, …, …], […, …], […, …, …])"
    assert isinstance(answer, tuple | list) and len(answer) == 3, asked
    parts = [numbers_of(part, n, asked) for part, n in zip(answer, (3, 2, 3))]
    query = torch.tensor([[2.0, 0, 1, 1]])
    keys = torch.tensor([[0.0, 3, 1, -1], [1, 5, -1, 1], [1, 0, 2, 0]])
    values = torch.tensor([[10.0, 0], [0, 10], [5, 5]])
    seen = torch.tensor([[True, True, False]])
    output, weights = at.attention(query, keys, values)
    _, masked = at.attention(query, keys, values, seen)
    scores = query @ keys.mT
    wrong = (
        {
            "are the weights without the division by √d_k": scores.softmax(-1),
            "are the scores; the softmax is missing": scores / 2,
        },
        {"is the plain mean of the values": values.mean(0)},
        {
            "don't sum to one. Hint: leave the key out before the softmax": weights
            * seen,
            "come from a score of 0, which is not a weight of 0": (
                scores / 2 * seen
            ).softmax(-1),
        },
    )
    names = "the weights", "the output", "the weights without the third key"

    def far(part: list[float], expected: Tensor) -> bool:
        off = (torch.tensor(part) - expected).abs().max().item()
        return off > (0.03 if len(part) == 2 else 0.006)  # of weights with two decimals

    for part, name, right, faults in zip(
        parts, names, (weights, output, masked), wrong
    ):
        for fault, expected in faults.items():
            assert far(part, expected), f"{part} {fault}."
        assert not far(part, right), (
            f"{name}: not {part}. Hint: score each key, divide by √d_k, take the "
            "exponentials, and divide them by their sum."
        )
