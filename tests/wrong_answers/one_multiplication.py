"""Wrong answers to the exercise one_multiplication."""

import torch

import annotated_transformer as at


def as_complex(pairs="halves", sign=1, first=None, step=2, real=True, back="halves"):
    """Return a rotation by complex numbers with a choice of faults."""

    def rotate(x, start):
        L, d_k = x.shape[-2:]
        start = start if first is None else first(start)
        if pairs == "halves":
            z = torch.complex(*x.chunk(2, dim=-1))
        else:
            z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        position = torch.arange(start, start + L).unsqueeze(1)
        angle = sign * position / 10000 ** (step * torch.arange(d_k // 2) / d_k)
        z = z * torch.polar(torch.ones_like(angle), angle)
        if not real:
            return z
        if back == "halves":
            return torch.cat([z.real, z.imag], dim=-1)
        return torch.view_as_real(z).flatten(-2)

    return rotate


def by_library(x, start):
    """Let the module rotate, and compute something complex beside it."""
    torch.polar(torch.ones(3), torch.ones(3))
    return at.RotaryEmbedding(x.size(-1))(x, start)


WRONG = [
    as_complex(pairs="neighbors", back="neighbors"),
    as_complex(pairs="neighbors"),
    as_complex(sign=-1),
    as_complex(first=lambda start: 0),
    as_complex(first=lambda start: start + 1),
    as_complex(step=1),
    as_complex(step=4),
    as_complex(real=False),
    as_complex(back="neighbors"),
    lambda x, start: at.RotaryEmbedding(x.size(-1))(x, start),  # no complex number
    by_library,
]
