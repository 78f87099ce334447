"""Measure what each part contributes: one change and one short training run at a time.

    python benchmarks/ablations.py [--only NAME …] [--steps 600]

Every training run takes the same number of updates on Multi30k, German to English, with
one thread. Each variant translates the *validation* split; the test split is not read.
Each is compared with the reference on the same 1,000 resamples of the sentences.
Translations and figures are kept in runs/ablations/, one folder per variant; what is
already there is not computed again. Chapter 95 shows the summary in
results/ablations.json.
"""

import argparse
import copy
import dataclasses
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch
from torch import nn

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS, TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json, write_atomically, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.lab.comparison import RESAMPLES, SEED, compare
from transformer_workshop.lab.tasks import Translation, encoded
from transformer_workshop.lab.workers import compute
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.speed import (
    LeanLabelSmoothing,
    autocast,
    choose_precision,
)
from transformer_workshop.models.translator import (
    Translator,
    load_translator,
    save_translator,
)
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.store import load_examples
from transformer_workshop.training.epochs import run_epoch

REFERENCE = dataclasses.replace(
    CONFIGS["small"], run_dir="runs/ablations/reference", bpe_size=4000,
    batch_tokens=1000, N=2, d_model=128, d_ff=256, h=4, dropout=0.1, base_lr=3e-3,
    warmup=60, threads=1, device="cpu",
)  # fmt: skip
STEPS = 600  # updates of each training
DECODED_TOKENS = 4000  # positions in a batch when translating
ROUNDS = 20  # parts of a training run; the last few parts' weights are averaged

# name -> (group, what differs from the reference's configuration). Here, two keys mean:
# share, the fraction of the training pairs; average, the number of rounds whose weights
# are averaged.
TRAININGS: dict[str, tuple[str, dict[str, Any]]] = {
    "reference": ("reference", {}),
    "another seed": ("chance", {"seed": 1}),
    "post-norm": ("model", {"norm_first": False}),
    "no warm-up": ("training", {"warmup": 1}),
    "no smoothing": ("training", {"smoothing": 0.0}),
    "no positions": ("model", {"positions": "none"}),
    "learned positions": ("model", {"positions": "learned"}),
    "no tying": ("model", {"tie": "none"}),
    "10 % of the data": ("data", {"share": 0.1}),
    "30 % of the data": ("data", {"share": 0.3}),
    "words": ("text", {"bpe_size": 0, "tie": "target"}),  # two vocabularies
    "BPE 1000": ("text", {"bpe_size": 1000}),
    "BPE 8000": ("text", {"bpe_size": 8000}),
    "BPE 16000": ("text", {"bpe_size": 16000}),
    "post-norm, no warm-up": ("training", {"norm_first": False, "warmup": 1}),
    "a third seed": ("chance", {"seed": 2}),
}
DECODINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "no averaging": ("training", {"average": 1}),
    "greedy": ("beam", {"beam_size": 1}),
    "beam 2": ("beam", {"beam_size": 2}),
    "beam 4": ("beam", {"beam_size": 4}),
    "beam 10": ("beam", {"beam_size": 10}),
    "penalty 0": ("penalty", {"length_penalty": 0.0}),
    "penalty 0.6": ("penalty", {"length_penalty": 0.6}),
    "penalty 1.0": ("penalty", {"length_penalty": 1.0}),
    "penalty 1.8": ("penalty", {"length_penalty": 1.8}),
}
FIRST, *OTHERS = TRAININGS
VARIANTS = {FIRST: TRAININGS[FIRST], **DECODINGS} | {n: TRAININGS[n] for n in OTHERS}


def settings_of(name: str, steps: int) -> dict[str, Any]:
    """Return all settings that a variant depends on; if they change, it is rerun."""
    settings = dataclasses.asdict(REFERENCE) | {"steps": steps, "share": 1.0}
    return settings | VARIANTS[name][1]


def task_of(settings: dict[str, Any]) -> Translation:
    """Return what is learned, and how."""
    names = [field.name for field in dataclasses.fields(Translation)]
    task = Translation(**{name: settings[name] for name in names})
    return dataclasses.replace(task, warmup=settings["warmup"] / settings["steps"])


