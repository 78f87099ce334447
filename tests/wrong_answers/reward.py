"""Wrong answers to the exercise reward."""

WRONG = ["abd", "abcdf", "abdef", "bdf", "adf", "abf", "abg", 3]
