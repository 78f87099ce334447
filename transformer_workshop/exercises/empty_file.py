"""attention, its heads, and a decoder layer, written from nothing"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.exercises.checking import agree, same


def linear_maps(answer: Any, *sizes: int) -> list[list[int]] | None:
    """Return the shapes of a module's linear maps; None if it is no module."""
    module = answer(*sizes)
    if not isinstance(module, nn.Module):
        return None
    found = [m.weight for m in module.modules() if isinstance(m, nn.Linear)]
    return [list(weight.shape) for weight in found]


def start_alike(answer: Any, *sizes: int) -> bool:
    """Return whether two linear maps of the same shape start with equal numbers."""
    weights = [m.weight for m in answer(*sizes).modules() if isinstance(m, nn.Linear)]
    pairs = [(a, b) for i, a in enumerate(weights) for b in weights[:i]]
    return any(torch.equal(a, b) for a, b in pairs)


def with_identities(
    answer: Any, sizes: tuple, doubled: int | None, *inputs: Tensor
) -> Tensor:
    """Return what a new module gives if each linear map passes its input on.

    One of them may give twice its input; ``doubled`` is its number.
    """
    module = answer(*sizes).eval()
    maps = [m for m in module.modules() if isinstance(m, nn.Linear)]
    for i, each in enumerate(maps):
        nn.init.eye_(each.weight)
        if i == doubled:
            each.weight.data *= 2
        if each.bias is not None:
            nn.init.zeros_(each.bias)
    return module(*inputs)


def some_mask(*shape: int) -> Tensor:
    """Draw a mask in which each query may attend to some key, but not to all."""
    mask = torch.rand(shape) < 0.5
    mask[..., 0], mask[..., -1] = True, False
    return mask


def judge_attention(attention: Any) -> None:
    q, k, v = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    given = "attention: for 3 queries and 5 keys of width 4"
    found = attention(q, k, v)
    assert isinstance(found, Tensor), f"{given} the output is needed, and nothing else."
    scores = q @ k.mT / 2
    faults = (
        (2 * scores, -1, "the scores aren't divided by anything. Hint: the paper's "
         "footnote 4, or section 1.3's slider."),
        (scores / 2, -1, "the scores are divided by the width, not by its root."),
        (scores, -2, "the softmax runs down the columns: the weights of a *key* sum to "
         "one. Hint: a row is a query, and it distributes its attention."),
    )  # fmt: skip
    for wrong, dim, hint in faults:
        assert not same(found, wrong.softmax(dim) @ v), f"{given} {hint}"
    agree(found, at.attention(q, k, v)[0], given, "softmax(q kᵀ / √4) v")

    mask = some_mask(2, 3, 5)
    given = "attention: with a mask"
    found = attention(q, k, v, mask)
    weights = scores.softmax(-1)
    for wrong, hint in (
        (weights, "the output is what it is without one."),
        (weights * mask, "the weights of a row no longer sum to one. Hint: what score "
         "has an exponential of zero?"),
        (at.attention(q, k, v, ~mask)[1], "what should be hidden is seen, and the rest "
         "is hidden: True is where attention is allowed."),
    ):  # fmt: skip
        assert not same(found, wrong @ v), f"{given} {hint}"
    agree(found, at.attention(q, k, v, mask)[0], given)
    q, k, v = (each.unsqueeze(1).repeat(1, 3, 1, 1) for each in (q, k, v))
    given = "attention: for tensors of four axes, as heads need them,"
    hint = "`.mT` swaps the last two axes, and `.T` all; softmax over dim=-1"
    expected = at.attention(q, k, v, mask.unsqueeze(1))[0]
    agree(attention(q, k, v, mask.unsqueeze(1)), expected, given, hint)


