"""Wrong answers to the exercise new_word."""


def longest_known(word, merges):
    """Take the longest token that fits, from the left."""
    known, rest, pieces = {a + b for a, b in merges}, "Ġ" + word, []
    while rest:
        sizes = [n for n in range(len(rest), 1, -1) if rest[:n] in known] + [1]
        pieces, rest = [*pieces, rest[: sizes[0]]], rest[sizes[0] :]
    return pieces


def first_of_each(word, merges):
    """Join each pair only once."""
    pieces = ["Ġ", *word]
    for pair in merges:
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) == tuple(pair):
                pieces[i : i + 2] = ["".join(pair)]
                break
    return pieces


def from_the_end(word, merges):
    """Join all occurrences of each pair, the last learned pair first."""
    pieces = " ".join(["Ġ", *word])
    for a, b in reversed(merges):
        pieces = pieces.replace(f"{a} {b}", f"{a}{b}")
    return pieces.split(" ")


WRONG = [
    from_the_end,
    longest_known,
    first_of_each,
    lambda word, merges: ["Ġ" + word],
]
