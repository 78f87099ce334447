"""Measure what a German-English model makes of input that is written differently.

    python benchmarks/disturbed.py [--model models/multi30k …]

Translates Multi30k's validation split as it is and after each disturbance of the German
side, with one thread, and compares the BLEU scores. The interval of a difference is a
95 % bootstrap interval; both translations are scored on the same resampled sentences.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from ablations import compare

import annotated_transformer as at

FOLDER = at.project_folder()
UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
)
DISTURBANCES = {
    "all capitals": str.upper,
    "all lower case": str.lower,
    "ae, oe, ue for umlauts": lambda line: line.translate(UMLAUTS),
    "no final period": lambda line: line.removesuffix("."),
    "ss for ß": lambda line: line.replace("ß", "ss"),
}


def short_enough(translator: at.Translator, line: str) -> bool:
    """Return whether the model takes a line: in capitals, it can have many subwords."""
    return len(translator.text.encode(line)) <= translator.config.max_tokens


def measure(
    translator: at.Translator, pairs: list[tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the score of the pairs as they are, and the scores of each disturbance.

    ``changed`` counts the sentences that a disturbance changes, ``too long`` those that
    have too many subwords then and get no translation, and ``other translation`` those
    whose translation differs.
    """
    sources, references = map(list, zip(*pairs, strict=True))
    whole = translator.translate(sources)
    found = {}
    for name, disturb in DISTURBANCES.items():
        disturbed = [disturb(line) for line in sources]
        given = [x if short_enough(translator, x) else "" for x in disturbed]
        lines = translator.translate(given)
        found[name] = {
            **compare(lines, whole, references),
            "changed": sum(a != b for a, b in zip(sources, disturbed, strict=True)),
            "too long": given.count(""),
            "other translation": sum(a != b for a, b in zip(whole, lines, strict=True)),
        }
    return at.score(whole, references), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, action="append")
    parser.add_argument("--out", type=Path, default=FOLDER / "results/disturbed.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs = at.load_pairs(at.TrainingConfig(dataset="multi30k"), "valid")
    result: dict[str, Any] = {**at.describe_environment(), "models": {}}
    for folder in arguments.model or [FOLDER / at.DEFAULT_MODEL]:
        translator = at.load_translator(folder, "cpu")
        weights = (folder / "model.safetensors").read_bytes()
        whole, found = measure(translator, pairs)
        result["models"][folder.name] = {
            "weights": at.fingerprint(weights),
            "as it is": whole,
            **found,
        }
        print(f"{folder.name:24} BLEU {whole['bleu']:.1f}")
        for name, of in found.items():
            low, high = of["interval"]
            print(
                f"{name:24} BLEU {of['bleu']:.1f} ({low:+.1f} to {high:+.1f}); "
                f"{of['changed']} sentences changed, "
                f"{of['other translation']} translated otherwise"
            )
    at.write_json(arguments.out, result)


if __name__ == "__main__":
    main()
