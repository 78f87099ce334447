"""Wrong answers to the exercise cheat."""

import torch


def scored(after=1, every=True, recent=False):
    """Return a score with one fault."""

    def score(weights, ids):
        L = len(ids)
        target = torch.zeros(L, L)
        for t in range(L):
            places = [s for s in range(t) if ids[s] == ids[t]]
            for s in places[-1:] if recent else places:
                target[t, s + after] = 1
        total = (weights * target).sum(-1)
        seen = target.any(-1)
        return total.mean(-1) if not every else total[:, seen].mean(-1)

    return score


WRONG = [
    scored(after=0), scored(every=False), scored(recent=True),
    lambda weights, ids: weights.diagonal(-2, -2, -1).mean(-1),
    lambda weights, ids: 0.5,
]  # fmt: skip
