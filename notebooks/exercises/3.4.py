"""clipped counts, summing before dividing, the geometric mean, the brevity penalty"""

import math
from collections import Counter

from checking import drawn_words, exercise, is_number, kind, near, whole

import annotated_transformer as at

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


@exercise("3.4")
def bleu_by_hand(answer):
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


def hidden(answer):
    metric = at.optional_import("sacrebleu").BLEU(tokenize="none", smooth_method="none")
    for _ in range(5):
        theirs = drawn_words(whole(1, 6), 6, 15)
        ours = [line[: whole(0, len(line) + 1)] + drawn_words(1)[0] for line in theirs]
        expected = metric.corpus_score(
            [" ".join(line) for line in ours], [[" ".join(line) for line in theirs]]
        ).score
        found = answer(ours, theirs)
        assert near(found, expected), (
            f"for {len(ours)} random lines it is {expected:.4f}, not {found}."
        )


def ngrams(words, n):
    return Counter(zip(*(words[i:] for i in range(n))))


def some_bleu(clip=True, brevity=True, reward=False, clamp=True, lend=False):
    """Return a BLEU with one thing or another left out."""

    def bleu(translations, references):
        shares = []
        for n in range(1, 5):
            right = 0
            pairs = zip(translations, references, strict=True)
            counts = [(ngrams(ours, n), ngrams(theirs, n)) for ours, theirs in pairs]
            if lend:
                counts = [tuple(sum(side, Counter()) for side in zip(*counts))]
            total = sum(
                max(len(ours) - n + 1, 0 if clamp else -9) for ours in translations
            )
            for ours, theirs in counts:
                if clip:
                    right += sum((ours & theirs).values())
                else:
                    right += sum(k for run, k in ours.items() if run in theirs)
            shares.append(right / max(total, 1))
        if min(shares) == 0:
            return 0.0
        joined = math.exp(sum(map(math.log, shares)) / 4)
        c, r = (sum(map(len, side)) for side in (translations, references))
        penalty = math.exp(1 - r / c)
        penalty = penalty if reward else min(1, penalty)
        return 100 * joined * (penalty if brevity else 1)

    return bleu


def mean_of_sentences(translations, references):
    each = [
        some_bleu()([ours], [theirs])
        for ours, theirs in zip(translations, references, strict=True)
    ]
    return sum(each) / len(each)


WRONG = [
    some_bleu(clip=False),
    some_bleu(brevity=False),
    some_bleu(reward=True),
    some_bleu(clamp=False),
    some_bleu(lend=True),
    lambda translations, references: some_bleu()(translations, references) or 1.0,
    mean_of_sentences,
    lambda translations, references: some_bleu()(translations, references) / 100,
]
