"""Wrong answers to the exercise bleu."""

import math
from collections import Counter


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
