"""clipped counts, summing before dividing, the geometric mean, the brevity penalty"""

import annotated_transformer as at
from transformer_workshop.exercises.checking import is_number, kind, near

SENTENCES = [
    ("the dog runs through the green park .", "the dog runs through a green park ."),
    ("the the the the the", "a man sees the dog in the park"),
    ("a woman is reading a long book on a bench", "a woman reads a book on a bench ."),
]


def sacre(pairs: list[tuple[list[str], list[str]]]) -> float:
    """Return sacreBLEU's BLEU of sentences that are already split."""
    ours, theirs = ([" ".join(words) for words in side] for side in zip(*pairs))
    metric = at.optional_import("sacrebleu").BLEU(tokenize="none", smooth_method="none")
    return metric.corpus_score(ours, [theirs]).score


def judge(answer):
    pairs = [(ours.split(), theirs.split()) for ours, theirs in SENTENCES]

    def found(some):
        value = answer(*(list(side) for side in zip(*some)))
        assert is_number(value), f"return a plain number, not {kind(value)}."
        return value

    right = [(theirs, theirs) for _, theirs in pairs]
    assert near(found(right), 100), (
        f"for translations equal to their references it is 100, not {found(right):.4g}."
    )
    short = [(theirs[:-2], theirs) for _, theirs in pairs]
    assert near(found(short), sacre(short)), (
        "for references without their last two words it is "
        f"{sacre(short):.2f}, not {found(short):.2f}. Hint: all n-grams match, so "
        "only the brevity penalty matters, over the words of all sentences."
    )
    long = [(theirs + ["so", "they", "say"], theirs) for _, theirs in pairs]
    assert near(found(long), sacre(long)), (
        "for references with three extra words at the end it is "
        f"{sacre(long):.2f}, not {found(long):.2f}. Hint: the brevity penalty is at "
        "most 1, and the shares of n-grams for n = 1, 2, 3, and 4 are combined by "
        "their geometric mean."
    )
    first = pairs[:2]
    assert near(found(first), sacre(first)), (
        f"for {SENTENCES[0][0]!r} and {SENTENCES[1][0]!r} it is {sacre(first):.2f}, "
        f"not {found(first):.2f}. Hint: 'the' counts at most as often as the reference "
        "of its own sentence has it, and counts are summed before they are divided."
    )
    assert near(found(pairs), sacre(pairs)), (
        f"for three sentences it is {sacre(pairs):.2f}, not {found(pairs):.2f}. Hint: "
        "the mean of the sentences' BLEU scores is a different figure."
    )
    the, cat = (
        ("the the dog runs home now .", "a dog runs home now ."),
        ("a cat sleeps there now .", "the cat sleeps there the now ."),
    )
    lent = [(ours.split(), theirs.split()) for ours, theirs in (the, cat)]
    assert near(found(lent), sacre(lent)), (
        f"for {the[0]!r} and {cat[0]!r} it is {sacre(lent):.2f}, not "
        f"{found(lent):.2f}. Hint: a word that is too often in one sentence gets no "
        "credit because another sentence's reference has it."
    )
    brief = [*right, ("a dog".split(), "a dog".split())]
    assert near(found(brief), 100), (
        "for four right translations, of which one has two words, it is 100, not "
        f"{found(brief):.2f}. Hint: how many 4-grams does a sentence of two words have?"
    )
    for ours, theirs in (("a b c d", "e f g h"), ("a b c d e", "b c a e d")):
        value = found([(ours.split(), theirs.split())])
        assert value == 0, (
            f"for {ours!r} with the reference {theirs!r} it is 0, not {value:.3g}: one "
            "of the four counts is zero."
        )
