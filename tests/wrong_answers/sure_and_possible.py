"""Wrong answers to the exercise sure_and_possible."""

import torch


def rate_of(drawn, sure, possible, union=True):
    allowed = possible | sure if union else possible
    return 1 - (len(drawn & sure) + len(drawn & allowed)) / (len(drawn) + len(sure))


WRONG = [
    lambda drawn, sure, possible: rate_of(drawn, sure, sure),
    lambda drawn, sure, possible: rate_of(drawn, possible, possible),
    lambda drawn, sure, possible: rate_of(drawn, sure, possible, union=False),
    lambda drawn, sure, possible: 1 - rate_of(drawn, sure, possible),
    lambda drawn, sure, possible: torch.tensor(rate_of(drawn, sure, possible)),
]
