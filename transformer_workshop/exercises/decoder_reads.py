"""the shift between what the decoder reads and what it predicts; which tokens count"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part, judge_parts, listed

ASKED = "three things are asked for, (tgt, tgt_y, ntokens)."
IDS = 0, 7, 4, 9, 1, 2, 2


def parts(ids=IDS):
    row = torch.tensor([ids])
    batch = at.Batch(row, row)
    return [
        Part(
            "tgt",
            batch.tgt[0].tolist(),
            "it is the row without its last id, whatever that is.",
        ),
        Part(
            "tgt_y",
            batch.tgt_y[0].tolist(),
            "the answer at each position is the id that the next position reads.",
        ),
        Part(
            "ntokens",
            int(batch.ntokens),
            "it counts the ids of tgt_y that are not padding; the end symbol is an "
            "answer, too.",
        ),
    ]


def judge(answer, ids=IDS):
    assert isinstance(answer, tuple | list) and len(answer) == 3, ASKED
    tgt, tgt_y = map(listed, answer[:2])
    assert len(tgt) == len(tgt_y) == len(ids) - 1, (
        f"tgt has {len(tgt)} ids and tgt_y {len(tgt_y)}. A row of {len(ids)} makes one "
        "position fewer, each with an id that is read and an id to be predicted."
    )
    judge_parts([tgt, tgt_y, answer[2]], ASKED, parts(ids))
