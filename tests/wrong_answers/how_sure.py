"""Wrong answers to the exercise how_sure."""

import functools

import torch
from torch import nn

from annotated_transformer import make_model


class Teller(nn.Module):
    """A model that has been trained, for a test: it gives the right id this much."""

    def __init__(self, right: float):
        super().__init__()
        self.right = right

    def forward(self, src, tgt, src_mask, tgt_mask):
        ids = torch.cat([src, torch.ones(len(src), 1).long()], dim=1)
        p = torch.full((*ids.shape, 13), (1 - self.right) / 11)
        p[..., 2] = 0
        return p.scatter(2, ids.unsqueeze(-1), self.right)

    def generator(self, p):
        return p.log()


sure, unsure = Teller(0.998), Teller(0.6)
untrained = functools.partial(make_model, 13, 13, N=1, d_model=8, d_ff=8, h=2)

WRONG = [
    ["bcf", sure, sure],
    *([letters, sure, unsure] for letters in ("b", "bc", "abcf", "bcdf", "bcef", "cf")),
    ["bcf", untrained(), untrained()],
    ["bcf", unsure, sure],
    ["bcf", 0.0, 0.4],
    ["x", sure, unsure],
    "bcf",
    3,
]
