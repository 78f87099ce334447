"""reading the positional formula by changing its one constant"""

from typing import Any

import torch


def judge(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "give two distances, as (for 10000, for 100)"
    )
    for base, found in zip((10000, 100), answer):
        omega = base ** -(torch.arange(0, 64, 2) / 64)
        share = (torch.arange(200)[:, None] * omega).cos().mean(1)  # of the largest
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
