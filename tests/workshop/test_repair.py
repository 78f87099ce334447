"""data/repair is what its README says, and translations are judged right."""

import re

import pytest

from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json
from transformer_workshop.lab.repair import (
    MinimalPair,
    lessons,
    minimal_pairs,
    outcome,
)

FUNCTION = {
    "an", "auf", "das", "dem", "den", "der", "die", "drei", "ein", "eine", "einem",
    "einen", "hinter", "im", "in", "unter", "vor", "zwei", "über",
}  # fmt: skip


def words(sentences):
    return {word for each in sentences for word in re.findall(r"\w+", each.lower())}


def test_lessons_and_measure_share_no_noun_and_no_verb():
    taught = words(text for each in lessons() for text in (each.usual, each.changed))
    asked = words(
        text for each in minimal_pairs() for text in (each.usual, each.changed)
    )
    assert taught & asked == FUNCTION


def test_both_orders_of_a_lesson_have_the_same_words():
    for lesson in lessons():
        assert words([lesson.usual]) == words([lesson.changed])
        assert lesson.usual != lesson.changed
    kinds = [lesson.kind for lesson in lessons()]
    assert kinds == ["place first"] * 200 + ["object first"] * 200


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("In the park, a dog is playing.", "right"),
        ("A dog plays in the park.", "right"),
        ("A park is playing a dog.", "roles swapped"),
        ("A dog is playing a dog in the park.", "said twice"),
        ("In the park, a dog is playing in the park.", "said twice"),
        ("A dog is playing.", "another fault"),
        ("In the park playing a dog.", "roles swapped"),
    ],
)
def test_outcomes(translation, expected):
    pair = MinimalPair("place first", "", "", "dog", "park")
    assert outcome(pair, translation) == expected


def test_the_control_mends_nothing_and_the_order_does():
    runs = read_json(project_folder() / "results/repair.json")["runs"]

    def right(how, kind):
        chosen = [run["outcomes"] for run in runs if run["trained on"] == how]
        return [outcomes[kind].get("right", 0) for outcomes in chosen]

    for kind in ("place first", "object first"):
        [before] = right("before", kind)
        assert max(right("usual", kind)) <= before < min(right("changed", kind))
    assert right("changed", "negated") == [0, 0, 0]
    assert min(right("changed", "usual order")) >= 46
