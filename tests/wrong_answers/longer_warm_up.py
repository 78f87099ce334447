"""Wrong answers to the exercise longer_warm_up."""

WRONG = [
    (0.125, 1.0),  # compares update 4,000 with update 4,000
    (0.5, 0.5),  # the tail moves with the peak
    0.5,
]
