"""Train chapter 6's GPT on the captions, and ask the grammar what it makes of samples.

    python benchmarks/gpt.py [--part samples blocks draws] [--seeds 0 1 2]

`samples` takes about four minutes for each seed, with one thread; the weights of the
first go to models/captions-gpt/gpt.safetensors, in 16 bits. `blocks` trains the same
GPT and one with the layer of section 6.1, from each seed at each of five rates, in
about half an hour. `draws` counts the new sentences among few samples and among many,
of the stored model, in two minutes. The figures go to results/gpt.json. A sample counts
as *possible* if the grammar that generated the captions could have produced it
(data/captions/recognize.py), as *new* if it is not a sentence of the training set.
"""

import argparse
import contextlib
import dataclasses
import functools
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import annotated_transformer as at
from annotated_transformer import END
from transformer_workshop.base.data_sets import data_file, project_folder
from transformer_workshop.base.files import (
    fingerprint,
    load_tensors,
    log,
    read_json,
    save_tensors,
    write_json,
)
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.lab.experiments import experiment
from transformer_workshop.lab.tasks import Continuation, english_captions

FOLDER = project_folder()
sys.path.insert(0, str(FOLDER / "data" / "captions"))
import captions as grammar  # noqa: E402
from recognize import could_say  # noqa: E402

SIZES = {"N": 3, "d_model": 96, "d_ff": 256, "h": 4, "groups": 2}
UPDATES = 600
STAGES = (0, 30, 100, 300, 600)  # updates after which samples are drawn
RATES = (0.0015, 0.003, 0.006, 0.012, 0.024)
LONGEST = 40  # tokens of a sample
SAMPLES = 500
TEMPERATURES = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3, 1.6)
DIALS: dict[str, dict[str, Any]] = {
    **{f"temperature {t}": {"temperature": t} for t in TEMPERATURES},
    **{f"top-k {k}": {"top_k": k} for k in (2, 5, 20)},
    **{f"top-p {p}": {"top_p": p} for p in (0.3, 0.5, 0.7, 0.9)},
}

MANY = [name for name in DIALS if name.startswith(("temperature 0", "top-p"))]
NUMBERS = (50, 500, 2000)


class OlderBlock(torch.nn.Module):
    """The layer of section 6.1."""

    def __init__(self, d_model: int, d_ff: int, h: int):
        super().__init__()
        self.norm_1, self.norm_2 = at.LayerNorm(d_model), at.LayerNorm(d_model)
        self.self_attn = at.MultiHeadedAttention(h, d_model, dropout=0.0)
        self.feed_forward = at.PositionwiseFeedForward(d_model, d_ff, dropout=0.0)

    def forward(
        self, x: Tensor, mask: Tensor, cache: dict[str, Tensor] | None = None
    ) -> Tensor:
        u = read = self.norm_1(x)
        if cache is not None:  # what it has read before, not keys and values
            read = torch.cat([cache["read"], u], dim=1) if cache else u
            cache["read"] = read
        x = x + self.self_attn(u, read, read, mask)
        return x + self.feed_forward(self.norm_2(x))


class OlderGPT(at.GPT):
    """A GPT of such layers: chapter 1's embeddings, with sinusoids, and its norm."""

    def __init__(self, vocab: int, N: int, d_model: int, h: int, **_: int):
        super().__init__(vocab, 1, d_model, 1, h, h)
        torch.nn.init.normal_(self.embed.weight, std=d_model**-0.5)
        layers = (OlderBlock(d_model, 4 * d_model, h) for _ in range(N))
        self.blocks = torch.nn.ModuleList(layers)
        self.norm = at.LayerNorm(d_model)
        self.sinusoids = at.PositionalEncoding(d_model, dropout=0.0).pe  # (1, …)

    def forward(
        self, ids: Tensor, cache: list[dict[str, Tensor]] | None = None
    ) -> Tensor:
        before = cache[0]["read"].size(1) if cache and cache[0] else 0
        end = before + ids.size(1)
        mask = at.subsequent_mask(end)[:, before:]
        x = self.embed(ids) * self.embed.embedding_dim**0.5
        x = x + self.sinusoids[:, before:end]
        for i, block in enumerate(self.blocks):
            x = block(x, mask, cache[i] if cache else None)
        return self.norm(x) @ self.embed.weight.mT


KINDS = {"2017": OlderGPT, "today": at.GPT}


def draw(model: at.GPT, number: int, seed: int = 0, **dials: Any) -> list[str]:
    """Draw sentences, the same random numbers for any dials and any model."""
    prompt = torch.full((number, 1), END)
    dials["draw"] = torch.Generator().manual_seed(seed)
    ids = at.generate(model, prompt, LONGEST, END, **dials)
    words = [[i for i in row if i != END] for row in ids[:, 1:].tolist()]
    _, vocab, tokenizer, _ = english_captions()
    return [tokenizer.detokenize(vocab.tokens(row)) for row in words]


def judge(samples: list[str]) -> dict[str, float]:
    """Return shares of samples, in percent; those that repeat another count once."""
    possible = {line for line in set(samples) if could_say(line)}
    training = training_sentences()
    new = possible - training
    shares = {
        "possible": sum(line in possible for line in samples),
        "in the training set": sum(line in training for line in samples),
        "possible, new": sum(line in new for line in samples),
        "possible, new, distinct": len(new),
        "distinct": len(set(samples)),
    }
    return {name: round(100 * n / len(samples), 1) for name, n in shares.items()}


@functools.cache
def training_sentences() -> set[str]:
    return set(read_lines(data_file("captions", "train.en")))


