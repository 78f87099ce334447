"""summing over keys and averaging over queries when subwords are joined"""

import torch
from checking import agree, exercise, kind, show, whole
from torch import Tensor


@exercise("5.2")
def pieces_to_words(answer):
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    given = f"for {show(weights)}, rows [0, 0] and columns [0, 1, 1]"
    hint = "sum over the pieces that get weight, mean over the pieces that give it."
    agree(answer(weights, [0, 0], [0, 1, 1]), torch.tensor([[0.4, 0.6]]), given, hint)
    one = answer(weights, [0, 1], [0, 1, 2])
    agree(one, weights, "where every piece is a word", hint)
    maps = torch.rand(2, 3, 5, 6).softmax(-1)
    found = answer(maps, [0, 0, 0, 1, 2], [0, 1, 1, 2, 3, 3])
    what = tuple(found.shape) if isinstance(found, Tensor) else kind(found)
    assert what == (2, 3, 3, 4), f"maps (2, 3, 5, 6) became {what}, not (2, 3, 3, 4)."
    agree(found.sum(-1), torch.ones(2, 3, 3), "the sum of each row of words", hint)
    expected = (maps[..., 3, 4] + maps[..., 3, 5]).unsqueeze(-1)
    agree(found[..., 1, 3:], expected, "for the word of one piece", hint)
    three = (maps[..., 0, 0] + maps[..., 1, 0] + maps[..., 2, 0]) / 3
    agree(found[..., 0, 0], three, "for a word of three pieces and a first key", hint)


def hidden(answer):
    for _ in range(5):
        sides = [[i for i in range(whole(1, 5)) for _ in range(whole(1, 4))] * 1
                 for _ in range(2)]  # fmt: skip
        maps = torch.rand(2, *map(len, sides)).softmax(-1)
        rows, columns = (
            torch.nn.functional.one_hot(torch.tensor(side)).float() for side in sides
        )
        expected = (rows / rows.sum(0)).mT @ maps @ columns
        agree(answer(maps, *sides), expected, f"for rows and columns {sides}")


def pieces_joined(weights, row_words, col_words, rows="mean", columns="sum"):
    """Join pieces into words, each side by its own rule."""

    def join(x, words, how):
        parts = [
            x[..., [i for i, w in enumerate(words) if w == word]]
            for word in range(max(words) + 1)
        ]
        joined = [p.mean(-1) if how == "mean" else p.sum(-1) for p in parts]
        return torch.stack(joined, -1)

    return join(join(weights, col_words, columns).mT, row_words, rows).mT


def last_row(weights, row_words, col_words):
    """Let a word's last piece speak for it."""
    rows = [max(i for i, w in enumerate(row_words) if w == word) for word in
            range(max(row_words) + 1)]  # fmt: skip
    return pieces_joined(weights[..., rows, :], range(len(rows)), col_words)


WRONG = [
    lambda w, r, c: pieces_joined(w, r, c, "sum", "sum"),
    lambda w, r, c: pieces_joined(w, r, c, "mean", "mean"),
    lambda w, r, c: pieces_joined(w, r, c, "sum", "mean"),
    lambda w, r, c: w[: max(r) + 1, : max(c) + 1],
    last_row,
]
