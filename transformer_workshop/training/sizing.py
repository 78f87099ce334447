"""Which settings suit a text of one's own?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from annotated_transformer import SPECIALS, BytePairEncoding, Example, Text, lengths_of
from transformer_workshop.base.config import SCALES, TrainingConfig, scale_for

_CHARACTERS = 20  # of training text for each subword, at least


def fit_to_data(
    config: TrainingConfig, given: dict[str, Any], text: Text, train: Sequence[Example]
) -> TrainingConfig:
    """Choose settings by the size of a text of one's own.

    ``given``: settings that are fixed, among them the files. ``train``: the pairs as
    ids. The rest comes from ``SCALES``. A scale's updates set the epochs. The warm-up
    is a tenth of them, up to 400; the last fifth of the epochs, up to five, is
    averaged.
    """
    scale, bpe_size = scale_for(len(train)), config.bpe_size
    if config.store:
        subwords = isinstance(text.tokenizer_src, BytePairEncoding)
        bpe_size = len(text.vocab_src) if subwords else 0
    chosen = scale._asdict() | {"bpe_size": bpe_size} | given
    positions = sum(map(max, lengths_of(train)))
    window = chosen["batch_tokens"] * given.get("accum_iter", 1)
    updates = max(1, math.ceil(positions / window))  # of an epoch
    epochs = chosen.setdefault("epochs", max(1, round(scale.updates / updates)))
    chosen.setdefault("warmup", max(1, min(400, epochs * updates // 10)))
    chosen.setdefault("average", max(1, min(5, epochs // 5)))
    chosen.setdefault("tie", "all" if bpe_size else "none")
    chosen.setdefault("length_penalty", 1.0)
    chosen.setdefault("longest", max(len(src) - 2 for src, _ in train))
    del chosen["pairs"], chosen["updates"]
    return replace(config, **chosen)


def fit_subwords(pairs: Iterable[tuple[str, str]]) -> int:
    """Choose the number of subwords by the number of pairs and of characters."""
    lengths = [len(src) + len(tgt) for src, tgt in pairs]
    few = max(len(SPECIALS) + 256, sum(lengths) // _CHARACTERS)
    return min(scale_for(len(lengths)).bpe_size, few)


def list_choices(config: TrainingConfig, given: dict[str, Any]) -> str:
    """Return the settings that ``fit_to_data`` chose, as flags, a line each, or ""."""
    names = [*SCALES[0]._fields[1:-1], "epochs", "warmup", "average"]
    chosen = [name for name in names if name not in given]
    flags = (f"  --{n.replace('_', '-')} {getattr(config, n)}" for n in chosen)
    title = "Settings chosen by the number of training pairs:"
    return "\n".join([title, *flags]) if chosen else ""
