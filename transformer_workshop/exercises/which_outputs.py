"""what the triangle, cross-attention, and residual connections let through"""

import copy
from typing import Any

import torch

import annotated_transformer as at


def judge(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 4, (
        "give four lists of positions, for (a), (b), (c) and (d)"
    )
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
        ("(a)", model, src, other_tgt, triangle, "who may attend to position 2?"),
        ("(b)", model, src, other_tgt, None, "which positions see later ones now?"),
        ("(c)", model, other_src, tgt, triangle, "which positions read the source?"),
        ("(d)", without_attention, src, other_tgt, triangle,
         "the residual connections still work; what else moves between positions?"),
    )  # fmt: skip
    for found, (part, decoder, source, target, mask, hint) in zip(answer, asked):
        before = decoder(src, tgt, ones, mask)
        moved = (decoder(source, target, ones, mask) - before)[0].abs().amax(-1)
        expected = (moved > 1e-5).nonzero().flatten().tolist()
        assert isinstance(found, tuple | list) and sorted(found) == expected, (
            f"{part} is not {found}. Hint: {hint}"
        )
