"""both places of the norm, and the last norm of a pre-norm stack"""

from typing import Any

import torch
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.exercises.checking import agree, same


def judge(answer: Any) -> None:
    norm = at.LayerNorm(6)
    for weight in norm.parameters():
        nn.init.uniform_(weight, 0.5, 1.5)
    sublayers = [nn.Linear(6, 6) for _ in range(3)]
    x = 3 * torch.randn(2, 5, 6)

    def stream(norm_first: bool, fault: str = "") -> Tensor:
        y = x
        for sublayer in sublayers:
            if fault == "stream":
                y = norm(y)
                y = y + sublayer(y)
            elif fault == "sublayer":
                y = y + norm(sublayer(y))
            else:
                connection = at.SublayerConnection(6, 0.0, norm_first=norm_first)
                connection.norm = norm
                y = connection(y, sublayer)
        return norm(y) if norm_first and fault != "last" else y

    hints = {
        "stream": "x itself is replaced by its norm, so nothing passes by unchanged.",
        "sublayer": "what is added is the norm of the sub-layer's output. Hint: the "
        "norm is of what the sub-layer reads.",
        "last": "the last norm is missing: no sub-layer follows that would take it.",
    }
    for norm_first in (True, False):
        given = f"for three sub-layers and norm_first={norm_first}"
        found = answer(x.clone(), sublayers, norm, norm_first)
        expected = stream(norm_first)
        for fault, hint in hints.items() if norm_first else ():
            assert not same(found, stream(True, fault)), f"{given} {hint}"
        assert norm_first or not same(found, norm(expected)), (
            f"{given} there is one norm too many: the last sum has been normalized."
        )
        hint = "x + f(norm(x)) with norm_first, norm(x + f(x)) without."
        agree(found, expected, given, hint)
