"""How does a run go through its batches, and count what it has seen?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from annotated_transformer import (
    Batch,
    LossCompute,
    in_mode,
    loss_per_word,
    mean_loss,
    update,
)


@dataclass
class TrainState:
    """Count what a training run has seen."""

    step: int = 0  # batches
    accum_step: int = 0  # updates of the weights
    samples: int = 0  # sentence pairs
    tokens: int = 0  # target tokens, padding not counted

    def add(self, batch: Batch) -> None:
        """Count one batch."""
        self.step += 1
        self.samples += len(batch.src)
        self.tokens += batch.ntokens


def run_epoch(
    data_iter: Iterable[Batch],
    model: nn.Module,
    loss_compute: LossCompute,
    optimizer: Any,
    scheduler: Any,
    mode: str = "train",
    accum_iter: int = 1,
    train_state: TrainState | None = None,
    *,
    max_norm: float | None = None,
    callback: Callable[[TrainState], None] | None = None,
) -> tuple[float, TrainState]:
    """Pass over the batches once, with an update after each ``accum_iter`` of them.

    Return the loss per target token, and the state. ``mode`` is "train", "train+log"
    (which prints the loss so far every 40 updates) or "eval" (which needs neither
    optimizer nor scheduler). ``max_norm`` clips the gradient's norm before each
    update, and ``callback`` receives the state after it. Raises ValueError for another
    mode, for ``accum_iter`` below 1, and if there are no batches.
    """
    if accum_iter < 1:
        raise ValueError(f"accum_iter={accum_iter}: an update needs 1 batch or more")
    if mode not in ("train", "train+log", "eval"):
        raise ValueError(f"mode={mode!r} is neither 'train', 'train+log', nor 'eval'")
    state = TrainState() if train_state is None else train_state
    before = state.tokens

    def counted() -> Iterator[Batch]:
        for batch in data_iter:
            state.add(batch)
            yield batch

    if mode == "eval":
        return mean_loss(counted(), model, loss_compute), state
    stream = iter(data_iter)
    clip = math.inf if max_norm is None else max_norm
    loss_sum = 0.0
    with in_mode(model, training=True):
        while window := list(itertools.islice(stream, accum_iter)):
            loss_sum += update(window, model, loss_compute, optimizer, scheduler, clip)
            for batch in window:
                state.add(batch)
            state.accum_step += 1
            if mode == "train+log" and state.accum_step % 40 == 0:
                so_far = loss_per_word(loss_sum, state.tokens - before)
                print(f"update {state.accum_step:5}  loss {so_far:.2f}")
            if callback is not None:
                callback(state)
    return loss_per_word(loss_sum, state.tokens - before), state
