"""What squeezes out more BLEU?"""

from __future__ import annotations

import torch
from torch import Tensor

from annotated_transformer import LabelSmoothing


class RDrop(LabelSmoothing):
    """The smoothed criterion plus the divergence of two passes with dropout.

    x (2N, V): rows i and N + i predict the same token, in two passes that dropped
    different values; target (2N). ``weight`` is alpha in R-Drop (Wu, L. et al.,
    2021). Raises ValueError if the two halves of the targets differ.
    """

    def __init__(self, size: int, padding_idx: int, smoothing: float, weight: float):
        super().__init__(size, padding_idx, smoothing)
        self.weight = weight

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        half = len(target) // 2
        if not torch.equal(target[:half], target[half:]):
            problem = "both halves of the batch must have the same targets"
            raise ValueError(f"R-Drop: {problem}; make a batch of `group * 2`")
        first, second = x.chunk(2)
        apart = ((first.exp() - second.exp()) * (first - second)).sum(1)
        counts = target[:half] != self.padding_idx
        return super().forward(x, target) + self.weight / 2 * (apart * counts).sum()
