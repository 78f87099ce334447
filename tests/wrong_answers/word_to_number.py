"""Wrong answers to the exercise word_to_number."""

WRONG = [
    [4, 3, 6, 3],  # without the marks
    [0, 4, 3, 6, 1],  # the unknown word left out
    [1, 4, 3, 6, 3, 2],
    [0, 1, 3, 3, 3, 1],  # numbers from 1
    [0, 4, 3, 5, 3, 1],  # the second most frequent in place of the third
    [0, 4, 3, 6, 2, 1],
    6,
]
