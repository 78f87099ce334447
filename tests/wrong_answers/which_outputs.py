"""Wrong answers to the exercise which_outputs."""

WRONG = [
    ([2], [0, 1, 2, 3], [0, 1, 2, 3], [2]),  # later positions don't see it
    ([2, 3], [2, 3], [0, 1, 2, 3], [2]),  # the triangle is still there
    ([2, 3], [0, 1, 2, 3], [4], [2]),  # a position of the source
    ([2, 3], [0, 1, 2, 3], [0, 1, 2, 3], []),  # no residual connection
    [2, 3],
]
