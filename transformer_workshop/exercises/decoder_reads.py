"""the shift between what the decoder reads and what it predicts; which tokens count"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import listed


def judge(answer, ids=(0, 7, 4, 9, 1, 2, 2)):
    row = torch.tensor([ids])
    batch = at.Batch(row, row)
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "three things are asked for, (tgt, tgt_y, ntokens)."
    )
    tgt, tgt_y = (listed(part) for part in answer[:2])
    assert len(tgt) == len(tgt_y) == len(ids) - 1, (
        f"tgt has {len(tgt)} ids and tgt_y {len(tgt_y)}. A row of {len(ids)} makes one "
        "position fewer, each with an id that is read and an id to be predicted."
    )
    assert tgt == batch.tgt[0].tolist(), (
        f"tgt is not {tgt}. Hint: it is the row without its last id, whatever that is."
    )
    assert tgt_y == batch.tgt_y[0].tolist(), (
        f"tgt_y is not {tgt_y}. Hint: the answer at each position is the id that the "
        "next position reads."
    )
    assert answer[2] == batch.ntokens, (
        f"ntokens is not {answer[2]}. Hint: it counts the ids of tgt_y that are not "
        "padding; the end symbol is an answer, too."
    )
