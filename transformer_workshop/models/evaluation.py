"""How good are a model's translations, and which are not to be relied on?"""

from __future__ import annotations

import itertools
import json
import math
import operator
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from annotated_transformer import DataError, Example, optional_import, score
from transformer_workshop.base.files import log, write_atomically
from transformer_workshop.models.translator import Translator
from transformer_workshop.text.spelling import one_line


def choose_tokenizer(references: Sequence[str]) -> str:
    """Return sacreBLEU's tokenizer for the script in which most letters are.

    13a, for words between spaces; zh; ja-mecab and ko-mecab if their packages are
    installed; char for what is left of the languages without spaces.
    """
    letters = [c for c in itertools.chain.from_iterable(references) if c.isalpha()]
    scripts = Counter(unicodedata.name(c, "?").split()[0] for c in letters)
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    most = len(letters) / 2
    if kana + scripts["CJK"] > most:
        chosen = "ja-mecab" if kana > len(letters) / 20 else "zh"
    elif scripts["HANGUL"] > most:
        chosen = "ko-mecab"
    else:
        unspaced = sum(scripts[s] for s in ("THAI", "LAO", "KHMER", "MYANMAR"))
        return "char" if unspaced > most else "13a"
    return chosen if _can_use(chosen) else "char"


def _can_use(tokenizer: str) -> bool:
    """Return whether the package that a tokenizer of sacreBLEU needs is installed."""
    package = {"ja-mecab": "MeCab", "ko-mecab": "mecab_ko"}.get(tokenizer)
    return package is None or find_spec(package) is not None


