"""Make more training pairs from the same sentences (chapter 95).

    python benchmarks/diversify.py [--there runs/multi30k-small]
        [--back runs/multi30k-en-de] [--into runs/diversified]

Writes train.de and train.en, with three times as many pairs as Multi30k's training
split: the originals, each German sentence with its translation by the model ``there``,
and each English sentence with its translation by the model ``back``.
"""

import argparse
from pathlib import Path

import annotated_transformer as at


def diversified(
    german: list[str], english: list[str], there: at.Translator, back: at.Translator
) -> dict[str, list[str]]:
    """Return three times as many pairs, as the lines of each side."""
    return {
        "de": german + german + back.translate(english),
        "en": english + there.translate(german) + english,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--there", type=Path, default=Path("runs/multi30k-small"))
    parser.add_argument("--back", type=Path, default=Path("runs/multi30k-en-de"))
    parser.add_argument("--into", type=Path, default=Path("runs/diversified"))
    given = parser.parse_args()
    try:
        there, back = (at.load_translator(x, "cpu") for x in (given.there, given.back))
        pairs = at.load_pairs(at.CONFIGS["small"], "train")
        german, english = map(list, zip(*pairs, strict=True))
        for side, lines in diversified(german, english, there, back).items():
            text = "".join(f"{line}\n" for line in lines)
            at.write_atomically(given.into / f"train.{side}", text.encode())
    except at.DataError as error:
        at.log(f"error: {error}")
        return 2
    at.log(f"{given.into}: {len(lines):,} pairs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
