"""Count what chapter 3 says about Multi30k's words, into results/multi30k_facts.json.

python benchmarks/multi30k_facts.py

On the training split: sentences that splitting and joining leaves unchanged, German
words and how many occur once, captions that begin with a preposition, and captions with
each of the words that the chapter looks for. On the validation split: German words that
the vocabulary lacks, and sentences with one of them.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import write_json
from transformer_workshop.text.corpora import load_pairs

RESULTS = Path(__file__).resolve().parent.parent / "results"
# regular expressions for whole words, in any case
PREPOSITION = "^(am|an|auf|bei|hinter|im|in|neben|unter|vor)"
SOUGHT = {
    "Antenne": "antenne",
    "kein": "kein(e[mnrs]?)?",
    "Den, as the first word": "^den",
    "Feuerwehrhund": "feuerwehrhund",
    "Hallo": "hallo",
    "Bundestag": "bundestag",
}


def measure() -> dict[str, object]:
    """Return the counts."""
    config = TrainingConfig("multi30k")
    german, english = at.WordTokenizer("de"), at.WordTokenizer("en")
    train, valid = (load_pairs(config, split) for split in ("train", "valid"))

    def counted(form: str) -> int:
        return sum(bool(re.search(rf"\b({form})\b", src, re.I)) for src, _ in train)

    unchanged = {
        name: sum(words.detokenize(words.tokenize(s)) == s for s in sentences)
        for name, words, sentences in zip(
            ("German", "English"), (german, english), zip(*train, strict=True)
        )
    }
    counts = Counter(word for src, _ in train for word in german.tokenize(src))
    known = {word for word, count in counts.items() if count >= 2}
    held = [[word in known for word in german.tokenize(src)] for src, _ in valid]
    return {
        "training pairs": len(train),
        "unchanged": unchanged,
        "German words": len(counts),
        "German words seen once": len(counts) - len(known),
        "validation words": sum(map(len, held)),
        "unknown validation words": sum(row.count(False) for row in held),
        "validation sentences": len(held),
        "validation sentences with <unk>": sum(not all(row) for row in held),
        "captions with a question mark": sum("?" in src for src, _ in train),
        "captions that begin with a preposition": counted(PREPOSITION),
        "captions with": {name: counted(form) for name, form in SOUGHT.items()},
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    facts = {"command": "python benchmarks/multi30k_facts.py"} | measure()
    print(facts)
    write_json(RESULTS / "multi30k_facts.json", facts)
