"""What makes the same model faster?"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from annotated_transformer import LabelSmoothing, attention


class CheapDropout(nn.Dropout):
    """Apply dropout on a CPU with sixteen random bits per value.

    ``p`` is rounded to a multiple of 1/65,536. Other devices use nn.Dropout.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x, of any shape, with some values dropped in training."""
        dropped = round(self.p * 2**16)  # out of 2**16 equally likely integers
        if not (self.training and x.is_cpu and 0 < dropped < 2**16):
            return super().forward(x)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
        bits = words.random_(-(2**63), None).view(torch.int16)
        keep = bits[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * keep.to(x.dtype).mul_(2**16 / (2**16 - dropped))


def _glibc() -> Any:
    """Return the C library on Linux if its allocator has settings, else None."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") else None


@functools.cache  # the settings apply to the whole process
def keep_freed_memory(idle_bytes: int = 3 * 2**29) -> None:
    """Let this process reuse large freed blocks; do nothing without glibc.

    After each optimizer step, return unused memory to the kernel if resident
    memory has grown by more than ``idle_bytes``.
    """
    if not (library := _glibc()):
        return
    library.mallopt(-4, 0)  # M_MMAP_MAX: no block gets its own mapping
    library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap does not shrink

    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    in_use = resident()

    def give_back(*_: object) -> None:
        nonlocal in_use
        if resident() - in_use > idle_bytes:
            library.malloc_trim(0)
            in_use = resident()

    register_optimizer_step_post_hook(give_back)


def share_one_heap() -> None:
    """Let all threads allocate memory from one heap; do nothing without glibc."""
    if library := _glibc():
        library.mallopt(-8, 1)  # M_ARENA_MAX


class LeanLabelSmoothing(LabelSmoothing):
    """Compute the loss of ``LabelSmoothing`` without storing ``true_dist``."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the summed loss of log-probabilities x (rows, vocab).

        They are finite; target (rows) holds ids, and rows whose target is padding
        contribute nothing.
        """
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        sure, rest = 1 - self.smoothing, self.smoothing / (x.size(1) - 2)
        padding = torch.full_like(target, self.padding_idx)
        columns = torch.stack([target, padding], dim=1)
        right, ignored = x.gather(1, columns).unbind(1)
        others = x.sum(1) - right - ignored
        shares = ((sure, sure), (self.smoothing, rest))
        entropy = -sum(total * math.log(q) for total, q in shares if q)
        rows = -entropy - sure * right - rest * others
        return (rows * (target != self.padding_idx)).sum()


def choose_precision(name: str, device: torch.device) -> str:
    """Return the named precision; auto is bfloat16 if the hardware supports it."""
    if name != "auto":
        return name
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        ask = getattr(torch.cpu, "get_capabilities", dict)  # PyTorch 2.6 can't tell
        chip: dict[str, Any] = ask() if device.type == "cpu" else {}
        fast = chip.get("avx512_bf16") or chip.get("amx_bf16")
    return "bfloat16" if fast else "float32"


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Return a context in which matrix products are computed in ``precision``."""
    wanted = precision == "bfloat16"
    # The cache would keep the first step's rounded weights for the whole epoch.
    return torch.autocast(device.type, torch.bfloat16, wanted, cache_enabled=False)


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None = None, dropout: nn.Module | None = None,
) -> tuple[Tensor, None]:  # fmt: skip
    """Compute chapter 1's ``attention`` with PyTorch's fused kernel.

    query (…, L, d_k), key and value (…, S, d_k); mask broadcasts to (…, L, S) and is
    non-zero where a query may attend to a key; the output for a query with no such
    key is zero. Return the output (…, L, d_k), and None in place of the weights.
    """
    training = dropout is not None and dropout.training
    if training and query.is_cpu:
        return attention(query, key, value, mask, dropout)[0], None
    p: Any = dropout.p if dropout is not None and training else 0.0
    allowed = None if mask is None else mask != 0
    output = F.scaled_dot_product_attention(query, key, value, allowed, dropout_p=p)
    return output, None


# what chapter 5's plain_attention puts in its place
fused_attention.plain = attention  # type: ignore[attr-defined]


def optimize_for_cpu(model: nn.Module) -> None:
    """Install fused attention and cheap dropout in a model.

    Parameters and the keys of ``state_dict`` stay the same. ``.attn`` stays None
    until chapter 5's ``plain_attention`` restores chapter 1's function. An attention
    function of one's own stays.
    """
    modules: list[Any] = list(model.modules())
    for module in modules:
        if getattr(module, "attention_function", None) is attention:
            module.attention_function = fused_attention
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, CheapDropout(child.p).train(child.training))


def map_in_threads(
    work: Callable[[Any], Any], groups: Sequence, device: torch.device
) -> Iterator[Any]:
    """Yield ``work(group)`` for each group, in order.

    On a CPU, process as many groups at once as PyTorch has threads, one thread each.
    """
    threads, pool = torch.get_num_threads(), None
    if device.type == "cpu" and min(threads, len(groups)) > 1:
        pool = ThreadPoolExecutor(
            threads, initializer=torch.set_num_threads, initargs=(1,)
        )
    torch.set_num_threads(1)
    try:
        yield from (pool.map if pool else map)(work, groups)
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
