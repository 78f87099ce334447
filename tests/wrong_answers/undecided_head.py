"""Wrong answers to the exercise undecided_head."""

import math

import torch


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
