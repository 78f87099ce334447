"""Wrong answers to the exercise one_row."""

ROW = [0.09, 0.24, 0.67], [4.23, 5.77], [0.27, 0.73, 0]


WRONG = [
    ([0.02, 0.12, 0.87], ROW[1], ROW[2]),  # not divided
    ([0, 1, 2], ROW[1], ROW[2]),  # scores
    (ROW[0], [5, 5], ROW[2]),
    (ROW[0], ROW[1], [0.09, 0.24, 0]),  # masked after the softmax
    (ROW[0], ROW[1], [0.21, 0.58, 0.21]),  # a score of 0
    (ROW[0], ROW[1]),
    (ROW[0], ROW[1], ["0.27", "0.73", "0"]),
    3,
]
