"""Score a captions model on each part of the test set, and count how it fails.

    python benchmarks/captions.py [--model DIR] [--out results/captions.json]

The parts are those of data/captions/test.kind: sentences with combinations and word
orders that training has shown, verbs with unseen objects, and unseen word orders.
"""

import argparse
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import torch

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import fingerprint, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.base.shipped_models import CAPTIONS_MODEL
from transformer_workshop.models.translator import load_translator

FOLDER = project_folder()


def load_grammar() -> ModuleType:
    """Import data/captions/captions.py, which knows how each test sentence was made."""
    path = FOLDER / "data" / "captions" / "captions.py"
    spec = importlib.util.spec_from_file_location("captions", path)
    grammar = sys.modules["captions"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(grammar)
    return grammar


def lost_objects(grammar: ModuleType, corpus, wrong: list[tuple]) -> int:
    """Count wrong translations that lack the noun of the unseen combination."""
    lost = 0
    for sentence, translation in wrong:
        _, lemma = sorted(sentence.objects & corpus.held_out)[0]
        noun = next(n for n in grammar.NOUNS.values() if n.lemma == lemma)
        lost += not any(n in translation for n in (noun.english, noun.english_plural))
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=FOLDER / CAPTIONS_MODEL)
    parser.add_argument("--out", type=Path, default=FOLDER / "results/captions.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    translator = load_translator(arguments.model, "cpu")
    grammar = load_grammar()
    corpus = grammar.build()
    weights = arguments.model / "model.safetensors"
    result = {
        **describe_environment(),
        "weights": fingerprint(weights.read_bytes()),
    }
    test = corpus.splits["test"]
    parts = {"valid": corpus.splits["valid"], "test": test}
    for part in ("seen", *grammar.UNSEEN):
        parts[part] = [s for s, kind in zip(test, corpus.kinds) if kind == part]
    for part, sentences in parts.items():
        references = [sentence.line("en") for sentence in sentences]
        translations = translator.translate([s.line("de") for s in sentences])
        wrong = [
            (sentence, translation)
            for sentence, reference, translation in zip(
                sentences, references, translations
            )
            if translation != reference
        ]
        exact = round(100 * (1 - len(wrong) / len(sentences)), 1)
        result[part] = {**at.score(translations, references), "exact": exact}
        if part == "combination":
            result[part]["wrong"] = len(wrong)
            result[part]["object lost"] = lost_objects(grammar, corpus, wrong)
        if part == "order":
            missed = Counter(sentence.skeleton for sentence, _ in wrong)
            asked = Counter(sentence.skeleton for sentence in sentences)
            result[part]["wrong of"] = {o: [missed[o], n] for o, n in asked.items()}
        low, high = result[part]["interval"]
        print(
            f"{part:12} {len(sentences):4} sentences  BLEU {result[part]['bleu']:.1f} "
            f"({low:.1f}-{high:.1f})  {exact:.1f} % exact"
        )
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
