"""Wrong answers to the exercise wavelength."""

WRONG = [(1, 1), (199, 199), (0.5, 0.5), 10]
