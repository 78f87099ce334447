"""Wrong answers to the exercise one_back."""


def looking(back=1, first=False, bound=0.5, turned=False, unordered=False):
    """Return the function with one fault."""

    def of(maps):
        L = maps.size(-1)
        score = maps.diagonal(-back, -2, -1).sum(-1) / (L if first else L - back)
        score = score.mean(1)
        found = (score > bound).nonzero().tolist()
        if not unordered:
            found.sort(key=lambda at: -score[at[0], at[1]])
        return [tuple(at[::-1] if turned else at) for at in found]

    return of


WRONG = [
    looking(back=0), looking(back=2), looking(first=True), looking(bound=0.4),
    looking(turned=True), looking(unordered=True),
    lambda maps: [list(at) for at in looking()(maps)],
    lambda maps: maps.diagonal(-1, -2, -1).mean((1, -1)),
]  # fmt: skip
