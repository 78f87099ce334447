"""Measure what each of today's parts buys, every variant at its own best learning rate.

    python benchmarks/since_2017.py [--workers 2] [--part search compare costs]

Trains a small translator on Multi30k: the block of 2017, each of chapter 6's parts
alone, all five, all but one, and both blocks with a stable phase and with Muon.
`search` tries several rates of each, from the seeds of the search (in what is stored,
from one). `compare` trains them from eight others, at rates that were found so, and
compares by seed; `controls` trains only what isn't stored. What has been computed is
kept in runs/experiments/. `costs` times an update of each variant, on an otherwise idle
machine. Chapter 6 shows results/since_2017.json.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from ablations import REFERENCE
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.experiments import experiment
from transformer_workshop.lab.statistics import compare_pairs
from transformer_workshop.lab.tasks import TASKS
from transformer_workshop.models.architectures import NormalizedCrossAttention
from transformer_workshop.models.muon import MuonAndAdam, matrices_and_others
from transformer_workshop.models.speed import keep_freed_memory
from transformer_workshop.training.loop import stable_rate

UPDATES = 600
TURNS, TIMED_UPDATES = 10, 4

Variant = tuple[Callable[..., nn.Module], Mapping[str, Any]]
PARTS = ("RMSNorm", "no biases", "rotary positions", "query-key norm", "SwiGLU")
GAINING = PARTS[2:]  # the others are to save time, or for large models
BEARING = PARTS[2:4]  # without which today's block may want a lower rate


def but(left_out: str) -> tuple[str, ...]:
    return tuple(part for part in PARTS if part != left_out)


def stable(step: int, peak: float, updates: int) -> float:
    """Return a rate that falls in the last fifth of the run alone."""
    return stable_rate(step, peak, REFERENCE.warmup, updates, decay=0.2)


class Unrotated(nn.Module):
    """Stands in for the rotation."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


