"""which tensor has which axes; where the queries of cross-attention come from"""

from typing import Any

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part, judge_parts

ASKED = "give three shapes, as ((…), (…), (…))"


def parts(
    B: int = 2, S: int = 7, L: int = 4, d_model: int = 512, h: int = 8
) -> list[Part]:
    layer = at.MultiHeadedAttention(h, d_model, 0.0)
    words, memory = torch.randn(B, L, d_model), torch.randn(B, S, d_model)
    layer(words, memory, memory)
    queries = layer.split(layer.linears[0](words))
    asked = (
        ("the weights' shape", layer.attn, "heads, queries, keys"),
        ("the shape of the heads' queries", queries, "heads, queries, width of a head"),
        ("the shape of memory", memory, "source length, width"),
    )
    return [
        Part(name, [*tensor.shape], f"the axes are batch, {axes}.")
        for name, tensor, axes in asked
    ]


def judge(answer: Any, **sizes: int) -> None:
    judge_parts(answer, ASKED, parts(**sizes))
