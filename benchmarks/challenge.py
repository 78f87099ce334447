"""Measure which kinds of grammar a German-English model has learned.

    python benchmarks/challenge.py [--model FOLDER …]  (default: both of Multi30k)

Reads data/challenge/challenge.tsv, whose sentences stand in pairs: the right English
for either one is the wrong English for the other. For each German sentence, the model
is asked which of the two it finds more probable (the sum of the log-probabilities of
all subwords and the end symbol; not divided by the length), so that guessing reaches
50 %. It also translates the sentence as `translate` does, and a pattern says whether
the translation shows what the sentence is about. Intervals are 95 % Wilson intervals.
"""

import argparse
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import fingerprint, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.translator import Translator, load_translator

FOLDER = project_folder()
CHALLENGE = FOLDER / "data/challenge/challenge.tsv"
MODELS = [FOLDER / "models/multi30k", FOLDER / "models/multi30k-2026"]
HEADER = "kind\tgerman\tenglish\tshows"


class Item(NamedTuple):
    """A German sentence with its English, that of its partner, and their patterns."""

    kind: str
    german: str
    right: str
    wrong: str
    shows: str
    partner_shows: str


def load_items(path: Path = CHALLENGE) -> list[Item]:
    """Return the sentences of the challenge set, partners next to each other."""
    header, *lines = read_lines(path)
    rows = [line.split("\t") for line in lines]
    if header != HEADER or len(rows) % 2 or {len(row) for row in rows} != {4}:
        what = "is not a table of pairs: " + HEADER.replace("\t", ", ")
        raise at.DataError(path, what, "Take the file from the repository.")
    items = []
    for a, b in zip(rows[::2], rows[1::2], strict=True):
        for (kind, german, right, shows), partner in ((a, b), (b, a)):
            items.append(Item(kind, german, right, partner[2], shows, partner[3]))
    return items


def matches(pattern: str, translation: str) -> bool:
    """Return whether a pattern occurs in a text, beginning at the edge of a word."""
    return re.search(rf"\b(?:{pattern})", translation, re.IGNORECASE) is not None


def outcome(item: Item, translation: str) -> str:
    """Return "shown", "opposite" (what the partner is about is shown), or "neither"."""
    own = matches(item.shows, translation)
    other = matches(item.partner_shows, translation)
    if own == other:
        return "neither"
    return "shown" if own else "opposite"


def log_probabilities(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> list[float]:
    """Return log P(English | German) of each (German, English) pair."""
    examples = [translator.text.encode_pair(*pair) for pair in pairs]
    model, log_probs = translator.model, [0.0] * len(examples)
    budget = translator.config.batch_tokens
    with at.in_mode(model, training=False), torch.inference_mode():
        for group in at.token_budget_batches(at.lengths_of(examples), budget):
            src, tgt = zip(*(examples[i] for i in group), strict=True)
            batch = at.Batch(at.padded(src), at.padded(tgt), at.PAD)
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            log_p = model.generator(out).gather(-1, batch.tgt_y.unsqueeze(-1))
            sums = log_p.squeeze(-1).masked_fill(batch.tgt_y == at.PAD, 0).sum(1)
            for i, value in zip(group, sums.tolist(), strict=True):
                log_probs[i] = value
    return log_probs


def wilson(successes: int, trials: int, digits: int = 1) -> list[float]:
    """Return the 95 % Wilson interval of a proportion, in percent, rounded."""
    z = 1.96
    p, spread = successes / trials, z * z / trials
    middle = (p + spread / 2) / (1 + spread)
    half = z * math.sqrt(p * (1 - p) / trials + spread / trials / 4) / (1 + spread)
    return [round(100 * x, digits) for x in (middle - half, middle + half)]


def share(answers: Sequence[bool]) -> dict[str, Any]:
    """Return how many answers are true, of how many, and the interval in percent."""
    return {
        "count": sum(answers),
        "of": len(answers),
        "interval": wilson(sum(answers), len(answers)),
    }


def measure(translator: Translator, items: Sequence[Item]) -> list[dict[str, Any]]:
    """Return, for each item, the margin in nats, the translation, and its outcome."""
    right = log_probabilities(translator, [(x.german, x.right) for x in items])
    wrong = log_probabilities(translator, [(x.german, x.wrong) for x in items])
    translations = translator.translate([x.german for x in items])
    return [
        {
            "german": item.german,
            "margin": round(a - b, 3),
            "translation": translation,
            "outcome": outcome(item, translation),
        }
        for item, a, b, translation in zip(
            items, right, wrong, translations, strict=True
        )
    ]


def summary(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count what is preferred, by sentence and by pair, and what translations show."""
    preferred = [x["margin"] > 0 for x in measured]
    both = [a and b for a, b in zip(preferred[::2], preferred[1::2], strict=True)]
    return {
        "preferred": share(preferred),
        "both of a pair": share(both),
        "shown": share([x["outcome"] == "shown" for x in measured]),
        "opposite": sum(x["outcome"] == "opposite" for x in measured),
    }


def line(name: str, of: dict[str, Any]) -> str:
    """Return a row of the printed table."""

    def cell(part: dict[str, Any]) -> str:
        low, high = part["interval"]
        return f"{part['count']:3} of {part['of']:3} ({low:3.0f}-{high:3.0f} %)"

    cells = map(cell, (of["preferred"], of["both of a pair"], of["shown"]))
    return f"{name:20}  {'  '.join(cells)}  {of['opposite']:3}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, action="append")
    parser.add_argument("--out", type=Path, default=FOLDER / "results/challenge.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    items = load_items()
    result: dict[str, Any] = {**describe_environment(), "models": {}}
    for folder in arguments.model or MODELS:
        translator = load_translator(folder, "cpu")
        measured = measure(translator, items)
        kinds = {
            kind: summary([m for i, m in zip(items, measured) if i.kind == kind])
            for kind in dict.fromkeys(item.kind for item in items)
        }
        result["models"][folder.name] = {
            "weights": fingerprint((folder / "model.safetensors").read_bytes()),
            "all": summary(measured),
            "kinds": kinds,
        }
        print(f"{folder.name}: right English preferred; in both of a pair; the")
        print("translation shows what the German sentence says; shows the opposite")
        for kind, counts in (kinds | {"all": summary(measured)}).items():
            print(line(kind, counts))
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
