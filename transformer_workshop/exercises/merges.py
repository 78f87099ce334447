"""counting pairs by the frequency of the words; bringing counts up to date"""

import unicodedata

import annotated_transformer as at


def judge(answer):
    assert isinstance(answer, list | tuple) and len(answer) == 4, (
        'give four pairs, such as [("a", "b"), …]'
    )
    counts = {"hand": 5, "hund": 4, "band": 2, "und": 8, "bund": 1}
    text = " ".join(word for word, count in counts.items() for _ in range(count))
    learned = at.BytePairEncoding.train([text], 260 + 4)
    merges = at.json.loads(learned.to_json())["model"]["merges"]
    pieces = {word: ["Ġ", *word] for word in counts}
    for n, (found, expected) in enumerate(zip(answer, merges), 1):
        times: dict[tuple[str, str], int] = {}
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                times[pair] = times.get(pair, 0) + counts[word]
        assert isinstance(found, list | tuple) and len(found) == 2, (
            f"merge {n} is a pair of symbols, not {found!r}."
        )
        pair = tuple(unicodedata.normalize("NFC", str(part)) for part in found)
        best = tuple(expected)
        assert pair == best, (
            f"merge {n} is not {' + '.join(pair)}: those two are neighbors "
            f"{times.get(pair, 0)} times, and another pair {times[best]} times. Hint: "
            "count each word as often as it occurs, and Ġ is a symbol, too."
        )
        for parts in pieces.values():
            for i in range(len(parts) - 1):
                if tuple(parts[i : i + 2]) == best:
                    parts[i : i + 2] = ["".join(best)]
