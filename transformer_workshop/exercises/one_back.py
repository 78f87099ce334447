"""the diagonal below the main one; the first query; layer before head; the order"""

import torch

from transformer_workshop.exercises.checking import kind


def maps(N, B, h, L):
    """Return random causal attention maps (N, B, h, L, L)."""
    scores = torch.randn(N, B, h, L, L)
    future = torch.ones(L, L, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1)


def judge(answer):
    N, B, h, L = 3, 2, 4, 6
    weights = maps(N, B, h, L)
    planted = {(2, 1): 0.9, (0, 3): 0.7, (1, 0): 0.55}  # layer, head: weight one back
    others = {(1, 2): (0, 0.9), (2, 3): (2, 0.9), (0, 0): (1, 0.45)}
    for (layer, head), (back, share) in {
        **{at: (1, share) for at, share in planted.items()},
        **others,
    }.items():
        for query in range(back, L):
            row = torch.zeros(L)
            row[: query + 1] = (1 - share) / max(query, 1)
            row[query - back] = share
            weights[layer, :, head, query] = row
    found = answer(weights.clone())
    given = f"for maps {(N, B, h, L, L)} with three such heads"
    assert isinstance(found, list) and all(
        isinstance(each, tuple) and len(each) == 2 for each in found
    ), f"{given}, a list of pairs (layer, head) is needed, not {kind(found)}."
    pairs = [tuple(map(int, each)) for each in found]
    expected = list(planted)
    assert set(pairs) != {(head, layer) for layer, head in expected}, (
        f"{given}, they are (head, layer). Hint: the layer comes first."
    )
    assert (1, 2) not in pairs, (
        f"{given}, {pairs} has a head that looks at its own token. Hint: the token "
        "before is one place to the left of the main diagonal."
    )
    assert (2, 3) not in pairs, f"{given}, {pairs} has a head that looks two back."
    assert (0, 0) not in pairs, (
        f"{given}, {pairs} has one whose mean weight is 0.45. Hint: more than half."
    )
    missing = [pair for pair in expected if pair not in pairs]
    assert not missing, (
        f"{given}, {missing} is missing. Hint: the first query has no token before it, "
        "so it isn't part of the mean."
    )
    assert pairs == expected, (
        f"{given}, it is {expected}, not {pairs}. Hint: the best comes first, and "
        "nothing else is in the list."
    )
