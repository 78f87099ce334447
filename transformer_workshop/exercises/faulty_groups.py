"""what is rotated and what isn't, at which positions, and which heads share keys"""

import torch
from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import agree, kind


def with_four_faults(query, key, value, mask=None):
    """Return what the faulty function that exercise 6.4 gives does."""
    copies = query.size(1) // key.size(1)
    speed = 10000 ** -(torch.arange(0, query.size(3), 2) / query.size(3))

    def rotate(x):
        angle = torch.arange(x.size(2)).unsqueeze(1) * speed
        a, b = x.chunk(2, dim=-1)
        a = a * angle.cos() - b * angle.sin()
        return torch.cat([a, a * angle.sin() + b * angle.cos()], dim=-1)

    key, value = (rotate(x).repeat(1, copies, 1, 1) for x in (key, value))
    return at.attention(rotate(query), key, value, mask)[0]


def judge(answer):
    def draw(h, g, L, S):
        return torch.randn(2, h, L, 8), torch.randn(2, g, S, 8), torch.randn(2, g, S, 8)

    def expected(query, key, value, mask=None):
        copies = query.size(1) // key.size(1)
        key, value = (x.repeat_interleave(copies, dim=1) for x in (key, value))
        rotary, start = at.RotaryEmbedding(8), key.size(2) - query.size(2)
        return at.attention(rotary(query, start), rotary(key), value, mask)[0]

    untouched = draw(6, 2, 3, 5)
    found, faulty = answer(*untouched), with_four_faults(*untouched)
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind(found)}."
    if found.shape == faulty.shape and torch.allclose(found, faulty, atol=1e-5):
        raise NotImplementedError  # so that no hint names a fault before you looked

    query, key, value = draw(6, 2, 5, 5)
    alike = value[:, :1, :1].expand_as(value)
    agree(
        answer(query, key, alike),
        alike[:, :1].expand(2, 6, 5, 8),
        "where all keys have the same value, which must come out whatever the weights,",
        "positions decide who attends to whom; what is passed on has no position",
    )
    alone = draw(2, 2, 5, 5)
    agree(
        answer(*alone),
        expected(*alone),
        "with as many heads of keys as of queries, and as many keys,",
        "rotate the pair (1, 0) by 90° on paper, line by line; is the result (0, 1)?",
    )
    mixed = query, key.repeat(1, 3, 1, 1), value.repeat(1, 3, 1, 1)
    found = answer(query, key, value)
    assert not torch.allclose(found, expected(*mixed), atol=1e-5), (
        "with 6 heads of queries and 2 of keys, head 1 attends to the keys of head 1. "
        "Hint: neighbors share, so heads 0, 1 and 2 attend to the keys of head 0."
    )
    hint = "head i of the queries attends to head i // 3 of the keys"
    given = "with 6 heads of queries and 2 of keys"
    agree(found, expected(query, key, value), given, hint)
    given = "with the last 2 queries of 5, as when decoding with a cache,"
    last = query[:, :, 3:]
    hint = "they must get what they get among all 5; at which positions are they?"
    agree(answer(last, key, value), expected(query, key, value)[:, :, 3:], given, hint)
    for h, g, L, S in ((4, 1, 6, 6), (4, 2, 1, 6), (4, 4, 3, 6)):
        parts = draw(h, g, L, S)
        mask = at.subsequent_mask(S)[:, S - L :].unsqueeze(1)
        given = f"for {h} heads of queries, {g} of keys, {L} queries, {S} keys, a mask"
        agree(answer(*parts, mask), expected(*parts, mask), given)
