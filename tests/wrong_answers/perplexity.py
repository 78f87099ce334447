"""Wrong answers to the exercise perplexity."""

import math

import torch


def mean_of_means(nll_sums, tokens):
    means = [total / n for total, n in zip(nll_sums, tokens)]
    return math.exp(sum(means) / len(means))


def mean_of_perplexities(nll_sums, tokens):
    each = [math.exp(total / n) for total, n in zip(nll_sums, tokens)]
    return sum(each) / len(each)


WRONG = [
    mean_of_means,
    mean_of_perplexities,
    lambda nll_sums, tokens: 2 ** (sum(nll_sums) / sum(tokens)),
    lambda nll_sums, tokens: torch.tensor(nll_sums).sum().exp(),
]
