"""Compare the speed of training with other tools, in tokens per second.

    python benchmarks/training.py [--config small|base] [--rounds 7] [--seconds 4]

Counts target tokens without padding, and times the forward pass, the backward pass,
and the optimizer's step, on batches made beforehand. Everything runs in one process
with two threads, so all systems profit from the memory that it keeps (chapter 93). The
data is Multi30k, with 8,000 subwords; dropout is 0.1.
"""

import argparse
import dataclasses
import itertools
from collections.abc import Callable, Sequence

import peers
import torch
import turns
from torch.utils.flop_counter import FlopCounterMode

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS, TrainingConfig
from transformer_workshop.base.files import log
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.speed import (
    LeanLabelSmoothing,
    autocast,
    choose_precision,
    keep_freed_memory,
    optimize_for_cpu,
)
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import prepare_text
from transformer_workshop.text.store import load_examples
from transformer_workshop.training.epochs import run_epoch
from transformer_workshop.training.loop import schedule_of

# Rows, inputs, and outputs of a product in the feed-forward net.
PRODUCT = {"small": (1500, 256, 512), "base": (1500, 512, 2048)}


def ours(
    config: TrainingConfig, words: at.Vocabulary, batches: Sequence, precision: str
) -> tuple[torch.nn.Module, Callable[[], int]]:
    """Return our model and a training step by ``run_epoch``, as ``train`` takes it."""
    device = torch.device("cpu")
    model = build_model(config, words, words)
    optimize_for_cpu(model)
    optimizer, scheduler = at.build_optimizer(model, schedule_of(config, 10**6))
    loss = at.SimpleLossCompute(
        model.generator, LeanLabelSmoothing(len(words), at.PAD, config.smoothing)
    )
    stream = itertools.cycle(batches)

    def step() -> int:
        batch = next(stream)
        with autocast(precision, device):
            run_epoch([batch], model, loss, optimizer, scheduler, max_norm=1.0)
        return batch.ntokens

    return model, step


def peak(rows: int, inner: int, columns: int, dtype: torch.dtype) -> Callable[[], int]:
    """Return a matrix product of the model's size; it returns its operation count."""
    layer = torch.nn.Linear(inner, columns, dtype=dtype)
    x = torch.randn(rows, inner, dtype=dtype)

    def product() -> int:
        with torch.no_grad():
            layer(x)
        return 2 * rows * inner * columns

    return product


def operations(config: TrainingConfig, words: at.Vocabulary, batches: list) -> float:
    """Count the operations of all matrix products of a step, per target token."""
    model = build_model(config, words, words)
    with FlopCounterMode(display=False) as counter:
        for batch in batches:
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            model.generator(out).sum().backward()
    return counter.get_total_flops() / sum(batch.ntokens for batch in batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="small", choices=("small", "base"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    keep_freed_memory(2**40)  # or one system would pay for another's memory
    config = dataclasses.replace(
        CONFIGS[arguments.config],
        dataset="multi30k", bpe_size=8000, tie="all", dropout=0.1,
        batch_tokens=1500, max_tokens=128,
    )  # fmt: skip
    text = prepare_text(load_pairs(config, "train"), config.bpe_size, config.min_freq)
    words = text.vocab_src
    examples = load_examples(config, "train", text)
    batches = list(
        at.batches(examples, config.batch_tokens, at.epoch_rng(config.seed, 0), "cpu")
    )
    model, step = ours(config, words, batches, "float32")
    old, old_step = peers.way_of_2022(config, len(words), examples)
    assert at.count_parameters(old) == at.count_parameters(model)
    systems = {"ours, float32": step}
    if choose_precision("auto", torch.device("cpu")) == "bfloat16":
        systems["ours, bfloat16"] = ours(config, words, batches, "bfloat16")[1]
    for name, peer in (
        ("MarianMTModel", peers.Marian(config, len(words))),
        ("torch.nn.Transformer", peers.TorchTransformer(config, len(words))),
    ):
        log(f"{name}: {at.count_parameters(peer):,} parameters")
        systems[name] = peers.by_logits(peer, batches, config.smoothing)
    systems["the 2022 post's way"] = old_step
    log(f"ours and the post's: {at.count_parameters(model):,} parameters")
    timed = turns.take_turns(systems, arguments.seconds, arguments.rounds)
    tables = {
        f"against {name}": turns.compare(timed, name)
        for name in systems
        if name.startswith("ours")
    }
    for table in tables.values():
        turns.report(table, "target tokens")
    shape = PRODUCT[arguments.config]
    products = {str(t): peak(*shape, t) for t in (torch.float32, torch.bfloat16)}
    limits = turns.compare(turns.take_turns(products, 1.0, 5), str(torch.float32))
    turns.report(limits, "matrix products, operations")
    limit = limits[str(torch.float32)]["rate"]
    per_token = operations(config, words, batches[:8])
    shares = {
        name: round(table[name]["rate"] * per_token / limit, 2)
        for table in tables.values()
        for name in table
        if name.startswith("ours")
    }
    print(
        f"\n{per_token / 1e6:.1f} million operations per token; share of the float32 "
        "peak:",
        shares,
    )
    turns.save(
        f"training {arguments.config}",
        {**tables, "matrix products": limits, "share of the float32 peak": shares},
    )


if __name__ == "__main__":
    main()
