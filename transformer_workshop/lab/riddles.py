"""What do the sentences of chapters 1 and 2 say? Who wouldn't touch what, and why."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
OF_ROLES = (  # who is it: the one who chases, the one who is chased, or the third?
    {"hungry": "hungrig", "angry": "böse", "wild": "wild"},
    {"slow": "langsam", "loud": "laut", "weak": "schwach"},
    {"shy": "scheu", "sleepy": "schläfrig", "curious": "neugierig"},
)
_OF_GENDER = {"der": "er", "die": "sie", "das": "es"}
PRONOUN = {noun: _OF_GENDER[german[:3]] for noun, german in NOUNS.items()}

Meal = tuple[str, str]


class Riddle(NamedTuple):
    """A sentence, the noun that *it* refers to, and what a reader has to answer."""

    sentence: str
    it: str
    answers: tuple[str, ...]


@dataclass
class Task:
    """Riddles to learn from, others to be tested on, and what the answers may be."""

    learned: list[Riddle]
    held_out: list[Riddle]
    choices: list[str]

    def __post_init__(self) -> None:
        words = (word for row in self.learned for word in row.sentence.split())
        self.words = sorted(set(words))
        self.questions = len(self.learned[0].answers)
        self.scores = self.questions * len(self.choices)

    def ids(self, *sentences: str) -> Tensor:
        """Return the ids (n, L) of sentences of L words each."""
        return _numbered(sentences, self.words)

    def numbered(self, rows: list[Riddle]) -> tuple[Tensor, Tensor]:
        """Return the ids of sentences (n, L), and the answers' numbers (n, q)."""
        answers = [[self.choices.index(a) for a in row.answers] for row in rows]
        return self.ids(*(row.sentence for row in rows)), torch.tensor(answers)


def refusals(animal: str, dish: str) -> Iterator[Riddle]:
    """Yield sentences about an animal and a dish; the answer is a pronoun."""
    for word in ADJECTIVES:
        noun = dish if word in OF_DISHES else animal
        end = f"because it was too {word}"
        for start in (
            f"the {animal} refused the {dish}",
            f"the {dish} annoyed the {animal}",
        ):
            yield Riddle(f"{start} {end}", noun, (PRONOUN[noun],))


def chases(animals: Sequence[str], questions: int = 1) -> Iterator[Riddle]:
    """Yield sentences about three animals; answers: *it*, or who chased and *it*."""
    hunter, hunted, third = animals
    for noun, adjectives in zip(animals, OF_ROLES):
        answers = (noun,) if questions == 1 else (hunter, noun)
        for word in adjectives:
            sentence = f"the {hunter} chased the {hunted} past the {third}"
            yield Riddle(f"{sentence} because it was too {word}", noun, answers)


def meals() -> Task:
    """Return the riddles about an animal and a dish.

    Held out are the dog and the soup, and up to five other pairs of different genders,
    drawn at random.
    """
    pairs = list(itertools.product(ANIMALS, DISHES))
    unlike = [(a, d) for a, d in pairs if PRONOUN[a] != PRONOUN[d]]
    held = {unlike[i] for i in torch.randperm(len(unlike))[:5]} | {("dog", "soup")}
    rows: dict[bool, list[Riddle]] = {True: [], False: []}
    for pair in pairs:
        rows[pair in held] += refusals(*pair)
    return Task(rows[False], rows[True], ["er", "sie", "es"])


def hunts(questions: int = 1) -> Task:
    """Return the riddles about three animals, in all orders.

    questions: 1 asks who *it* was, 2 also who chased. Held out are the dog, the cat,
    and the goat, and up to eight other sets of three, drawn at random.
    """
    sets = list(itertools.combinations(ANIMALS, 3))
    held = {frozenset(sets[i]) for i in torch.randperm(len(sets))[:8]}
    held.add(frozenset(("dog", "cat", "goat")))
    rows: dict[bool, list[Riddle]] = {True: [], False: []}
    for animals in itertools.permutations(ANIMALS, 3):
        rows[frozenset(animals) in held] += chases(animals, questions)
    rows[True].sort(
        key=lambda row: "dog chased the cat past the goat" not in row.sentence
    )
    return Task(rows[False], rows[True], ANIMALS)


def _numbered(sentences: Iterable[str], words: list[str]) -> Tensor:
    """Return the ids (n, L) of sentences; shorter ones end in words[0], a blank."""
    numbers = {word: i for i, word in enumerate(words)}
    rows = [[numbers[word] for word in each.split()] for each in sentences]
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def clause_ids(
    rows: list[Riddle], source_words: list[str], target_words: list[str]
) -> tuple[Tensor, Tensor]:
    """Return the ids of sentences (n, L), padded with 0, and their clauses (n, 7)."""
    sources = _numbered([row.sentence for row in rows], source_words)
    return sources, _numbered([clause(row) for row in rows], target_words)


def clause(row: Riddle) -> str:
    """Return the German for the last words of a sentence, from *because* on."""
    german = ADJECTIVES | OF_ROLES[0] | OF_ROLES[1] | OF_ROLES[2]
    word = german[row.sentence.split()[-1]]
    return f"<s> weil {PRONOUN[row.it]} zu {word} war </s>"


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
