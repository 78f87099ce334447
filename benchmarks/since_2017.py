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
import multiprocessing.connection
import os
import signal
import statistics
import threading
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
from transformer_workshop.runs import schedule_of

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
    "AdamW": {"optimizer": "AdamW"},
    "Adam, 300 updates": {"steps": 300},
    "Muon, 300 updates": {"steps": 300, "optimizer": "Muon"},
    "Adam, 360 updates": {"steps": 360},  # about as much CPU time as with Muon
}  # fmt: skip
# As usual, and with ten times the learning rate and no warm-up.
STACKS = {
    "post-norm": {"norm_first": False},
    "pre-norm": {},
    "pre-norm, query-key norm": {"changes": ("qk_norm",)},
    "all five": {"changes": at.CHANGES},
}
TRAININGS |= {
    f"{name}, {rate}": {"steps": 300, **settings, **change}
    for name, settings in STACKS.items()
    for rate, change in (
        ("usual rate", {}),
        ("10 x rate", {"base_lr": 3e-2, "warmup": 1}),
    )
    if settings | change  # without either, it is "Adam, 300 updates"
}
WEIGHT_DECAY = 0.1  # AdamW's, usual for language models
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
        at.modernize(model, (), groups=1)
    if changes := settings.get("changes"):
        at.modernize(model, changes)
    return model


