"""What do the sentences of chapters 1 and 2 say? Who wouldn't touch what, and why."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

NOUNS = {
    "dog": "der Hund", "bear": "der Bär", "wolf": "der Wolf",
    "cat": "die Katze", "mouse": "die Maus", "goat": "die Ziege",
    "horse": "das Pferd", "pig": "das Schwein", "sheep": "das Schaf",
    "cheese": "der Käse", "cake": "der Kuchen", "soup": "die Suppe",
    "pizza": "die Pizza", "bread": "das Brot", "meat": "das Fleisch",
    "man": "der Mann", "woman": "die Frau", "child": "das Kind",
}  # fmt: skip
ANIMALS, DISHES, COOKS = list(NOUNS)[:9], list(NOUNS)[9:15], list(NOUNS)[15:]
OF_DISHES = {"hot": "heiß", "salty": "salzig", "stale": "alt"}
ADJECTIVES = OF_DISHES | {"full": "satt", "tired": "müde", "shy": "scheu"}
OF_HUNTERS = {
    "hungry": "hungrig", "angry": "böse", "wild": "wild",
    "slow": "langsam", "loud": "laut", "weak": "schwach",
}  # fmt: skip
_OF_GENDER = {"der": "er", "die": "sie", "das": "es"}
PRONOUN = {noun: _OF_GENDER[german[:3]] for noun, german in NOUNS.items()}

Meal = tuple[str, str]
Row = tuple[str, str]  # a sentence, and the noun that *it* refers to


class Task(NamedTuple):
    """Sentences to learn from, others to be tested on, and all words."""

    learned: list[Row]
    held_out: list[Row]
    words: list[str]


def make_task(
    sentences_about: Callable[[str, str], Iterable[Row]],
    pairs: list[tuple[str, str]],
    held_out: tuple[str, str],
) -> Task:
    """Return the sentences about all pairs of nouns, some of the pairs held out.

    These are ``held_out`` and up to five more, drawn at random from those whose nouns
    have different genders.
    """
    unlike = [(a, b) for a, b in pairs if PRONOUN[a] != PRONOUN[b]]
    held = {frozenset(unlike[i]) for i in torch.randperm(len(unlike))[:5]}
    held.add(frozenset(held_out))
    rows: dict[bool, list[Row]] = {True: [], False: []}
    for nouns in pairs:
        rows[frozenset(nouns) in held] += sentences_about(*nouns)
    words = sorted({word for sentence, _ in rows[False] for word in sentence.split()})
    return Task(rows[False], rows[True], words)


def refusals(animal: str, dish: str) -> Iterator[Row]:
    """Yield sentences, each with the noun that *it* refers to."""
    for word in ADJECTIVES:
        noun = dish if word in OF_DISHES else animal
        yield f"the {animal} refused the {dish} because it was too {word}", noun
        yield f"the {dish} annoyed the {animal} because it was too {word}", noun


def chases(one: str, other: str) -> Iterator[Row]:
    """Yield sentences about two animals, each with the noun that *it* refers to."""
    for word in OF_HUNTERS:
        noun = one if word in ("hungry", "angry", "wild") else other
        yield f"the {one} chased the {other} because it was too {word}", noun


def _numbered(sentences: list[str], words: list[str]) -> Tensor:
    """Return the ids (n, L) of sentences of L words each."""
    return torch.tensor([[words.index(w) for w in each.split()] for each in sentences])


def riddle_ids(rows: list[Row], words: list[str]) -> tuple[Tensor, Tensor]:
    """Return the ids of sentences (n, 10), and 0, 1, or 2 for er, sie, or es (n)."""
    answers = [("er", "sie", "es").index(PRONOUN[noun]) for _, noun in rows]
    return _numbered([row[0] for row in rows], words), torch.tensor(answers)


def clause_ids(
    rows: list[Row], source_words: list[str], target_words: list[str]
) -> tuple[Tensor, Tensor]:
    """Return the ids of sentences (n, 10), and of their German clauses (n, 7)."""
    targets = [clause(*row) for row in rows]
    sources = _numbered([row[0] for row in rows], source_words)
    return sources, _numbered(targets, target_words)


def clause(sentence: str, noun: str) -> str:
    """Return the German for the last words of a sentence, from *because* on."""
    german = (ADJECTIVES | OF_HUNTERS)[sentence.split()[-1]]
    return f"<s> weil {PRONOUN[noun]} zu {german} war </s>"


def pair(
    animal: str, dish: str, cook: str | None = None, adjective: str | None = None
) -> tuple[str, str]:
    """Return an English sentence and its German translation."""
    thing = NOUNS[dish].replace("der ", "den ")  # as an object
    english = f"The {animal} wouldn't touch the {dish}"
    german = f"D{NOUNS[animal][1:]} rührte {thing} nicht an"
    if cook:
        english += f" the {cook} had cooked"
        german += f" , {thing[:3]} {NOUNS[cook]} gekocht hatte"
    if adjective:
        noun = dish if adjective in OF_DISHES else animal
        english += f" , because it was too {adjective}"
        german += f" , weil {PRONOUN[noun]} zu {ADJECTIVES[adjective]} war"
    return f"{english} .", f"{german} ."


def split_meals(held_out: Meal) -> tuple[list[Meal], list[Meal]]:
    """Return the meals to learn from, and six to ask about, this one first.

    Animal and dish of the six have different genders. The others are drawn at random.
    """
    meals = list(itertools.product(ANIMALS, DISHES))
    unlike = [(a, d) for a, d in meals if PRONOUN[a] != PRONOUN[d]]
    unlike.remove(held_out)
    held = [held_out, *(unlike[i] for i in torch.randperm(len(unlike))[:5])]
    return [meal for meal in meals if meal not in held], held


def sentences(
    meals: list[Meal], cooks: list[str | None], adjectives: list[str | None]
) -> list[tuple[str, str]]:
    """Return a pair of sentences for each meal, cook, and adjective."""
    return [pair(*meal, c, a) for meal in meals for c in cooks for a in adjectives]
