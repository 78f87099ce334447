"""The sentences of chapter 2: who wouldn't touch what, and why."""

import pytest
import torch

from transformer_workshop.lab.riddles import (
    ADJECTIVES,
    COOKS,
    NOUNS,
    chases,
    clause_ids,
    pair,
    refusals,
    riddle_ids,
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


def test_sentences_become_ids():
    row = list(refusals("dog", "soup"))[0]
    assert row == ("the dog refused the soup because it was too hot", "soup")
    words = row[0].split()
    ids, answers = riddle_ids([row], words)
    assert ids.tolist() == [[0, 1, 2, 0, 4, 5, 6, 7, 8, 9]] and answers.tolist() == [1]
    german = "<s> weil sie zu heiß war </s>".split()
    assert clause_ids([row], words, german)[1].tolist() == [list(range(7))]


def test_who_is_slow_was_chased():
    about = {sentence.split()[-1]: noun for sentence, noun in chases("dog", "cat")}
    assert about["hungry"] == "dog" and about["slow"] == "cat" and len(about) == 6