def build(
    src_vocab: int, tgt_vocab: int, parts: tuple[str, ...], cross_norm: bool = False
) -> at.EncoderDecoder:
    """Put parts into the model of 2017, and draw its weights."""
    c = REFERENCE
    model: Any = at.make_model(
        src_vocab, tgt_vocab, c.N, c.d_model, c.d_ff, c.h, c.dropout
    )
    for layer in (*model.encoder.layers, *model.decoder.layers):
        norm = "query-key norm" in parts
        attn = at.GroupedQueryAttention(c.h, c.d_model, c.h, c.dropout, qk_norm=norm)
        if "rotary positions" not in parts:
            attn.rope = Unrotated()
        layer.self_attn = attn
        if cross_norm and hasattr(layer, "src_attn"):
            layer.src_attn = NormalizedCrossAttention(c.h, c.d_model, c.dropout)
        if "SwiGLU" in parts:
            layer.feed_forward = at.SwiGLU(c.d_model, 2 * c.d_ff // 3, c.dropout)
    if "rotary positions" in parts:
        for embed in (model.src_embed, model.tgt_embed):
            embed[1] = nn.Dropout(c.dropout)
    for module in model.modules():
        if "RMSNorm" in parts and isinstance(
            getattr(module, "norm", None), at.LayerNorm
        ):
            module.norm = at.RMSNorm(c.d_model)
        if isinstance(module, nn.Linear):
            fresh = nn.Linear(module.in_features, module.out_features)
            bias = None if "no biases" in parts else fresh.bias
            module.register_parameter("bias", bias)
    at.initialize(model)
    at.tie_weights(model, "all")
    return model


def variant(*parts: str, cross_norm: bool = False, **options: Any) -> Variant:
    """Return the translator of 2017 with these parts, and options of its training."""
    return partial(build, parts=parts, cross_norm=cross_norm), options


VARIANTS = {
    "2017": variant(),
    **{part: variant(part) for part in PARTS},
    "all five": variant(*PARTS),
    "without RMSNorm": variant(*but("RMSNorm")),
    "with biases": variant(*but("no biases")),
    "without rotary positions": variant(*but("rotary positions")),
    "without query-key norm": variant(*but("query-key norm")),
    "without SwiGLU": variant(*but("SwiGLU")),
    "2017, stable phase": variant(schedule=stable),
    "all five, stable phase": variant(*PARTS, schedule=stable),
    "2017, Muon": variant(optimizer="muon"),
    "all five, Muon": variant(*PARTS, optimizer="muon"),
    "all five, norm in cross-attention": variant(*PARTS, cross_norm=True),
}


def beside_rotary(src_vocab: int, tgt_vocab: int) -> at.EncoderDecoder:
    """Add sinusoids to today's model, whose positions rotate already."""
    model: Any = build(src_vocab, tgt_vocab, PARTS)
    for embed in (model.src_embed, model.tgt_embed):
        embed[1] = at.PositionalEncoding(REFERENCE.d_model, REFERENCE.dropout)
    return model


def small_sinusoids(src_vocab: int, tgt_vocab: int) -> at.EncoderDecoder:
    """Let sinusoids alone tell today's model the positions, and make them small."""
    model: Any = build(src_vocab, tgt_vocab, but("rotary positions"))
    for embed in (model.src_embed, model.tgt_embed):
        embed[1].pe.mul_(0.3)
    return model


def rotated_everywhere(src_vocab: int, tgt_vocab: int) -> at.EncoderDecoder:
    """Rotate today's cross-attention, too: each word by its place in its sentence."""
    model: Any = build(src_vocab, tgt_vocab, PARTS)
    for layer in model.decoder.layers:
        rope = at.RotaryEmbedding(layer.src_attn.d_k)
        layer.src_attn.attention_function = partial(rotated_attention, rope)
    return model


def rotated_attention(rope: nn.Module, q: Tensor, k: Tensor, *others: Any) -> Any:
    return at.attention(rope(q), rope(k), *others)


def paper_adam(
    first: list[nn.Parameter], others: list[nn.Parameter], multiple: float
) -> torch.optim.Optimizer:
    """Return the paper's Adam, with a multiple of the rate for the others."""
    groups = [{"params": first, "lr": 1.0}, {"params": others, "lr": multiple}]
    return torch.optim.Adam(groups, betas=(0.9, 0.98), eps=1e-9)


def two_rates(
    model: at.EncoderDecoder,
    schedule: Callable[[int], float],
    others: float,
    muon: bool = False,
) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """Let embeddings and vectors learn at a multiple of the rate of the matrices."""
    both: torch.optim.Optimizer
    if muon:
        both = MuonAndAdam(model, lr=1.0)
        both.param_groups[1]["lr"] = others
    else:
        both = paper_adam(*matrices_and_others(model), others)
    return both, LambdaLR(both, lambda step: schedule(step + 1))


def with_others_at(
    peak: float,
    muon: bool,
    task: Any,
    model: Any,
    rate: float,
    *given: Any,
    **options: Any,
) -> Iterator[float]:
    """Train matrices at the rate, and embeddings and vectors at a peak of their own."""
    optimizer = partial(two_rates, others=peak / rate, muon=muon)
    return task.train(model, rate, *given, optimizer=optimizer, **options)


def fast_table(
    model: at.EncoderDecoder, schedule: Callable[[int], float]
) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """Let the table of embeddings learn four times as fast as all else."""
    table = model.generator.proj.weight
    rest = [p for p in model.parameters() if p is not table]
    adam = paper_adam(rest, [table], 4.0)
    return adam, LambdaLR(adam, lambda step: schedule(step + 1))


def fast(
    *parts: str, peak: float = 0.012, cross_norm: bool = False, **options: Any
) -> Variant:
    """Return a variant whose embeddings have the rate that they have beside Muon."""
    train = partial(with_others_at, peak, False, **options)
    return partial(build, parts=parts, cross_norm=cross_norm), {"train": train}


# What the sinusoids do that stand in for rotary positions, and what the rate does that
# embeddings have beside Muon.
CONTROLS: dict[str, tuple[Variant, tuple[float, ...]]] = {
    "sinusoids, too": ((beside_rotary, {}), (0.006,)),
    "small sinusoids": ((small_sinusoids, {}), (0.006,)),
    "2017, fast embeddings": (fast(), (0.0015, 0.003, 0.006)),
    "block, fast embeddings": (fast(*PARTS), (0.003, 0.006, 0.012)),
    "2017, fast table": (variant(optimizer=fast_table), (0.003,)),
    "2017, embeddings at 0.006": (
        fast(peak=0.006),
        (0.003,),
    ),
    "2017, Muon, slow embeddings": (
        (partial(build, parts=()), {"train": partial(with_others_at, 0.003, True)}),
        (0.012,),
    ),
    **{
        f"but {part}, fast embeddings": (fast(*but(part)), (0.006,)) for part in GAINING
    },
    **{
        f"but {part}, fast embeddings, half the rate": (fast(*but(part)), (0.003,))
        for part in BEARING
    },
    **{f"{part}, fast embeddings": (fast(part), (0.003,)) for part in GAINING},
    **{
        f"2017, embeddings at {peak}": (fast(peak=peak), (0.003,))
        for peak in (0.024, 0.048)
    },
    "2017, embeddings at 0.024, half the rate": (fast(peak=0.024), (0.0015,)),
    **{
        f"block, embeddings at {peak}": (fast(*PARTS, peak=peak), (0.006,))
        for peak in (0.024, 0.048)
    },
    **{
        f"block, embeddings at {peak}, half the rate": (
            fast(*PARTS, peak=peak),
            (0.003,),
        )
        for peak in (0.024, 0.048)
    },
    **{
        f"but {part}, embeddings at 0.024": (fast(*but(part), peak=0.024), (rate,))
        for part, rate in zip(GAINING, (0.003, 0.006, 0.006), strict=True)
    },
    "but query-key norm, embeddings at 0.024, half the rate": (
        fast(*but("query-key norm"), peak=0.024),
        (0.003,),
    ),
    "2017, stable, fast embeddings": (fast(schedule=stable), (0.0015, 0.003)),
    "block, stable, fast embeddings": (fast(*PARTS, schedule=stable), (0.003, 0.006)),
    "norm everywhere, fast embeddings": (fast(*PARTS, cross_norm=True), (0.006,)),
    "sinusoids, too, embeddings at 0.024": (
        (beside_rotary, {"train": partial(with_others_at, 0.024, False)}),
        (0.006,),
    ),
    "rotated everywhere, embeddings at 0.024": (
        (rotated_everywhere, {"train": partial(with_others_at, 0.024, False)}),
        (0.006,),
    ),
    "small sinusoids, fast embeddings": (
        (small_sinusoids, {"train": partial(with_others_at, 0.012, False)}),
        (0.003,),
    ),
}


WAYS = {  # of training the two blocks: a variant, and its rate
    "2017": ("2017", 0.003),
    "twice the rate alone": ("2017", 0.006),
    "today's block alone": ("all five", 0.003),
    "block and rate": ("all five", 0.006),
    "2017, stable phase": ("2017, stable phase", 0.003),
    "block, rate, stable": ("all five, stable phase", 0.006),
    "2017, Muon": ("2017, Muon", 0.012),
    "block, Muon": ("all five, Muon", 0.012),
}
ADDED = {part: (part, 0.003) for part in PARTS}
LEFT_OUT = {name: (name, 0.006) for name in VARIANTS if name.startswith("with")}
LEFT_OUT["norm everywhere"] = "all five, norm in cross-attention", 0.006
LOWER = {  # the search's seed prefers it
    "without rotary positions, half the rate": ("without rotary positions", 0.003)
}
COMPARED = {
    "ways": [(way, "2017") for way in WAYS if way != "2017"],
    "leads": [
        ("block and rate", "2017"),
        ("block, rate, stable", "2017, stable phase"),
        ("block, Muon", "2017, Muon"),
    ],
    "added": [(part, "2017") for part in ADDED],
    "left out": [(name, "block and rate") for name in LEFT_OUT],
    "positions": [
        (name, other)
        for other in ("block and rate", "without rotary positions")
        for name in ("sinusoids, too", "small sinusoids")
    ],
    "positions, fast embeddings": [
        ("sinusoids, too, embeddings at 0.024", "block, embeddings at 0.024"),
        (
            "small sinusoids, fast embeddings",
            "but rotary positions, fast embeddings, half the rate",
        ),
    ],
    "cross-attention": [
        ("rotated everywhere, embeddings at 0.024", "block, embeddings at 0.024")
    ],
    "table": [  # the lead of today's block, with the table at four rates
        ("today's block alone", "2017"),
        ("block and rate", "2017, embeddings at 0.006"),
        ("block, fast embeddings", "2017, fast embeddings"),
        ("block, embeddings at 0.024", "2017, embeddings at 0.024"),
        ("block, embeddings at 0.048", "2017, embeddings at 0.048"),
    ],
    "own table": [  # each block with the table's rate, and the matrices', that suit it
        ("block, embeddings at 0.024", "2017, fast embeddings"),
        ("block, embeddings at 0.024, half the rate", "2017, fast embeddings"),
        ("block, embeddings at 0.048", "2017, fast embeddings"),
        ("block, embeddings at 0.048, half the rate", "2017, fast embeddings"),
        ("2017, embeddings at 0.024, half the rate", "2017, fast embeddings"),
    ],
    "left out, embeddings at 0.024": [
        (f"but {left_out}", "block, embeddings at 0.024")
        for left_out in (
            *(f"{part}, embeddings at 0.024" for part in GAINING),
            "query-key norm, embeddings at 0.024, half the rate",
            "rotary positions, fast embeddings, half the rate",  # a slower table
        )
    ],
    "stable, fast embeddings": [
        ("2017, stable, fast embeddings", "2017, fast embeddings"),
        ("block, stable, fast embeddings", "block, fast embeddings"),
        ("norm everywhere, fast embeddings", "block, fast embeddings"),
    ],
    "embeddings": [
        ("2017, fast embeddings", "2017"),
        ("2017, fast table", "2017, fast embeddings"),
        ("block, fast embeddings", "block and rate"),
        ("2017, Muon", "2017, fast embeddings"),
        ("2017, Muon, slow embeddings", "2017"),
        ("block, Muon", "block, fast embeddings"),
    ],
    "added, fast embeddings": [
        (f"{part}, fast embeddings", "2017, fast embeddings") for part in GAINING
    ],
    "left out, fast embeddings": [
        *(
            (f"but {part}, fast embeddings", "block, fast embeddings")
            for part in GAINING
        ),
        *(
            (f"but {part}, fast embeddings, half the rate", "block, fast embeddings")
            for part in BEARING
        ),
    ],
}


def compare(workers: int, known: dict[str, Any]) -> dict[str, Any]:
    """Train from the same eight seeds at rates that were found, and compare by seed.

    What is known, as ``nats`` of a summary, isn't trained.
    """
    trained = {
        label: (VARIANTS[name], (rate,))
        for label, (name, rate) in (WAYS | ADDED | LEFT_OUT | LOWER).items()
    }
    losses = dict(known.get("nats", {}))
    searched = dict(known.get("searched", {}))
    for label, (one, rates) in (trained | CONTROLS).items():
        if label not in losses:
            given = {"updates": UPDATES, "rates": rates, "workers": workers}
            found = experiment({label: one}, "multi30k", **given)
            losses[label] = found.losses(label)
            if len(rates) > 1:
                by_rate = found.searched(label).items()
                searched[label] = {f"{rate:g}": round(x, 3) for rate, x in by_rate}
    comparisons = {}
    for family, pairs in COMPARED.items():
        rows = []
        for ours, base in pairs:
            both = zip(losses[ours], losses[base], strict=True)
            mean = compare_pairs([one - other for one, other in both], len(pairs))
            difference = {"difference": mean.difference, "half": mean.half}
            rows.append({"of": ours, "against": base, **difference})
        comparisons[family] = rows
    return {"nats": losses, "searched": searched, "comparisons": comparisons}


def costs() -> dict[str, float]:
    """Return the CPU milliseconds of an update: medians, variants taking turns."""
    torch.set_num_threads(1)
    keep_freed_memory()
    task = TASKS["multi30k"]
    models = {name: build(*task.sizes()) for name, (build, _) in VARIANTS.items()}
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for turn in range(TURNS):
        for name, (_, options) in VARIANTS.items():
            updates = task.train(models[name], 0.003, UPDATES, turn, **options)
            next(updates)  # prepares
            started = time.process_time()
            for _ in range(TIMED_UPDATES):
                next(updates)
            spent = time.process_time() - started
            times[name].append(1000 * spent / TIMED_UPDATES)
    return {name: round(statistics.median(rows), 1) for name, rows in times.items()}


def search(workers: int) -> dict[str, Any]:
    """Return the loss of every variant at several rates, from a seed of the search."""
    found = experiment(VARIANTS, "multi30k", updates=UPDATES, workers=workers)
    return {
        "split": "valid", "updates": UPDATES, "precision": "float32",
        "reference": dataclasses.asdict(REFERENCE),
        "variants": [
            {
                "name": row["variant"], "parameters": row["parameters"],
                "by_rate": {
                    f"{rate:g}": round(nats, 3)
                    for rate, nats in found.searched(row["variant"]).items()
                },
            }
            for row in found.rows
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("search", "compare", "costs")
    choices = (*parts, "controls")  # these alone, compared with what is stored
    parser.add_argument("--part", nargs="+", choices=choices, default=parts)
    parser.add_argument("--workers", type=int, default=2)
    out = project_folder() / "results" / "since_2017.json"
    parser.add_argument("--out", type=Path, default=out)
    given = parser.parse_args()
    summary = read_json(given.out) if given.out.exists() else {}
    summary |= describe_environment()
    if "search" in given.part:
        summary |= search(given.workers)
    if "compare" in given.part:
        summary |= compare(given.workers, {})
    if "controls" in given.part:
        summary |= compare(given.workers, summary)
    if "costs" in given.part:
        summary["milliseconds_per_update"] = costs()
    write_json(given.out, summary)


if __name__ == "__main__":
    main()
