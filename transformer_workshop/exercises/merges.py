"""counting pairs by the frequency of the words; bringing counts up to date"""

import unicodedata

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part

ASKED = 'give four pairs, such as [("a", "b"), …]'
HINT = "count each word as often as it occurs, and Ġ is a symbol, too."
COUNTS = {"hand": 5, "hund": 4, "band": 2, "und": 8, "bund": 1}


def parts():
    text = " ".join(word for word, count in COUNTS.items() for _ in range(count))
    learned = at.BytePairEncoding.train([text], 260 + 4)
    merges = at.json.loads(learned.to_json())["model"]["merges"]
    return [Part(f"merge {n}", pair, HINT) for n, pair in enumerate(merges, 1)]


def judge(answer):
    assert isinstance(answer, list | tuple) and len(answer) == 4, ASKED
    pieces = {word: ["Ġ", *word] for word in COUNTS}
    for n, (found, part) in enumerate(zip(answer, parts()), 1):
        times: dict[tuple[str, str], int] = {}
        for word, symbols in pieces.items():
            for pair in zip(symbols, symbols[1:]):
                times[pair] = times.get(pair, 0) + COUNTS[word]
        assert isinstance(found, list | tuple) and len(found) == 2, (
            f"merge {n} is a pair of symbols, not {found!r}."
        )
        pair = tuple(unicodedata.normalize("NFC", str(each)) for each in found)
        best = tuple(part.right)
        assert pair == best, (
            f"merge {n} is not {' + '.join(pair)}: those two are neighbors "
            f"{times.get(pair, 0)} times, and another pair {times[best]} times."
            f" Hint: {HINT}"
        )
        for symbols in pieces.values():
            for i in range(len(symbols) - 1):
                if tuple(symbols[i : i + 2]) == best:
                    symbols[i : i + 2] = ["".join(best)]
