"""averaging probabilities in log space without underflow"""

import math

import torch

from transformer_workshop.exercises.checking import agree


def judge(answer):
    p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]])
    found = answer(list(p.log()))
    hint = "what is averaged are probabilities, and the result is a logarithm"
    given = "for one word of probability 0.9 and 0.3"
    agree(found, torch.tensor([[0.6, 0.4]]).log(), given, hint)
    many = [torch.randn(4, 7).log_softmax(-1) for _ in range(3)]
    expected = torch.stack(many).double().exp().mean(0).log()
    agree(answer(many), expected, "for three models", "divide by their number")
    far = torch.tensor([[0.0, -200.0]])
    found = answer([far, far - torch.tensor([[0.0, 300.0]])])
    expected = torch.tensor([[0.0, -200 - math.log(2)]])
    small = "for log-probabilities of -200 and -500"
    agree(found, expected, small, "torch.logsumexp takes the largest one out first")
