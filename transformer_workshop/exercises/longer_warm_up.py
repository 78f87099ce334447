"""the two branches of the schedule, and where the warm-up matters"""

import annotated_transformer as at
from transformer_workshop.exercises.checking import is_number, near


def judge(answer):
    pair = isinstance(answer, tuple | list) and len(answer) == 2
    assert pair and all(is_number(part) for part in answer), (
        "two numbers are asked for, (peak multiplied by, update 100,000 multiplied by)."
    )

    def peak(warmup):
        return max(at.rate(step, 512, 1.0, warmup) for step in range(1, 20_001))

    def late(warmup):
        return at.rate(100_000, 512, 1.0, warmup)

    assert near(answer[0], peak(16_000) / peak(4_000)), (
        f"the peak is not multiplied by {answer[0]}. Hint: the two peaks belong to two "
        "different updates; print rate(warmup, 512, 1, warmup) for both warm-ups."
    )
    assert near(answer[1], late(16_000) / late(4_000)), (
        f"the rate of update 100,000 is not multiplied by {answer[1]}. Hint: which of "
        "the minimum's two arguments counts there, and does it contain the warm-up?"
    )
