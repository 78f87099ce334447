"""why correct shapes prove little; the order of the axes when splitting into heads"""

from typing import Any

import torch
from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import agree, same


def judge(answer: Any) -> None:
    def heads_of(x: Tensor, w: Tensor, h: int, mask: Tensor) -> Tensor:
        """Return the outputs of h heads of self-attention, (B, h, L, d_k)."""
        parts = torch.arange(x.size(-1)).split(x.size(-1) // h)
        heads = [at.attention(*(x @ m[:, p] for m in w), mask)[0] for p in parts]
        return torch.stack(heads, dim=1)

    x, w = torch.randn(2, 5, 12), torch.randn(3, 12, 12)
    causal = at.subsequent_mask(5)
    found, heads = answer(x, *w, 4, causal), heads_of(x, w, 4, causal)
    unmoved = heads.reshape(2, 5, 12)  # without bringing the heads of a word together
    assert not same(found, unmoved), (
        "the heads are split right, but joined wrong: with (B, h, L, d_k), `reshape` "
        "fills a row with several words of one head. Hint: which two axes have to "
        "change places first, so that the h heads of a word are neighbors?"
    )
    for factor in (4**-0.5, 3**0.5):  # divided by sqrt(d_model), or by nothing
        scaled = heads_of(x, torch.stack([w[0] * factor, *w[1:]]), 4, causal)
        assert not same(found, scaled.transpose(1, 2).flatten(2)), (
            "the heads are split and joined right, but the scale of their scores is "
            "wrong. Hint: a score is the product of two vectors, divided by the square "
            "root of their width; how wide are they in one head?"
        )
    other = x.clone()
    other[:, -1] += 1
    moved = (found - answer(other, *w, 4, causal))[:, :-1].abs().amax()
    assert moved < 1e-5, (
        f"when the last of 5 words is changed, an earlier output moves by {moved:.2f}. "
        "Hint: with B = 1 and x = torch.arange(L * d_model).view(1, L, d_model), which "
        "numbers of which word are in each head?"
    )
    random = (torch.rand(1, 5, 5) < 0.5) | torch.eye(5).bool()
    for h, mask, name in (
        (1, causal, "a causal mask"), (2, causal, "a causal mask"),
        (4, causal, "a causal mask"), (3, random, "a random mask"),
    ):  # fmt: skip
        joined = heads_of(x, w, h, mask).transpose(1, 2).flatten(2)
        given = f"for {h} heads of width {12 // h} and {name}"
        hint = "each head takes neighboring columns of every word"
        agree(answer(x, *w, h, mask), joined, given, hint)
