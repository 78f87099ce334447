"""How do pairs of sentences become ids?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from annotated_transformer import (
    UNK,
    BytePairEncoding,
    DataError,
    Example,
    Text,
    Vocabulary,
    WordTokenizer,
)
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import log, read_json, reported


def pack_text(text: Text) -> dict[str, Any]:
    """Return the vocabularies, and the byte-pair merges if any, ready for JSON."""
    merges = None
    if isinstance(text.tokenizer_src, BytePairEncoding):  # the same on both sides
        merges = json.loads(text.tokenizer_src.to_json())
    source, target = text.vocab_src.itos, text.vocab_tgt.itos
    return {"source": source, "target": target, "merges": merges}


def _vocabulary(tokens: list[str]) -> Vocabulary:
    """Return the vocabulary that a file holds; ValueError if it isn't one."""
    if not all(isinstance(token, str) for token in tokens):
        raise ValueError("a token is no text")
    try:
        return Vocabulary(tokens)
    except DataError as error:
        raise ValueError(f"the vocabulary {error.what}") from None


def load_text(folder: str | Path) -> Text:
    """Load the vocabularies and tokenizers from a folder."""
    path = Path(folder) / "vocabulary.json"
    packed, do = read_json(path), "Restore it from a copy."
    # any error: tokenizers has no class of its own
    with reported(Exception, path, "was not written by this program ({})", do):
        source, target = (_vocabulary(packed[side]) for side in ("source", "target"))
        if packed["merges"] is None:
            return Text(source, target, WordTokenizer("de"), WordTokenizer("en"))
        bpe = BytePairEncoding.from_json(json.dumps(packed["merges"]))
        if bpe.get_itos() != source.itos:
            raise ValueError("vocabulary and merges do not belong together")
        return Text(source, target, bpe, bpe)


def word_vocabularies(
    pairs: Iterable[tuple[str, str]],
    spacy_de: WordTokenizer,
    spacy_en: WordTokenizer,
    min_freq: int = 2,
) -> tuple[Vocabulary, Vocabulary]:
    """Return source and target vocabulary of pairs, which are read only once."""
    german, english = Counter[str](), Counter[str]()
    for src, tgt in pairs:
        german.update(spacy_de.tokenize(src))
        english.update(spacy_en.tokenize(tgt))
    return Vocabulary.build(german, min_freq), Vocabulary.build(english, min_freq)


def prepare_text(
    pairs: Iterable[tuple[str, str]], bpe_size: int = 0, min_freq: int = 2
) -> Text:
    """Build the vocabularies and tokenizers, from training pairs alone.

    By words for German and English, or, with ``bpe_size``, by subwords that
    both sides share, for any pair of languages.
    """
    if bpe_size:
        sentences = (sentence for src, tgt in pairs for sentence in (src, tgt))
        bpe = BytePairEncoding.train(sentences, bpe_size)
        vocab = Vocabulary(bpe.get_itos())
        return Text(vocab, vocab, bpe, bpe)
    words = WordTokenizer("de"), WordTokenizer("en")
    return Text(*word_vocabularies(pairs, *words, min_freq), *words)


def text_of(config: TrainingConfig, pairs: Iterable[tuple[str, str]] = ()) -> Text:
    """Return a new run's text: that of its store or ``init``, or learned from pairs."""
    if known := config.store or config.init:
        return load_text(known)
    return prepare_text(pairs, config.bpe_size, config.min_freq)


_MANY_UNKNOWN = 0.02  # share of a side's tokens


def report_unknown(examples: Sequence[Example]) -> None:
    """Warn if many tokens in the validation split are unknown."""
    for side, rows in zip(("source", "target"), zip(*examples), strict=True):
        tokens = sum(len(ids) - 2 for ids in rows)
        share = sum(ids.count(UNK) for ids in rows) / tokens
        if share > _MANY_UNKNOWN:
            log(
                f"valid: {share:.1%} of the {side} tokens are unknown words (<unk>). "
                "Perplexity looks better than it is; use subwords (bpe_size), or "
                "more text."
            )


def report_left_out(split: str, left_out: int, pairs: int, max_tokens: int) -> None:
    """Report how many pairs were too long; raise DataError if none is left."""
    if left_out:
        reason = f"longer than max_tokens={max_tokens}"
        log(f"{split}: left out {left_out} of {pairs} pairs, {reason}")
    if left_out == pairs:
        what = "holds no pair that is short enough"
        raise DataError(f"{split} split", what, "Raise max_tokens.")
