"""Wrong answers to the exercise without_residuals."""

import torch

import annotated_transformer as at


def block_with(first="", second="", norms=True, mask=True, feeds="y", cached=True):
    """Return the class of 6.7 with one or another fault."""

    class WithoutResiduals(at.Block):
        def forward(self, x, mask_, cache_=None):
            u = self.norm_1(x) if norms else x
            y = self.self_attn(
                u, u, u, mask_ if mask else None, cache_ if cached else None
            )
            y = y + (x if first else 0)
            if not feeds:
                return y
            u = x if feeds == "x" else y
            z = self.feed_forward(self.norm_2(u) if norms else u)
            return z + (y if second == "y" else x if second == "x" else 0)

    return WithoutResiduals


class Derived(at.Block):
    """Call the original."""

    def forward(self, x, mask, cache=None):
        return super().forward(x, mask, cache)


WRONG = [
    (block_with(first="x"), "bce"),
    (block_with(second="y"), "bce"),
    (block_with(second="x"), "bce"),
    (Derived, "bce"),
    (block_with(norms=False), "bce"),
    (block_with(feeds="x"), "bce"),
    (block_with(feeds=""), "bce"),
    (block_with(mask=False), "bce"),
    (block_with(cached=False), "bce"),
    (block_with(), None),  # predicted nothing
    (block_with(), "abce"),
    (block_with(), "ce"),
    (block_with(), "be"),
    (block_with(), "bcde"),
    (block_with(), "bc"),
    (block_with(), "bcef"),
    (block_with(), "bcg"),
    (block_with(), 3),
    (block_with()(16, 24, 4, 2), "bce"),
    (torch.nn.Identity, "bce"),
    block_with(),
]
