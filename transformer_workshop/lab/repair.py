"""Does fine-tuning mend a translator's fault, and what does it cost?

data/repair has the sentences: pairs to train on, and minimal pairs to measure with.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.models.translator import Translator

OUTCOMES = "right", "roles swapped", "said twice", "another fault"


class MinimalPair(NamedTuple):
    """Two German sentences that differ in one point, and how to judge their English.

    kind: place first, object first, or negated; subject, other: patterns for the words
    that do something, and for the place or object.
    """

    kind: str
    usual: str
    changed: str
    subject: str
    other: str


class Lesson(NamedTuple):
    """A caption in two German word orders, and its English."""

    kind: str  # what the changed order begins with: place first, or object first
    usual: str
    changed: str
    english: str


def _rows(name: str) -> list[list[str]]:
    path = project_folder() / "data/repair" / name
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def minimal_pairs() -> list[MinimalPair]:
    """Return the pairs to measure with, of three kinds."""
    return [MinimalPair(*row) for row in _rows("pairs.tsv")]


def lessons() -> list[Lesson]:
    """Return the captions to train on, half of which can begin with a place."""
    return [Lesson(*row) for row in _rows("training.tsv")]


_NEGATIVE = re.compile(r"\b(not?|none|nobody|nothing|never|without)\b|n't\b", re.I)


def outcome(pair: MinimalPair, translation: str) -> str:
    """Return which of the OUTCOMES the translation of a changed sentence is.

    It is right if the subject comes before a verb, the other word occurs, and neither
    occurs twice; that of a negated sentence, if it is negative.
    """
    if pair.kind == "negated":
        return "right" if _NEGATIVE.search(translation) else "another fault"

    def found(pattern: str) -> list[str]:
        return re.findall(rf"\b(?:{pattern})\b", translation, re.I)

    def acts(pattern: str) -> bool:
        """Return whether these words stand before a verb, as its subject does."""
        verb = r" (?:is|are)\b| \w+(?:ing|s)\b"
        return bool(re.search(rf"\b(?:{pattern})(?:{verb})", translation, re.I))

    if max(len(found(pair.subject)), len(found(pair.other))) > 1:
        return "said twice"
    if acts(pair.subject) and found(pair.other):
        return "right"
    return "roles swapped" if acts(pair.other) else "another fault"


def tally(translator: Translator) -> dict[str, Counter[str]]:
    """Translate the minimal pairs; count the outcomes of each kind of sentence.

    The sentences in the usual order, of the first two kinds, are a kind as well.
    """
    pairs = minimal_pairs()
    changed = translator.translations([pair.changed for pair in pairs])
    ordered = [pair for pair in pairs if pair.kind != "negated"]
    usual = translator.translations([pair.usual for pair in ordered])
    counts: dict[str, Counter[str]] = {}
    for pair, translation in zip(pairs, changed, strict=True):
        kind = counts.setdefault(pair.kind, Counter())
        kind[outcome(pair, translation.text)] += 1
    counts["usual order"] = Counter(
        outcome(pair, translation.text)
        for pair, translation in zip(ordered, usual, strict=True)
    )
    return counts