@dataclasses.dataclass(frozen=True)
class Sentences(Continuation):
    """A GPT is judged by what it says, too."""

    def judge(self, model: at.GPT) -> dict[str, float]:
        samples = draw(model, SAMPLES, temperature=0.5)
        return super().judge(model) | judge(samples)


def loss(model: at.GPT) -> float:
    return round(Continuation().judge(model)[Continuation.unit], 3)


def run(seed: int) -> tuple[at.GPT, dict[str, Any]]:
    """Train from a seed; return the model in 16 bits and what was measured."""
    stream, vocab, *_ = english_captions()
    torch.manual_seed(seed)
    model = at.GPT(len(vocab), **SIZES)
    started, spent = time.process_time(), 0.0
    updates = at.train_gpt(model, stream, UPDATES, seed=seed)
    stages: list[dict[str, Any]] = []
    losses: list[float] = []
    result: dict[str, Any] = {"seed": seed, "weights": at.count_parameters(model)}
    for stage in STAGES:
        while len(losses) < stage:
            losses.append(next(updates)[1])
        spent += time.process_time() - started
        samples = draw(model, SAMPLES, temperature=0.5)
        stages.append({
            "updates": stage, "training loss": round(losses[-1], 3) if losses else None,
            "validation loss": loss(model),
            "first samples": samples[:5], **judge(samples),
        })  # fmt: skip
        started = time.process_time()
    for p in model.parameters():
        p.data = p.data.half().float()
    result |= {
        "cpu_seconds": round(spent), "stages": stages,
        "losses": [round(mean_of(losses, i), 3) for i in range(10, UPDATES + 1, 10)],
        "validation loss in 16 bits": loss(model),
    }  # fmt: skip
    result["dials"] = [
        {"dial": name, **judge(draw(model, SAMPLES, **dials))}
        for name, dials in DIALS.items()
    ]
    return model, result


def by_number_of_draws(weights: Path) -> list[dict[str, Any]]:
    """Return the share of new sentences among few samples and among many, by dial.

    From the stored model, 2,000 samples: all of them, and the mean of the parts with
    500 and with 50.
    """
    model = at.GPT(len(english_captions()[1]), **SIZES)
    model.load_state_dict(load_tensors(weights))
    rows = []
    for name in MANY:
        dials = DIALS[name]
        blocks = [draw(model, SAMPLES, seed=seed, **dials) for seed in range(1, 5)]
        lines = list(itertools.chain.from_iterable(blocks))
        row: dict[str, Any] = {"dial": name, "possible": judge(lines)["possible"]}
        for size in NUMBERS:
            parts = [lines[i : i + size] for i in range(0, len(lines), size)]
            new = [judge(part)["possible, new, distinct"] for part in parts]
            row[f"new of {size}"] = round(statistics.fmean(new), 1)
        rows.append(row)
        log(str(row))
    return rows


def samples_of_each(seeds: list[int], path: Path) -> dict[str, Any]:
    """Train from each seed, keep the weights of the first, and judge all samples."""
    runs = []
    for seed in seeds:
        model, result = run(seed)
        runs.append(result)
        log(f"seed {seed}: {result['cpu_seconds']} CPU seconds of training")
        if len(runs) == 1:
            half = {name: p.half() for name, p in model.state_dict().items()}
            path.parent.mkdir(exist_ok=True)
            save_tensors(path, half)
    stream, vocab, *_ = english_captions()
    return {
        "sizes": SIZES, "updates": UPDATES, "samples": SAMPLES,
        "words": len(vocab), "tokens": len(stream),
        "weights": fingerprint(path.read_bytes()),
        "training sentences repeated by the grammar": of_the_grammar(),
        "runs": runs,
    }  # fmt: skip


def mean_of(losses: list[float], end: int) -> float:
    return sum(losses[end - 10 : end]) / 10


def compare(seeds: list[int]) -> list[dict[str, Any]]:
    """Train GPTs of both kinds of block from each seed at each rate."""
    builders = {name: functools.partial(kind, **SIZES) for name, kind in KINDS.items()}
    task, rows = Sentences(), []
    trained = {
        rate: experiment(builders, task, updates=UPDATES, seeds=seeds, rates=[rate])
        for rate in RATES
    }
    for rate, name, seed in itertools.product(RATES, KINDS, seeds):
        record = trained[rate].results[name][rate][seed]
        nats, *shares = record["measured"].items()
        rows.append({
            "block": name, "rate": rate, "seed": seed, "weights": record["parameters"],
            "validation loss": round(nats[1], 3), **dict(shares),
        })  # fmt: skip
    return rows


def of_the_grammar(number: int = 2000) -> float:
    """Return how often the grammar itself repeats a training sentence, in percent."""
    chance = grammar.Chooser(1)
    lines = []
    while len(lines) < number:
        with contextlib.suppress(grammar.Unfit):
            lines.append(grammar.compose(chance).line("en"))
    return round(100 * sum(line in training_sentences() for line in lines) / number, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("samples", "blocks", "draws")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=FOLDER / "results" / "gpt.json")
    weights = FOLDER / "models" / "captions-gpt" / "gpt.safetensors"
    parser.add_argument("--weights", type=Path, default=weights)
    given = parser.parse_args()
    torch.set_num_threads(1)
    summary = read_json(given.out) if given.out.exists() else {}
    summary |= describe_environment()
    if "samples" in given.part:
        summary |= samples_of_each(given.seeds, given.weights)
    if "blocks" in given.part:
        summary["blocks"] = compare(given.seeds)
    if "draws" in given.part:
        summary["draws"] = by_number_of_draws(given.weights)
    write_json(given.out, summary)


if __name__ == "__main__":
    main()
