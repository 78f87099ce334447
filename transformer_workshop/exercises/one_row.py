"""scores, the softmax, and the weighted mean; what a mask does to a row"""

from typing import Any

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part, numbers_of

ASKED = "give three lists of numbers: ([…, …, …], […, …], […, …, …])"
QUERY = torch.tensor([[2.0, 0, 1, 1]])
KEYS = torch.tensor([[0.0, 3, 1, -1], [1, 5, -1, 1], [1, 0, 2, 0]])
VALUES = torch.tensor([[10.0, 0], [0, 10], [5, 5]])
SEEN = torch.tensor([[True, True, False]])


def parts() -> list[Part]:
    output, weights = at.attention(QUERY, KEYS, VALUES)
    _, masked = at.attention(QUERY, KEYS, VALUES, SEEN)
    hint = (
        "score each key, divide by √d_k, take the exponentials, and divide them by "
        "their sum."
    )
    return [  # two decimals are enough
        Part("the list of weights", weights[0].tolist(), hint, 0.006),
        Part("the output", output[0].tolist(), hint, 0.03),
        Part("the list without the third key", masked[0].tolist(), hint, 0.006),
    ]


def judge(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 3, ASKED
    lists = [numbers_of(part, n, ASKED) for part, n in zip(answer, (3, 2, 3))]
    scores = QUERY @ KEYS.mT
    wrong = (
        {
            "are the weights without the division by √d_k": scores.softmax(-1),
            "are the scores; the softmax is missing": scores / 2,
        },
        {"is the plain mean of the values": VALUES.mean(0)},
        {
            "don't sum to one. Hint: leave the key out before the softmax": (
                (scores / 2).softmax(-1) * SEEN
            ),
            "come from a score of 0, which is not a weight of 0": (
                scores / 2 * SEEN
            ).softmax(-1),
        },
    )
    for found, faults, part in zip(lists, wrong, parts()):
        for fault, values in faults.items():
            likely = Part("", values.flatten().tolist(), "", part.within)
            assert not likely.fits(found), f"{found} {fault}."
        assert part.fits(found), part.message(found)
