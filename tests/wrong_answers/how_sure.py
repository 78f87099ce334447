"""Wrong answers to the exercise how_sure."""

WRONG = ["b", "bc", "abcf", "bcdf", "bcef", "cf", "bf", "x", 3]
