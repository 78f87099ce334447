"""What do the sentences of chapter 2 say? Who wouldn't touch which dish, and why."""

import itertools

import torch

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
PRONOUN = {"der": "er", "die": "sie", "das": "es"}

Meal = tuple[str, str]


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
        noun = NOUNS[dish if adjective in OF_DISHES else animal]
        english += f" , because it was too {adjective}"
        german += f" , weil {PRONOUN[noun[:3]]} zu {ADJECTIVES[adjective]} war"
    return f"{english} .", f"{german} ."


def split_meals(held_out: Meal) -> tuple[list[Meal], list[Meal]]:
    """Return the meals to learn from, and six to ask about, this one first.

    Animal and dish of the six have different genders. The others are drawn at random.
    """
    meals = list(itertools.product(ANIMALS, DISHES))
    unlike = [(a, d) for a, d in meals if NOUNS[a][:3] != NOUNS[d][:3]]
    unlike.remove(held_out)
    held = [held_out, *(unlike[i] for i in torch.randperm(len(unlike))[:5])]
    return [meal for meal in meals if meal not in held], held


def sentences(
    meals: list[Meal], cooks: list[str | None], adjectives: list[str | None]
) -> list[tuple[str, str]]:
    """Return a pair of sentences for each meal, cook, and adjective."""
    return [pair(*meal, c, a) for meal in meals for c in cooks for a in adjectives]
