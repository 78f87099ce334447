"""schedules as functions of the update number; their values at both ends"""

import math

import torch

from transformer_workshop.exercises.checking import near


def judge(answer):
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
