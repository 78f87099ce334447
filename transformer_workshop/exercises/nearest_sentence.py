"""how close a test set is to the training split; sets of words"""

import torch

from transformer_workshop.exercises.checking import near, show


def judge(answer):
    corpus = [
        line.split()
        for line in (
            "a cat sleeps", "a dog runs in the park", "a dog runs", "a dog runs",
            "the the the dog",
        )
    ]  # fmt: skip
    for line, expected, share in (
        ("a bird sleeps", 0, 0.5),
        ("a dog runs in the rain", 1, 5 / 7),
        ("in the dark", 1, 2 / 7),
        ("the dog", 4, 1.0),
        ("a dog runs", 2, 1.0),
        ("zebra", 0, 0.0),
    ):
        found = answer(line.split(), corpus)
        assert isinstance(found, tuple | list) and len(found) == 2, (
            "the answer is an index and a nearness, (index, nearness)."
        )
        near_one = " ".join(corpus[expected])
        assert near(float(found[1]), share), (
            f"for {line!r} the nearness is {share:.3f}, to {near_one!r}, not "
            f"{found[1]:.3f}. Hint: count different words, those in both sentences "
            "divided by those in either; a word counts once, however often it occurs."
        )
        assert found[0] == expected, (
            f"for {line!r} the index is {expected}, {near_one!r}, not {found[0]}. "
            "Hint: if several are equally near, the first counts."
        )
    letters = [chr(97 + i) for i in torch.randint(0, 6, (40, 4)).flatten().tolist()]
    drawn = [letters[i : i + 4] for i in range(0, 160, 4)]
    for line in drawn[:8]:
        index, share = answer(line, drawn[8:])
        shares = [
            len(set(line) & set(other)) / len(set(line) | set(other))
            for other in drawn[8:]
        ]
        assert near(float(share), max(shares)) and index == shares.index(max(shares)), (
            f"for {' '.join(line)!r} among 32 random lines the answer is not {index}, "
            f"{show(share)}."
        )
