"""Measure memory and time spent waiting for data, for a corpus of WMT 2014's size.

    python benchmarks/loading.py [--pairs 5000000] [--words 25] [--workers 2]

Writes a text of random words (with frequencies by Zipf's law, and sentences of very
different lengths), prepares it as chapter 92 does, and trains for some steps from the
store on disk. Preparation and training each run in a separate process; its memory and
that of its workers are watched. Needs 6 GB of disk for 5 million pairs of 25 words a
side; the folder is deleted at the end unless --folder names one.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS, TrainingConfig
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.speed import (
    autocast,
    choose_precision,
    keep_freed_memory,
    optimize_for_cpu,
)
from transformer_workshop.text.encoding import load_text
from transformer_workshop.text.store import open_store, prepare_store
from transformer_workshop.training.epochs import run_epoch
from transformer_workshop.training.loop import build_losses, count_updates, schedule_of

WORDS = 30_000  # types
SPREAD = 0.6  # standard deviation of the logarithm of a sentence's length


def write_corpus(folder: Path, pairs: int, mean: float) -> list[str]:
    """Write two files of random sentences whose lengths are similar line by line.

    Return their paths. Files that already exist are used as they are.
    """
    paths = [folder / f"{pairs}x{mean:g}.{side}" for side in ("src", "tgt")]
    if all(path.exists() for path in paths):
        return [str(path) for path in paths]
    begun = [path.with_suffix(path.suffix + ".tmp") for path in paths]
    draw = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = [
        "".join(draw.choice(letters, 2 + min(int(draw.exponential(3)), 10)))
        for _ in range(WORDS)
    ]
    table = np.array(words, dtype=object)
    chances = np.cumsum(1 / np.arange(1, WORDS + 1))
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "w")) for path in begun]
        for start in range(0, pairs, 50_000):
            count = min(50_000, pairs - start)
            centre = np.log(mean) - SPREAD**2 / 2
            lengths = np.exp(draw.normal(centre, SPREAD, count))
            for file in files:
                own = lengths * np.exp(draw.normal(0, 0.15, count))
                ends = np.cumsum(np.clip(own, 2, 100).astype(int))
                chosen = np.searchsorted(chances, draw.random(ends[-1]) * chances[-1])
                text, begin = table[chosen].tolist(), 0
                for end in ends.tolist():
                    file.write(" ".join(text[begin:end]) + "\n")
                    begin = end
    return [str(old.replace(new)) for old, new in zip(begun, paths, strict=True)]


def descendants(of: int) -> set[int]:
    """Return the processes that a process has started, directly or indirectly."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
    family = {of}
    while more := {p for p, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {of}


def memory(pid: int) -> dict[str, float]:
    """Return a process's private memory (written by it alone) and its PSS, in GiB."""
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        sizes[name] = int(size) / 2**20
    return {"private": sizes["Private_Dirty:"], "PSS": sizes["Pss:"]}


def watched(function: Callable, *arguments: Any) -> tuple[Any, dict[str, float]]:
    """Call a function in a process of its own; return its result and peak memory.

    The peak is that of any single process: that one, or one that it starts.
    """
    highest = {"private": 0.0, "PSS": 0.0}
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        running = pool.submit(function, *arguments)
        while not wait([running], timeout=0.2).done:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError, KeyError):  # it has just ended
                    for name, value in memory(pid).items():
                        highest[name] = max(highest[name], value)
        return running.result(), highest


def train(
    config: TrainingConfig, steps: int, few: int | None = None
) -> dict[str, float]:
    """Take some training steps from the store; return how long everything took.

    With ``few``, train on a list of its first pairs instead, to see what the model
    itself needs.
    """
    torch.set_num_threads(config.threads)
    keep_freed_memory()
    torch.manual_seed(0)
    text, start = load_text(config.store), time.perf_counter()
    examples = open_store(config, text)
    opened = time.perf_counter()
    if few is not None:
        examples = [examples[i] for i in range(few)]
    updates = count_updates(
        examples, config.batch_tokens, config.epochs, config.accum_iter
    )
    counted = time.perf_counter()
    device = torch.device("cpu")
    precision = choose_precision(config.precision, device)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    optimize_for_cpu(model)
    optimizer, scheduler = at.build_optimizer(model, schedule_of(config, updates))
    loss, _ = build_losses(model, config)
    batches = at.batches(
        examples, config.batch_tokens, at.epoch_rng(config.seed, 0), device
    )
    built = time.perf_counter()
    first = next(batches)  # draws the order and groups the whole epoch
    begun = time.perf_counter()
    waited = 0.0

    def take(count: int) -> Iterator[at.Batch]:
        nonlocal waited
        for _ in range(count):
            asked = time.perf_counter()
            batch = next(batches)
            waited += time.perf_counter() - asked
            yield batch

    with autocast(precision, device):
        run_epoch(
            itertools.chain([first], take(steps)), model, loss, optimizer, scheduler,
            max_norm=config.max_norm,
        )  # fmt: skip
    seconds = time.perf_counter() - begun
    return {
        "seconds to open the store": opened - start,
        "seconds to count the steps": counted - opened,
        "seconds to begin an epoch": begun - built,
        "steps in an epoch": updates // config.epochs,
        "steps": steps,
        "seconds a step": seconds / (steps + 1),
        "milliseconds a batch": 1000 * waited / steps,
        "share of the time waiting for data": waited / seconds,
    }


def write(path: Path, figures: dict[str, Any]) -> None:
    """Write figures and the environment that they were measured in."""
    rounded = {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }
    environment = describe_environment()
    environment["versions"]["datasets"] = importlib.metadata.version("datasets")
    write_json(path, {**rounded, "environment": environment})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--words", type=float, default=25, help="mean per sentence")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--bpe-size", type=int, default=37_000)
    parser.add_argument("--config", default="small")
    parser.add_argument("--folder", help="keep the text and the store here, for reuse")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(arguments.folder or path)
        folder.mkdir(parents=True, exist_ok=True)
        files = write_corpus(folder, arguments.pairs, arguments.words)
        store = folder / "store"
        config = dataclasses.replace(
            CONFIGS[arguments.config], dataset="files", store=str(store),
            train_src=files[0], train_tgt=files[1], bpe_size=arguments.bpe_size,
            threads=arguments.threads,
        )  # fmt: skip
        figures = {"words a sentence": arguments.words}
        figures |= {"workers": arguments.workers, "threads": arguments.threads}
        known = store.exists()
        start = time.perf_counter()
        pairs, highest = watched(prepare_store, config, arguments.workers)
        figures["pairs"] = pairs
        if not known:
            prepared = {"seconds to prepare": time.perf_counter() - start}
            for kind, value in highest.items():
                prepared[f"preparing: {kind} memory, GiB"] = value
            write(folder / "preparing.json", prepared)
        sizes = (file.stat().st_size for file in store.iterdir())
        figures["store, GiB"] = sum(sizes) / 2**30
        trained, highest = watched(train, config, arguments.steps)
        figures |= trained
        for kind, value in highest.items():
            figures[f"training: {kind} memory, GiB"] = value
        few = min(pairs, 200 * arguments.steps)
        _, highest = watched(train, config, arguments.steps, few)
        for kind, value in highest.items():
            figures[f"training from a short list: {kind} memory, GiB"] = value
        preparing = read_json(folder / "preparing.json")
    for name, value in figures.items():
        print(f"{name:47} {value:12,.{0 if value > 1000 else 3}f}")
    path = Path(__file__).resolve().parent.parent / "results" / "loading.json"
    write(path, figures | {"preparing": preparing})


if __name__ == "__main__":
    main()
