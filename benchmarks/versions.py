"""Compare this version with an older one, on one machine, in turns.

    python benchmarks/versions.py [--against 761f70e] [--rounds 9] [--part small …]

Both take training steps of `small` and `base` on random batches, and translate
Multi30k's test sentences with the shipped model: greedily, with a beam of 5, and one by
one, the last also compared with `generate` of transformers. Each version is a process
of its own. A figure is how many times as long the older version, or `generate`, takes.
"""

import argparse
import dataclasses
import itertools
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import torch
import turns

import annotated_transformer as at
from transformer_workshop.corpora import load_pairs
from transformer_workshop.files import log
from transformer_workshop.runs import schedule_of
from transformer_workshop.settings import CONFIGS
from transformer_workshop.speed import autocast, choose_precision, keep_freed_memory
from transformer_workshop.translator import build_model, load_translator

ROOT = Path(__file__).resolve().parent.parent
FILES = ("annotated_transformer.py", "transformer_workshop", "data")
PARTS = ("small", "base", "greedy", "beam 5", "one sentence")
VOCAB, CPU = 8000, torch.device("cpu")


def training(size: str) -> Callable[[], None]:
    """Return a turn of training: two steps of base, or eight of small."""
    config = dataclasses.replace(CONFIGS[size], dropout=0.1)
    words = at.Vocabulary([*at.SPECIALS, *(f"w{i}" for i in range(4, VOCAB))])
    keep_freed_memory()
    model = build_model(config, words, words)
    optimize = getattr(at, "optimize_for_cpu", None) or at.quicken
    optimize(model)
    if hasattr(at, "schedule_of"):  # since 2026.3
        optimizer, scheduler = at.build_optimizer(model, schedule_of(config, 10**6))
    else:
        optimizer, scheduler = at.build_optimizer(model, config, 10**6)
    criterion = getattr(at, "LeanLabelSmoothing", at.LabelSmoothing)
    loss = at.SimpleLossCompute(model.generator, criterion(VOCAB, at.PAD, 0.1))
    precision = choose_precision("auto", CPU)
    draw = torch.Generator().manual_seed(0)
    shapes = [(1500 // length, length) for length in (16, 10, 24, 13, 19, 8, 29, 12)]
    rows = (torch.randint(4, VOCAB, shape, generator=draw) for shape in shapes)
    batches = itertools.cycle(at.Batch(ids, ids) for ids in rows)
    steps = 8 if size == "small" else 2

    def turn() -> None:
        with autocast(precision, CPU):
            some = list(itertools.islice(batches, steps))
            at.run_epoch(some, model, loss, optimizer, scheduler, max_norm=1.0)

    return turn


def translating(kind: str, generate: bool) -> Callable[[], None]:
    """Return a turn that translates the next test sentences, together or one by one."""
    translator = load_translator(ROOT / "models" / "multi30k", "cpu")
    pairs = load_pairs(CONFIGS["small"], "test")
    size = {"greedy": 400, "beam 5": 100, "one sentence": 40}[kind]
    sentences = itertools.cycle([src for src, _ in pairs])
    if generate:
        import decoders

        hugging = decoders.as_m2m100(translator)

    def turn() -> None:
        some = list(itertools.islice(sentences, size))
        if kind != "one sentence":
            translator.translate(some, 5 if kind == "beam 5" else 1)
            return
        for sentence in some:
            if not generate:
                translator.translate([sentence], 1)
                continue
            src = torch.tensor([translator.check(sentence)])
            with torch.inference_mode():
                hugging.generate(src, do_sample=False, num_beams=1, max_new_tokens=127)

    return turn


def unpacked(commit: str, folder: Path) -> Path:
    """Unpack an older version into a folder."""
    listed = ["git", "ls-tree", "--name-only", commit, *FILES]
    files = subprocess.check_output(listed, cwd=ROOT, text=True).split()
    command = ["git", "archive", "--format=tar", commit, *files]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", default="761f70e", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--generate", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if part := arguments.work:
        train = part in ("small", "base")
        turns.answer(training(part) if train else translating(part, arguments.generate))
        return
    with tempfile.TemporaryDirectory() as folder:
        older = {"PYTHONPATH": str(unpacked(arguments.against, Path(folder)))}
        newer = {"PYTHONPATH": str(ROOT)}
        for part in arguments.part:
            argv = [__file__, "--work", part, "--threads", str(arguments.threads)]
            workers = [turns.Worker(argv, newer), turns.Worker(argv, older)]
            names = [arguments.against]
            if part == "one sentence":
                workers.append(turns.Worker([*argv, "--generate"], newer))
                names.append("generate of transformers")
            ours, *others = turns.ask_in_turn(workers, arguments.rounds)
            table = {
                name: turns.ratios(ours, taken)
                for name, taken in zip(names, others, strict=True)
            }
            log(f"{part}: {json.dumps(table)}")
            settings = {"rounds": arguments.rounds, "threads": arguments.threads}
            turns.save(part, {**table, **settings}, "versions.json")


if __name__ == "__main__":
    main()
