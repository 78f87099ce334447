"""What does each part of a translation system buy? One ladder, three seeds.

    ANNOTATED_TRANSFORMER_DATA=… python benchmarks/ladder.py

Trains a small Transformer of 2017 on Multi30k, German to English, from three seeds:
with words, with subwords, and with one table for subwords. The schedule is chapter 2's,
whose rate is still high when the training ends. The last weights are decoded again with
a cache, with a beam, and averaged. All score the *validation* split; the test split is
not read. Nothing was searched: beam and length penalty are the paper's. What is in
runs/ladder/ isn't computed again. Nine trainings, ten minutes each on an idle thread.
Chapter 4 shows results/ladder.json.
"""

import argparse
import copy
import dataclasses
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import log, read_json, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.comparison import compare
from transformer_workshop.lab.tasks import Translation, encoded
from transformer_workshop.lab.workers import compute
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.speed import autocast, choose_precision
from transformer_workshop.models.translator import (
    Translator,
    load_translator,
    save_translator,
)
from transformer_workshop.text.corpora import load_pairs

SEEDS, UPDATES, WARMUP, RATE = (0, 1, 2), 2000, 400, 3e-3
PARTS, AVERAGED = 20, 5  # the run is cut into parts; checkpoints end the last ones
BEAM, ALPHA = 4, 0.6  # the paper's (section 6.1)
TIMED, TURNS = 50, 3  # sentences decoded one at a time, and how often
CONFIG = TrainingConfig(
    "multi30k", N=2, d_model=128, d_ff=512, h=4, dropout=0.1, batch_tokens=1500,
    respell=False, by_sentence=False, threads=1, device="cpu",
)  # fmt: skip
TRAININGS: dict[str, dict[str, Any]] = {
    "words": {"bpe_size": 0, "tie": "none"},
    "subwords": {"bpe_size": 8000, "tie": "none"},
    "one table": {"bpe_size": 8000, "tie": "all"},
}
TODAY = "models/multi30k-2026"
# Sentences of our own, what they should become, and why they are here.
SENTENCES = [
    ("Eine alte Frau füttert Tauben auf einer Parkbank.", "captions' own words"),
    ("Drei Kinder bauen am Strand eine Sandburg.", "a compound that they contain"),
    ("Ein Feuerwehrhund sucht im Schutt nach Menschen.", "and one that they don't"),
    ("Ein Mann repariert auf dem Dach eine Antenne.", "a word that they don't"),
    ("Ein Koch schneidet Zwiebeln.", "an object seen a few times"),
    ("Der Junge trägt einen Elefanten.", "a or an"),
    ("Kein Kind spielt auf dem Spielplatz.", "captions hardly ever negate"),
    ("Niemand sitzt auf der Bank.", "nor this way"),
    ("Den Mann jagt der Hund.", "the object first"),
    ("Hallo", "no caption"),
]


def falling(step: int, peak: float, updates: int) -> float:
    """Return chapter 2's rate, with the given peak."""
    return peak * at.rate(step, 1, 1.0, WARMUP) / at.rate(WARMUP, 1, 1.0, WARMUP)


