"""applying merges in the order learned, not taking the longest piece that fits"""

import torch

import annotated_transformer as at


def judge(answer):
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
