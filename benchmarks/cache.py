"""How much faster does a cache make greedy decoding, for short and long outputs?

    python benchmarks/cache.py [--out results/cache.json]

One sentence at a time, one thread, a model of the captions' kind with random weights:
3 layers, d_model 256. Each length is decoded by turns with and without a cache, and the
fastest of five counts. Chapter 4 (section 4.4) shows the results; two minutes.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

import annotated_transformer as at
from transformer_workshop.base.files import log, write_json
from transformer_workshop.base.machine import describe_environment

LENGTHS, TURNS = (12, 40, 160), 5


def cached(model: at.EncoderDecoder, src: torch.Tensor, words: int) -> torch.Tensor:
    """Decode greedily as section 4.4 does: ids (1, words + 1)."""
    mask = torch.ones_like(src).unsqueeze(1)
    with at.in_mode(model, training=False):
        cache = at.Cache(model.decoder, model.encode(src, mask), mask, words + 1)
        ys = torch.zeros(1, 1, dtype=torch.long)
        while ys.size(1) <= words:
            word = at.decode_step(model, cache, ys).argmax(-1, keepdim=True)
            ys = torch.cat([ys, word], dim=1)
    return ys


def plain(model: at.EncoderDecoder, src: torch.Tensor, words: int) -> torch.Tensor:
    """Decode the same with chapter 2's function."""
    mask = torch.ones_like(src).unsqueeze(1)
    return at.greedy_decode(model, src, mask, words + 1, 0)


def seconds(decode: Callable[..., torch.Tensor], *arguments: object) -> float:
    before = time.perf_counter()
    decode(*arguments)
    return time.perf_counter() - before


def measure() -> list[dict[str, float]]:
    torch.manual_seed(0)
    model = at.make_model(2000, 2000, N=3, d_model=256, d_ff=1024, h=4)
    rows = []
    for words in LENGTHS:
        src = torch.randint(3, 2000, (1, words))
        assert torch.equal(plain(model, src, words), cached(model, src, words))
        turns = [
            (seconds(plain, model, src, words), seconds(cached, model, src, words))
            for _ in range(TURNS)
        ]
        without, with_it = (min(times) for times in zip(*turns, strict=True))
        row = {
            "words": words,
            "positions without": words * (words + 1) // 2,
            "tokens a second without": round(words / without, 1),
            "tokens a second with": round(words / with_it, 1),
            "times as fast": round(without / with_it, 2),
        }
        log(str(row))
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/cache.json"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    rows = measure()
    write_json(out, {"environment": describe_environment(), "lengths": rows})


if __name__ == "__main__":
    main()
