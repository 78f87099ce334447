"""Measure what each of today's parts buys, every variant at its own best learning rate.

    python benchmarks/since_2017.py [--workers 2] [--part trainings costs]

Trains a small translator on Multi30k: the block of 2017, each of chapter 6's parts
alone, all five, all but one, all five with a stable phase and with Muon. Each is
trained from seed 0 at 0.003, at twice that rate, and so on until a rate is worse than
the one before; the best gets two more seeds, and so do both of the first rates for the
block of 2017 and all five. Everything is scored on the *validation*
split; the test split is not read. Two programs run side by side, with one thread each.
What has been computed is kept in runs/since-2017/, one file per training run, and not
computed again. `costs` times an update of each variant, on an otherwise idle machine.
Chapter 6 shows results/since_2017.json.
"""

import argparse
import dataclasses
import itertools
import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import statistics
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch
from ablations import REFERENCE
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.corpora import load_pairs
from transformer_workshop.files import log, read_json, write_json
from transformer_workshop.machine import describe_environment
from transformer_workshop.modern import NormalizedCrossAttention
from transformer_workshop.recipes import build_optimizers
from transformer_workshop.runs import raise_on_signal
from transformer_workshop.speed import (
    LeanLabelSmoothing,
    keep_freed_memory,
    optimize_for_cpu,
)

SEEDS = (0, 1, 2)
UPDATES = 600
FIRST_RATES = (0.003, 0.006)
BLOCKS = ("2017", "all five")  # all seeds at both of the first rates
TIMED_UPDATES = 40

PARTS = ("RMSNorm", "no biases", "rotary positions", "query-key norm", "SwiGLU")


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is changed in the translator of 2017, and in how it is trained."""

    parts: tuple[str, ...] = ()
    cross_norm: bool = False  # query-key norm in cross-attention as well
    decay: float = 1.0  # the share of the run in which the rate falls
    muon: bool = False


def but(left_out: str) -> tuple[str, ...]:
    return tuple(part for part in PARTS if part != left_out)


VARIANTS = {
    "2017": Variant(),
    **{part: Variant((part,)) for part in PARTS},
    "all five": Variant(PARTS),
    "without RMSNorm": Variant(but("RMSNorm")),
    "with biases": Variant(but("no biases")),
    "without rotary positions": Variant(but("rotary positions")),
    "without query-key norm": Variant(but("query-key norm")),
    "without SwiGLU": Variant(but("SwiGLU")),
    "2017, stable phase": Variant(decay=0.2),
    "all five, stable phase": Variant(PARTS, decay=0.2),
    "all five, Muon": Variant(PARTS, muon=True),
    "all five, norm in cross-attention": Variant(PARTS, cross_norm=True),
}
Job = tuple[str, float, int]  # variant, peak rate, seed


class Unrotated(nn.Module):
    """Stands in for the rotation."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


def build(variant: Variant, vocab: int) -> at.EncoderDecoder:
    """Put a variant's parts into the model of 2017, and draw its weights."""
    c, parts = REFERENCE, variant.parts
    model: Any = at.make_model(vocab, vocab, c.N, c.d_model, c.d_ff, c.h, c.dropout)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        attn = at.GroupedQueryAttention(c.h, c.d_model, c.h, c.dropout)
        if "rotary positions" not in parts:
            attn.rope = Unrotated()
        if "query-key norm" not in parts:
            attn.q_norm = attn.k_norm = nn.Identity()
        layer.self_attn = attn
        if variant.cross_norm and hasattr(layer, "src_attn"):
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


_TEXTS: dict[str, Any] = {}


def prepared() -> tuple[at.Text, list, list]:
    """Return text, training and validation examples; once per program."""
    if not _TEXTS:
        pairs = load_pairs(REFERENCE, "train")
        text = at.prepare_text(pairs, REFERENCE.bpe_size, REFERENCE.min_freq)
        examples, _ = at.encode_pairs(pairs, text, REFERENCE.max_tokens)
        valid = load_pairs(REFERENCE, "valid")
        judged, _ = at.encode_pairs(valid, text, REFERENCE.max_tokens)
        assert len(judged) == len(valid)
        _TEXTS["all"] = text, examples, judged
    return _TEXTS["all"]