def in_heads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, h: int) -> Tensor:
    """Return the outputs of h heads (B, h, L, d_k) whose matrices are identities."""
    parts = torch.arange(q.size(-1)).split(q.size(-1) // h)
    outputs = [at.attention(q[..., p], k[..., p], v[..., p], mask)[0] for p in parts]
    return torch.stack(outputs, dim=1)


def judge_heads(heads: Any, d_k: int = 3, h: int = 4) -> None:
    d_model = d_k * h
    name, sizes = f"Heads({d_model}, {h})", (d_model, h)
    shapes = heads.ask(linear_maps, *sizes)
    assert shapes is not None, f"{name} is no nn.Module."
    assert shapes == [[d_model, d_model]] * 4, (
        f"{name} should hold four nn.Linear({d_model}, {d_model}), for queries, keys, "
        f"values, and what comes out; it holds {len(shapes)} of the shapes {shapes}. "
        "Hint: all heads of the queries lie side by side in one of them. Modules in a "
        "plain list aren't found; nn.ModuleList is for that."
    )
    assert not heads.ask(start_alike, *sizes), (
        f"{name}: two of the four maps start with the same numbers, so that each word "
        "would begin by looking for itself. Hint: a copy starts equal; call nn.Linear "
        "four times."
    )
    q, k, v = (torch.randn(2, n, d_model) for n in (3, 5, 5))
    given = f"{name}: with identities as matrices"
    found = heads.ask(with_identities, sizes, None, q, k, v)
    expected = in_heads(q, k, v, None, h).transpose(1, 2).flatten(2)

    def cut(x: Tensor) -> Tensor:
        return x.reshape(2, h, -1, d_k)  # words and heads mixed

    scale = math.sqrt(d_k / d_model)
    faults = (
        (at.attention(q, k, v)[0], f"it computes one head of width {d_model}."),
        (in_heads(q * scale, k, v, None, h).transpose(1, 2).flatten(2),
         f"the scores are divided by √{d_model}. Hint: how wide is a head?"),
        (in_heads(q, k, v, None, h).reshape(2, 3, d_model),
         "the heads are joined wrong: a row gets several words of one head. Hint: "
         "which two axes have to change places before the last two become one?"),
        (at.attention(cut(q), cut(k), cut(v))[0].transpose(1, 2).reshape(2, 3, -1),
         "the heads are split wrong: a head gets some of the words, and should get "
         "some numbers of each word. Hint: split the last axis, and then swap."),
        (in_heads(q, k, k, None, h).transpose(1, 2).flatten(2),
         "the values are made of `key`, not of `value`."),
    )  # fmt: skip
    for wrong, hint in faults:
        assert not same(found, wrong), f"{given} {hint}"
    agree(found, expected, given, "each head takes neighboring numbers of every word")

    sharper = in_heads(2 * q, k, v, None, h).transpose(1, 2).flatten(2)
    changed = [heads.ask(with_identities, sizes, i, q, k, v) for i in range(4)]
    for what, wrong, times in (
        ("nothing", expected, 0), ("the scores", sharper, 2),
        ("the output", 2 * expected, 2),
    ):  # fmt: skip
        count = sum(same(each, wrong) for each in changed)
        assert count == times, (
            f"{name}: if its four maps are doubled one by one, {what} changes in "
            f"{count} cases; it should be {times}. Hint: two maps go into the scores, "
            "one makes the values, and one reads the joined heads."
        )
    for shape in ((2, 1, 5), (2, 3, 5)):
        mask = some_mask(*shape)
        found = heads.ask(with_identities, sizes, None, q, k, v, mask)
        expected = in_heads(q, k, v, mask, h).transpose(1, 2).flatten(2)
        agree(found, expected, f"{name}: with a mask {shape}", "the heads share it")


def judge_layer(layer: Any, d_k: int = 3, h: int = 4) -> None:
    d_model, d_ff = d_k * h, 2 * d_k * h + 6
    name, sizes = f"DecoderLayer({d_model}, {d_ff}, {h})", (d_model, d_ff, h)
    shapes = layer.ask(linear_maps, *sizes)
    assert shapes is not None, f"{name} is no nn.Module."
    wanted = [[d_model, d_model]] * 8 + [[d_ff, d_model], [d_model, d_ff]]
    assert sorted(shapes) == sorted(wanted), (
        f"{name} should hold ten linear maps: four for each of two attentions, and two "
        f"for the feed-forward network; it holds {len(shapes)}, {shapes}."
    )
    x, memory = torch.randn(2, 4, d_model), 2 * torch.randn(2, 5, d_model)
    src_mask = some_mask(2, 1, 5)
    tgt_mask = at.subsequent_mask(4).repeat(2, 1, 1)

    def norm(y: Tensor) -> Tensor:
        return F.layer_norm(y, (d_model,))

    def stream(fault: str = "") -> Tensor:
        """Return what comes out if the layer has a fault."""
        hides_future = None if fault == "future" else tgt_mask
        hides_padding = None if fault == "padding" else src_mask
        read = norm(memory) if fault == "memory" else memory
        key = x if fault == "key" else None

        def by_itself(u: Tensor) -> Tensor:
            v = u if key is None else key
            return in_heads(u, v, v, hides_future, h).transpose(1, 2).flatten(2)

        def by_memory(u: Tensor) -> Tensor:
            out = in_heads(u, read, read, hides_padding, h)
            return out.transpose(1, 2).flatten(2)

        def forward(u: Tensor) -> Tensor:
            return u if fault == "relu" else u.relu()

        y = x
        steps = [by_itself, by_memory, forward]
        if fault == "order":
            steps = [by_memory, by_itself, forward]
        for step in steps:
            if fault == "post":
                y = norm(y + step(y))
            elif fault == "replaced":
                y = step(norm(y))
            elif fault == "stream":
                y = norm(y) + step(norm(y))
            elif fault == "bare":
                y = y + step(y)
            else:
                y = y + step(norm(y))
        return norm(y) if fault == "last" else y

    given = f"{name}: with identities as matrices"
    found = layer.ask(with_identities, sizes, None, x, memory, src_mask, tgt_mask)
    for fault, hint in (
        ("post", "the norm comes after the sum. Asked for is pre-norm: what a "
         "sub-layer reads is normalized, and x itself never is."),
        ("replaced", "each sub-layer replaces x. Hint: which arrow goes around it?"),
        ("stream", "x itself is replaced by its norm, so nothing passes by unchanged."),
        ("bare", "the sub-layers read x without a norm."),
        ("order", "memory is read before the target attends to itself."),
        ("future", "a position sees the words that come after it. Hint: which of the "
         "two masks belongs to self-attention?"),
        ("padding", "hidden words of the source are read. Hint: which of the two masks "
         "belongs to the keys that come from memory?"),
        ("memory", "memory is normalized again; the encoder has done that."),
        ("key", "in self-attention, the keys and values are made of x itself, and only "
         "the queries of its norm."),
        ("relu", "the feed-forward network is linear. Hint: what stands between its "
         "two maps?"),
        ("last", "there is one norm too many: that at the end belongs to the stack."),
    ):  # fmt: skip
        assert not same(found, stream(fault)), f"{given} {hint}"
    hint = "three times x + sublayer(norm(x)): to itself, to memory, feed-forward"
    agree(found, stream(), given, hint)


def judge(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "give three things, (attention, Heads, DecoderLayer), with None for what you "
        "haven't written yet."
    )
    attention, heads, layer = answer
    if attention is None:
        raise NotImplementedError
    judge_attention(attention)
    assert heads is not None, "attention is right, 1 of 3. Next: Heads(d_model, h)."
    judge_heads(heads)
    assert layer is not None, (
        "attention and Heads are right, 2 of 3. Next: DecoderLayer(d_model, d_ff, h)."
    )
    judge_layer(layer)
