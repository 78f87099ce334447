"""Tell whether the grammar of the captions could have said an English sentence.

    python data/captions/recognize.py FILE...

counts for each file the lines that it could have said, and lists up to ten others.

captions.py makes a sentence by one choice after another: the choices form a tree, and
the sentences are its leaves. A `Reader` walks through this tree. Taking the place of
the random numbers, it has captions.py compose again and again, each time along another
branch. It enters only branches whose words are in the sentence, and leaves a branch
as soon as a constituent is built that isn't. So the rules of the grammar stay in
captions.py; this program only knows which English words come of a choice.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import captions
from captions import Activity, Noun, NounPhrase, Pattern, Phrase, Sentence, Unfit


def could_say(line: str) -> bool:
    """Return whether the grammar could have said a line, to the letter."""
    return parse(line) is not None


def parse(line: str) -> Sentence | None:
    """Return a sentence of the grammar whose English is the line, if there is one."""
    reader = Reader(line)
    while True:
        try:
            sentence = captions.compose(reader)
            if sentence.line("en") == line:
                return sentence
        except Unfit:
            pass
        if not reader.turn():
            return None


class Reader(captions.Chooser):
    """Makes the choices that a sentence allows, in all combinations."""

    def __init__(self, line: str) -> None:
        super().__init__()
        text = re.sub(r"([.,])", r" \1", line[:1].lower() + line[1:])
        self.text = f" {text} ".replace(" an ", " a ")  # as in phrases being built
        relative = re.sub(" (who|that) ", " W ", self.text)
        self.words = set(relative.split())
        # For each choice on the way down, the options left, of which the last is taken.
        self.trail: list[list[Any]] = []
        self.made = 0  # how many of these choices composing has come to

    def turn(self) -> bool:
        """Turn to the next branch; return whether there is one."""
        self.made = 0
        while self.trail:
            self.trail[-1].pop()
            if self.trail[-1]:
                return True
            self.trail.pop()
        return False

    def choose(self, items: Sequence[Any]) -> Any:
        """Choose as on the way to this branch, and then the first that is allowed."""
        if self.made == len(self.trail):
            options = self.options(items)
            if not options:
                raise Unfit("none of this is in the sentence")
            self.trail.append(options[::-1])
        self.made += 1
        return self.trail[self.made - 1][-1]

    def choices(self, population: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Choose one item, whatever the weights."""
        return [self.choose(population)]

    def random(self) -> float:
        """Return a number below all chances of the grammar, or one above."""
        return self.choose([0.0, 1.0])

    def built(self, phrase: NounPhrase | Phrase) -> None:
        """Leave this branch if the phrase is not in the sentence."""
        if isinstance(phrase, NounPhrase):
            phrase = phrase.realise("nom")  # the case makes no difference in English
        if not self.has(" ".join(token.text for token in phrase.en)):
            raise Unfit("not in the sentence")

    def has(self, words: str) -> bool:
        """Return whether the sentence has some words, next to each other."""
        return not words or f" {words} " in self.text

    def options(self, items: Sequence[Any]) -> list[Any]:
        """Return the items that the sentence allows."""
        if isinstance(items[0], Pattern):
            return [pattern for pattern in items if self.follows(pattern)]
        chosen = [options[-1] for options in self.trail]
        activities = [item for item in chosen if isinstance(item, Activity)]
        # A pattern may leave out the verb or the object, so that any will do.
        if isinstance(items[0], Activity):
            if not says(chosen[0], "GEQ", second=bool(activities)):
                return list(items)
        elif items is activities[-1].what:
            if not says(chosen[0], "O", second=bool(activities[1:])):
                return list(items)
        elif items is activities[-1].where:
            if says(chosen[0], "P", second=bool(activities[1:])):
                return [group for group in items if any(map(self.has, nouns_of(group)))]
        allowed = [item for item in items if any(map(self.has, words_of(item)))]
        if items[0] in UNUSED:  # drawn, but not always used
            return allowed or [items[0]]
        return allowed

    def follows(self, pattern: Pattern) -> bool:
        """Return whether the sentence has the words and commas of a pattern."""
        commas = pattern.english.count(",")
        if self.text.count(" , ") - commas not in (0, "^P" in pattern.english):
            return False  # ^P may bring a comma
        return self.words & SIGNS <= own_words(pattern) <= self.words


@cache
def own_words(pattern: Pattern) -> set[str]:
    """Return the words that a pattern itself brings; W is "who" or "that"."""
    items = [item for item in pattern.english if "/" in item or item[0] == "W"]
    return {re.split("[/']", item)[0] for item in items if "~" not in item}


def only_in_patterns() -> set[str]:
    """Return the words of patterns that no constituent has."""
    names = captions.GRAMMAR.keys() - {"patterns", "held-out orders"}
    tables = " ".join(line for name in names for line in captions.GRAMMAR[name])
    words = set().union(*map(own_words, captions.PATTERNS))
    return words - set(re.findall(r"\w+", tables))


SIGNS = only_in_patterns()


def says(pattern: Pattern, symbols: str, second: bool) -> bool:
    """Return whether the English of a pattern has one of a scene's constituents."""
    return any(
        item.strip("^'")[0] in symbols and item.endswith("'") == second
        for item in pattern.english
    )


COUNTED = {  # what says how many there are, in English
    **{german: [english] for german, english in captions.COUNTS.items()},
    "one": ["a"],
    "one the": ["the"],
    "count": [*captions.COUNTS.values()],
    "group": ["group"],
}
UNUSED = {*captions.COUNTS, "one"}


@cache
def words_of(item: Any) -> list[str]:
    """Return what an item may become in English; [""] where nothing can be said."""
    if isinstance(item, Activity):
        participles = [pair.partition("/")[2] for pair in item.noted("pp")[:1]]
        forms = [captions.english_gerund(item.english), item.english, *participles]
        return [form.replace("_", " ") for form in forms]
    if isinstance(item, Noun):
        return [item.english, item.english_plural]
    if isinstance(item, tuple):  # an adjective or adverb, with its translation
        return [item[1]]
    if item in COUNTED:
        return COUNTED[item]
    if isinstance(item, str) and (found := re.search(r"(\S+?)(:\S+)?(>|$)", item)):
        if found[1] in captions.NOUNS:  # `Haus` of `vor/in_front_of alt Haus:a>Park`
            return words_of(captions.NOUNS[found[1]])
    return [""]


@cache
def nouns_of(group: str) -> list[str]:
    """Return the English nouns of a group of places."""
    places = captions.PLACES[group].split(", ")
    return [word for place in places for word in words_of(place)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Count the lines that the grammar could have said."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in parser.parse_args(argv).files:
        lines = path.read_text(encoding="utf-8").splitlines()
        refused = [line for line in lines if not could_say(line)]
        print(f"{path}: {len(lines) - len(refused)} of {len(lines)} lines")
        for line in refused[:10]:
            print(f"    not: {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
