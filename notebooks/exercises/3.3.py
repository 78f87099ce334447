"""keeping pairs together, padding, end symbols, the widths of source and target"""

import torch
from checking import agree, drawn_words, exercise, kind, whole
from torch import Tensor

import annotated_transformer as at


@exercise("3.3")
def mended_collate(answer):
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    ids = {
        word: [at.START, *vocab(word), at.END] for word in ("abc", "f", "gh", "abcdef")
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
    assert pairs == expected, (
        f"{given} row 0 of src holds {pairs[0][0]} and row 0 of tgt {pairs[0][1]}. "
        "Hint: what happens to a pair when each side is sorted on its own?"
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


def hidden(answer):
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    for _ in range(5):
        pairs = list(zip(drawn_words(12), drawn_words(12)))
        most = whole(8, 12)
        kept = [p for p in pairs if max(map(len, p)) + 2 <= most]
        found = answer(pairs, vocab, vocab, most)
        assert isinstance(found, tuple | list) and len(found) == 2, "two tensors."
        for rows, side, name in zip(found, zip(*kept), ("src", "tgt")):
            ids = [[at.START, *vocab(words), at.END] for words in side]
            given = f"for twelve random pairs and max_tokens={most}, in {name},"
            agree(rows, at.padded(ids), given)


def faulty_collate(
    apart=False, filled=(at.PAD, at.PAD), cut=False, one_width=False, together=False,
    strict=False,
):  # fmt: skip
    """Return the function of 3.3 with some of its faults."""

    def collate(pairs, vocab_src, vocab_tgt, max_tokens):
        rows = [
            ([0, *vocab_src(src), 1], [0, *vocab_tgt(tgt), 1]) for src, tgt in pairs
        ]
        if not cut:
            rows = [row for row in rows if max(map(len, row)) <= max_tokens - strict]
        if together:
            rows = sorted(rows, key=lambda row: len(row[0]), reverse=True)
        sides = [list(side) for side in zip(*rows, strict=True)]
        if apart:
            sides = [sorted(side, key=len) for side in sides]
        widths = [min(max(map(len, side)), max_tokens) for side in sides]
        if one_width:
            widths = widths[:1] * 2
        return tuple(
            torch.tensor([(row + [fill] * width)[:width] for row in side])
            for side, width, fill in zip(sides, widths, filled, strict=True)
        )

    return collate


WRONG = [
    faulty_collate(  # as planted
        apart=True, filled=(at.START, at.START), cut=True, one_width=True
    ),  # fmt: skip
    faulty_collate(apart=True),
    faulty_collate(filled=(at.START, at.START)),
    faulty_collate(filled=(at.START, at.PAD)),
    faulty_collate(filled=(at.PAD, at.START)),
    faulty_collate(filled=(at.PAD, at.END)),
    lambda *inputs: [side.tolist() for side in faulty_collate()(*inputs)],
    faulty_collate(cut=True),
    faulty_collate(one_width=True),
    faulty_collate(together=True),
    faulty_collate(strict=True),
]
