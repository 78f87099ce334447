"""Wrong answers to the exercise large_corpus."""

import itertools

import annotated_transformer as at


def pooled(shift=True, last=True, lazy=True, early=False, packed=True):
    """Return a function that batches a stream in pools, with one fault or another."""

    def batches(stream, batch_tokens, pool):
        stream, start = iter(stream), 0
        if not lazy:
            stream = iter(list(itertools.islice(stream, 230)))
        while lengths := list(itertools.islice(stream, pool)):
            if len(lengths) < pool and not last:
                return
            groups = [[i] for i in range(len(lengths))]
            if packed:
                groups = at.token_budget_batches(lengths, batch_tokens)
            for n, group in enumerate(groups):
                if early and n == len(groups) - 1:
                    stream = itertools.chain(
                        list(itertools.islice(stream, pool)), stream
                    )
                yield [i + start * shift for i in group]
            start += pool

    return batches


def in_given_order(stream, batch_tokens, pool):
    """Sort nothing: close a batch when the next sentence does not fit."""
    group, longest = [], 0
    for i, pair in enumerate(stream):
        if group and max(longest, *pair) * (len(group) + 1) > batch_tokens:
            yield group
            group, longest = [], 0
        group, longest = [*group, i], max(longest, *pair)
    yield group


WRONG = [
    pooled(shift=False),
    pooled(last=False),
    pooled(lazy=False),
    pooled(early=True),
    pooled(packed=False),
    in_given_order,
    lambda stream, batch_tokens, pool: iter([]) or iter([[0]]),
]
