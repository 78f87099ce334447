"""Wrong answers to the exercise merges."""

RIGHT_MERGES = [("n", "d"), ("u", "nd"), ("Ġ", "h"), ("Ġ", "und")]


WRONG = [
    [("u", "n"), ("n", "d"), ("Ġ", "h"), ("Ġ", "und")],
    [*RIGHT_MERGES[:1], ("a", "nd"), *RIGHT_MERGES[2:]],  # each word counted once
    [*RIGHT_MERGES[:2], ("h", "und"), ("Ġ", "h")],  # without the mark
    [*RIGHT_MERGES[:3], ("Ġh", "und")],
    [*RIGHT_MERGES[:3], "Ġund"],
    RIGHT_MERGES[:3],
]
