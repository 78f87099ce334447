"""How do several processes train one model?"""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch import Tensor

from annotated_transformer import (
    PAD,
    Batch,
    DataError,
    Example,
    SimpleLossCompute,
    make_batch,
)
from transformer_workshop.training.epochs import TrainState


def is_main_process() -> bool:
    """Return whether this process writes the files: the only or the first one."""
    return os.environ.get("RANK", "0") == "0"


def is_launched() -> bool:
    """Return whether a launcher, such as torchrun, started this process with others."""
    return "LOCAL_RANK" in os.environ


def number_process(number: int, count: int) -> None:
    """Make this process one of ``count``, as torchrun does; keep what torchrun said."""
    numbers = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": count}
    for name, value in numbers.items():
        os.environ.setdefault(name, str(value))


def run_in_processes(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call work(*arguments) in so many new processes, and wait for all of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    started = torch.multiprocessing.spawn(
        _work, (count, work, *arguments), count, join=False
    )
    try:
        while not started.join():
            pass
    finally:  # if stopped, leave no process behind
        for process in started.processes:
            process.terminate()


def _work(number: int, count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Do the work of one of the processes."""
    number_process(number, count)
    work(*arguments)


@contextmanager
def process_group(device: torch.device) -> Iterator[tuple[torch.device, int, int]]:
    """Join the other processes for a with block; yield device, rank, and world size.

    A process that no launcher started works alone, as rank 0 of 1.
    """
    if device.type == "cuda":
        number = os.environ.get("LOCAL_RANK", device.index or 0)
        device = torch.device("cuda", int(number))
        torch.cuda.set_device(device)  # random numbers come from the current one
    if not is_launched():
        yield device, 0, 1
        return
    if device.type != "cuda":
        device = torch.device("cpu")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device, dist.get_rank(), dist.get_world_size()
    except RuntimeError as error:
        if not re.search("[Cc]onnection|remote process", str(error)):
            raise
        do = "Its own message says why. The same command resumes the run."
        raise DataError("another process of this run", "has ended", do) from error
    finally:
        dist.destroy_process_group()


def distribute(model: nn.Module) -> nn.Module:
    """Wrap the model to average gradients if there are several processes."""
    if not is_launched():
        return model
    # buffers are constant tables (positions), so they need no synchronization
    return nn.parallel.DistributedDataParallel(model, forward_sync_buffers=False)


def own_batches(
    examples: Sequence[Example],
    groups: Sequence[list[int]],
    process: tuple[torch.device, int, int],
) -> Iterator[Batch]:
    """Yield a process's share of each group of examples: rows rank, rank + world, …

    process: what process_group yields. A share has no rows if the group has too few.
    """
    device, rank, world = process
    for group in groups:
        if own := group[rank::world]:
            yield make_batch(examples, own, device)
        else:
            empty = torch.zeros(0, 2, dtype=torch.long, device=device)
            yield Batch(empty, empty, PAD)


def sum_over_processes(*numbers: float) -> list[float]:
    """Sum each number over all processes of a distributed run."""
    if not is_launched():
        return list(numbers)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    totals = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    return totals.tolist()


@dataclass
class SharedState(TrainState):
    """The counters of one process, and the latest epoch's sums over all of them."""

    criterion_sum: float = 0.0
    epoch_tokens: int = 0  # target tokens without padding

    @property
    def criterion(self) -> float:
        """Loss per token in the latest epoch; named after what computes it."""
        return self.criterion_sum / max(self.epoch_tokens, 1)


class SharedLoss:
    """A loss for ``run_epoch`` that covers the batches of all processes.

    Takes and returns what the wrapped SimpleLossCompute does, but divides by the tokens
    of all processes, adds to the sums in ``state``, and raises FloatingPointError in
    every process if the loss of one is not finite.
    """

    def __init__(self, loss_compute: SimpleLossCompute, state: SharedState):
        self.loss_compute = loss_compute
        self.state = state

    def __call__(self, x: Tensor, y: Tensor, norm: float) -> tuple[float, Tensor]:
        own, loss = self.loss_compute(x, y, 1)
        total, tokens, norm, processes = sum_over_processes(
            own, int((y != PAD).sum()), norm, 1
        )
        check_finite("loss", total, self.state)
        self.state.criterion_sum += total
        self.state.epoch_tokens += int(tokens)
        return own, loss / (norm / processes)  # DistributedDataParallel takes the mean


def check_finite(what: str, value: float | Tensor, state: TrainState) -> None:
    """Raise FloatingPointError for a NaN or infinite value, and say where."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {what} is {value} at update {state.accum_step + 1}; the weights "
            "are still those of the update before. Lower the learning rate, "
            "lengthen the warm-up or clip"
        )


def check_gradients(optimizer: torch.optim.Optimizer, state: TrainState) -> None:
    """Let every update of an optimizer check the gradient first.

    If its norm is not finite, the update raises FloatingPointError, before any
    weight changes.
    """

    def check(optimizer: Any, *_: Any) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        check_finite("gradient's norm", norm, state)

    optimizer.register_step_pre_hook(check)
