"""scores by content instead of by distance: first occurrences, keys, the average"""

import torch

from transformer_workshop.exercises.checking import kind

CASES = {  # ids, and the cells (query, key) that count, by hand
    (7, 1, 2, 7, 9, 8): [(3, 1)],
    (1, 2, 3, 1, 2, 3, 1): [(3, 1), (4, 2), (5, 3), (6, 1), (6, 4)],
    (4, 4, 5, 4, 6, 5, 4): [
        (1, 1), (3, 1), (3, 2), (5, 3), (6, 1), (6, 2), (6, 4),
    ],
}  # fmt: skip


def close(found, expected):
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-6)


def judge(answer):
    for given, cells in CASES.items():
        L, queries = len(given), len({t for t, _ in cells})
        weights = torch.rand(3, L, L).mul(4).exp().tril()
        weights /= weights.sum(-1, keepdim=True)
        found = answer(weights.clone(), torch.tensor(given))
        assert isinstance(found, torch.Tensor) and found.shape == (3,), (
            f"a score for each of 3 heads is needed, a tensor (3), not {kind(found)}."
        )
        right = sum(weights[:, t, key] for t, key in cells)
        same = sum(weights[:, t, key - 1] for t, key in cells)
        assert not close(found, same / queries), (
            f"of {given} that is the weight on the same id. Hint: an induction head "
            "looks at the id after it."
        )
        assert not close(found, right / L), (
            f"of {given} the sum is divided by {L}. Hint: only the queries count whose "
            f"id has occurred before: {queries}."
        )
        assert close(found, right / queries), (
            f"of {given} the cells (query, key) that count are {cells}, of {queries} "
            f"queries; their mean isn't {found.tolist()}. Hint: a query at t has a key "
            "at s + 1 for each s < t with the same id, however far back."
        )
