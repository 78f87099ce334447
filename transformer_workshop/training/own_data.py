"""Which settings suit a text of one's own, and what is the trained model worth?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from annotated_transformer import (
    SPECIALS,
    BytePairEncoding,
    Example,
    Text,
    lengths_of,
    score,
)
from transformer_workshop.base.files import log
from transformer_workshop.base.settings import (
    SCALES,
    TrainingConfig,
    scale_for,
)
from transformer_workshop.models.translator import GOOD_CHRF, Translator
from transformer_workshop.text.corpora import show_pairs, usual_ratio, with_faults

_SAMPLE = 2000  # pairs to compare the two languages in
_MANY = 0.02  # share of the training pairs with a fault
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


def report_on_pairs(
    train: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]]
) -> None:
    """Say how the training pairs begin, and what is odd about the validation pairs."""
    log(show_pairs(train))
    if _are_swapped(train[:_SAMPLE], valid[:_SAMPLE]):
        log("valid: its two languages look swapped; compare with the training pairs")
    usual = usual_ratio(train)
    faults = Counter(why for _, why in with_faults(train, usual))
    many = [why for why in sorted(faults) if why and faults[why] > _MANY * len(train)]
    if many:
        counts = ", ".join(f"{faults[why]} {why}" for why in many)
        log(
            f"train: of {len(train)} pairs, {counts}: `prepare --clean` leaves them out"
        )
    if faults := Counter(why for _, why in with_faults(valid, usual) if why):
        counts = ", ".join(f"{count} {why}" for why, count in faults.items())
        log(
            f"valid: of {len(valid)} pairs, {counts}: `prepare --clean --text FOLDER` "
            "writes the files without them"
        )
    known = set(valid).intersection(train)
    if copies := sum(pair in known for pair in valid):
        log(
            f"valid: {copies} of {len(valid)} pairs are training pairs, too: a model "
            "knows these, so its scores will be too good. Keep some pairs apart."
        )


def fit_subwords(pairs: Iterable[tuple[str, str]]) -> int:
    """Choose the number of subwords by the number of pairs and of characters."""
    lengths = [len(src) + len(tgt) for src, tgt in pairs]
    few = max(len(SPECIALS) + 256, sum(lengths) // _CHARACTERS)
    return min(scale_for(len(lengths)).bpe_size, few)


def _are_swapped(
    train: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]]
) -> bool:
    """Return whether each side of valid looks more like the other side of train.

    Counted are the letter triples of a side that occur in the training text.
    """

    def triples(sentences: Iterable[str]) -> Iterator[str]:
        return (s[i : i + 3] for s in sentences for i in range(len(s) - 2))

    src, tgt = (set(triples(side)) for side in zip(*train))
    straight = crossed = 0
    for side, own, other in zip(zip(*valid), (src, tgt), (tgt, src)):
        side_triples = list(triples(side))
        straight += sum(triple in own for triple in side_triples)
        crossed += sum(triple in other for triple in side_triples)
    return crossed > straight


def list_choices(config: TrainingConfig, given: dict[str, Any]) -> str:
    """Return the settings that ``fit_to_data`` chose, as flags, a line each, or ""."""
    names = [*SCALES[0]._fields[1:-1], "epochs", "warmup", "average"]
    chosen = [name for name in names if name not in given]
    flags = (f"  --{n.replace('_', '-')} {getattr(config, n)}" for n in chosen)
    title = "Settings chosen by the number of training pairs:"
    return "\n".join([title, *flags]) if chosen else ""


_JUDGED = 100  # validation pairs that are translated
_RISEN = 0.05  # nats above the lowest validation loss


def unigram_perplexity(
    train: Sequence[Example], valid: Sequence[Example], vocab_size: int
) -> float:
    """Return the perplexity of validation for a model that knows only frequencies.

    It counts target tokens in the training pairs (of many, the first 100,000), each of
    the vocabulary once more.
    """
    counts = Counter(token for _, tgt in islice(train, 100_000) for token in tgt[1:])
    total = counts.total() + vocab_size
    tokens = [token for _, tgt in valid for token in tgt[1:]]
    nats = -sum(math.log((counts[token] + 1) / total) for token in tokens)
    return math.exp(nats / len(tokens))


def report_worth(
    translator: Translator,
    train: Sequence[Example],
    valid: Sequence[Example],
    perplexity: float,
    records: Sequence[dict[str, Any]] = (),
) -> None:
    """Say on standard error what a trained model is worth, with three translations.

    ``records``: its epochs' metrics, which may show that it trained for too long.
    """
    text, some = translator.text, valid[:_JUDGED]
    guess = unigram_perplexity(train, valid, len(text.vocab_tgt))
    decoded = translator.decode([src for src, _ in some], beam_size=1)
    outputs = [text.decode(ids) for ids, _ in decoded]
    references = [text.decode(tgt[1:-1]) for _, tgt in some]
    chrf = score(outputs, references)["chrf"]
    log(
        f"On validation: perplexity {perplexity:.2f} (from word frequencies alone: "
        f"{guess:.1f}); chrF {chrf:.1f} of 100 for {len(some)} greedy translations, as"
    )
    for i in sorted({0, len(some) // 3, 2 * len(some) // 3}):
        source = text.vocab_src.tokens(some[i][0][1:-1])
        log(f"  {text.tokenizer_src.detokenize(source)} → {outputs[i]}")
    do = "; train it longer, or on more pairs"
    losses = [record["valid_nll"] for record in records]
    if losses and losses[-1] > min(losses) + _RISEN:
        best = losses.index(min(losses))
        log(
            f"Validation was best after epoch {best + 1} of {len(losses)}: perplexity "
            f"{records[best]['perplexity']:.2f}. Since then the model has memorized: "
            "use fewer epochs, more dropout, or more pairs."
        )
        do = ""
    if chrf < GOOD_CHRF or perplexity > guess:
        log(
            "It is not usable yet: look whether the lines of the two files belong "
            f"together{do}."
        )
