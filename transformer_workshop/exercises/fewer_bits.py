"""levels between the smallest and the largest of each group; equal weights; shapes"""

import torch

from transformer_workshop.exercises.checking import agree, kind


def judge(answer):
    row = torch.tensor([[0.0, 1.0, 2.0, 3.0, 10.0, 10.4, 11.0, 14.0]])
    given = f"for weights {row[0].tolist()}, 2 bits, and groups of"
    found = answer(row.clone(), 2, 4)
    assert isinstance(found, torch.Tensor) and found.shape == row.shape, (
        f"{given} 4, a tensor of the same shape (1, 8) is needed, not {kind(found)}."
    )
    # the second group has its own step of 4/3: 10, 11.33, 12.67, 14
    expected = torch.tensor([[0.0, 1, 2, 3, 10, 10, 10 + 4 / 3, 14]])
    assert not torch.allclose(found[0, 4:], torch.tensor([10.0, 10, 11, 14])), (
        f"{given} 4, the second group has a step of 1. Hint: the largest weight is the "
        "last of four levels, which are three steps apart."
    )
    assert not torch.allclose(found[0, :4], torch.tensor([0.0, 0.75, 2.25, 3.0])), (
        f"{given} 4, the step of the first is 3/4. Hint: between 4 levels are 3 steps."
    )
    assert torch.allclose(answer(row.clone(), 2, 4), found), (
        f"{given} 4, it gives something else the second time."
    )
    agree(found, expected, f"{given} 4", "each group has its own smallest and step")
    step = 14 / 3
    expected = torch.tensor([[0.0, 0, 0, 1, 2, 2, 2, 3]]) * step
    agree(answer(row.clone(), 2, 8), expected, f"{given} 8", "all eight share a step")
    equal = torch.full((2, 4), -0.5)
    agree(
        answer(equal.clone(), 3, 4),
        equal,
        "for weights that are all -0.5",
        "the step is 0 then, so don't divide by it",
    )
    weight = torch.randn(6, 32)
    before = weight.clone()
    for bits, size in ((4, 8), (3, 32)):
        found = answer(weight, bits, size)
        assert torch.equal(weight, before), (
            "the weights that were handed in have changed. Hint: return new ones."
        )
        blocks = weight.reshape(-1, size)
        spread = blocks.amax(1) - blocks.amin(1)
        off = (found - weight).reshape(-1, size).abs().amax(1)
        rounded = found.reshape(-1, size).round(decimals=4)
        levels = max(len(block.unique()) for block in rounded)
        name = f"for a random matrix, {bits} bits, and groups of {size}"
        assert levels <= 2**bits, (
            f"{name}, a group has {levels} different weights; it can have {2**bits}."
        )
        assert (off <= spread / (2**bits - 1) / 2 + 1e-5).all(), (
            f"{name}, a weight is further from what it was than half a step. Hint: "
            "round to the nearest level instead of down."
        )
