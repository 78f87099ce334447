"""What is a GPT worth by measures that are not its reward?"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from annotated_transformer import END, GPT, generate, in_mode, sentence_log_p
from transformer_workshop.base.data_sets import data_file, project_folder
from transformer_workshop.base.files import load_tensors
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.lab.tasks import Continuation, english_captions

SIZES = {"N": 3, "d_model": 96, "d_ff": 256, "h": 4, "groups": 2}
LONGEST = 40  # tokens of a sentence
COUNTED = 70  # possible sentences in which coverage is counted


def captions_gpt() -> GPT:
    """Return chapter 6's GPT with the shipped weights, a new one at each call."""
    model = GPT(len(english_captions()[1]), **SIZES)
    path = project_folder() / "models" / "captions-gpt" / "gpt.safetensors"
    model.load_state_dict(load_tensors(path))
    return model


def as_text(ids: torch.Tensor) -> list[str]:
    """Return the sentences of ids (B, L), each between two END."""
    _, vocab, tokenizer, _ = english_captions()
    rows = ([i for i in row if i != END] for row in ids.tolist())
    return [tokenizer.detokenize(vocab.tokens(row)) for row in rows]


@functools.cache
def parse(line: str) -> Any:
    """Return the grammar's analysis of a sentence, None if it couldn't have said it.

    What was asked before is remembered. Needs the repository's data/captions.
    """
    folder = str(project_folder() / "data" / "captions")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from recognize import parse as parsed

    return parsed(line)


@functools.cache
def known_captions() -> frozenset[str]:
    """Return the sentences of the training set."""
    return frozenset(read_lines(data_file("captions", "train.en")))


def is_hidden(line: str, seed: int) -> bool:
    """Return what the coin of a sentence shows; each seed has other coins.

    A model that is never taught hidden sentences can't know one of them by heart.
    """
    return hashlib.sha256(f"{seed} {line}".encode()).digest()[0] % 2 == 1


def coverage(lines: list[str]) -> dict[str, int]:
    """Count the grammar's sentence patterns and verbs in what it could have said."""
    found = [sentence for line in lines if (sentence := parse(line))]
    return {
        "patterns": len({sentence.skeleton for sentence in found}),
        "verbs": len(set().union(*(sentence.verbs for sentence in found))),
    }


class AtTemperature(torch.nn.Module):
    """A model whose logits are divided by a temperature."""

    def __init__(self, model: GPT, temperature: float):
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids) / self.temperature


def measure(
    model: GPT,
    first: GPT,
    number: int = 300,
    seed: int = 0,
    *,
    temperature: float = 1.0,
    hidden: Callable[[str], bool] | None = None,
) -> dict[str, Any]:
    """Return what a model's samples are worth, in percent of ``number`` of them.

    "new" counts possible sentences that are not in the training set, each once. Where
    half of all sentences are ``hidden`` from a training, "unseen" is twice the share of
    new ones that are hidden. The grammar's patterns and verbs are counted in the first
    COUNTED possible ones, so that models can be compared. "KL" is the divergence from
    ``first`` at temperature 1, in nats per sentence, estimated from the samples;
    "held-out loss" is in nats per token of captions that neither has seen. Everything
    but ``first`` is at ``temperature``.
    """
    draw = torch.Generator().manual_seed(seed)
    prompt = torch.full((number, 1), END)
    ids = generate(model, prompt, LONGEST, END, draw=draw, temperature=temperature)
    policy: Any = AtTemperature(model, temperature)
    with in_mode(model, training=False), in_mode(first, training=False):
        log_ratio = sentence_log_p(policy, ids) - sentence_log_p(first, ids)
    lines = as_text(ids)
    possible = [line for line in lines if parse(line)]
    new = set(possible) - known_captions()
    counts = {
        "possible": len(possible),
        "new": len(new),
        "distinct": len(set(lines)),
    }
    if hidden is not None:
        counts["unseen"] = 2 * len([*filter(hidden, new)])
    return {
        **{what: round(100 * count / number, 1) for what, count in counts.items()},
        **coverage(possible[:COUNTED]),
        "KL": round(log_ratio.mean().item(), 2),
        "held-out loss": round(Continuation().judge(policy)[Continuation.unit], 3),
    }
