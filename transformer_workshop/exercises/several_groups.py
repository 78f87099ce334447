"""a group's mean and spread; groups in which all rewards are equal"""

import torch

from transformer_workshop.exercises.checking import agree

NEAR = 1e-3  # programs of the field divide by the deviation plus 0.0001


def judge(answer):
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    found = answer(rewards.clone())
    root = 3**0.5
    expected = torch.tensor([[3.0, -1, -1, -1], [1, 1, 1, -3]]) / root
    given = "for rewards [[1, 0, 0, 0], [1, 1, 1, 0]]"
    if isinstance(found, torch.Tensor) and found.shape == rewards.shape:

        def is_near(other):
            return torch.allclose(found.double(), other.double(), atol=NEAR)

        assert not is_near(rewards - rewards.mean()), (
            f"{given} the mean of all eight was subtracted. Hint: each row is a group."
        )
        assert not is_near(rewards - rewards.mean(1, keepdim=True)), (
            f"{given} the mean is right. Hint: now divide by each group's standard "
            "deviation."
        )
        assert not is_near(expected * root / 2), (
            f"{given} the sum of squares was divided by 3. Hint: the *mean* squared "
            "distance, over all four; see `correction` of `torch.std`."
        )
    agree(found, expected, given, "mean and deviation are those of each row", NEAR)
    for value in (0.0, 1.0, 0.3):
        equal = torch.full((1, 3), value)
        agree(
            answer(equal.clone()),
            torch.zeros(1, 3),
            f"for rewards {[[value] * 3]}",
            "nobody did better than the others, so nobody has an advantage; and there "
            "is nothing to divide by",
            NEAR,
        )
    rewards = torch.rand(3, 5)
    rewards[1] = rewards[1, 0]
    centered = rewards - rewards.mean(1, keepdim=True)
    spread = centered.square().mean(1, keepdim=True).sqrt()
    expected = torch.where(spread > 1e-6, centered / spread, torch.zeros_like(centered))
    agree(
        answer(rewards.clone()),
        expected,
        "for groups of five, of which the second has equal rewards,",
        within=NEAR,
    )
