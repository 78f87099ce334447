"""Make more training pairs from the same sentences (chapter 95).

    python benchmarks/diversify.py [--there RUN ...] [--back RUN ...]
        [--into runs/diversified]

Writes train.de and train.en: Multi30k's training pairs, each German sentence with its
translation by every model after ``--there`` (by default runs/multi30k-small), and each
English sentence with its translation by every model after ``--back`` (by default
runs/multi30k-en-de). No pair is written twice.
"""

import argparse
from pathlib import Path

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS
from transformer_workshop.base.files import log, write_atomically
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs

THERE, BACK = Path("runs/multi30k-small"), Path("runs/multi30k-en-de")


def diversified(
    german: list[str],
    english: list[str],
    there: list[Translator],
    back: list[Translator],
) -> list[tuple[str, str]]:
    """Return the pairs, then the models' pairs, each pair once."""
    pairs = list(zip(german, english, strict=True))
    for model in there:
        pairs += zip(german, model.translate(german), strict=True)
    for model in back:
        pairs += zip(model.translate(english), english, strict=True)
    return list(dict.fromkeys(pairs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--there", type=Path, nargs="+", default=[THERE])
    parser.add_argument("--back", type=Path, nargs="+", default=[BACK])
    parser.add_argument("--into", type=Path, default=Path("runs/diversified"))
    given = parser.parse_args()
    try:
        there, back = (
            [load_translator(run, "cpu") for run in runs]
            for runs in (given.there, given.back)
        )
        people = load_pairs(CONFIGS["small"], "train")
        german, english = map(list, zip(*people, strict=True))
        pairs = diversified(german, english, there, back)
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            write_atomically(given.into / f"train.{side}", text.encode())
    except at.DataError as error:
        log(f"error: {error}")
        return 2
    log(f"{given.into}: {len(pairs):,} pairs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
