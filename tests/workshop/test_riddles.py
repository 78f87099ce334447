"""The sentences of chapters 1 and 2: who wouldn't touch what, who chased whom."""

import pytest
import torch

from transformer_workshop.lab.riddles import (
    ADJECTIVES,
    COOKS,
    NOUNS,
    chases,
    clause_ids,
    hunts,
    meals,
    pair,
    refusals,
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
    soup = meals()
    row = next(refusals("dog", "soup"))
    assert row == ("the dog refused the soup because it was too hot", "soup", ("sie",))
    ids, answers = soup.numbered([row])
    assert [soup.words[i] for i in ids[0]] == row.sentence.split()
    assert answers.tolist() == [[1]] and soup.scores == 3
    german = "<s> weil sie zu heiß war </s>".split()
    source = ["<blank>", *soup.words, "hungry", "past", "chased"]
    rows = [row, *chases(("dog", "cat", "goat"))]
    longer, clauses = clause_ids(rows[:2], source, [*german, "er", "hungrig"])
    assert longer[0, 10:].tolist() == [0, 0, 0] and longer[1].min() > 0
    assert clauses[0].tolist() == list(range(7))


def test_who_is_slow_was_chased():
    rows = list(chases(("dog", "cat", "goat"), questions=2))
    about = {row.sentence.split()[-1]: row.answers for row in rows}
    assert about["hungry"] == ("dog", "dog") and about["slow"] == ("dog", "cat")
    assert about["shy"] == ("dog", "goat") and len(about) == 9
    assert all(row.it == row.answers[1] for row in rows)


@pytest.mark.parametrize("seed", range(5))
def test_three_animals_of_the_exam_never_meet_in_training(seed):
    torch.manual_seed(seed)
    task = hunts(questions=2)

    def together(rows):
        return {frozenset(row.sentence.split()[i] for i in (1, 4, 7)) for row in rows}

    assert not together(task.learned) & together(task.held_out)
    assert frozenset(("dog", "cat", "goat")) in together(task.held_out)
    assert len(task.learned) + len(task.held_out) == 9 * 8 * 7 * 9
    words = {word for row in task.held_out for word in row.sentence.split()}
    assert words <= set(task.words)


def test_a_bag_of_words_can_be_right_about_one_order_in_three():
    """The six orders of three animals and an adjective have the same words."""
    bags = {}
    for row in hunts().learned:
        bag = tuple(sorted(row.sentence.split()))
        bags.setdefault(bag, []).append(row.answers)
    for answers in bags.values():
        assert len(answers) == 6
        assert {answers.count(answer) for answer in answers} == {2}
