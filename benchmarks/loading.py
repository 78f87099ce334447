"""A corpus of WMT 2014's size from disk: memory, and the time spent waiting for data.

    python benchmarks/loading.py [--pairs 5000000] [--words 25] [--workers 2]

Writes a text of random words (their frequencies by Zipf's law, sentences of very
different length), prepares it as chapter 92 does, and trains some steps from the store.
Needs 3 GB of disk for 5 million pairs of 25 words a side; the folder is deleted at the
end, unless --folder names one.
"""

import argparse
import contextlib
import dataclasses
import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

import annotated_transformer as at

WORDS = 30_000  # types
SPREAD = 0.6  # standard deviation of the logarithm of a sentence's length


def write_corpus(folder: Path, pairs: int, mean: float) -> list[str]:
    """Two files of random sentences, line by line of similar length; their paths.

    Files that are there already are taken as they are.
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


def private_memory() -> dict[str, float]:
    """GiB that only this process has: its own pages, and pages of mapped files."""
    found = {"own": 0, "mapped": 0}
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:  # not on this system
        return dict.fromkeys(found, float("nan"))
    for line in lines:
        name, *value = line.split()
        if name in ("Private_Dirty:", "Private_Clean:"):
            found["own" if name == "Private_Dirty:" else "mapped"] += int(value[0])
    return {name: kib / 2**20 for name, kib in found.items()}


@dataclasses.dataclass
class Watched:
    """Hands batches on, and keeps the time it waits for them and the highest memory."""

    batches: Iterator
    waited: float = 0.0
    own: float = 0.0  # GiB, highest
    mapped: float = 0.0

    def take(self, count: int) -> Iterable:
        for number in range(count):
            start = time.perf_counter()
            batch = next(self.batches)
            self.waited += time.perf_counter() - start
            yield batch
            if number % 5 == 4:
                for name, value in private_memory().items():
                    setattr(self, name, max(getattr(self, name), value))


def train(config: at.TrainingConfig, steps: int) -> dict[str, float]:
    """Some steps of training from the store; what they took."""
    text = at.load_text(config.store)
    start = time.perf_counter()
    store = at.open_store(config, text)
    opened = time.perf_counter() - start
    torch.manual_seed(0)
    device = torch.device("cpu")
    precision = at.choose_precision(config.precision, device)
    model = at.build_model(config, text.vocab_src, text.vocab_tgt)
    at.optimize_for_cpu(model)
    optimizer, scheduler = at.build_optimizer(model, config, 10**6)
    criterion = at.LeanLabelSmoothing(len(text.vocab_tgt), at.PAD, config.smoothing)
    loss = at.SimpleLossCompute(model.generator, criterion)
    batches = at.batches(store, config, 0, device, shuffle=True)
    start = time.perf_counter()
    first = next(batches)  # draws the order and groups the whole epoch
    begun = time.perf_counter() - start
    watched = Watched(itertools.chain([first], batches))
    start = time.perf_counter()
    with at.autocast(precision, device):
        at.run_epoch(
            watched.take(steps), model, loss, optimizer, scheduler,
            max_norm=config.max_norm,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    return {
        "seconds to open the store": opened,
        "seconds to begin an epoch": begun,
        "steps": steps,
        "seconds a step": seconds / steps,
        "share of the time waiting for data": watched.waited / seconds,
        "private memory, GiB": watched.own,
        "private pages of the store, GiB": watched.mapped,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--words", type=float, default=25, help="in a sentence, mean")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--bpe-size", type=int, default=37_000)
    parser.add_argument("--config", default="small")
    parser.add_argument("--folder", help="keep text and store here, and use them again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(arguments.folder or path)
        folder.mkdir(parents=True, exist_ok=True)
        files = write_corpus(folder, arguments.pairs, arguments.words)
        config = dataclasses.replace(
            at.CONFIGS[arguments.config], dataset="files", store=str(folder / "store"),
            train_src=files[0], train_tgt=files[1], bpe_size=arguments.bpe_size,
            threads=arguments.threads,
        )  # fmt: skip
        known = (folder / "store" / "store.json").exists()
        start = time.perf_counter()
        pairs = at.prepare_store(config, arguments.workers)
        figures = {"pairs": pairs, "words a sentence": arguments.words}
        figures |= {"workers": arguments.workers, "threads": arguments.threads}
        if not known:
            figures["seconds to prepare"] = time.perf_counter() - start
        sizes = (file.stat().st_size for file in (folder / "store").iterdir())
        figures["store, GiB"] = sum(sizes) / 2**30
        torch.set_num_threads(arguments.threads)
        at.keep_freed_memory()
        figures |= train(config, arguments.steps)
    for name, value in figures.items():
        print(f"{name:36} {value:12,.{0 if value > 1000 else 3}f}")
    path = Path(__file__).resolve().parent.parent / "results" / "loading.json"
    rounded = {name: round(value, 4) for name, value in figures.items()}
    at.write_json(path, {**rounded, "environment": at.describe_environment()})


if __name__ == "__main__":
    main()
