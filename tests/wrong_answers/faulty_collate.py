"""Wrong answers to the exercise faulty_collate."""

import torch

import annotated_transformer as at


def faulty_collate(
    apart=False, filled=(at.PAD, at.PAD), cut=False, one_width=False, together=0,
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
            rows = sorted(rows, key=lambda row: together * len(row[0]))
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
    faulty_collate(together=1),  # the shortest first: the two first pairs, too
    faulty_collate(together=-1),
    faulty_collate(strict=True),
]
