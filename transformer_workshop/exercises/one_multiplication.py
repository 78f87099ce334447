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


def judge(answer):
    def turned(x: Tensor, start: int, fault: str) -> Tensor:
        """Rotate vectors x (…, L, d_k) with one fault."""
        L, d_k = x.shape[-2:]
        first = {"beginning": 0, "from one": start + 1}.get(fault, start)
        exponent = torch.arange(0, d_k, 2) / d_k
        exponent = {"half": exponent / 2, "double": exponent * 2}.get(fault, exponent)
        angle = torch.arange(first, first + L).unsqueeze(1) * 10000**-exponent
        angle = -angle if fault == "backward" else angle
        neighbors = fault.startswith("neighbors")
        a, b = (x[..., ::2], x[..., 1::2]) if neighbors else x.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        parts = [a * cos - b * sin, a * sin + b * cos]
        if fault == "neighbors":
            return torch.stack(parts, dim=-1).flatten(-2)
        return torch.cat(parts, dim=-1)

    hints = {
        "neighbors": "the pairs are neighbors, 0 with 1, 2 with 3. Hint: coordinate i "
        "belongs with i + d_k / 2; `chunk` halves a vector.",
        "neighbors, halves": "the pairs that you rotate are neighbors, and the result "
        "has their parts in two halves. Hint: halve the vector before, too.",
        "backward": "the vectors turn the wrong way. Hint: a is the real part and b "
        "the imaginary one, and the sign of the angle is plus.",
        "beginning": "the positions are counted from 0. Hint: with a cache, x is only "
        "the end of the sequence; its first position is start.",
        "from one": "each position is one too large. Hint: the first position of a "
        "sequence is 0, and isn't rotated.",
        "half": "the later pairs turn too fast. Hint: the base is 10000, and its "
        "exponents run from 0 to almost 1, in steps of 2 / d_k.",
        "double": "the later pairs turn too slowly. Hint: the base is 10000, and its "
        "exponents run from 0 to almost 1, in steps of 2 / d_k.",
    }
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
        right = same(found, expected)
        for fault, hint in hints.items():
            wrong = not right and same(found, turned(x, start, fault))
            assert not wrong, f"{given} {hint}"
        hint = "position p turns pair i by the angle p / 10000^(2i / d_k)."
        agree(found, expected, given, hint)
        assert any(same(each, expected) for each in seen), (
            "the result is right, but it was not the product of complex numbers. Hint: "
            "`torch.complex(a, b) * torch.polar(…)`"
        )
