"""Measure what each head of a captions model finds and contributes.

    python benchmarks/heads.py [--model models/captions] [--out results/heads.json]

Alignment error rates are measured on the test set while the decoder reads the
references; BLEU is that of greedy translations with each head silenced and with each
attention made uniform. The threshold for alignments is chosen on the validation set.
Intervals are 95 % bootstrap intervals over the sentences: of each error rate, and of
the BLEU that silencing each head costs, on the same draws with and without it.
Chapter 5 shows the results and explains them.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import annotated_transformer as at
from transformer_workshop.comparison import compare
from transformer_workshop.corpora import load_pairs
from transformer_workshop.data_sets import data_file, project_folder
from transformer_workshop.files import fingerprint, log, write_json
from transformer_workshop.machine import describe_environment
from transformer_workshop.settings import CAPTIONS_MODEL
from transformer_workshop.text_files import read_lines
from transformer_workshop.translator import Translator, load_translator

THRESHOLDS = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5]
ENDS = torch.tensor([0.025, 0.975], dtype=torch.double)  # of a 95 % interval


def corpus(translator: Translator, split: str) -> list[tuple]:
    """Return (pair, cross-attention with its mean, gold links) for each sentence."""
    pairs = load_pairs(translator.config, split)
    path = data_file(translator.config.dataset, f"{split}.align")
    sentences = []
    for pair, line in zip(pairs, read_lines(path), strict=True):
        maps = at.cross_maps(translator.model, translator.text, *pair)
        gold = at.gold_links(line, maps.size(-2) - 1, maps.size(-1) - 2)
        sentences.append((pair, maps, gold))
    return sentences


def counted(
    sentences: list[tuple], threshold: float | None = None, shift: int = 0
) -> torch.Tensor:
    """Count links of each sentence, head, and layer mean: (sentences, N, h + 1, 3).

    A row links to its largest weight, or to all of at least ``threshold``.
    """

    def drawn(maps: torch.Tensor) -> torch.Tensor:
        if threshold is None:
            return at.links_found(maps, shift)
        return maps[..., :-1, 1:-1] >= threshold

    return torch.stack(
        [at.count_links(drawn(maps), gold) for _, maps, gold in sentences]
    )


def error_rates(sentences: list[tuple], **how) -> torch.Tensor:
    """Return the alignment error rate of each head and layer mean: (N, h + 1)."""
    return at.alignment_error_rate(counted(sentences, **how).sum(0))


def alignment(translator: Translator) -> dict:
    """Return test-set error rates by largest weight, by threshold, and of guesses."""
    valid, test = corpus(translator, "valid"), corpus(translator, "test")
    best = min(THRESHOLDS, key=lambda t: error_rates(valid, threshold=t).min().item())
    guesses = [at.guessed_links(gold) for _, _, gold in test]
    return {
        "largest weight": rounded(error_rates(test)),
        "interval": rounded(
            at.resampled_error_rates(counted(test)).quantile(ENDS, 0).movedim(0, -1)
        ),
        "largest weight, row that reads": rounded(error_rates(test, shift=1)),
        "threshold": best,
        "above threshold": rounded(error_rates(test, threshold=best)),
        "guesses": {
            name: rounded(
                at.alignment_error_rate(torch.stack([g[name] for g in guesses]).sum(0))
            )
            for name in guesses[0]
        },
    }


def attentions(model: at.EncoderDecoder) -> dict[str, list[at.MultiHeadedAttention]]:
    """Return the attention of each layer, by kind."""
    uses = [
        [layer.self_attn for layer in model.encoder.layers],
        [layer.self_attn for layer in model.decoder.layers],
        [layer.src_attn for layer in model.decoder.layers],
    ]
    return dict(zip(at.KINDS, uses, strict=True))


def importance(translator: Translator, pairs: list[tuple[str, str]]) -> dict:
    """Measure BLEU as is, with each head silenced, and with each attention uniform."""
    sources, references = map(list, zip(*pairs, strict=True))
    uses = attentions(translator.model)
    turns = 1 + sum(1 + layer.h for layers in uses.values() for layer in layers)
    with tqdm(total=turns, unit="test", leave=False, disable=None) as bar:

        def without(*parts: torch.Tensor) -> list[str]:
            with at.zeroed(*parts):
                lines = translator.translate(sources, 1)
            bar.update()
            return lines

        def compared(*parts: torch.Tensor) -> dict:
            return compare(without(*parts), whole, references)

        whole = without()
        silent = {
            kind: [
                [compared(at.head_output_weight(x, a)) for a in range(x.h)]
                for x in layers
            ]
            for kind, layers in uses.items()
        }
        uniform = {
            kind: [compared(*at.query_parameters(x)) for x in layers]
            for kind, layers in uses.items()
        }
    return {
        "bleu": at.score(whole, references)["bleu"],
        "masked": of_heads(silent, lambda head: head["bleu"]),
        "interval of the loss": of_heads(silent, lambda head: lost(head["interval"])),
        "uniform": {k: [x["bleu"] for x in layers] for k, layers in uniform.items()},
    }


def of_heads(heads: dict[str, list[list[dict]]], take: Callable[[dict], Any]) -> dict:
    """Return what ``take`` finds in the comparison of each layer and head, by kind."""
    return {
        kind: [[take(head) for head in row] for row in layers]
        for kind, layers in heads.items()
    }


def lost(interval: list[float]) -> list[float]:
    """Turn the interval of a difference in BLEU into the interval of the loss."""
    low, high = interval
    return [-high, -low]


def rounded(values: torch.Tensor) -> list | float:
    """Round to four decimals; return nested lists, or a single number."""
    return (values.double() * 1e4).round().div(1e4).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = project_folder()
    parser.add_argument("--model", type=Path, default=folder / CAPTIONS_MODEL)
    parser.add_argument("--out", type=Path, default=folder / "results" / "heads.json")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    translator = load_translator(arguments.model, "cpu")
    test = load_pairs(translator.config, "test")
    weights = (arguments.model / "model.safetensors").read_bytes()
    result = {
        **describe_environment(),
        "weights": fingerprint(weights),
        "sentences": len(test),
        **importance(translator, test),
        "alignment": alignment(translator),
    }
    write_json(arguments.out, result)
    log(f"Wrote {arguments.out}; `make notebooks` shows it in chapter 5.")


if __name__ == "__main__":
    main()