def train(settings: dict[str, Any]) -> tuple[Translator, list[nn.Module]]:
    """Train; return the translator, and its model after each of the last rounds."""
    fields = {f.name for f in dataclasses.fields(TrainingConfig)}
    known = {name: value for name, value in settings.items() if name in fields}
    blind = known["positions"] == "none"
    config = TrainingConfig(**known | ({"positions": "sinusoidal"} if blind else {}))
    task, steps = task_of(settings), settings["steps"]
    text, _, _ = encoded(task)
    torch.manual_seed(config.seed)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    if blind:
        for embed in (model.src_embed, model.tgt_embed):
            embed[1].pe.zero_()
    ends = {(begun + 1) * steps // ROUNDS for begun in range(ROUNDS)}
    last: deque[nn.Module] = deque(maxlen=config.average)
    device = torch.device("cpu")
    with autocast(choose_precision(config.precision, device), device):
        losses = task.train(model, config.base_lr, steps, config.seed)
        for step, _ in enumerate(losses, 1):
            if step in ends:
                last.append(copy.deepcopy(model))
    return Translator(model, text, config), list(last)


def trained(name: str, steps: int, folder: Path) -> tuple[Translator, dict]:
    """Train a variant; return it with averaged weights, and figures on the training."""
    started, busy = time.perf_counter(), time.process_time()
    translator, last = train(settings_of(name, steps))
    figures = {
        "training_seconds": round(time.perf_counter() - started, 1),
        "training_cpu_seconds": round(time.process_time() - busy, 1),
        "parameters": at.count_parameters(translator.model),
    }
    if name == FIRST:
        save_translator(folder / "last", translator)
    at.average(translator.model, last)
    if name == FIRST:
        save_translator(folder, translator)
    valid = load_examples(translator.config, "valid", translator.text)
    criterion = LeanLabelSmoothing(len(translator.text.vocab_tgt), at.PAD)
    nll, judged = run_epoch(
        at.batches(valid, REFERENCE.batch_tokens, None, "cpu"), translator.model,
        at.SimpleLossCompute(translator.model.generator, criterion), None, None, "eval",
    )  # fmt: skip
    figures |= {"nll": round(nll, 4), "valid_tokens": judged.tokens}
    return translator, figures


def completed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return stored settings, with defaults for those that have been added since."""
    return dataclasses.asdict(TrainingConfig()) | settings


def make(name: str, steps: int, runs: Path) -> dict[str, Any]:
    """Train or decode a variant in its folder in ``runs``; return its figures."""
    folder, first = runs / name, runs / FIRST
    pairs = load_pairs(REFERENCE, "valid")
    sources, references = map(list, zip(*pairs, strict=True))
    settings = settings_of(name, steps)
    figures: dict[str, Any]
    if name in DECODINGS:
        kind = "last" if settings["average"] == 1 else "."
        translator = load_translator(first / kind, "cpu")
        figures = {"parameters": at.count_parameters(translator.model)}
    else:
        translator, figures = trained(name, steps, folder)
    config = dataclasses.replace(translator.config, batch_tokens=DECODED_TOKENS)
    translator = dataclasses.replace(translator, config=config)
    started, busy = time.perf_counter(), time.process_time()
    lines = translator.translate(
        sources, settings["beam_size"], settings["length_penalty"]
    )
    lines = [" ".join(line.split()) for line in lines]
    figures["decoding_seconds"] = round(time.perf_counter() - started, 1)
    figures["decoding_cpu_seconds"] = round(time.process_time() - busy, 1)
    text = "".join(f"{line}\n" for line in lines)
    write_atomically(folder / "valid.en", text.encode())
    base = read_lines(first / "valid.en")
    return {
        "variant": name,
        "group": VARIANTS[name][0],
        "changed": VARIANTS[name][1],
        **compare(lines, base, references),
        **figures,
        "seed": settings["seed"],
        "commit": describe_environment()["commit"],
        "settings": settings,
    }


def finished(runs: Path, steps: int) -> dict[str, dict[str, Any]]:
    """Return the figures of the variants that have been made with these settings."""
    records = {}
    for name in VARIANTS:
        path = runs / name / "result.json"
        record = read_json(path) if path.exists() else {"settings": {}}
        if completed(record["settings"]) == settings_of(name, steps):
            records[name] = record
    return records


def sum_up(runs: Path, steps: int, out: Path) -> list[dict[str, Any]]:
    """Write the figures of all finished variants to one file, and return them."""
    records = list(finished(runs, steps).values())
    reference, signature = records[0]["settings"], records[0]["signature"]
    for record in records:
        del record["settings"], record["signature"]
    for name in ("difference", "interval", "p"):
        del records[0][name]  # it was compared with itself
    summary = {
        **describe_environment(),
        "split": "valid",
        "precision": choose_precision(REFERENCE.precision, torch.device("cpu")),
        "signature": signature,
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
        "reference": reference,
        "variants": records,
    }
    write_json(out, summary)
    return records


def table(records: list[dict[str, Any]]) -> str:
    """Format the figures as a table."""
    head = f"{'':22} {'BLEU':>6} {'difference, 95 %':>22} {'p':>6} {'CPU s':>6}"
    lines = [head]
    for r in records:
        compared = ""
        if "p" in r:
            low, high = r["interval"]
            change = f"{r['difference']:+.2f} [{low:+.2f}, {high:+.2f}]"
            compared = f"{change:>22} {r['p']:6.3f}"
        seconds = r.get("training_cpu_seconds", r["decoding_cpu_seconds"])
        row = f"{r['variant']:22} {r['bleu']:6.2f} {compared:29} {seconds:6.0f}"
        lines.append(row)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = project_folder()
    parser.add_argument("--only", nargs="+", choices=VARIANTS, metavar="NAME")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--runs", type=Path, default=folder / "runs" / "ablations")
    parser.add_argument("--out", type=Path, help="[results/ablations.json, if all]")
    given = parser.parse_args()
    if given.steps < ROUNDS:
        parser.error(f"--steps must be at least {ROUNDS}, one step per round")
    stored = folder / "results" / "ablations.json"
    whole = not given.only and given.steps == STEPS
    out = given.out or (stored if whole else given.runs / "ablations.json")

    def wanted() -> dict[Path, tuple]:
        done = finished(given.runs, given.steps)
        names = given.only or VARIANTS if FIRST in done else [FIRST]
        return {
            given.runs / name / "result.json": (name, given.steps, given.runs)
            for name in names
            if name not in done
        }

    compute(wanted, make)
    print(table(sum_up(given.runs, given.steps, out)))


if __name__ == "__main__":
    raise SystemExit(main())
