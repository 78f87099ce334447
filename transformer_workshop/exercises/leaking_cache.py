"""a prompt needs the causal mask even with a cache; at which positions its
continuation is
"""

import torch
from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import kind


def with_a_leak(model, pieces):
    """Return what the faulty function that exercise 6.5 gives does."""
    cache, logits = [None for _ in model.blocks], []
    for start, ids in enumerate(pieces):
        x = model.embed(ids)
        for i, block in enumerate(model.blocks):
            attn, u = block.self_attn, block.norm_1(x)
            q, k, v = (attn.split(w(u)) for w in attn.linears[:3])
            q, k = attn.rope(attn.q_norm(q), start), attn.rope(attn.k_norm(k), start)
            if cache[i]:
                k = torch.cat([cache[i][0], k], dim=2)
                v = torch.cat([cache[i][1], v], dim=2)
            cache[i] = k, v
            k, v = (t.repeat_interleave(attn.served, dim=1) for t in (k, v))
            attended, _ = at.attention(q, k, v)
            x = x + attn.linears[3](attended.transpose(1, 2).flatten(-2))
            x = x + block.feed_forward(block.norm_2(x))
        logits.append(model.norm(x) @ model.embed.weight.mT)
    return torch.cat(logits, dim=1)


def logits_and_embedded(answer, model, pieces):
    """Return logits, and how many positions of a row were embedded for them."""
    embedded = []
    counting = model.embed.register_forward_hook(
        lambda _, read, x: embedded.append(x.size(1))
    )
    found = answer(model, pieces)
    counting.remove()
    return found, sum(embedded)


def judge(answer):
    model = at.GPT(vocab=11, N=2, d_model=16, d_ff=24, h=4, groups=2)
    for weight in model.parameters():  # a fresh model hardly reacts to its words
        weight.data += 0.3 * torch.randn_like(weight)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    expected = model(ids)

    def logits(ids, sizes):
        return answer(model, list(ids[:, : sum(sizes)].split(sizes, dim=1)))

    def differ(one, other):
        """Return the positions at which logits differ."""
        return ((one - other).abs().amax((0, 2)) > 1e-3).nonzero().flatten().tolist()

    found = logits(ids, [4, 1, 1])
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind(found)}."
    faulty = with_a_leak(model, ids.split([4, 1, 1], dim=1))
    if found.shape == faulty.shape and torch.allclose(found, faulty, atol=1e-4):
        raise NotImplementedError  # so that no hint names a fault before you looked

    for sizes in ([1] * 6, [4], [4, 1, 1], [3, 2, 1], [1, 5]):
        given, L = f"for pieces of {sizes} ids", sum(sizes)
        pieces = list(ids[:, :L].split(sizes, dim=1))
        found, embedded = answer.ask(logits_and_embedded, model, pieces)
        assert embedded <= L, (
            f"{given} {embedded} ids are embedded, not {L}. Hint: what is in the cache "
            "needn't be computed again."
        )
        shapes = tuple(found.shape), tuple(expected[:, :L].shape)
        assert shapes[0] == shapes[1], (
            f"{given} your shape is {shapes[0]}; it should be {shapes[1]}."
        )
        for changed in range(1, L):
            others = ids.clone()
            others[:, changed] = 7
            moved = differ(logits(others, sizes)[:, :changed], found[:, :changed])
            assert not moved, (
                f"{given} the logits at position {moved[0]} change when the id at "
                f"position {changed} does."
            )
        wrong = differ(found, expected[:, :L])
        assert not wrong, (
            f"{given} the logits at position {wrong[0]} differ from those of one pass "
            "over the same ids."
        )
