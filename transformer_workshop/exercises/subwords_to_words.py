"""summing over keys and averaging over queries when subwords are joined"""

import torch
from torch import Tensor

from transformer_workshop.exercises.checking import agree, kind, show


def judge(answer):
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
