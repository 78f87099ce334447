"""reading the positional formula by changing its one constant"""

from typing import Any

import torch
from torch import Tensor

from transformer_workshop.exercises.checking import Part

ASKED = "give two distances, as (for 10000, for 100)"
BASES = 10000, 100


def shares(base: int) -> Tensor:
    """Return the product with a position at each distance; with itself it is 1."""
    omega = base ** -(torch.arange(0, 64, 2) / 64)
    return (torch.arange(200)[:, None] * omega).cos().mean(1)


def parts() -> list[Part]:
    hint = "where does the product first fall below one half?"
    below = [(shares(base) < 0.5).nonzero()[0].item() for base in BASES]
    return [Part(f"the distance for {base}", first, hint)
            for base, first in zip(BASES, below)]  # fmt: skip


def judge(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 2, ASKED
    for base, found in zip(BASES, answer):
        share = shares(base)
        assert isinstance(found, int) and 0 < found < 200, (
            f"for {base} the distance is a whole number from 1 to 199, not {found}"
        )
        assert share[found] < 0.5, (
            f"for {base}, at distance {found} the product is still {share[found]:.2f} "
            "of that of a position with itself"
        )
        assert (share[1:found] >= 0.5).all(), (
            f"for {base}, the product is below one half before distance {found}"
        )