def train(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train; keep the translator with its last and its averaged weights."""
    config = dataclasses.replace(CONFIG, seed=seed, **TRAININGS[name])
    fields = [field.name for field in dataclasses.fields(Translation)]
    settings = {f: getattr(config, f) for f in fields if hasattr(config, f)}
    task = Translation(**settings | {"warmup": WARMUP / UPDATES})
    text, _, _ = encoded(task)
    torch.manual_seed(seed)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    last: deque[nn.Module] = deque(maxlen=AVERAGED)
    busy, device = time.process_time(), torch.device("cpu")
    with autocast(choose_precision(config.precision, device), device):
        losses = task.train(model, RATE, UPDATES, seed, falling)
        for step, loss in enumerate(losses, 1):
            if step % (UPDATES // PARTS) == 0:
                last.append(copy.deepcopy(model))
                log(f"{name}, seed {seed}: update {step}, loss {loss:.3f}")
    busy = time.process_time() - busy
    nll = task.judge(model)[task.unit]
    translator = Translator(model, text, config)
    save_translator(folder / "last", translator)
    at.average(model, last)
    save_translator(folder / "mean", translator)
    return {
        "parameters": at.count_parameters(model),
        "tokens": [len(text.vocab_src), len(text.vocab_tgt)],
        task.unit: round(nll, 3),
        f"{task.unit}, averaged": round(task.judge(model)[task.unit], 3),
        "training CPU seconds": round(busy),
    }


def score(folder: Path, beam: int) -> dict[str, Any]:
    """Translate the validation split, and the sentences of our own."""
    translator = load_translator(folder, "cpu")
    config = dataclasses.replace(
        translator.config, batch_tokens=4000, respell=False, by_sentence=False
    )
    translator = dataclasses.replace(translator, config=config)
    sources, references = zip(*load_pairs(CONFIG, "valid"), strict=True)
    lines = translator.translate(sources, beam, ALPHA)
    return {
        "bleu": compare(lines, lines, references)["bleu"],
        "sentences": translator.translate([s for s, _ in SENTENCES], beam, ALPHA),
        "lines": [" ".join(line.split()) for line in lines],
    }


def one_by_one(translator: Translator, kind: str) -> Callable[[list[int]], Any]:
    """Return what decodes one sentence: as in chapter 2, as in 4.4, or as in 4.5."""
    model = translator.model

    def plain(row: list[int]) -> Any:
        src = torch.tensor([row])
        mask, limit = (src != at.PAD).unsqueeze(-2), translator.limit(row)
        return at.greedy_decode(model, src, mask, limit, at.START, end_symbol=at.END)

    def cached(row: list[int]) -> Any:
        src = torch.tensor([row])
        mask = (src != at.PAD).unsqueeze(-2)
        ys = torch.full((1, 1), at.START)
        limit = translator.limit(row)
        cache = at.Cache(model.decoder, model.encode(src, mask), mask, limit)
        while ys.size(1) < limit and ys[0, -1] != at.END:
            word = at.decode_step(model, cache, ys).argmax(-1, keepdim=True)
            ys = torch.cat([ys, word], dim=1)
        return ys

    def beam(row: list[int]) -> Any:
        return translator.decode_batch([row], BEAM, ALPHA)

    return {"plain": plain, "cached": cached, "beam": beam}[kind]


def clock(ways: dict[str, tuple[Path, str]]) -> dict[str, float]:
    """Return the milliseconds that a sentence takes, the fastest of several turns."""
    sources = [source for source, _ in load_pairs(CONFIG, "valid")][:TIMED]
    best = dict.fromkeys(ways, float("inf"))
    torch.set_num_threads(1)
    for _ in range(TURNS):
        for rung, (folder, kind) in ways.items():
            translator = load_translator(folder, "cpu")
            rows = [translator.encode(source) for source in sources]
            decode = one_by_one(translator, kind)
            with translator.evaluating(), torch.inference_mode():
                begun = time.perf_counter()
                for row in rows:
                    decode(row)
                spent = time.perf_counter() - begun
            best[rung] = min(best[rung], 1000 * spent / len(rows))
    return {rung: round(milliseconds, 1) for rung, milliseconds in best.items()}


def rungs(runs: Path) -> dict[str, tuple[list[Path], int, str]]:
    """Return for each rung its models, one a seed, its beam and how it decodes."""
    of = {
        name: [runs / f"{name} {seed}" / "last" for seed in SEEDS] for name in TRAININGS
    }
    means = [folder.parent / "mean" for folder in of["one table"]]
    return {
        "words": (of["words"], 1, "plain"),
        "subwords": (of["subwords"], 1, "plain"),
        "one table": (of["one table"], 1, "plain"),
        "a cache": (of["one table"], 1, "cached"),
        "a beam": (of["one table"], BEAM, "beam"),
        "averaged": (means, BEAM, "beam"),
        "today's": ([project_folder() / TODAY], BEAM, "beam"),
    }


def result_of(folder: Path, beam: int, runs: Path) -> Path:
    return runs / "scores" / f"{folder.parent.name} {folder.name} {beam}.json"


def sum_up(runs: Path, out: Path) -> None:
    """Write all figures into one file."""
    ladder = rungs(runs)
    ways = {rung: (models[0], kind) for rung, (models, _, kind) in ladder.items()}
    times = clock(ways)
    references = [reference for _, reference in load_pairs(CONFIG, "valid")]
    rows: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    for rung, (models, beam, _) in ladder.items():
        scores = [read_json(result_of(folder, beam, runs)) for folder in models]
        row = {
            "rung": rung,
            "bleu": [s["bleu"] for s in scores],
            "milliseconds a sentence": times[rung],
            "sentences": [s["sentences"] for s in scores],
        }
        if len(before) == len(scores):
            pairs = zip(scores, before, strict=True)
            compared = [compare(a["lines"], b["lines"], references) for a, b in pairs]
            row["difference"] = [c["difference"] for c in compared]
            row["interval"] = [c["interval"] for c in compared]
        if len(models) > 1:
            trained = read_json(models[0].parent / "training.json")
            row |= {"parameters": trained["parameters"], "tokens": trained["tokens"]}
        else:
            row["parameters"] = at.count_parameters(load_translator(models[0]).model)
        rows.append(row)
        before = scores
    training = {
        name: [read_json(runs / f"{name} {s}" / "training.json") for s in SEEDS]
        for name in TRAININGS
    }
    settings = {
        "updates": UPDATES, "warmup": WARMUP, "peak rate": RATE, "averaged": AVERAGED,
        "updates between": UPDATES // PARTS, "beam": BEAM, "alpha": ALPHA,
        "seeds": SEEDS, "config": dataclasses.asdict(CONFIG), "today's": TODAY,
    }  # fmt: skip
    write_json(out, {
        **describe_environment(),
        "split": "valid",
        "settings": settings,
        "trainings": training,
        "sentences": SENTENCES,
        "rungs": rows,
    })  # fmt: skip
    for row in rows:
        log(f"{row['rung']:12}{row['bleu']}  {row['milliseconds a sentence']} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    folder = project_folder()
    parser.add_argument("--runs", type=Path, default=folder / "runs" / "ladder")
    parser.add_argument("--out", type=Path, default=folder / "results" / "ladder.json")
    parser.add_argument("--workers", type=int, help="trainings side by side [cores]")
    given = parser.parse_args()
    runs = given.runs.absolute()

    def untrained() -> dict[Path, tuple]:
        every = {
            runs / f"{name} {seed}" / "training.json": (
                name, seed, runs / f"{name} {seed}",
            )
            for seed in SEEDS
            for name in TRAININGS
        }  # fmt: skip
        return {path: a for path, a in every.items() if not path.exists()}

    def unscored() -> dict[Path, tuple]:
        every = {
            result_of(folder, beam, runs): (folder, beam)
            for models, beam, _ in rungs(runs).values()
            for folder in models
        }
        return {path: a for path, a in every.items() if not path.exists()}

    compute(untrained, train, given.workers)
    compute(unscored, score, given.workers)
    sum_up(runs, given.out)


if __name__ == "__main__":
    main()
