"""how outputs grow with inputs; weights of gated networks"""

import torch
import torch.nn.functional as F

from transformer_workshop.exercises.checking import numbers_of


def judge(answer):
    found = numbers_of(answer, 3, "give three numbers, for (a), (b), and (c)")
    x, w_g = torch.randn(100, 8), torch.randn(8, 16)
    w_1, w_2 = torch.randn(8, 16), torch.randn(16, 8)

    def factor(network):
        return (network(10 * x).norm() / network(x).norm()).item()

    asked = (
        ("(a)", factor(lambda x: F.relu(x @ w_1) @ w_2), "the ReLU of 10z is ten times "
         "the ReLU of z."),
        ("(b)", factor(lambda x: (F.relu(x @ w_g) * (x @ w_1)) @ w_2), "the gate grows "
         "as well as what it is multiplied by."),
    )  # fmt: skip
    for number, (part, measured, hint) in zip(found, asked):
        assert abs(number - measured) < 1e-3 * measured, (
            f"{part} is not {number:g}. Hint: {hint}"
        )
    plain = 2 * 512 * 2048
    width = found[2]
    assert width == int(width) and width > 0, f"(c) is a whole number, not {width}."
    assert 3 * 512 * width <= plain, (
        f"(c): with a width of {width} it has {3 * 512 * width:,} weights, more than "
        f"{plain:,}. Hint: a gated network has three matrices."
    )
    assert 3 * 512 * (width + 1) > plain, (
        f"(c): it could be wider than {width}: with {width + 1} it still has no more "
        f"than {plain:,} weights."
    )
