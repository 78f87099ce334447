"""Time the same work with and without each measure of chapter 93.

    python benchmarks/step.py [--pairs 9] [--part small …] [--only loss …]

The work is training steps on random batches of 3,000 positions, source and target
together, and translations by the shipped model. The two ways of doing it are two
processes that take turns, and each turn does the same work in both. The result is the
median over the pairs of turns, in elapsed and in processor time. Everything runs on one
thread unless the measure is about threads.
"""

import argparse
import dataclasses
import itertools
import json
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
import turns
from torch import nn

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS
from transformer_workshop.base.data_sets import data_file, project_folder
from transformer_workshop.base.files import log
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.speed import (
    CheapDropout,
    LeanLabelSmoothing,
    autocast,
    choose_precision,
    keep_freed_memory,
    optimize_for_cpu,
    share_one_heap,
)
from transformer_workshop.models.translator import load_translator
from transformer_workshop.training.epochs import run_epoch
from transformer_workshop.training.loop import schedule_of

MODEL = project_folder() / "models" / "multi30k"
CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Way:
    """How to do the work: as chapter 93 does, except where a field says otherwise."""

    size: str = "small"  # of the training step; "" to translate
    beam_size: int = 1
    sentences: int = 100  # translated in a turn
    precision: str = "auto"
    dropout: bool = True
    loss: bool = True
    attention: bool = True
    adam: bool = False  # the fused one; it saved nothing to speak of
    memory: bool = True
    giving_back: bool = True  # of idle memory
    vocab: int = 8000
    heap: bool = True
    threads: int = 1
    groups: bool = True  # threads share the sentences, not the products


@dataclasses.dataclass(frozen=True)
class Measure:
    """The two ways of working that a measure of the chapter is judged by."""

    with_it: Way
    without: Way
    pairs: int = 0  # 0: as many as --pairs says


def taken_away(name: str, way: Way, pairs: int = 0) -> Measure:
    """Return the measure that a field of Way turns on."""
    installed, missing = ({name: value} for value in (True, False))
    replace = dataclasses.replace
    return Measure(replace(way, **installed), replace(way, **missing), pairs)


def measures(part: str) -> dict[str, Measure]:
    """Return the measures for a training step of this size, or for translating."""
    if part != "translating":
        names = ("dropout", "loss", "attention", "adam", "memory")
        of_step = {name: taken_away(name, Way(part)) for name in names}
        large = Way(part, vocab=37_000)
        of_step["giving back"] = taken_away("giving_back", large, 30)
        if choose_precision("auto", CPU) == "bfloat16":
            of_step["precision"] = Measure(Way(part), Way(part, precision="float32"))
        return of_step
    greedy, beam = Way(""), Way("", beam_size=5, sentences=50)
    both, long = (Way("", sentences=size, threads=2) for size in (400, 200))
    return {
        "attention, greedy": taken_away("attention", greedy),
        "attention, beam 5": taken_away("attention", beam),
        "groups": taken_away("groups", both),
        "heap": taken_away("heap", long, 40),
    }


def prepare(model: nn.Module, way: Way) -> None:
    """Set up a model in the way asked for."""
    optimize_for_cpu(model)
    for module in list(model.modules()):
        if isinstance(module, at.MultiHeadedAttention) and not way.attention:
            module.attention_function = at.attention
        for name, child in module.named_children():
            if isinstance(child, CheapDropout) and not way.dropout:
                setattr(module, name, nn.Dropout(child.p))


def random_batches(vocab: int) -> Iterator[at.Batch]:
    """Yield batches of about 1,500 positions a side, of many shapes, endlessly."""
    draw = torch.Generator().manual_seed(0)
    lengths = itertools.cycle([16, 10, 24, 13, 19, 8, 29, 12, 21, 15])
    for length in lengths:
        length += int(torch.randint(-2, 3, (), generator=draw))
        shape = (1500 // length, length)
        ids = torch.randint(4, vocab, shape, generator=draw)
        yield at.Batch(ids, ids)


def training(way: Way) -> Callable[[], None]:
    """Return a turn of training: one step of base, or two of small."""
    config = dataclasses.replace(CONFIGS[way.size], dropout=0.1)
    words = at.Vocabulary([*at.SPECIALS, *(f"w{i}" for i in range(4, way.vocab))])
    model = build_model(config, words, words)
    prepare(model, way)
    optimizer, scheduler = at.build_optimizer(model, schedule_of(config, 10**6))
    for group in optimizer.param_groups:
        group["fused"] = way.adam
    kind = LeanLabelSmoothing if way.loss else at.LabelSmoothing
    loss = at.SimpleLossCompute(model.generator, kind(way.vocab, at.PAD, 0.1))
    precision = choose_precision(way.precision, CPU)
    batches = random_batches(way.vocab)
    steps = 2 if way.size == "small" else 1

    def turn() -> None:
        some = list(itertools.islice(batches, steps))
        with autocast(precision, CPU):
            run_epoch(some, model, loss, optimizer, scheduler, max_norm=1.0)

    return turn


def translating(way: Way) -> Callable[[], None]:
    """Return a turn of translating captions with the shipped model."""
    translator = load_translator(MODEL, "cpu")
    prepare(translator.model, way)
    lines = itertools.cycle(read_lines(data_file("captions", "test.de")))

    def turn() -> None:
        sentences = list(itertools.islice(lines, way.sentences))
        if way.groups:
            translator.translate(sentences, way.beam_size)
            return
        rows = sorted(map(translator.check, sentences), key=len, reverse=True)
        size = 2 * translator.config.batch_tokens // len(rows[0]) // 3
        for start in range(0, len(rows), size):
            src = at.padded(rows[start : start + size])
            at.beam_search(
                translator.model, src, (src != at.PAD).unsqueeze(-2), 128, at.START,
                end_symbol=at.END, beam_size=way.beam_size,
            )  # fmt: skip

    return turn


def work(way: Way) -> None:
    """Do the work in one way, as a process that takes turns."""
    torch.manual_seed(0)
    torch.set_num_threads(way.threads)
    if way.memory and way.size:
        keep_freed_memory(*([] if way.giving_back else [2**40]))
    if way.heap and not way.size:
        share_one_heap()
    turns.answer(training(way) if way.size else translating(way))


def compared(measure: Measure, pairs: int) -> dict[str, Any]:
    """Compare the work without a measure with that with it, over pairs of turns."""
    with_it, without = turns.ask_in_turn(
        [
            turns.Worker([__file__, "--work", json.dumps(dataclasses.asdict(way))])
            for way in (measure.with_it, measure.without)
        ],
        measure.pairs or pairs,
    )
    return {
        "pairs": len(with_it),
        **turns.ratios(with_it, without),
        "seconds with it": round(statistics.median(t["seconds"] for t in with_it), 3),
        "MiB": [round(turn[-1]["MiB"]) for turn in (with_it, without)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--only", nargs="+", default=[""], help="what the measures' names start with"
    )
    parser.add_argument("--part", nargs="+", default=["small", "base", "translating"])
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(Way(**json.loads(arguments.work)))
        return
    for part in arguments.part:
        for name, measure in measures(part).items():
            if name.startswith(tuple(arguments.only)):
                row = compared(measure, arguments.pairs)
                log(f"{part}, without {name}: {row}")
                turns.save(f"{part}: {name}", row, "step.json")


if __name__ == "__main__":
    main()
