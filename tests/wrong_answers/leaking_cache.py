"""Wrong answers to the exercise leaking_cache."""

from typing import Any

import torch

import annotated_transformer as at


def extended(mask="causal", start="ids", again=False):
    """Return what 6.5 asks for, with one or another fault."""

    def in_pieces(model, pieces):
        cache: list[Any] = [None for _ in model.blocks]
        logits, before = [], 0
        for number, ids in enumerate(pieces):
            if again:
                ids = torch.cat(pieces[: number + 1], dim=1)
                cache, before = [None for _ in model.blocks], 0
            L = ids.size(1)
            first = {"ids": before, "pieces": number, "zero": 0}[start]
            last_rows = at.subsequent_mask(before + L)[:, before:]
            allowed = {
                "causal": last_rows,
                "none": None,
                "first": last_rows if not number else None,
                "square": at.subsequent_mask(L),
                "first rows": at.subsequent_mask(before + L)[:, :L],
                "strict": last_rows & ~torch.eye(before + L).bool()[before:],
            }[mask]
            x = model.embed(ids)
            for i, block in enumerate(model.blocks):
                attn, u = block.self_attn, block.norm_1(x)
                q, k, v = (attn.split(w(u)) for w in attn.linears[:3])
                q = attn.rope(attn.q_norm(q), first)
                k = attn.rope(attn.k_norm(k), first)
                if cache[i]:
                    k = torch.cat([cache[i][0], k], dim=2)
                    v = torch.cat([cache[i][1], v], dim=2)
                cache[i] = k, v
                k, v = (t.repeat_interleave(attn.served, dim=1) for t in (k, v))
                attended, _ = at.attention(q, k, v, allowed)
                x = x + attn.linears[3](attended.transpose(1, 2).flatten(-2))
                x = x + block.feed_forward(block.norm_2(x))
            before += L
            logits.append((model.norm(x) @ model.embed.weight.mT)[:, -L:])
        return logits[-1] if again else torch.cat(logits, dim=1)

    return in_pieces


WRONG = [  # with both faults it is the stub, which is no answer yet
    extended(mask="none"),
    extended(start="pieces"),
    extended(mask="first"),
    extended(mask="square"),
    extended(mask="first rows"),
    extended(mask="strict"),
    extended(start="zero"),
    extended(again=True),
    lambda model, pieces: model(torch.cat(pieces, dim=1))[:, -1],
    lambda model, pieces: pieces,
]
