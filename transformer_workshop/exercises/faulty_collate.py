"""keeping pairs together, padding, end symbols, the widths of source and target"""

from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import kind


def judge(answer):
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    ids = {
        word: [at.START, *vocab(list(word)), at.END]
        for word in ("abc", "f", "gh", "abcdef")
    }

    def rows(pairs, limit):
        found = answer([(list(a), list(b)) for a, b in pairs], vocab, vocab, limit)
        assert isinstance(found, tuple | list) and len(found) == 2, (
            "return two tensors."
        )
        for each in found:
            assert isinstance(each, Tensor), f"return two tensors, not a {kind(each)}."
        return [each.tolist() for each in found]

    def bare(row):
        """Return a row without special tokens and padding."""
        return [i for i in row if i > at.UNK]

    src, tgt = rows([("abc", "gh"), ("f", "abc")], 9)
    given = "for the pairs (abc, gh) and (f, abc)"
    pairs = [tuple(map(bare, pair)) for pair in zip(src, tgt)]
    expected = [(bare(ids["abc"]), bare(ids["gh"])), (bare(ids["f"]), bare(ids["abc"]))]
    assert sorted(p[0] for p in pairs) == sorted(p[0] for p in expected), (
        f"{given} the sources are no longer those of the pairs."
    )
    assert sorted(pairs) == sorted(expected), (
        f"{given} row 0 of src holds {pairs[0][0]} and row 0 of tgt {pairs[0][1]}. "
        "Hint: what happens to a pair when each side is sorted on its own?"
    )
    assert pairs == expected, (
        f"{given} each row of src stands beside its own translation, but the rows "
        "have changed places. Hint: are the pairs sorted, as wholes?"
    )
    for row, word, side in ((src[1], "f", "source"), (tgt[0], "gh", "target")):
        said = f"{given} the short {side} row is {row}"
        end = len(ids[word])
        assert at.START not in row[end:], f"{said}. Hint: which id is padding?"
        assert row[:end] == ids[word] and set(row[end:]) <= {at.PAD}, (
            f"{said}; after </s> comes padding, {at.PAD}."
        )
    mixed = [("gh", "f"), ("abcdef", "abc"), ("f", "gh"), ("abc", "abcdef")]
    src, tgt = rows(mixed, 9)
    found = [(bare(a), bare(b)) for a, b in zip(src, tgt)]
    assert found == [(bare(ids[a]), bare(ids[b])) for a, b in mixed], (
        f"for the pairs {mixed} the rows of src and tgt hold {found}: the order is not "
        "that of the pairs."
    )
    src, tgt = rows([("f", "abcdef"), ("f", "gh")], 9)
    assert tgt[0][: len(ids["abcdef"])] == ids["abcdef"], (
        f"for the pair (f, abcdef) the target row is {tgt[0]}: its end is gone. Hint: "
        "the two sides of a batch have different widths."
    )
    assert len(src[0]) == 3 and len(tgt[0]) == 8, (
        "for the pairs (f, abcdef) and (f, gh) src is 3 and tgt 8 positions wide, each "
        f"as wide as its longest row; yours {len(src[0])} and {len(tgt[0])}."
    )
    src, tgt = rows([("abcdef", "gh"), ("f", "gh"), ("f", "abcdef")], 6)
    assert len(src) == len(tgt) and [bare(r) for r in src] == [bare(ids["f"])], (
        "with max_tokens=6, of the pairs (abcdef, gh), (f, gh) and (f, abcdef) only "
        f"the second is short enough on both sides; you keep {len(src)} rows. Hint: "
        "half a sentence is not a translation, so a long pair is left out, not cut."
    )
    [row], _ = rows([("gh", "f")], 4)
    assert row == ids["gh"], (
        "with max_tokens=4 the pair (gh, f), four tokens and three, is short enough; "
        f"your src row is {row}."
    )
