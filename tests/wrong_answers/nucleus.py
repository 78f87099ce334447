"""Wrong answers to the exercise nucleus."""

import torch

import annotated_transformer as at


def nucleus_of(stops="before >= top_p", rescale=True, one=True):
    """Return a nucleus with a rule for where it stops, or with another fault."""
    rules = {
        "before >= top_p": lambda before, after, top_p: before >= top_p,
        "before > top_p": lambda before, after, top_p: before > top_p,
        "after > top_p": lambda before, after, top_p: after > top_p,
    }

    def nucleus(p, top_p):
        kept, total = [], 0.0
        for i in sorted(range(len(p)), key=lambda i: -p[i]):
            if rules[stops](total, total + p[i], top_p) and (kept or not one):
                break
            kept.append(i)
            total += p[i]
        return {i: p[i] / total if rescale else p[i] for i in kept}

    return nucleus


WRONG = [
    nucleus_of("after > top_p"),  # without the token that crosses the limit
    nucleus_of("before > top_p"),  # one too many where the limit is met
    nucleus_of(one=False),  # nothing for 0
    nucleus_of(rescale=False),
    lambda p, top_p: {i: q for i, q in enumerate(p) if q >= top_p},  # a threshold
    lambda p, top_p: list(nucleus_of()(p, top_p)),
    lambda p, top_p: {
        i: q
        for i, q in enumerate(
            at.restrict(torch.tensor(p).double().log(), None, top_p)
            .softmax(-1)
            .tolist()
        )
        if q
    },
]
