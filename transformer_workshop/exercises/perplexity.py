"""averages weighted by the number of words; NLL versus perplexity"""

import math

import torch

from transformer_workshop.exercises.checking import is_number, kind, near


def judge(answer):
    found = answer([6 * math.log(10)], [6])
    assert is_number(found), f"a plain number is needed, not {kind(found)}."
    assert near(found, 10), (
        "one batch of 6 words, each given one tenth: the perplexity is 10, not "
        f"{found:.4g}. Hint: the sums are in nats, so the base is e."
    )
    sums, sizes = [2.0, 1.8], [1, 9]
    found, given = answer(sums, sizes), f"for nll_sums {sums} and tokens {sizes}"
    means = [total / size for total, size in zip(sums, sizes, strict=True)]
    assert not near(found, math.exp(sum(means) / 2)), (
        f"{given} this is a mean of the batches' means: the one word of the first "
        "batch weighs as much as the nine of the second."
    )
    assert not near(found, sum(map(math.exp, means)) / 2), (
        f"{given} this is a mean of the batches' perplexities. Hint: it changes when "
        "the same sentences are divided into batches differently."
    )
    assert near(found, math.exp(0.38)), (
        f"{given} it is {math.exp(0.38):.4f}, not {found:.4f}. Hint: together, the "
        "ten words have 3.8 nats."
    )
    sums = (30 * torch.rand(4)).tolist()
    sizes = torch.randint(2, 20, (4,)).tolist()
    whole = answer(sums, sizes)
    parts = [0.25 * sums[3], 0.75 * sums[3]]
    apart = answer([*sums[:3], *parts], [*sizes[:3], 1, sizes[3] - 1])
    joined = answer([sums[0] + sums[1], *sums[2:]], [sizes[0] + sizes[1], *sizes[2:]])
    assert near(whole, apart) and near(whole, joined), (
        f"for batches of {sizes} words the perplexity changes when the same words are "
        "divided into batches differently."
    )
    assert near(answer([2 * each for each in sums], sizes), whole**2), (
        "with twice the nats per word, the perplexity must be its square."
    )
