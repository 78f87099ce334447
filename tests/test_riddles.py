"""The sentences of chapter 2: who wouldn't touch what, and why."""

import pytest
import torch

from transformer_workshop.riddles import (
    ADJECTIVES,
    COOKS,
    NOUNS,
    pair,
    sentences,
    split_meals,
)


@pytest.mark.parametrize(
    ("meal", "german"),
    [
        (("dog", "soup"), "Der Hund rührte die Suppe nicht an ."),
        (
            ("dog", "soup", "child", "hot"),
            "Der Hund rührte die Suppe nicht an , die das Kind gekocht hatte , "
            "weil sie zu heiß war .",
        ),
        (
            ("cat", "cake", "man", "full"),
            "Die Katze rührte den Kuchen nicht an , den der Mann gekocht hatte , "
            "weil sie zu satt war .",
        ),
    ],
)
def test_an_article_and_a_pronoun_agree_with_their_noun(meal, german):
    assert pair(*meal)[1] == german


@pytest.mark.parametrize("seed", range(5))
def test_six_meals_of_unlike_genders_are_held_out(seed):
    torch.manual_seed(seed)
    eaten, held = split_meals(("dog", "soup"))
    assert held[0] == ("dog", "soup") and len(set(held)) == 6
    assert all(NOUNS[animal][:3] != NOUNS[dish][:3] for animal, dish in held)
    assert not set(eaten) & set(held) and len(set(eaten)) == 48
    pairs = sentences(held, [None, *COOKS], [None, *ADJECTIVES])
    assert len(set(pairs)) == 6 * 4 * 7
    # every word can be learned
    learned = sentences(eaten, [None, *COOKS], [None, *ADJECTIVES])
    words = {word for both in learned for word in " ".join(both).split()}
    assert words >= {word for both in pairs for word in " ".join(both).split()}
