"""the entropy of a row, including the case 0 log 0"""

import torch

from transformer_workshop.exercises.checking import agree, show


def judge(answer):
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
