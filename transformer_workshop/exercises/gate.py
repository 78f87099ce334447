"""how outputs grow with inputs; weights of gated networks"""

import torch
import torch.nn.functional as F

from transformer_workshop.exercises.checking import judge_parts, lettered, numbers_of

ASKED = "give three numbers, for (a), (b), and (c)"
PLAIN = 2 * 512 * 2048  # weights


def parts():
    x, w_g = torch.randn(100, 8), torch.randn(8, 16)
    w_1, w_2 = torch.randn(8, 16), torch.randn(16, 8)

    def factor(network):
        return (network(10 * x).norm() / network(x).norm()).item()

    plain = factor(lambda x: F.relu(x @ w_1) @ w_2)
    gated = factor(lambda x: (F.relu(x @ w_g) * (x @ w_1)) @ w_2)
    hints = (
        "the ReLU of 10z is ten times the ReLU of z.",
        "the gate grows as well as what it is multiplied by.",
        "a gated network has three matrices.",
    )
    return lettered((plain, gated, PLAIN // (3 * 512)), hints, 0.01)


def judge(answer):
    *factors, width = numbers_of(answer, 3, ASKED)
    judge_parts(factors, ASKED, parts()[:2])
    assert width == int(width) and width > 0, f"(c) is a whole number, not {width}."
    assert 3 * 512 * width <= PLAIN, (
        f"(c): with a width of {width} it has {3 * 512 * width:,} weights, more than "
        f"{PLAIN:,}. Hint: a gated network has three matrices."
    )
    assert 3 * 512 * (width + 1) > PLAIN, (
        f"(c): it could be wider than {width}: with {width + 1} it still has no more "
        f"than {PLAIN:,} weights."
    )
