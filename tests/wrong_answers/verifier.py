"""Wrong answers to the exercise verifier."""

WRONG = [
    lambda line, words: any(word in line.lower() for word in words),  # substrings
    lambda line, words: bool(words & set(line.split())),  # "dog." and "Dogs"
    lambda line, words: bool(words & set(line.lower().split())),  # "dog."
    lambda line, words: bool(words & set(line.rstrip(".").split())),  # "Dogs", "dog,"
    lambda line, words: bool(words & set(line.lower().rstrip(".").split())),  # "dog,"
    lambda line, words: words <= set(line.lower().rstrip(".").split()),  # all of them
    lambda line, words: words & set(line.lower().rstrip(".").split()),
    lambda line, words: True,
]
