"""Measure section 6.12's mixture of experts and gated attention, with their controls.

    python benchmarks/experts_and_gate.py [--seeds 0 1 2 …] [--workers 2]

Tiny GPTs on the captions, each at the best of three rates: a dense one, a mixture that
computes as much per token, a dense one with as many weights as the mixture, and a
mixture without its balance; a gate for attention, as many weights in a gate that reads
nothing, attention that starts half as large, as a fresh gate makes it, or an eighth,
with a gate and without, and as many weights in the feed-forward network. Embeddings
are multiplied by 8, as section 6.11 found that small ones hide what a block does. Half
an hour of one core.
Chapter 6 shows results/experts_and_gate.json.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from annotated_transformer import GPT, GroupedQueryAttention, SwiGLU
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.experiments import experiment
from transformer_workshop.lab.tasks import Continuation

UPDATES = 100
BRIEF = {"rows": 8}  # windows in a batch
WIDTH, INNER, HEADS, GROUPS = 64, 128, 4, 2
EXPERTS, CHOSEN = 8, 2


class Experts(nn.Module):
    """Of n small feed-forward networks, a router chooses k for each token."""

    bias: Tensor

    def __init__(self, d_model: int, d_ff: int, n: int, k: int, step: float = 0.01):
        super().__init__()
        self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(n))
        self.router = nn.Linear(d_model, n, bias=False)
        self.register_buffer("bias", torch.zeros(n))
        self.k, self.step = k, step

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x).sigmoid()  # (B, L, n)
        best = (scores + self.bias).topk(self.k).indices
        chosen = torch.zeros_like(scores).scatter(-1, best, 1)
        weights = chosen * scores
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = chosen[..., i] > 0  # the tokens that chose it
            out[mine] += weights[mine, i].unsqueeze(-1) * expert(x[mine])
        self.load = chosen.mean(dim=(0, 1)) / self.k  # each one's share of the work
        if self.training:
            self.bias -= self.step * (self.load - self.load.mean()).sign()
        return out


class GatedAttention(GroupedQueryAttention):
    """Multiply what each head returns by a gate that reads the query's vector."""

    def __init__(self, h: int, d_model: int, groups: int, **options: Any):
        super().__init__(h, d_model, groups, **options)
        self.gate = nn.Linear(d_model, h * self.d_k, bias=False)
        self.w_o, self.linears[3] = self.linears[3], nn.Identity()

    def forward(self, query: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        heads = super().forward(query, *others)  # (B, L, h * d_k), side by side
        output: Tensor = self.w_o(self.gate(query).sigmoid() * heads)
        return output


class Blind(nn.Linear):
    """A gate of the same size that reads nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.ones_like(x))


@dataclass(frozen=True)
class Loads(Continuation):
    """The same task, with the share of the busiest expert, averaged over blocks."""

    def judge(self, model: Any) -> dict[str, float]:
        measured = super().judge(model)
        loads = [m.load.max().item() for m in model.modules() if isinstance(m, Experts)]
        if loads:
            measured["busiest expert"] = sum(loads) / len(loads)
        return measured


def gpt(words: int, d_ff: int = INNER) -> GPT:
    model = GPT(words, N=2, d_model=WIDTH, d_ff=d_ff, h=HEADS, groups=GROUPS)
    model.embed.register_forward_hook(lambda module, ids, vectors: 8 * vectors)
    return model


def experts(words: int, step: float = 0.01) -> GPT:
    model = gpt(words)
    for block in model.blocks:
        block.feed_forward = Experts(WIDTH, INNER // CHOSEN, EXPERTS, CHOSEN, step)
    return model


def unbalanced(words: int) -> GPT:
    return experts(words, step=0.0)


def of_total_size(words: int) -> GPT:
    return gpt(words, INNER * EXPERTS // CHOSEN)


def gated(words: int) -> GPT:
    model = gpt(words)
    for block in model.blocks:
        block.self_attn = GatedAttention(HEADS, WIDTH, GROUPS)
    return model


def blind(words: int) -> GPT:
    model = gpt(words)
    for block in model.blocks:
        block.self_attn = attn = GatedAttention(HEADS, WIDTH, GROUPS)
        attn.gate = Blind(WIDTH, WIDTH, bias=False)
    return model


def starting_at(factor: float, words: int) -> GPT:
    """Return the dense model whose attention starts smaller, as behind a gate."""
    model = gpt(words)
    for block in model.blocks:
        block.self_attn.linears[3].weight.data *= factor
    return model


def gated_eighth(words: int) -> GPT:
    """Return the model with a gate whose attention starts at an eighth, too."""
    model = gated(words)
    for block in model.blocks:
        block.self_attn.w_o.weight.data *= 1 / 4
    return model


def wider(words: int) -> GPT:
    return gpt(words, INNER + round(WIDTH / 3))  # three matrices for one


Group = dict[str, Callable[[int], GPT]]
MIXTURES: Group = {
    "experts": experts, "dense": gpt, "dense, all weights": of_total_size,
    "experts, no balance": unbalanced,
}  # fmt: skip
GATES: Group = {
    "gate": gated, "dense": gpt, "blind gate": blind,
    "halved": partial(starting_at, 1 / 2), "an eighth": partial(starting_at, 1 / 8),
    "gate, an eighth": gated_eighth, "wider": wider,
}  # fmt: skip
RATES = 0.006, 0.012, 0.024, 0.048
COMPARED = [  # at 0.048, a training of the mixture may go wrong
    (MIXTURES, RATES[:3]), (GATES, RATES[1:]),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=range(32))
    parser.add_argument("--workers", type=int)
    file = project_folder() / "results" / "experts_and_gate.json"
    parser.add_argument("--out", type=Path, default=file)
    given = parser.parse_args()
    torch.set_num_threads(1)
    summary: dict[str, Any] = {**describe_environment(), "updates": UPDATES}
    summary |= {"seeds": list(given.seeds), "comparisons": []}
    for group, rates in COMPARED:
        found = experiment(
            {name: (build, BRIEF) for name, build in group.items()},
            Loads(),
            updates=UPDATES,
            rates=rates,
            seeds=given.seeds,
            workers=given.workers,
        )
        of_each = {name: found.losses(name) for name in group}
        row = {"rows": found.rows, "losses": of_each, "in words": found.in_words}
        summary["comparisons"].append(row)
        write_json(given.out, summary)


if __name__ == "__main__":
    main()
