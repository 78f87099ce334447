"""Measure what a German-English model makes of input that is written differently.

    python benchmarks/noisy_input.py [--model FOLDER …]  (default: both of Multi30k)
    python benchmarks/noisy_input.py --augment FOLDER

Translates Multi30k's validation split as it is and with each kind of noise on the
German side, once as typed and once as `translate` respells it, with one thread, and
compares the BLEU scores. The interval of a difference is a 95 % bootstrap interval;
both translations are scored on the same resampled sentences.

With --augment, writes train.de and train.en instead: Multi30k's training pairs, with a
quarter of the German sentences made noisy, for a model that is trained on such input.
"""

import argparse
import random
from pathlib import Path
from typing import Any

import torch
from challenge import MODELS

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import fingerprint, write_atomically, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.comparison import compare
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs

FOLDER = project_folder()
UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
)
NOISE = {
    "all capitals": str.upper,
    "all lower case": str.lower,
    "ae, oe, ue for umlauts": lambda line: line.translate(UMLAUTS),
    "no final period": lambda line: line.removesuffix("."),
    "ss for ß": lambda line: line.replace("ß", "ss"),
}

SHARE = 0.25  # of the training sentences that --augment makes noisy


def augmented(lines: list[str], seed: int = 0) -> list[str]:
    """Add noise to a share of the lines, each of one kind drawn at random."""
    draw, kinds = random.Random(seed), list(NOISE.values())
    return [
        draw.choice(kinds)(line) if draw.random() < SHARE else line for line in lines
    ]


def as_typed(translator: Translator, lines: list[str]) -> list[str]:
    """Translate lines without respelling them; one that is too long stays empty."""
    config, rows = translator.config, [translator.text.encode(line) for line in lines]
    fitting = [[ids] if len(ids) <= config.max_tokens else [] for ids in rows]
    translations = translator.translate_ids(
        fitting, config.beam_size, config.length_penalty
    )
    return [translation.text for translation in translations]


def measure(
    translator: Translator, pairs: list[tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the score of the pairs as they are, and those with each kind of noise.

    ``changed`` counts the sentences that the noise changes, ``empty`` those without
    a translation because they have too many subwords then, and ``other translation``
    those whose translation differs.
    """
    sources, references = map(list, zip(*pairs, strict=True))
    whole = translator.translate(sources)
    scores: dict[str, dict[str, Any]] = {}
    for name, add_noise in NOISE.items():
        lines = [add_noise(line) for line in sources]
        changed = sum(a != b for a, b in zip(sources, lines, strict=True))
        scores[name] = {"changed": changed}
        for way, texts in (
            ("as typed", as_typed(translator, lines)),
            ("respelled", translator.translate(lines)),
        ):
            scores[name][way] = {
                **compare(texts, whole, references),
                "empty": texts.count(""),
                "other translation": sum(
                    a != b for a, b in zip(whole, texts, strict=True)
                ),
            }
    return at.score(whole, references), scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, action="append")
    parser.add_argument("--out", type=Path, default=FOLDER / "runs/noisy_input.json")
    about = "write noisy training pairs to this folder, and measure nothing"
    parser.add_argument("--augment", type=Path, metavar="FOLDER", help=about)
    arguments = parser.parse_args()
    if arguments.augment:
        pairs = load_pairs(TrainingConfig(dataset="multi30k"), "train")
        german, english = map(list, zip(*pairs, strict=True))
        for side, lines in (("de", augmented(german)), ("en", english)):
            text = "".join(f"{line}\n" for line in lines)
            write_atomically(arguments.augment / f"train.{side}", text.encode())
        return
    torch.set_num_threads(1)
    pairs = load_pairs(TrainingConfig(dataset="multi30k"), "valid")
    result: dict[str, Any] = {**describe_environment(), "models": {}}
    for folder in arguments.model or MODELS:
        translator = load_translator(folder, "cpu")
        weights = (folder / "model.safetensors").read_bytes()
        whole, noisy = measure(translator, pairs)
        result["models"][folder.name] = {
            "weights": fingerprint(weights),
            "as it is": whole,
            **noisy,
        }
        print(f"{folder.name:24} BLEU {whole['bleu']:.1f}")
        for name, ways in noisy.items():
            for way in ("as typed", "respelled"):
                low, high = ways[way]["interval"]
                bleu = f"BLEU {ways[way]['bleu']:4.1f} ({low:+.1f} to {high:+.1f})"
                print(f"{name:24} {way:9} {bleu}")
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
