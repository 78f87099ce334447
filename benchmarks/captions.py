"""Score a captions model on each part of the test set, and on validation.

    python benchmarks/captions.py [--model models/captions] [--out results/captions.json]

The parts are those of data/captions/test.kind: sentences whose words and orders training
has shown together, verbs with objects that it has not, and word orders that it has not.
"""

import argparse
from pathlib import Path

import torch

import annotated_transformer as at

PARTS = ("seen", "combination", "order")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = at.project_folder()
    parser.add_argument("--model", type=Path, default=folder / at.CAPTIONS_MODEL)
    parser.add_argument("--out", type=Path, default=folder / "results/captions.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    translator = at.load_translator(arguments.model, "cpu")
    test = at.load_pairs(translator.config, "test")
    kinds = at.read_lines(at.data_file("captions", "test.kind"))
    parts = {"valid": at.load_pairs(translator.config, "valid"), "test": test}
    for part in PARTS:
        parts[part] = [pair for pair, kind in zip(test, kinds) if kind == part]
    result = {
        **at.describe_environment(),
        "weights": at.fingerprint((arguments.model / "model.safetensors").read_bytes()),
    }
    for part, pairs in parts.items():
        source, references = map(list, zip(*pairs))
        translations = translator.translate(source)
        exact = sum(map(str.__eq__, translations, references))
        figures = at.score(translations, references)
        result[part] = {**figures, "exact": round(100 * exact / len(pairs), 1)}
        low, high = figures["interval"]
        print(
            f"{part:12} {len(pairs):4} sentences  BLEU {figures['bleu']:.1f} "
            f"({low:.1f}-{high:.1f})  {result[part]['exact']:.1f} % exact"
        )
    at.write_json(arguments.out, result)


if __name__ == "__main__":
    main()