def evaluate(
    translator: Translator, pairs: Sequence[tuple[str, str]],
    beam_size: int | None = None, length_penalty: float | None = None,
    tokenize: str | None = None, out: str | Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Translate the source side of pairs and score it against the target side.

    ``tokenize`` names sacreBLEU's tokenizer; without it, ``choose_tokenizer`` does.
    ``out``: a file for the translations, one a line. Return what ``score`` returns,
    plus chrF against the sources, which shows what was only copied, and the seconds
    spent translating. A pair is named and not scored if a side is blank or the source
    can't be translated. Raises DataError if none is left, if a package is missing,
    and if ``out`` can't be written, with the scores in a note.
    """
    if tokenize and not _can_use(tokenize):
        do = f'Install it: pip install "sacrebleu[{tokenize[:2]}]".'
        raise DataError(f"tokenize={tokenize}", "needs a package that is missing", do)
    started = time.perf_counter()
    encoded: dict[int, list[list[int]]] = {}  # by the number of the pair
    refused = []
    for number, (src, tgt) in enumerate(pairs, 1):
        try:
            rows = translator.encode_line(src)
            if rows and tgt.strip():
                encoded[number] = rows
            else:
                refused.append(f"pair {number}: a side is blank. Not scored.")
        except DataError as error:
            refused.append(f"pair {number}: {error.what}. Not scored.")
    if not encoded:
        what = "there is no pair that can be scored"
        raise DataError("evaluate", what, "Give sentences and their translations.")
    for line in refused[:_SHOWN]:
        log(line)
    if len(refused) > _SHOWN:
        log(f"{len(refused)} of {len(pairs)} pairs are not scored.")
    results = translator.translate_ids([*encoded.values()], beam_size, length_penalty)
    translations = [result.text for result in results]
    seconds = time.perf_counter() - started
    failure = None  # to write: the scores come first
    if out is not None:
        lines = [""] * len(pairs)
        for number, text in zip(encoded, translations, strict=True):
            lines[number - 1] = one_line(text)
        try:
            write_atomically(out, "".join(f"{line}\n" for line in lines).encode())
        except DataError as error:
            failure = error
    sources, references = zip(*(pairs[number - 1] for number in encoded))
    scores = score(translations, references, tokenize or choose_tokenizer(references))
    copied = optional_import("sacrebleu").corpus_chrf(translations, [sources]).score
    result = {
        **scores, "chrf_source": round(copied, 2), "seconds": round(seconds, 1)
    }  # fmt: skip
    if failure:
        failure.add_note(json.dumps(result, ensure_ascii=False))
        raise failure
    return result


_SHOWN = 10  # pairs that are not scored
GOOD_CHRF = 30  # a model below it seldom translates a sentence right
_PERFECT_CHRF = 99


def calibrate(
    translator: Translator, pairs: Sequence[tuple[str, str]], share: float = 0.05
) -> dict[str, Any]:
    """Choose the confidence below which a translation is not to be relied on.

    A ``share`` of the translations of pairs falls below it or, if they are nearly all
    right, none. Return it together with chrF below and above it. Raises DataError where
    a threshold would mislead: for fewer than 100 pairs, for a model whose translations
    are nearly all wrong, and if those below it are no worse than the others.
    """
    if len(pairs) < 100:
        few = f"{share * len(pairs):.0f} of their translations would be below it"
        what = f"{len(pairs)} pairs are too few to choose a threshold: {few}"
        raise DataError("calibrate", what, "Use 100 or more.")
    translations = translator.translations([src for src, _ in pairs])
    ranked = sorted(
        (translation.confidence, translation.text, reference)
        for translation, (_, reference) in zip(translations, pairs, strict=True)
    )

    def chrf_of(some: list[tuple[float, str, str]]) -> float:
        return score([text for _, text, _ in some], [ref for *_, ref in some])["chrf"]

    for part in (share, 0.0):
        threshold = math.floor(1000 * ranked[int(part * len(ranked))][0]) / 1000
        count = sum(confidence < threshold for confidence, *_ in ranked)
        below = chrf_of(ranked[:count]) if count else None
        above = chrf_of(ranked[count:])
        if min(above, above if below is None else below) <= _PERFECT_CHRF:
            break
    at_hand, do = f"chrF {below} below {threshold}, {above} above", ""
    if above < GOOD_CHRF:
        at_hand = f"the model translates too badly (chrF {above})"
        do = "Train it longer."
    elif part and (below is None or below >= above):
        do = "Confidence says nothing about this model's translations."
    if do:
        raise DataError("calibrate", f"chooses no threshold: {at_hand}", do)
    return {
        "threshold": threshold, "share": part, "sentences": len(pairs),
        "chrf_below": below, "chrf_above": above,
    }  # fmt: skip


_JUDGED = 100  # validation pairs that are translated
_WORST = 5  # of them that are shown
_ENOUGH = 30  # to say that a model is usable
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
    """Say on standard error what a trained model is worth, with its worst translations.

    ``records``: its epochs' metrics, which may show that it trained for too long.
    """
    text, some = translator.text, valid[:_JUDGED]
    guess = unigram_perplexity(train, valid, len(text.vocab_tgt))
    decoded = translator.decode([src for src, _ in some], beam_size=1)
    outputs = [text.decode(ids) for ids, _ in decoded]
    references = [text.decode(tgt[1:-1]) for _, tgt in some]
    chrf = score(outputs, references)["chrf"]
    exact = sum(map(operator.eq, outputs, references))
    share = optional_import("scipy.stats").binomtest(exact, len(some))
    low, high = share.proportion_ci(method="wilson")
    log(
        f"On validation: perplexity {perplexity:.2f} (from word frequencies alone: "
        f"{guess:.1f}). Of {len(some)} greedy translations, {exact} are exactly the "
        f"reference (of all such lines, {low:.0%} to {high:.0%} with 95% confidence); "
        f"chrF {chrf:.1f} of 100. The worst:"
    )
    sentence_chrf = optional_import("sacrebleu").sentence_chrf
    scores = [
        sentence_chrf(output, [reference]).score
        for output, reference in zip(outputs, references, strict=True)
    ]
    for i in sorted(range(len(some)), key=scores.__getitem__)[:_WORST]:
        tokens = text.vocab_src.tokens(some[i][0][1:-1])
        source = text.tokenizer_src.detokenize(tokens)
        log(f"  {source} → {outputs[i]} (reference: {references[i]})")
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
    elif len(some) < _ENOUGH:
        log(f"{len(some)} lines can't tell whether it is usable: read more of them.")
