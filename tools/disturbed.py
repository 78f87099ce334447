"""Let a notebook's trainings come out as they might elsewhere.

A kernel runs this file first if it is its PYTHONSTARTUP. DISTURBED=shaken multiplies
each weight by 1 + 1e-6 times a normal number when its optimizer is built, as rounding
on another processor might; DISTURBED=3 adds 3,000 to every seed given to torch, to its
generators, and to random.
"""


def _disturb() -> None:
    import os
    import random

    import torch

    kind = os.environ["DISTURBED"]
    if kind == "shaken":
        build = torch.optim.Optimizer.__init__
        noise = torch.Generator().manual_seed(0)

        def build_shaken(self, params, *args, **kwargs):
            build(self, params, *args, **kwargs)
            for group in self.param_groups:
                for weight in group["params"]:
                    normal = torch.randn(weight.shape, generator=noise)
                    weight.data *= 1 + 1e-6 * normal.to(weight)

        torch.optim.Optimizer.__init__ = build_shaken
    else:
        shift = 1000 * int(kind)
        seed_torch, seed_random = torch.manual_seed, random.seed
        torch.manual_seed = lambda seed: seed_torch(seed + shift)
        random.seed = lambda seed: seed_random(seed + shift)

        class Generator(torch.Generator):
            def manual_seed(self, seed):
                return super().manual_seed(seed + shift)

        torch.Generator = Generator


_disturb()
del _disturb
