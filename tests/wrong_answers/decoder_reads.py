"""Wrong answers to the exercise decoder_reads."""

WRONG = [
    ([0, 7, 4, 9, 1, 2, 2], [7, 4, 9, 1, 2, 2], 4),  # nothing cut off
    ([0, 7, 4, 9, 2, 2], [7, 4, 9, 1, 2, 2], 4),  # the end symbol cut, not the last
    ([0, 7, 4, 9, 1, 2], [0, 7, 4, 9, 1, 2], 4),  # not shifted
    ([0, 7, 4, 9, 1, 2], [7, 4, 9, 1, 2, 2], 3),  # the end symbol not counted
    4,
]
