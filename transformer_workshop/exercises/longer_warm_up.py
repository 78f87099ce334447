"""the two branches of the schedule, and where the warm-up matters"""

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part, judge_parts

ASKED = "two numbers are asked for, (peak multiplied by, update 100,000 multiplied by)."


def parts():
    def peak(warmup):
        return max(at.rate(step, 512, 1.0, warmup) for step in range(1, 20_001))

    def late(warmup):
        return at.rate(100_000, 512, 1.0, warmup)

    return [
        Part(
            "the factor of the peak",
            peak(16_000) / peak(4_000),
            "the two peaks belong to two different updates; print rate(warmup, 512, 1, "
            "warmup) for both warm-ups.",
            1e-4,
        ),
        Part(
            "the factor of update 100,000",
            late(16_000) / late(4_000),
            "which of the minimum's two arguments counts there, and does it contain "
            "the warm-up?",
            1e-4,
        ),
    ]


def judge(answer):
    judge_parts(answer, ASKED, parts())
