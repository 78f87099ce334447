"""Which optimizer does a run get? Adam, or Muon for matrices and Adam for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from annotated_transformer import EncoderDecoder, build_optimizer


def orthogonalize(x: Tensor) -> Tensor:
    """Return a matrix (m, n) with the singular vectors of ``x`` and values near 1.

    Five steps of Newton and Schulz's iteration, with the coefficients of Jordan et al.
    (2024): the singular values end between about 0.7 and 1.2.
    """
    wide = x if x.size(0) <= x.size(1) else x.T
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (2.0315 * gram @ gram - 4.775 * gram) @ wide
    return wide if x.size(0) <= x.size(1) else wide.T


class Muon(Optimizer):
    """Momentum, orthogonalized: each update turns all directions equally far.

    For matrices (m, n) only (Jordan et al., 2024). An update is scaled by
    0.2 sqrt(max(m, n)), so that Adam's learning rates suit it (Liu et al., 2025).
    Unlike PyTorch's, it multiplies in the precision of the training, not always in
    bfloat16, which not every processor does fast.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add matrices; raise ValueError for parameters of another shape."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.dim() != 2:
                shape = tuple(p.shape)
                raise ValueError(f"Muon updates matrices; leave {shape} to Adam")

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every matrix that has a gradient; return what ``closure`` does."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                slots = self.state[p]
                if not slots:
                    slots["momentum_buffer"] = torch.zeros_like(p)
                mean = slots["momentum_buffer"].lerp_(p.grad, 1 - group["momentum"])
                ahead = p.grad.lerp(mean, group["momentum"])  # Nesterov's
                scale = 0.2 * max(p.shape) ** 0.5
                p.sub_(orthogonalize(ahead), alpha=group["lr"] * scale)
        return loss


def matrices_and_others(
    model: EncoderDecoder,
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the matrices of encoder and decoder, and the other parameters."""
    stacks = (*model.encoder.parameters(), *model.decoder.parameters())
    matrices = [p for p in stacks if p.dim() == 2]
    taken = {id(p) for p in matrices}
    return matrices, [p for p in model.parameters() if id(p) not in taken]


class MuonAndAdam(Optimizer):
    """Muon for the matrices of encoder and decoder, the paper's Adam for the rest.

    The two share this optimizer's groups and state, so it saves and loads as one.
    Groups that are added are Adam's.
    """

    def __init__(self, model: EncoderDecoder, lr: float):
        matrices, others = matrices_and_others(model)
        adam = torch.optim.Adam(others, lr, betas=(0.9, 0.98), eps=1e-9)
        self.parts = Muon(matrices, lr), adam
        groups = [group for part in self.parts for group in part.param_groups]
        super().__init__(groups, adam.defaults)

    def _share(self) -> None:
        for part in self.parts:
            part.state = self.state
        muon, adam = self.parts
        muon.param_groups, adam.param_groups = (
            self.param_groups[:1], self.param_groups[1:]
        )  # fmt: skip

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, to be updated by Adam."""
        super().add_param_group(param_group)
        self._share()

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"parts": self.parts}  # what a copy needs

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share()

    def step(self, closure: Any = None) -> Any:
        """Let both update their parameters; return what ``closure`` does."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self.parts:
            part.step()
        return loss


Rates = Callable[[int], float]  # the rate of each update
BuildOptimizers = Callable[[EncoderDecoder, Rates], tuple[Optimizer, LambdaLR]]


def build_optimizers(
    model: EncoderDecoder, schedule: Rates, kind: str | BuildOptimizers
) -> tuple[Optimizer, LambdaLR]:
    """Return optimizer and scheduler: chapter 3's Adam, or MuonAndAdam for "muon".

    For a function of model and schedule, return what it returns.
    """
    if callable(kind):
        return kind(model, schedule)
    if kind == "adam":
        return build_optimizer(model, schedule)
    both = MuonAndAdam(model, lr=1.0)  # LambdaLR multiplies it by its function
    return both, LambdaLR(both, lambda step: schedule(step + 1))
