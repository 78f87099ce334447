"""Wrong answers to the exercise nearest_sentence."""


def nearest_by(nearness, last=False):
    def nearest(sentence, corpus):
        found = [nearness(sentence, other) for other in corpus]
        best = max(found)
        places = [i for i, value in enumerate(found) if value == best]
        return places[-1 if last else 0], best

    return nearest


def jaccard(one, two):
    return len({*one} & {*two}) / len({*one} | {*two})


WRONG = [
    nearest_by(jaccard, last=True),
    nearest_by(lambda one, two: len({*one} & {*two}) / len({*one})),
    nearest_by(lambda one, two: len({*one} & {*two})),
    lambda sentence, corpus: nearest_by(jaccard)(sentence, corpus)[0],
]
