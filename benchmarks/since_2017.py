"""Measure what changed since 2017, at a size that a laptop can train.

    python benchmarks/since_2017.py [--only NAME …]

Trains the reference of ablations.py with one change at a time, on Multi30k, with three
seeds each, and scores the *validation* split; the test split is not read. Two programs
run side by side, with one thread each. What has been computed is kept in
runs/since-2017/, one file per training run, and not computed again. Chapter 6 shows the
summary in results/since_2017.json.
"""

import argparse
import dataclasses
import itertools
import math
import multiprocessing
import signal
import statistics
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import sacrebleu
import torch
import torch.nn.functional as F
from ablations import REFERENCE, compare
from torch import Tensor, nn

import annotated_transformer as at

SEEDS = (0, 1, 2)
STEPS = 600

# name -> what differs from the reference. The keys are those of TrainingConfig, and
# changes (of chapter 6's modernize), multi_query, decoder_only, optimizer, steps.
TRAININGS: dict[str, dict[str, Any]] = {
    "2017": {},
    "RMSNorm": {"changes": ("rms_norm",)},
    "no biases": {"changes": ("no_bias",)},
    "SwiGLU": {"changes": ("swiglu",)},
    "rotary positions": {"changes": ("rotary",)},
    "query-key norm": {"changes": ("qk_norm",)},
    "all five": {"changes": at.CHANGES},
    "multi-query attention": {"multi_query": True},
    "stable phase": {"decay": 0.2},
    "all five, stable phase": {"changes": at.CHANGES, "decay": 0.2},
    "decoder only": {"changes": at.CHANGES, "decoder_only": True},
    "2017, 2400 updates": {"steps": 2400},
    "stable phase, 2400 updates": {"steps": 2400, "decay": 0.2},
    "all five, stable phase, 2400 updates": {
        "steps": 2400, "decay": 0.2, "changes": at.CHANGES,
    },
    "Adam, 300 updates": {"steps": 300},
    "Muon, 300 updates": {"steps": 300, "optimizer": "Muon"},
    "Adam, 1200 updates": {"steps": 1200},
}  # fmt: skip
# Ten times the learning rate, and no warm-up.
STACKS = {
    "post-norm": {"norm_first": False},
    "pre-norm": {},
    "pre-norm, query-key norm": {"changes": ("qk_norm",)},
    "all five": {"changes": at.CHANGES},
}
TRAININGS |= {
    f"{name}, 10 x rate": {"steps": 300, "base_lr": 3e-2, "warmup": 1, **settings}
    for name, settings in STACKS.items()
}
MUON_LR = 0.02  # for matrices whose update has unit root mean square per row