def ready(name: str, rate: float, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return model, loss, optimizer, schedule and the stream of batches of a run."""
    variant = VARIANTS[name]
    text, examples, _ = prepared()
    torch.manual_seed(seed)
    model = build(variant, len(text.vocab_tgt))
    optimize_for_cpu(model)
    criterion = LeanLabelSmoothing(len(text.vocab_tgt), at.PAD, REFERENCE.smoothing)
    loss = at.SimpleLossCompute(model.generator, criterion)
    optimizer, schedule = build_optimizers(
        model,
        lambda step: at.linear_rate(
            step, rate, REFERENCE.warmup, UPDATES, variant.decay
        ),
        "muon" if variant.muon else "adam",
    )
    passes = (
        at.batches(examples, REFERENCE.batch_tokens, at.epoch_draw(seed, epoch), "cpu")
        for epoch in itertools.count()
    )
    return model, loss, optimizer, schedule, itertools.chain.from_iterable(passes)


def train(name: str, rate: float, seed: int) -> dict[str, Any]:
    """Train a variant; return its parameters and its loss on the validation split."""
    model, loss, optimizer, schedule, stream = ready(name, rate, seed)
    result: dict[str, Any] = {"parameters": at.count_parameters(model)}
    try:
        at.run_epoch(
            itertools.islice(stream, UPDATES), model, loss, optimizer, schedule,
            max_norm=REFERENCE.max_norm,
        )  # fmt: skip
    except FloatingPointError:
        return result | {"nats": None}
    text, _, judged = prepared()
    plain = LeanLabelSmoothing(len(text.vocab_tgt), at.PAD)
    nll, valid = at.run_epoch(
        at.batches(judged, REFERENCE.batch_tokens), model,
        at.SimpleLossCompute(model.generator, plain), None, None, "eval",
    )  # fmt: skip
    return result | {"nats": round(nll * valid.tokens / len(judged), 3)}


def costs() -> dict[str, float]:
    """Return the CPU milliseconds of an update: medians, variants taking turns."""
    torch.set_num_threads(1)
    keep_freed_memory()
    runs = {name: ready(name, FIRST_RATES[0], 0) for name in VARIANTS}
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(TIMED_UPDATES):
        for name, (model, loss, optimizer, schedule, stream) in runs.items():
            batch = next(stream)
            started = time.process_time()
            at.run_epoch(
                [batch], model, loss, optimizer, schedule, max_norm=REFERENCE.max_norm
            )
            times[name].append(1000 * (time.process_time() - started))
    return {name: round(statistics.median(rows), 1) for name, rows in times.items()}


def settings_of(job: Job) -> dict[str, Any]:
    """Return what a result depends on; if it changes, it is computed again."""
    name, rate, seed = job
    variant = dataclasses.asdict(VARIANTS[name])
    variant["parts"] = list(variant["parts"])
    reference = dataclasses.asdict(REFERENCE)
    return {"updates": UPDATES, **reference, **variant, "rate": rate, "seed": seed}


def place(runs: Path, job: Job) -> Path:
    name, rate, seed = job
    return runs / f"{name.replace(' ', '_')}-{rate:g}-{seed}.json"


def finished(runs: Path) -> dict[str, dict[float, dict[int, Any]]]:
    """Return all results: variant -> rate -> seed -> what was measured."""
    found: dict[str, dict[float, dict[int, Any]]] = {name: {} for name in VARIANTS}
    for path in runs.glob("*.json"):
        record = read_json(path)
        for name in VARIANTS:
            job = name, record["settings"]["rate"], record["settings"]["seed"]
            if path == place(runs, job) and record["settings"] == settings_of(job):
                found[name].setdefault(job[1], {})[job[2]] = record
    return found


def loss_of(result: dict[str, Any]) -> float:
    return math.inf if result["nats"] is None else result["nats"]


def wanted(name: str, rates: dict[float, dict[int, Any]]) -> list[tuple[float, int]]:
    """Return the rates and seeds that a variant still needs, as far as one can tell."""
    missing = [(rate, 0) for rate in FIRST_RATES if 0 not in rates.get(rate, {})]
    if missing:
        return missing
    best = min(sorted(rates), key=lambda rate: loss_of(rates[rate][0]))
    if best == max(rates):
        return [(2 * best, 0)]
    if best == min(rates):
        return [(best / 2, 0)]
    often = sorted({best, *FIRST_RATES}) if name in BLOCKS else [best]
    return [(rate, seed) for rate in often for seed in SEEDS if seed not in rates[rate]]


def compute(job: Job, runs: Path) -> str:
    """Train one variant once and write its file."""
    torch.set_num_threads(1)
    keep_freed_memory()
    result = train(*job)
    write_json(place(runs, job), {"settings": settings_of(job), **result})
    return f"{job[0]}, rate {job[1]:g}, seed {job[2]}: {result['nats']} nats"


def pooled(rows: list[list[float]]) -> tuple[float, int]:
    """Return the standard deviation between seeds, pooled over variants, and its df."""
    squares = sum((x - statistics.mean(row)) ** 2 for row in rows for x in row)
    freedom = sum(len(row) - 1 for row in rows)
    return math.sqrt(squares / freedom), freedom


def students_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, within 0.3 % from 4 degrees on.

    The first terms of its expansion about the normal quantile (Abramowitz and Stegun,
    26.7.5).
    """
    z = statistics.NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def sum_up(runs: Path, out: Path) -> dict[str, Any]:
    """Write all finished results to one file, and return them."""
    variants, complete = [], {}
    of_blocks = {}
    for name, rates in finished(runs).items():
        if not rates or wanted(name, rates):
            continue
        best = min(sorted(rates), key=lambda rate: loss_of(rates[rate][0]))
        nats = [loss_of(rates[best][seed]) for seed in SEEDS]
        complete[name] = nats
        if name in BLOCKS:
            of_blocks[name] = {
                f"{rate:g}": [loss_of(rates[rate][seed]) for seed in SEEDS]
                for rate in FIRST_RATES
            }
        variants.append({
            "name": name, "parameters": rates[best][0]["parameters"],
            "by_rate": {f"{r:g}": rates[r][0]["nats"] for r in sorted(rates)},
            "rate": best, "nats": nats, "mean": round(statistics.mean(nats), 2),
        })  # fmt: skip
    before = read_json(out) if out.exists() else {}
    summary = {
        **describe_environment(), "split": "valid", "updates": UPDATES,
        "precision": "float32", "reference": dataclasses.asdict(REFERENCE),
        "variants": variants, "blocks_at_both_rates": of_blocks,
    }  # fmt: skip
    if len(complete) > 1:
        sd, freedom = pooled(list(complete.values()))
        half = students_t(freedom) * sd * math.sqrt(2 / len(SEEDS))
        summary["seeds"] = {
            "standard_deviation": round(sd, 3), "degrees_of_freedom": freedom,
            "half_interval_of_a_difference": round(half, 2),
        }  # fmt: skip
    if "milliseconds_per_update" in before:
        summary["milliseconds_per_update"] = before["milliseconds_per_update"]
    write_json(out, summary)
    return summary


def leave_with_parent() -> None:
    """Let this worker end at once when the program that started it has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)  # results are written atomically, so nothing is lost

    threading.Thread(target=watch, daemon=True).start()


def train_all(runs: Path, out: Path, workers: int) -> None:
    """Train what is missing, and update the summary after each result."""
    runs.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, leave_with_parent) as pool:
        going: dict[Future, Job] = {}
        while True:
            for name, rates in finished(runs).items():
                for rate, seed in wanted(name, rates):
                    job = name, rate, seed
                    if job not in going.values():
                        going[pool.submit(compute, job, runs)] = job
            if not going:
                break
            for future in wait(going, return_when=FIRST_COMPLETED).done:
                going.pop(future)
                log(future.result())
            sum_up(runs, out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder, parts = at.project_folder(), ("trainings", "costs")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=folder / "runs" / "since-2017")
    out = folder / "results" / "since_2017.json"
    parser.add_argument("--out", type=Path, default=out)
    given = parser.parse_args()
    try:
        with raise_on_signal():
            if "trainings" in given.part:
                train_all(given.runs, given.out, given.workers)
            if "costs" in given.part:
                summary = sum_up(given.runs, given.out)
                summary["milliseconds_per_update"] = costs()
                write_json(given.out, summary)
    except KeyboardInterrupt as stop:
        log("Stopped. Run the same command to continue; finished results are kept.")
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    except at.DataError as error:
        log(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
