"""which tensor has which axes; where the queries of cross-attention come from"""

from typing import Any

import torch

import annotated_transformer as at


def judge(
    answer: Any, B: int = 2, S: int = 7, L: int = 4, d_model: int = 512, h: int = 8
) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "give three shapes, as ((…), (…), (…))"
    )
    layer = at.MultiHeadedAttention(h, d_model, 0.0)
    words, memory = torch.randn(B, L, d_model), torch.randn(B, S, d_model)
    layer(words, memory, memory)
    queries = layer.split(layer.linears[0](words))
    asked = (
        ("the weights", layer.attn, "batch, heads, queries, keys"),
        ("the heads' queries", queries, "batch, heads, queries, width of a head"),
        ("memory", memory, "batch, source length, width"),
    )
    for found, (name, tensor, axes) in zip(answer, asked):
        assert isinstance(found, tuple | list), f"{name}: a shape is a tuple of numbers"
        assert tuple(found) == tuple(tensor.shape), (
            f"{name} don't have the shape {tuple(found)}; the axes are {axes}"
        ).replace("memory don't", "memory does not")
