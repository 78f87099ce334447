"""Wrong answers to the exercise ensemble."""

import torch

WRONG = [
    lambda log_p: torch.stack(log_p).mean(0),  # a mean of logarithms
    lambda log_p: torch.stack(log_p).exp().mean(0).log(),  # minus infinity
    lambda log_p: torch.stack(log_p).logsumexp(0),  # not divided
]
