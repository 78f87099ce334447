"""Compare a block whose parts read the same vectors: results/side_by_side.json.

    python benchmarks/side_by_side.py [--workers 2]

The experiments of chapter 6, section 6.11: tiny GPTs on the captions with embeddings as
they are, and multiplied by 8, each at the better of two rates; what of this factor
helps; and the chapter's GPT, at each of two rates, with embeddings that are normalized,
or multiplied by 50, which makes them as large at the beginning. Half an hour on two
cores.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from annotated_transformer import GPT, Block
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.experiments import experiment

BRIEF = {"rows": 8}  # windows in a batch


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


def read_as(words: int, now: float, first: float) -> GPT:
    """Return a GPT that reads now * E + first * what E was before training."""
    model = tiny(words)
    fresh = model.embed.weight.detach().clone()
    model.embed.register_forward_hook(
        lambda module, given, vectors: now * vectors + first * fresh[given[0]]
    )
    return model


def larger(words: int) -> GPT:
    """Eight times as large at the beginning; steps move them as before."""
    return read_as(words, 1, 7)


def faster(words: int) -> GPT:
    """As large as before at the beginning; steps move them eight times as far."""
    return read_as(words, 8, -7)


def softer(words: int) -> GPT:
    """Embeddings as they are, and the first attention's output an eighth."""
    model = tiny(words)
    attention = model.blocks[0].self_attn
    attention.register_forward_hook(lambda module, given, output: output / 8)
    return model


def whole(words: int) -> GPT:
    return GPT(words, N=3, d_model=96, d_ff=256, h=4, groups=2)


def normalized(words: int) -> GPT:
    model = whole(words)
    model.embed.register_forward_hook(
        lambda module, ids, vectors: F.rms_norm(vectors, vectors.shape[-1:])
    )
    return model


def multiplied(words: int) -> GPT:
    model = whole(words)
    model.embed.register_forward_hook(lambda module, ids, vectors: 50 * vectors)
    return model


# Of each comparison, how its models are trained. (Given 0.048, too, the search's three
# seeds take it for *scaled*, which eight others find worse than 0.024.)
SHORT = {"updates": 100, "rates": (0.012, 0.024), "seeds": 32}
CAUSES = {"GPT": tiny, "larger": larger, "faster": faster, "softer": softer}
LARGER = {"GPT": whole, "normalized": normalized, "times 50": multiplied}
WHOLE = {"updates": 600, "seeds": 4}
COMPARED: list[tuple[dict[str, Any], dict[str, int], dict[str, Any]]] = [
    ({"GPT": tiny, "side by side": side_by_side}, BRIEF, SHORT),
    ({"scaled": scaled, "scaled, side by side": scaled_side_by_side}, BRIEF, SHORT),
    (CAUSES, BRIEF, SHORT),
    *((LARGER, {}, {**WHOLE, "rates": (rate,)}) for rate in (0.006, 0.012)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int)
    file = project_folder() / "results" / "side_by_side.json"
    parser.add_argument("--out", type=Path, default=file)
    given = parser.parse_args()
    torch.set_num_threads(1)
    summary: dict[str, Any] = describe_environment()
    summary["comparisons"] = []
    for models, options, training in COMPARED:
        variants = {name: (build, options) for name, build in models.items()}
        found = experiment(variants, "sentences", workers=given.workers, **training)
        row = {
            **training,
            "rows": found.rows,
            "losses": {name: found.losses(name) for name in models},
            "in words": found.in_words,
        }
        summary["comparisons"].append(row)
    write_json(given.out, summary)


if __name__ == "__main__":
    main()
