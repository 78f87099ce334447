"""Wrong answers to the exercise masks."""

import torch


def one_by_one(lengths, size):
    """Build each row in a loop."""
    rows = [[s < length for s in range(size)] for length in lengths.tolist()]
    return torch.tensor(rows).unsqueeze(1)


WRONG = [
    lambda lengths, size: torch.arange(size) < lengths.unsqueeze(1),  # (B, size)
    lambda lengths, size: (torch.arange(size) <= lengths[:, None]).unsqueeze(1),
    lambda lengths, size: (torch.arange(size) < lengths[:, None]).unsqueeze(1).float(),
    one_by_one,
]
