"""variances of sums and products; what √dₖ assumes"""

from typing import Any

from transformer_workshop.exercises.checking import numbers_of, sealed


def judge(answer: Any) -> None:
    found = numbers_of(answer, 4, "give four numbers, for (a), (b), (c), and (d)")
    asked = (
        ("(a)", "203d365f17ab", "the variances of independent products add up"),
        ("(b)", "15b351303e35", "both factors are half as large"),
        ("(c)", "435dd481aa00", "the product still has mean 0, so its variance is the "
         "mean of q² times the mean of k²"),
        ("(d)", "4b87c3284828", "divided by their standard deviation, numbers have the "
         "variance 1"),
    )  # fmt: skip
    for number, (part, right, hint) in zip(found, asked):
        assert sealed(f"1.2 {part}", f"{number:g}") == right, (
            f"{part} is not {number:g}. Hint: {hint}."
        )
