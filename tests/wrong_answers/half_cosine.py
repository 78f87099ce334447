"""Wrong answers to the exercise half_cosine."""

import math


def cosine_from_the_start(step, peak, warmup, total):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * min(step / total, 1))) / 2


def cosine_that_rises_again(step, peak, warmup, total):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


def cosine_without_warm_up(step, peak, warmup, total):
    return peak * (1 + math.cos(math.pi * min(step / total, 1))) / 2


def linear_fall(step, peak, warmup, total):
    down = (total - step) / (total - warmup)
    return peak * max(min(step / warmup, down), 0)


def straight_between(step, peak, warmup, total):
    """Hit the cosine at five places, with straight lines between them."""
    if step <= warmup:
        return peak * step / warmup
    down = min((step - warmup) / (total - warmup), 1) * 4
    heights = [(1 + math.cos(math.pi * part / 4)) / 2 for part in range(5)] + [0]
    part = int(down)
    low, high = heights[part + 1], heights[part]
    return peak * (high + (down - part) * (low - high))


WRONG = [
    straight_between,
    cosine_from_the_start,
    cosine_that_rises_again,
    cosine_without_warm_up,
    linear_fall,
]
