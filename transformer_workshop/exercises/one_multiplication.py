"""rotations as complex numbers; which coordinates form a pair; positions when decoding
with a cache
"""

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import annotated_transformer as at
from transformer_workshop.exercises.checking import agree, kind, same


class WatchComplex(TorchFunctionMode):
    """Note all results that are made of complex numbers."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.is_complex():
            self.seen.append(torch.cat([result.real, result.imag], dim=-1))
        return result


def with_complex(answer, x, start):
    """Return a result, and all complex results on the way, as halves."""
    with WatchComplex() as watch:
        found = answer(x.clone(), start)
    if isinstance(found, Tensor) and found.is_complex():
        return None, watch.seen
    return found, watch.seen


def mistake(found: Tensor, x: Tensor, start: int) -> str | None:
    """Return the hint for a wrong result, told by the chapter's class and other inputs.

    None if it is none of the usual mistakes.
    """
    d_k = x.size(-1)
    rope = at.RotaryEmbedding(d_k)
    first_halves = torch.arange(d_k).view(-1, 2).T.flatten()  # 0, 2, 4, …, 1, 3, 5, …
    if same(found[..., first_halves], rope(x[..., first_halves], start)):
        return (
            "the pairs are neighbors, 0 with 1, 2 with 3. Hint: coordinate i belongs "
            "with i + d_k / 2; `chunk` halves a vector."
        )
    if same(found, rope(x[..., first_halves], start)):
        return (
            "the pairs that you rotate are neighbors, and the result has their parts "
            "in two halves. Hint: halve the vector before, too."
        )
    if same(rope(found, start), x):
        return (
            "the vectors turn the wrong way. Hint: a is the real part and b the "
            "imaginary one, and the sign of the angle is plus."
        )
    if same(found, rope(x, 0)):
        return (
            "the positions are counted from 0. Hint: with a cache, x is only the end "
            "of the sequence; its first position is start."
        )
    if same(found, rope(x, start + 1)):
        return (
            "each position is one too large. Hint: the first position of a sequence is "
            "0, and isn't rotated."
        )
    for base, speed in ((10000**0.5, "fast"), (10000**2, "slowly")):
        if same(found, at.RotaryEmbedding(d_k, base)(x, start)):
            return (
                f"the later pairs turn too {speed}. Hint: the base is 10000, and its "
                "exponents run from 0 to almost 1, in steps of 2 / d_k."
            )
    return None


def judge(answer):
    for shape, start in (((2, 3, 5, 8), 0), ((2, 3, 2, 8), 5), ((1, 6), 3)):
        x = torch.randn(shape)
        given = f"for x of shape {shape} and start {start}"
        found, seen = answer.ask(with_complex, x, start)
        assert found is not None, (
            f"{given} the result is complex or nothing. Hint: put its real parts and "
            "then its imaginary parts into one vector."
        )
        assert isinstance(found, Tensor), (
            f"{given} a tensor is needed, not {kind(found)}."
        )
        expected = at.RotaryEmbedding(shape[-1])(x, start)
        if found.shape == x.shape and not same(found, expected):
            hint = mistake(found, x, start)
            assert hint is None, f"{given} {hint}"
        hint = "position p turns pair i by the angle p / 10000^(2i / d_k)."
        agree(found, expected, given, hint)
        assert any(same(each, expected) for each in seen), (
            "the result is right, but it was not the product of complex numbers. Hint: "
            "`torch.complex(a, b) * torch.polar(…)`"
        )
