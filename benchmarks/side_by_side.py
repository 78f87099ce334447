"""Compare a block whose parts read the same vectors: results/side_by_side.json.

    python benchmarks/side_by_side.py [--seeds 0 1 2 …] [--workers 2]

The experiments of chapter 6, section 6.11: tiny GPTs on the captions with embeddings as
they are, and multiplied by 8, each at the better of two rates. A few minutes on two
cores.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from annotated_transformer import GPT, Block
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.experiments import experiment

UPDATES = 100
BRIEF = {"rows": 8}  # windows in a batch
RATES = 0.012, 0.024  # a search that goes on may take 0.048, because of a single seed


class SideBySide(Block):
    def forward(
        self, x: Tensor, mask: Tensor | None, cache: dict[str, Tensor] | None = None
    ) -> Tensor:
        u = self.norm_1(x)
        return x + self.self_attn(u, u, u, mask, cache) + self.feed_forward(u)


def tiny(words: int, block: type[Block] = Block) -> GPT:
    model = GPT(words, N=2, d_model=64, d_ff=128, h=4, groups=2)
    model.blocks = nn.ModuleList(block(64, 128, 4, 2) for _ in range(2))
    return model


def side_by_side(words: int) -> GPT:
    return tiny(words, SideBySide)


def scaled(words: int, block: type[Block] = Block) -> GPT:
    model = tiny(words, block)
    model.embed.register_forward_hook(lambda module, ids, vectors: 8 * vectors)
    return model


def scaled_side_by_side(words: int) -> GPT:
    return scaled(words, SideBySide)


PAIRS = [
    {"GPT": tiny, "side by side": side_by_side},
    {"scaled": scaled, "scaled, side by side": scaled_side_by_side},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=range(8))
    parser.add_argument("--workers", type=int)
    file = project_folder() / "results" / "side_by_side.json"
    parser.add_argument("--out", type=Path, default=file)
    given = parser.parse_args()
    torch.set_num_threads(1)
    summary: dict[str, Any] = {**describe_environment(), "updates": UPDATES}
    summary |= {"seeds": list(given.seeds), "comparisons": []}
    for pair in PAIRS:
        variants = {name: (build, BRIEF) for name, build in pair.items()}
        found = experiment(
            variants,
            "sentences",
            updates=UPDATES,
            rates=RATES,
            seeds=given.seeds,
            workers=given.workers,
        )
        of_each = {name: found.losses(name) for name in pair}
        row = {"rows": found.rows, "losses": of_each, "in words": found.in_words}
        summary["comparisons"].append(row)
    write_json(given.out, summary)


if __name__ == "__main__":
    main()