def optimizers(
    model: nn.Module, config: at.TrainingConfig, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Return optimizer and schedule; with Muon, Adam is left with all but matrices."""
    kind, total = settings.get("optimizer"), settings["steps"]
    if kind is None:
        return at.build_optimizer(model, schedule_of(config, total))

    def schedule(optimizer: Any, peak: float) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda step: at.linear_rate(step + 1, peak, config.warmup, total),
        )

    if kind == "AdamW":
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9,
            weight_decay=WEIGHT_DECAY,
        )  # fmt: skip
        return optimizer, schedule(optimizer, config.base_lr)
    tables = {id(m.lut.weight) for m in model.modules() if isinstance(m, at.Embeddings)}
    matrices = [p for p in model.parameters() if p.dim() == 2 and id(p) not in tables]
    taken = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in taken]
    both = (
        torch.optim.Muon(matrices, lr=MUON_LR, weight_decay=0.0),
        torch.optim.Adam(others, lr=config.base_lr, betas=(0.9, 0.98), eps=1e-9),
    )
    return Both(*both), Both(*(schedule(each, 1.0) for each in both))


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
        text = at.prepare_text(pairs, REFERENCE.bpe_size, REFERENCE.min_freq)
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
        at.batches(
            examples, config.batch_tokens, at.epoch_draw(config.seed, epoch), "cpu"
        )
        for epoch in itertools.count()
    )
    stream = itertools.islice(itertools.chain.from_iterable(passes), settings["steps"])
    started = time.process_time()
    result: dict[str, Any] = {"parameters": at.count_parameters(model)}
    try:
        at.run_epoch(
            stream, model, loss, optimizer, scheduler, max_norm=config.max_norm
        )
    except FloatingPointError:
        return result | {"nats": None, "cpu_seconds": None}
    result["cpu_seconds"] = round(time.process_time() - started, 1)
    plain = at.LeanLabelSmoothing(len(text.vocab_tgt), at.PAD)
    nll, valid = at.run_epoch(
        at.batches(judged, config.batch_tokens), model,
        at.SimpleLossCompute(model.generator, plain), None, None, "eval",
    )  # fmt: skip
    result["nats"] = round(nll * valid.tokens / len(pairs), 3)
    if settings["steps"] >= STEPS and name in TRANSLATED:
        result["translations"] = greedy(model, text, judged, config)
    return result


TRANSLATED = ("2017", "all five", "decoder only", "all five, stable phase")


def greedy(model: Any, text: at.Text, examples: list, config: Any) -> list[str]:
    """Translate the validation split greedily, with chapter 2's function."""
    lines = [""] * len(examples)
    order = sorted(range(len(examples)), key=lambda i: len(examples[i][0]))
    for some in (
        itertools.batched(order, 64)
        if hasattr(itertools, "batched")
        else (order[i : i + 64] for i in range(0, len(order), 64))
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


def alibi(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: nn.Module | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend with scores from which a multiple of the distance is subtracted.

    Press et al. (2022), section 3, in place of ``attention``: query (B, h, L, d_k), key
    and value (B, h, S, d_k); the last query is at the position of the last key.
    """
    h, L, S = query.size(1), query.size(-2), key.size(-2)
    slopes = 2.0 ** (-8 / h * torch.arange(1, h + 1))
    distance = (torch.arange(S - L, S).unsqueeze(1) - torch.arange(S)).abs()
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = scores - slopes.view(h, 1, 1) * distance
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights


def strings(kind: str, seed: int) -> dict[str, Any]:
    """Train a causal encoder to name, at each position, the symbol three to its left.

    It sees strings of 4 to 10 symbols. The positions are sinusoidal, learned, rotary,
    or ALiBi's biases. Return the share of correct answers for lengths up to 30.
    """
    torch.manual_seed(seed)
    vocab, back = 12, 3
    model: Any = at.make_model(vocab, vocab, 2, 64, 128, 4, 0.0, max_len=40)
    if kind == "learned":
        model.src_embed[1] = at.LearnedPositions(64, 0.0, max_len=40)
    if kind == "rotary":
        at.modernize(model, ("rotary",))
    if kind == "alibi":
        model.src_embed[1] = nn.Identity()
        for layer in model.encoder.layers:
            layer.self_attn.attention_function = alibi
    draw = torch.Generator().manual_seed(seed)

    def answers(length: int) -> tuple[Tensor, Tensor]:
        symbols = torch.randint(vocab, (64, length), generator=draw)
        log_p = model.generator(model.encode(symbols, at.subsequent_mask(length)))
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


def attention_costs() -> dict[str, Any]:
    """Time chapter 1's attention and the fused kernel, without gradients."""
    rows = []
    for length in (64, 256, 1024, 4096):
        shape = (1, 8, length, 64)
        parts = torch.randn(3, *shape)
        milliseconds, outputs = {}, []
        for function in (at.attention, at.fused_attention):
            output = function(*parts)[0]
            outputs.append(output)
            times = []
            for _ in range(5):
                started = time.perf_counter()
                function(*parts)
                times.append(1000 * (time.perf_counter() - started))
            milliseconds[function.__name__] = round(statistics.median(times), 2)
        rows.append({
            "length": length,
            "mebibytes_of_scores": round(8 * length**2 * 4 / 2**20, 2),
            "largest_difference": float((outputs[0] - outputs[1]).abs().max()),
            "milliseconds": milliseconds,
        })  # fmt: skip
    return {"batch": 1, "heads": 8, "d_k": 64, "rows": rows}


def norm_costs() -> dict[str, Any]:
    """Time the two norms and PyTorch's own, forward and backward, on one batch."""
    x = torch.randn(1500, 256, requires_grad=True)
    norms = {
        "LayerNorm": at.LayerNorm(256), "RMSNorm": at.RMSNorm(256),
        "torch.nn.LayerNorm": nn.LayerNorm(256), "torch.nn.RMSNorm": nn.RMSNorm(256),
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in norms}
    for _ in range(200):
        for name, norm in norms.items():
            started = time.perf_counter()
            norm(x).sum().backward()
            times[name].append(1e6 * (time.perf_counter() - started))
    microseconds = {n: round(statistics.median(rows)) for n, rows in times.items()}
    return {"shape": list(x.shape), "microseconds": microseconds}


def cache_costs() -> dict[str, Any]:
    """Time one cached step of attention with 8, 2, and 1 heads of keys and values."""
    rows = []
    for groups in (8, 2, 1):
        torch.manual_seed(0)
        attn = at.ModernAttention(8, 512, 0.0, groups=groups)
        at.optimize_for_cpu(attn)
        milliseconds = {}
        for length in (16, 256, 4096):
            keys, values = torch.randn(2, 16, groups, length, 64)
            query = torch.randn(16, 8, 1, 64)
            times = []
            with torch.inference_mode():
                for _ in range(30):
                    started = time.perf_counter()
                    attn.attend(query, keys, values, None)
                    times.append(1000 * (time.perf_counter() - started))
            milliseconds[str(length)] = round(statistics.median(times), 3)
        bytes_per_token = 2 * groups * 64 * 4
        rows.append({
            "groups": groups, "bytes_per_token_and_layer": bytes_per_token,
            "milliseconds": milliseconds,
        })  # fmt: skip
    return {"batch": 16, "heads": 8, "d_k": 64, "rows": rows}


SAMPLERS: dict[str, dict[str, Any]] = {
    "temperature 0.5": {"temperature": 0.5},
    "temperature 1": {},
    "temperature 1.5": {"temperature": 1.5},
    "top-k 10": {"top_k": 10},
    "top-p 0.9": {"top_p": 0.9},
    "top-p 0.5": {"top_p": 0.5},
}
DRAWS, SENTENCES = 2, 500  # draws of each of the first sentences


def sampling() -> dict[str, Any]:
    """Translate with models/multi30k in different ways: BLEU, and variety.

    Variety is 100 minus the mean BLEU between two draws for the same sentences.
    """
    translator = at.load_translator(at.project_folder() / "models/multi30k", "cpu")
    config = dataclasses.replace(translator.config, batch_tokens=4000)
    translator = dataclasses.replace(translator, config=config)
    pairs = at.load_pairs(config, "valid")[:SENTENCES]
    sources, references = map(list, zip(*pairs, strict=True))
    text, model = translator.text, translator.model
    rows = {}
    for name, beam in (("greedy", 1), ("beam 5", 5)):
        lines = translator.translate(sources, beam)
        rows[name] = {"bleu": bleu(lines, references), "variety": 0.0}
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for name, settings in SAMPLERS.items():
        torch.manual_seed(0)
        draws = []
        for _ in range(DRAWS):
            lines = [""] * len(sources)
            for first in range(0, len(order), 64):
                some = order[first : first + 64]
                src = at.padded([text.encode(sources[i]) for i in some])
                mask = (src != at.PAD).unsqueeze(-2)
                ids = at.sample(
                    model, src, mask, 40, at.START, end_symbol=at.END, pad=at.PAD,
                    **settings,
                )  # fmt: skip
                for i, row in zip(some, ids[:, 1:].tolist(), strict=True):
                    kept = [t for t in row if t not in (at.END, at.PAD)]
                    lines[i] = text.decode(kept)
            draws.append(lines)
        mutual = [bleu(a, b) for a, b in itertools.combinations(draws, 2)]
        rows[name] = {
            "bleu": round(statistics.mean(bleu(d, references) for d in draws), 2),
            "variety": round(100 - statistics.mean(mutual), 2),
        }
    settings = {"draws": DRAWS, "sentences": SENTENCES}
    return {"model": "models/multi30k", **settings, "rows": rows}


def bleu(lines: list[str], references: list[str]) -> float:
    """Return the sacreBLEU of translations, with two digits."""
    return round(sacrebleu.corpus_bleu(lines, [references]).score, 2)


STRINGS = ("sinusoidal", "learned", "rotary", "alibi")
OTHERS = {
    "norms": norm_costs, "attention": attention_costs, "cache": cache_costs,
    "sampling": sampling,
}  # fmt: skip
JOBS: list[tuple[str, int | None]] = [
    *((name, seed) for seed in SEEDS for name in TRAININGS),
    *((f"strings, {kind}", seed) for kind in STRINGS for seed in SEEDS),
    *((name, None) for name in OTHERS),
]


def settings_of(name: str) -> dict[str, Any]:
    """Return what a result depends on; if it changes, it is computed again."""
    if name not in TRAININGS:
        return {"updates": STRING_UPDATES} if name.startswith("strings") else {}
    settings = {"steps": STEPS, **dataclasses.asdict(REFERENCE), **TRAININGS[name]}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


def place(runs: Path, name: str, seed: int | None) -> Path:
    return runs / f"{name.replace(' ', '_')}{'' if seed is None else f'-{seed}'}.json"


def is_done(path: Path, name: str) -> bool:
    return path.exists() and at.read_json(path)["settings"] == settings_of(name)


def compute(name: str, seed: int | None, runs: Path) -> str:
    """Compute one result and write its file."""
    torch.set_num_threads(1)
    at.keep_freed_memory()
    if seed is None:
        result = OTHERS[name]()
    elif name in TRAININGS:
        result = train(name, seed)
    else:
        result = strings(name.removeprefix("strings, "), seed)
    record = {"settings": settings_of(name), **result}
    at.write_json(place(runs, name, seed), record)
    return name if seed is None else f"{name}, seed {seed}"


def spread(rows: dict[str, list[float]]) -> tuple[float, int]:
    """Return the standard deviation between seeds, pooled over variants, and its df."""
    squares = sum((x - statistics.mean(v)) ** 2 for v in rows.values() for x in v)
    freedom = sum(len(v) - 1 for v in rows.values())
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


def versus(name: str, base: str, nats: dict[str, list[float]]) -> dict[str, Any]:
    """Return the difference between the means of two variants, with a 95 % interval.

    The spread between seeds is taken from all variants of the same length, because
    three seeds say little about it.
    """
    same = {
        variant: rows for variant, rows in nats.items()
        if steps_of(variant) == steps_of(name) and "10 x" not in variant
    }  # fmt: skip
    sd, freedom = spread(same)
    difference = statistics.mean(nats[name]) - statistics.mean(nats[base])
    half = students_t(freedom) * sd * math.sqrt(2 / len(nats[name]))
    return {
        "against": base,
        "difference": round(difference, 2),
        "interval": [round(difference - half, 2), round(difference + half, 2)],
    }


def steps_of(name: str) -> int:
    return TRAININGS[name].get("steps", STEPS)


def sum_up(runs: Path, out: Path) -> dict[str, Any]:
    """Write the figures of all finished results to one file, and return them."""
    done = {
        (name, seed): at.read_json(path)
        for name, seed in JOBS
        if is_done(path := place(runs, name, seed), name)
    }
    found = {n: [done[n, s] for s in SEEDS if (n, s) in done] for n in TRAININGS}
    nats = {
        n: [r["nats"] for r in rows] for n, rows in found.items()
        if len(rows) == len(SEEDS) and all(r["nats"] is not None for r in rows)
    }  # fmt: skip
    trainings = []
    for name, rows in found.items():
        if not rows:
            continue
        row = {
            "name": name, "updates": steps_of(name), "changed": TRAININGS[name],
            "parameters": rows[0]["parameters"],
            "nats": [r["nats"] for r in rows],
            "cpu_seconds": [r["cpu_seconds"] for r in rows],
        }  # fmt: skip
        base = BASES.get(name, "2017" if steps_of(name) == STEPS else None)
        if name in nats and base in nats and name != base:
            row |= versus(name, base, nats)
        trainings.append(row)
    summary = {
        **at.describe_environment(),
        "split": "valid",
        "precision": "float32",  # of all training runs; Muon's products are bfloat16
        "fast_bfloat16": at.choose_precision("auto", torch.device("cpu")) == "bfloat16",
        "reference": dataclasses.asdict(REFERENCE),
        "trainings": trainings,
        "decoder_only": translated(found),
        "strings": {
            kind: [
                done[f"strings, {kind}", s]["right"]
                for s in SEEDS if (f"strings, {kind}", s) in done
            ] for kind in STRINGS
        },
        **{name: done[name, None] for name in OTHERS if (name, None) in done},
    }  # fmt: skip
    for name in OTHERS:
        summary.get(name, {}).pop("settings", None)
    at.write_json(out, summary)
    return summary


BASES = {
    "decoder only": "all five",
    "Muon, 300 updates": "Adam, 300 updates",
}


def translated(found: dict[str, list]) -> list[dict[str, Any]]:
    """Compare greedy translations with those of the encoder-decoder, seed by seed."""
    pairs = at.load_pairs(REFERENCE, "valid")
    references = [english for _, english in pairs]
    rows = []
    for seed, ours, other in zip(SEEDS, found["decoder only"], found["all five"]):
        result = compare(ours["translations"], other["translations"], references)
        rows.append({
            "seed": seed,
            "encoder_decoder_bleu": bleu(other["translations"], references),
            **{k: result[k] for k in ("bleu", "difference", "interval", "p")},
        })  # fmt: skip
    return rows


def table(summary: dict[str, Any]) -> str:
    """Format the training results as a table."""
    lines = [f"{'':38} {'nats, each seed':22} difference, 95 %"]
    for row in summary["trainings"]:
        seeds = " ".join("  –  " if n is None else f"{n:5.1f}" for n in row["nats"])
        compared = ""
        if "difference" in row:
            low, high = row["interval"]
            compared = f"{row['difference']:+.2f} [{low:+.2f}, {high:+.2f}]"
        lines.append(f"{row['name']:38} {seeds:22} {compared}")
    return "\n".join(lines)


def leave_with_parent() -> None:
    """Let this worker end at once when the program that started it has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)  # results are written atomically, so nothing is lost

    threading.Thread(target=watch, daemon=True).start()


def run(names: list[str], runs: Path, out: Path, workers: int) -> None:
    """Compute what is missing, and update the summary after each result."""
    runs.mkdir(parents=True, exist_ok=True)
    missing = [
        (name, seed) for name, seed in JOBS
        if name in names and not is_done(place(runs, name, seed), name)
    ]  # fmt: skip
    alone = [job for job in missing if job[0] in ("norms", "attention", "cache")]
    for name, seed in alone:  # timings, on an otherwise idle machine
        at.log(compute(name, seed, runs))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, leave_with_parent) as pool:
        futures = [
            pool.submit(compute, *job, runs) for job in missing if job not in alone
        ]
        for future in as_completed(futures):
            at.log(future.result())
            sum_up(runs, out)
    print(table(sum_up(runs, out)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = at.project_folder()
    names = list(dict.fromkeys(name for name, _ in JOBS))
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=folder / "runs" / "since-2017")
    out = folder / "results" / "since_2017.json"
    parser.add_argument("--out", type=Path, default=out)
    given = parser.parse_args()
    try:
        with at.raise_on_signal():
            run(given.only or names, given.runs, given.out, given.workers)
    except KeyboardInterrupt as stop:
        at.log("Stopped. Run the same command to continue; finished results are kept.")
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    except at.DataError as error:
        at.log(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
