"""applying merges in the order learned, not taking the longest piece that fits"""

import torch
from checking import exercise

import annotated_transformer as at


@exercise("4.2")
def cut_by_merges(answer):
    merges = [("n", "d"), ("u", "nd"), ("Ġ", "h"), ("Ġh", "und")]
    cases = {
        "hund": ["Ġhund"],
        "und": ["Ġ", "und"],
        "handhund": ["Ġh", "a", "nd", "h", "und"],
        "x": ["Ġ", "x"],
    }
    shown = ", ".join(" + ".join(pair) for pair in merges)
    for word, expected in cases.items():
        found = list(answer(word, list(merges)))
        assert found == expected, (
            f"with the merges {shown} {word!r} becomes {expected}, not {found}. "
            "Hint: go through the merges one by one, and for each through the word."
        )
    found, expected = answer("abcab", [("b", "c"), ("a", "b")]), ["Ġ", "a", "bc", "ab"]
    assert list(found) == expected, (
        f"with the merges b + c, a + b 'abcab' becomes {expected}, not {found}. "
        "Hint: an early merge takes its symbols away from later ones."
    )
    letters = "".join("abln"[i] for i in torch.randint(0, 4, (120,)).tolist())
    words = ["aa", "aaa", "aaaa", "lalalal"]
    words += [letters[i : i + n] for n in (4, 5, 6) for i in range(0, 24, n)]
    encoding = at.BytePairEncoding.train([" ".join(words * 3)], 290)
    merges = [tuple(m) for m in at.json.loads(encoding.to_json())["model"]["merges"]]
    for word in [*words, letters[24:40], letters[40:60], "lallaa", "aaaaa"]:
        found, expected = list(answer(word, merges)), encoding.tokenize(word)
        assert found == expected, (
            f"with {len(merges)} merges {word!r} becomes {expected}, not {found}. "
            "Hint: after a merge, go on after the joined pair."
        )


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