def build(config: at.TrainingConfig, text: at.Text, settings: dict[str, Any]) -> Any:
    """Build the model of a variant, with fresh weights."""
    vocab = len(text.vocab_tgt)
    sizes = (config.d_model, config.d_ff, config.h, config.dropout)
    if settings.get("decoder_only"):
        # an encoder layer has 2/3 of a decoder layer's matrices: 5 for 2 + 2
        return at.make_decoder_only(vocab, 5 * config.N // 2, *sizes)
    model = at.build_model(config, text.vocab_src, text.vocab_tgt)
    if settings.get("multi_query"):
        for module in list(model.modules()):
            for name in ("self_attn", "src_attn"):
                if hasattr(module, name):
                    shared = at.GroupedQueryAttention(
                        config.h, 1, config.d_model, config.dropout
                    )
                    setattr(module, name, shared)
        at.initialize(model)
    if changes := settings.get("changes"):
        at.modernize(model, changes)
    return model


def optimizers(
    model: nn.Module, config: at.TrainingConfig, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Return optimizer and schedule; with Muon, Adam is left with all but matrices."""
    if settings.get("optimizer") != "Muon":
        return at.build_optimizer(model, config, settings["steps"])
    tables = {id(m.lut.weight) for m in model.modules() if isinstance(m, at.Embeddings)}
    matrices = [p for p in model.parameters() if p.dim() == 2 and id(p) not in tables]
    taken = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in taken]
    both = (
        torch.optim.Muon(matrices, lr=MUON_LR, weight_decay=0.0),
        torch.optim.Adam(others, lr=config.base_lr, betas=(0.9, 0.98), eps=1e-9),
    )
    total = settings["steps"]
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            each, lambda step: at.linear_rate(step + 1, 1.0, config.warmup, total)
        )
        for each in both
    ]
    return Both(*both), Both(*schedules)


class Both:
    """Two optimizers, or two schedules, that take their steps together."""

    def __init__(self, *parts: Any):
        self.parts = parts

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()


_TEXTS: dict[str, Any] = {}


def prepared() -> tuple[at.Text, list, list, list[tuple[str, str]]]:
    """Return text, training and validation examples, and validation pairs; once."""
    if not _TEXTS:
        pairs = at.load_pairs(REFERENCE, "train")
        text = at.prepare_text(REFERENCE, pairs)
        valid = at.load_pairs(REFERENCE, "valid")
        examples, _ = at.encode_pairs(pairs, text, REFERENCE.max_tokens)
        judged, _ = at.encode_pairs(valid, text, REFERENCE.max_tokens)
        _TEXTS["all"] = text, examples, judged, valid
    return _TEXTS["all"]


def train(name: str, seed: int) -> dict[str, Any]:
    """Train a variant from a seed; return its figures on the validation split."""
    settings = {"steps": STEPS, **TRAININGS[name]}
    fields = {f.name for f in dataclasses.fields(at.TrainingConfig)}
    known = {key: value for key, value in settings.items() if key in fields}
    config = dataclasses.replace(REFERENCE, seed=seed, **known)
    text, examples, judged, pairs = prepared()
    torch.manual_seed(seed)
    model = build(config, text, settings)
    at.optimize_for_cpu(model)
    optimizer, scheduler = optimizers(model, config, settings)
    smoothed = at.LeanLabelSmoothing(len(text.vocab_tgt), at.PAD, config.smoothing)
    loss = at.SimpleLossCompute(model.generator, smoothed)
    passes = (
        at.batches(examples, config, epoch, "cpu", shuffle=True)
        for epoch in itertools.count()
    )
    stream = itertools.islice(itertools.chain.from_iterable(passes), settings["steps"])
    started = time.process_time()
    result: dict[str, Any] = {"parameters": at.count_parameters(model)}
    try:
        at.run_epoch(stream, model, loss, optimizer, scheduler, max_norm=config.max_norm)
    except FloatingPointError:
        return result | {"nats": None, "cpu_seconds": None}
    result["cpu_seconds"] = round(time.process_time() - started, 1)
    _, valid = at.run_epoch(
        at.batches(judged, config, 0, "cpu", shuffle=False), model, loss, None, None,
        "eval",
    )  # fmt: skip
    result["nats"] = round(valid.nll_sum / len(pairs), 3)
    if settings["steps"] >= STEPS and name in TRANSLATED:
        result["translations"] = greedy(model, text, judged, config)
    return result


TRANSLATED = ("2017", "all five", "decoder only", "all five, stable phase")


def greedy(model: Any, text: at.Text, examples: list, config: Any) -> list[str]:
    """Translate the validation split greedily, with chapter 2's function."""
    lines = [""] * len(examples)
    order = sorted(range(len(examples)), key=lambda i: len(examples[i][0]))
    for some in itertools.batched(order, 64) if hasattr(itertools, "batched") else (
        order[i : i + 64] for i in range(0, len(order), 64)
    ):
        src = at.padded([examples[i][0] for i in some])
        mask = (src != at.PAD).unsqueeze(-2)
        ids = at.greedy_decode(
            model, src, mask, 60, at.START, end_symbol=at.END, pad=at.PAD
        )
        for i, row in zip(some, ids[:, 1:].tolist(), strict=True):
            kept = [token for token in row if token not in (at.END, at.PAD)]
            lines[i] = " ".join(text.decode(kept).split())
    return lines


STRING_UPDATES = 600


def strings(kind: str, seed: int) -> dict[str, Any]:
    """Train an encoder to name, at each position, the symbol three to its left.

    It sees strings of 4 to 10 symbols. The positions are sinusoidal, learned, rotary,
    or ALiBi's biases. Return the share of correct answers for lengths up to 30.
    """
    torch.manual_seed(seed)
    vocab, back = 12, 3
    model: Any = at.make_model(
        vocab, vocab, 2, 64, 128, 4, 0.0,
        positions="learned" if kind == "learned" else "sinusoidal", max_len=40,
    )  # fmt: skip
    if kind == "rotary":
        at.modernize(model, ("rotary",))
    if kind == "alibi":
        model.src_embed[1] = nn.Identity()
        for layer in model.encoder.layers:
            layer.self_attn.attention = alibi
    draw = torch.Generator().manual_seed(seed)

    def answers(length: int) -> tuple[Tensor, Tensor]:
        symbols = torch.randint(vocab, (64, length), generator=draw)
        log_p = model.generator(model.encode(symbols, None))
        return log_p[:, back:], symbols[:, :-back]

    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: at.linear_rate(step + 1, 3e-3, 50, STRING_UPDATES)
    )
    for _ in range(STRING_UPDATES):
        length = int(torch.randint(4, 11, (), generator=draw))
        log_p, asked = answers(length)
        F.nll_loss(log_p.flatten(0, 1), asked.flatten()).backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    right = {}
    with at.in_mode(model, training=False):
        for length in range(4, 31, 2):
            log_p, asked = answers(length)
            same = (log_p.argmax(-1) == asked).float().mean()
            right[str(length)] = round(same.item(), 4)
    return {"right": right}


def alibi(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: nn.Module | None = None,
) -> tuple[Tensor, Tensor]:
    """Subtract the distance, times a slope per head, from each score (Press, 2022)."""
    h, L, S = query.size(1), query.size(-2), key.size(-2)
    slopes = 2.0 ** (-8 / h * torch.arange(1, h + 1))
    distance = (torch.arange(S - L, S).unsqueeze(1) - torch.arange(S)).abs()
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = scores - slopes.view(h, 1, 1) * distance
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return weights @ value, weights
