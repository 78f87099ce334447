"""lessons to fine-tune on, their control, and a measure that shares no noun"""

import re
from typing import Any

from transformer_workshop.exercises.checking import kind

LESSONS, MEASURED = 100, 10


def judge(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "give three lists: the lessons, the control, and the measure."
    )
    lessons, control, measure = (
        pairs_of(each, name)
        for each, name in zip(answer, ("lessons", "the control", "the measure"))
    )
    different = len({german for german, _ in lessons})
    assert different >= LESSONS, (
        f"the lessons have {different} different German sentences; {LESSONS} at least."
    )
    assert len(control) == len(lessons), (
        f"there are {len(lessons)} lessons and {len(control)} pairs in the control. "
        "Hint: what if it is only the number of pairs that helps?"
    )
    for i, (taught, plain) in enumerate(zip(lessons, control)):
        assert taught[0] != plain[0], (
            f"pair {i} of the control has the German of the lesson, {taught[0]!r}: it "
            "should be without what you teach."
        )
        other = nouns(taught[0]) ^ nouns(plain[0])
        other -= {first_word(taught[0]), first_word(plain[0])}
        assert not other, (
            f"pair {i} is {taught[0]!r} in the lessons and {plain[0]!r} in the "
            f"control, which differ in {sorted(other)[0]!r} as well. Hint: let line i "
            "of both be the same scene."
        )
    assert len(measure) >= MEASURED, (
        f"the measure has {len(measure)} pairs; {MEASURED} at least."
    )
    for i, (usual, changed) in enumerate(measure):
        assert usual != changed, f"both sentences of pair {i} of the measure are equal."
    taught = {noun: german for german, _ in lessons for noun in nouns(german)}
    for sentence in (each for pair in measure for each in pair):
        for noun in sorted(nouns(sentence)):
            assert noun not in taught, (
                f"{noun!r} is in the measured {sentence!r} and in the lesson "
                f"{taught[noun]!r}. Hint: what if the model learns only what happens "
                "to these words?"
            )


def pairs_of(answer: Any, name: str) -> list[tuple[str, str]]:
    """Return a list of pairs of strings, or complain."""
    assert isinstance(answer, list | tuple), (
        f"{name}: {kind(answer)} instead of a list of pairs."
    )
    for i, pair in enumerate(answer):
        assert (
            isinstance(pair, tuple | list)
            and len(pair) == 2
            and all(isinstance(each, str) for each in pair)
        ), f"{name}: pair {i} should be two sentences."
    return [tuple(pair) for pair in answer]


def first_word(sentence: str) -> str:
    return re.findall(r"\w+", sentence)[:1][0] if re.search(r"\w", sentence) else ""


def nouns(sentence: str) -> set[str]:
    """Return the words with a capital, but for the first."""
    return {word for word in re.findall(r"\w+", sentence)[1:] if word[0].isupper()}
