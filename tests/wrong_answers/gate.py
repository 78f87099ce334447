"""Wrong answers to the exercise gate."""

WRONG = [
    (10, 10, 1365),
    (10, 20, 1365),
    (10, 100, 1366),
    (10, 100, 1365.33),
    (10, 100, 1024),
    (1, 1, 1365),  # as if a norm stood before it
    100,
]
