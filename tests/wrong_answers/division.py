"""Wrong answers to the exercise division."""

WRONG = [
    (8, 4, 128, 32),  # the deviation
    (64, 16, 128, 32),
    (64, 4, 64, 32),
    (64, 4, 128, 8),
    (64, 4, 128, 1024),
    64,
]
