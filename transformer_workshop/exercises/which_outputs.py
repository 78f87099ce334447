"""what the triangle, cross-attention, and residual connections let through"""

import copy
from typing import Any

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part, judge_parts, lettered

ASKED = "give four lists of positions, for (a), (b), (c) and (d)"


def parts() -> list[Part]:
    model = at.make_model(11, 11, 2, 16, 32, 4).eval()
    without_attention = copy.deepcopy(model)
    for layer in without_attention.decoder.layers:
        for attn in (layer.self_attn, layer.src_attn):
            torch.nn.init.zeros_(attn.linears[3].weight)
            torch.nn.init.zeros_(attn.linears[3].bias)
    src, tgt = torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([[3, 4, 5, 6]])
    other_src, other_tgt = src.clone(), tgt.clone()
    other_src[0, 4] = other_tgt[0, 2] = 9
    triangle, ones = at.subsequent_mask(4), torch.ones(1, 1, 5)
    asked = (
        (model, src, other_tgt, triangle),
        (model, src, other_tgt, None),
        (model, other_src, tgt, triangle),
        (without_attention, src, other_tgt, triangle),
    )
    changed = []
    for decoder, source, target, mask in asked:
        before = decoder(src, tgt, ones, mask)
        moved = (decoder(source, target, ones, mask) - before)[0].abs().amax(-1)
        changed.append({*(moved > 1e-5).nonzero().flatten().tolist()})
    hints = (
        "who may attend to position 2?",
        "which positions see later ones now?",
        "which positions read the source?",
        "the residual connections still work; what else moves between positions?",
    )
    return lettered(changed, hints)


def judge(answer: Any) -> None:
    judge_parts(answer, ASKED, parts())
