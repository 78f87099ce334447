"""variances of sums and products; what √dₖ assumes"""

from typing import Any

from transformer_workshop.exercises.checking import Part, judge_parts, lettered

ASKED = "give four numbers, for (a), (b), (c), and (d)"
SEALED = "525afca1f359", "c88bd472faf0", "d8626e036c24", "870aca419dc9"


def parts() -> list[Part]:
    hints = (
        "the variances of independent products add up.",
        "both factors are half as large.",
        "the product still has mean 0, so its variance is the mean of q² times the "
        "mean of k².",
        "divided by their standard deviation, numbers have the variance 1.",
    )
    return lettered(SEALED, hints)


def judge(answer: Any) -> None:
    judge_parts(answer, ASKED, parts())
