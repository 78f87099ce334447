"""the entropy of a row, including the case 0 log 0"""

import math

import torch
from checking import agree, exercise, show


@exercise("5.3")
def entropy_of_rows(answer):
    sure = torch.eye(3).unsqueeze(0)
    agree(answer(sure), torch.zeros(1), "for weights of 0 and 1", "0 · log 0 is 0.")
    even = torch.full((2, 3, 4), 0.25)
    hint = "bits, a mean over rows, one number for each map."
    agree(answer(even), torch.full((2,), 2.0), "for uniform weights on 4 keys", hint)
    masked = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    agree(answer(masked), torch.tensor([0.5]), f"for {show(masked)}", hint)
    many = torch.rand(2, 5, 6, 7).softmax(-1)
    nats = torch.distributions.Categorical(many).entropy().mean(-1)
    agree(answer(many), nats / torch.tensor(2.0).log(), "for maps (2, 5, 6, 7)", hint)


def entropy_in_nats(weights):
    return -torch.xlogy(weights, weights).sum(-1).mean(-1)


def entropy_with_nan(weights):
    return -(weights * weights.log2()).sum(-1).mean(-1)


WRONG = [
    entropy_with_nan,
    entropy_in_nats,
    lambda weights: entropy_in_nats(weights).sum() / math.log(2),
    lambda weights: -torch.xlogy(weights, weights).sum((-2, -1)) / math.log(2),
]
