"""schedules as functions of the update number; their values at both ends"""

import math

import torch
from checking import exercise, near, whole


@exercise("2.6")
def half_a_cosine(answer):
    peak, warmup, total = 2.0, 10, 110
    given = f"with peak {peak}, warmup {warmup} and total {total}"
    for step in (1, 5, 10):
        found, expected = answer(step, peak, warmup, total), peak * step / warmup
        assert near(found, expected), (
            f"{given} the rate of update {step} is {expected}, not {found:.4g}. Hint: "
            "the rise is a straight line through 0 that reaches the peak at its end."
        )
    found = answer(60, peak, warmup, total)
    assert near(found, peak / 2), (
        f"{given} the rate of update 60, half-way down, is half the peak, not "
        f"{found:.4g}. Hint: the angle is 0 at update `warmup` and π at update `total`."
    )
    found, expected = answer(35, peak, warmup, total), peak * (2 + math.sqrt(2)) / 4
    assert near(found, expected), (
        f"{given} the rate of update 35, a quarter of the way down, is {expected:.4f}, "
        f"not {found:.4f}: flat at first. Hint: move the cosine up by one and halve it."
    )
    for step in (110, 111, 150, 210):
        found = answer(step, peak, warmup, total)
        assert abs(found) < 1e-9, (
            f"{given} the rate of update {step} is 0, not {found:.4g}. Hint: the "
            "cosine rises again beyond π; the fraction of the way must stop at one."
        )
    assert near(answer(4000, 1.0, 4000, 20_000), 1.0), (
        "with another peak, warmup and total the rate at the end of the warm-up must "
        "again be the peak; is a number of the example written into the code?"
    )
    peak = 1 + torch.rand(1).item()
    warmup = int(torch.randint(2, 50, (1,)))
    down = 4 * int(torch.randint(10, 50, (1,)))
    given = f"with peak {peak:.4f}, warmup {warmup} and total {warmup + down}"
    fall = [answer(warmup + k, peak, warmup, warmup + down) for k in range(down + 1)]
    for k in range(down // 2):
        assert near(fall[k] + fall[down - k], peak), (
            f"{given} the rates {k} updates after the warm-up and {k} before the end "
            f"add up to {fall[k] + fall[down - k]:.4f}, not to the peak."
        )
    for k in range(1, down):
        # a wave's second difference is proportional to its distance from the middle
        bend = fall[k - 1] - 2 * fall[k] + fall[k + 1]
        size = 2 * math.cos(math.pi / down) - 2
        assert math.isclose(bend, size * (fall[k] - peak / 2), abs_tol=1e-9), (
            f"{given} the rates around update {warmup + k} don't lie on a cosine."
        )
    rise = [answer(k, peak, warmup, warmup + down) / k for k in range(1, warmup + 1)]
    assert near(min(rise), max(rise)) and near(rise[0], peak / warmup), (
        f"{given} the rise is not a straight line."
    )


def hidden(answer):
    for _ in range(20):
        warmup, peak = whole(1, 500), 10 * torch.rand(1).item()
        total = warmup + whole(1, 5000)
        step = whole(1, total + 100)
        down = min(max(step - warmup, 0) / (total - warmup), 1)
        expected = peak * min(step / warmup, (1 + math.cos(math.pi * down)) / 2)
        found = answer(step, peak, warmup, total)
        assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9), (
            f"with peak {peak:.4f}, warmup {warmup} and total {total} the rate of "
            f"update {step} is {expected:.6f}, not {found:.6f}."
        )


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
