"""Wrong answers to the exercise which_rows."""

ALL = list(range(8))


WRONG = [
    ([3, 4], [5, 1], ALL, ALL),  # what is predicted
    ([3, 4], [0, 5], [1, 5], ALL),  # only the right words
    ([3, 4], [0, 5], ALL, [0, 1, 3, 4, 5]),
    (ALL, ALL, ALL, ALL),
    3,
]
