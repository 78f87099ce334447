"""Wrong answers to the exercise empty_file: an attention, heads, and a layer each."""

import math

import torch
from torch import nn


def attention_with(fault=None):
    """Return an attention with one fault, or a right one."""

    def attention(query, key, value, mask=None):
        width = query.size(-1)
        scale = {"unscaled": 1, "by the width": width}.get(fault, math.sqrt(width))
        scores = query @ key.transpose(-1, -2) / scale
        if mask is not None and fault not in ("unmasked", "after"):
            scores = scores.masked_fill(mask if fault == "inverse" else ~mask, -1e9)
        weights = scores.softmax(-2 if fault == "columns" else -1)
        if mask is not None and fault == "after":
            weights = weights * mask
        output = weights @ value
        return (output, weights) if fault == "both" else output

    return attention


right = attention_with()


def heads_with(fault=None):
    """Return a class of heads with one fault, or a right one."""

    class Heads(nn.Module):
        def __init__(self, d_model, h):
            super().__init__()
            self.h = 1 if fault == "one head" else h
            count = 3 if fault == "no output" else 4
            maps = [nn.Linear(d_model, d_model) for _ in range(count)]
            if fault == "copies":
                for each in maps:
                    each.weight.data = maps[0].weight.data.clone()
            self.maps = maps if fault == "unregistered" else nn.ModuleList(maps)

        def forward(self, query, key, value, mask=None):
            if fault == "values":
                value = key
            q, k, v = (f(x) for f, x in zip(self.maps, (query, key, value)))
            B, L, d_model = q.shape
            if fault == "scale":
                q = q / math.sqrt(self.h)

            def split(x):
                if fault == "split":
                    return x.reshape(B, self.h, x.size(1), -1)
                return x.reshape(B, x.size(1), self.h, -1).transpose(1, 2)

            if mask is not None:
                mask = mask[:, None] if fault != "unmasked" else None
            x = right(split(q), split(k), split(v), mask)
            x = x.reshape(B, L, -1) if fault == "join" else x.transpose(1, 2).flatten(2)
            if fault == "idle":
                return x
            return self.maps[-1](x) if fault != "no output" else x

    return Heads


def layer_with(fault=None):
    """Return a class of decoder layers with one fault, or a right one."""

    class DecoderLayer(nn.Module):
        def __init__(self, d_model, d_ff, h):
            super().__init__()
            self.to_itself = heads_with()(d_model, h)
            self.to_memory = heads_with()(d_model, h)
            if fault == "one attention":
                self.to_memory = self.to_itself
            self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
            self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(4))

        def forward(self, x, memory, src_mask, tgt_mask):
            future = None if fault == "future" else tgt_mask
            padding = None if fault == "padding" else src_mask
            read = self.norms[3](memory) if fault == "memory" else memory

            def first(u):
                key = x if fault == "key" else u
                return self.to_itself(u, key, key, future)

            def second(u):
                return self.to_memory(u, read, read, padding)

            def third(u):
                u = self.up(u)
                return self.down(u if fault == "relu" else u.relu())

            steps = [first, second, third]
            if fault == "order":
                steps = [second, first, third]
            y = x
            for norm, step in zip(self.norms, steps):
                if fault == "post":
                    y = norm(y + step(y))
                elif fault == "stream":
                    y = norm(y) + step(norm(y))
                elif fault == "replaced":
                    y = step(norm(y))
                elif fault == "bare":
                    y = y + step(y)
                else:
                    y = y + step(norm(y))
            return self.norms[3](y) if fault == "last" else y

    return DecoderLayer


class NoModule:
    def __init__(self, *sizes):
        pass


IN_ATTENTION = ("unscaled", "by the width", "columns", "unmasked", "after", "inverse",
                "both")  # fmt: skip
IN_HEADS = ("one head", "no output", "copies", "unregistered", "values", "scale",
            "split", "join", "idle", "unmasked")  # fmt: skip
IN_LAYER = ("one attention", "future", "padding", "memory", "key", "relu", "order",
            "post", "stream", "replaced", "bare", "last")  # fmt: skip
WRONG = [
    *((attention_with(fault), None, None) for fault in IN_ATTENTION),
    (right, None, None),
    (right, NoModule, None),
    *((right, heads_with(fault), None) for fault in IN_HEADS),
    (right, heads_with(), None),
    (right, heads_with(), NoModule),
    *((right, heads_with(), layer_with(fault)) for fault in IN_LAYER),
    torch.ones(3),
]
