"""what reading a table and comparing with it do to its gradient"""

import torch
import torch.nn.functional as F

import annotated_transformer as at
from transformer_workshop.exercises.checking import judge_parts, lettered

ASKED = "give four lists of ids, for (a), (b), (c), and (d)"


def rows(tie):
    """Return which rows of each table have a gradient."""
    model = at.make_model(8, 8, N=1, d_model=8, d_ff=16, h=2, dropout=0.0)
    at.tie_weights(model, tie)
    src, tgt, asked_for = [[3, 4]], [[0, 5]], torch.tensor([5, 1])
    out = model(torch.tensor(src), torch.tensor(tgt), None, at.subsequent_mask(2))
    F.nll_loss(model.generator(out)[0], asked_for).backward()
    tables = (
        model.src_embed[0].lut.weight,
        model.tgt_embed[0].lut.weight,
        model.generator.proj.weight,
    )
    return [{*t.grad.abs().sum(-1).nonzero().flatten().tolist()} for t in tables]


def parts():
    hints = (
        "a row is read where its token stands in the source.",
        "which ids does the decoder read? It doesn't read what it is to predict.",
        "the softmax compares the vector with every row.",
        "a shared row gets the sum of three gradients.",
    )
    return lettered([*rows("none"), rows("all")[0]], hints)


def judge(answer):
    judge_parts(answer, ASKED, parts())
