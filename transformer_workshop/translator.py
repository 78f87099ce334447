"""How does a finished model translate, and when does it doubt?"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from annotated_transformer import (
    END,
    PAD,
    START,
    UNK,
    DataError,
    EncoderDecoder,
    Text,
    Vocabulary,
    beam_search,
    in_mode,
    length_normalized,
    make_model,
    modernize,
    optional_import,
    padded,
    score,
    token_budget_batches,
)
from transformer_workshop.corpora import load_text, pack_text
from transformer_workshop.files import (
    load_state,
    load_tensors,
    read_json,
    reported,
    save_tensors,
    write_json,
)
from transformer_workshop.machine import choose_device, describe_environment
from transformer_workshop.settings import load_config
from transformer_workshop.speed import map_in_threads, optimize_for_cpu

if TYPE_CHECKING:
    from transformer_workshop.settings import TrainingConfig


def load_threshold(folder: str | Path) -> float | None:
    """Load the threshold that `calibrate` wrote to a folder; None if there is none."""
    path = Path(folder) / "confidence.json"
    if not path.exists():
        return None
    errors = KeyError, TypeError, ValueError
    do = "Run `calibrate` again, or delete the file."
    with reported(errors, path, "holds no threshold", do):
        return float(read_json(path)["threshold"])


def save_translator(folder: str | Path, translator: Translator) -> None:
    """Write what load_translator needs: configuration, text, weights."""
    folder, config = Path(folder), asdict(translator.config)
    settings = {"config": config, "starts": [describe_environment()]}
    write_json(folder / "config.json", settings)
    write_json(folder / "vocabulary.json", pack_text(translator.text))
    save_tensors(folder / "model.safetensors", translator.model.state_dict())


def load_translator(
    folder: str | Path, device: str = "auto", *, optimize: bool = True
) -> Translator:
    """Load a translator from a folder: the finished model, or a run's best so far.

    Its model is in evaluation mode, and optimized for speed (chapter 93) unless
    ``optimize`` is False.
    Raises DataError if the folder contains no model, or a damaged one.
    """
    folder = Path(folder)
    files = [folder / f"{name}.safetensors" for name in ("model", "best")]
    weights = next(filter(Path.exists, files), None)
    if weights is None:
        what = "holds no trained model" if folder.is_dir() else "is not a folder"
        do = "Train one with `train --run-dir`, or name its folder with --model."
        if others := sorted(folder.parent.glob("*/model.safetensors")):
            do += f" There are {', '.join(str(path.parent) for path in others)}."
        raise DataError(folder, what, do)
    config, text = load_config(folder), load_text(folder)
    where, what = folder / "config.json", "describes no model ({})"
    with reported(ValueError, where, what, "Restore it."):
        model = build_model(config, text.vocab_src, text.vocab_tgt)
    load_state(model, load_tensors(weights), weights)
    model.to(choose_device(device)).eval()
    if optimize:
        optimize_for_cpu(model)
    return Translator(model, text, config, load_threshold(folder))


def build_model(
    config: TrainingConfig, vocab_src: Vocabulary, vocab_tgt: Vocabulary
) -> EncoderDecoder:
    """Build the model that a configuration describes, with fresh weights."""
    model = make_model(
        len(vocab_src), len(vocab_tgt),
        config.N, config.d_model, config.d_ff, config.h, config.dropout,
        norm_first=config.norm_first, positions=config.positions,
        tie=config.tie, max_len=config.max_tokens,
    )  # fmt: skip
    if config.block == "2026":
        modernize(model, max_len=config.max_tokens)
    return model


@functools.cache
def _sentencizer() -> Any:
    """Return spaCy's rules for sentence ends; German abbreviations don't end one."""
    language = optional_import("spacy").blank("de")
    language.add_pipe("sentencizer")
    return language


def split_sentences(line: str) -> list[str]:
    """Split a line at its sentence ends; a blank line has no sentences."""
    if not re.search(r"[.!?]\S{0,9}\s+\S", line):
        return [line] if line.strip() else []
    sentences = (sentence.text for sentence in _sentencizer()(line).sents)
    return [sentence for sentence in sentences if sentence.strip()]


_TYPED = {"ae": "ä", "oe": "ö", "ue": "ü", "Ae": "Ä", "Oe": "Ö", "Ue": "Ü", "ss": "ß"}
_WORD = r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*"  # letters and combining marks


def respell(sentence: str, text: Text) -> str:
    """Return a sentence in the spelling that the model's vocabulary knows best.

    If the sentence is all capitals, or has none, each word gets ordinary case. German
    umlauts and ß that were typed as ae, oe, ue, and ss come back. Whatever the
    vocabulary knows as it is stays as it is.
    """
    recase = sentence.isupper() or sentence.islower()

    def cost(word: str) -> tuple[int, int, int]:
        ids = text.vocab_src(text.tokenizer_src.tokenize(word))
        return ids.count(UNK), len(ids), ids[0]  # frequent tokens have low ids

    def best(match: re.Match[str]) -> str:
        word = match[0]
        spellings = {word, word.lower(), word.capitalize()} if recase else {word}
        for typed, letter in _TYPED.items():
            spellings |= {spelling.replace(typed, letter) for spelling in spellings}
        if spellings == {word}:
            return word
        # if several cost the same, the word as typed
        chosen = min(spellings, key=lambda each: (cost(each), each != word, each))
        if recase:
            return chosen
        (unknown, tokens, _), (still_unknown, fewer, _) = cost(word), cost(chosen)
        # one subword less can be chance (ritüllen for rituellen); a known word isn't
        saved = 1 if fewer == 1 else 2
        better = still_unknown < unknown or tokens - fewer >= saved
        return chosen if better else word

    found = re.sub(_WORD, best, sentence)
    if recase and (first := re.search(_WORD, found)):
        capital = first[0].capitalize()
        unknown, tokens, _ = cost(capital)
        if not unknown and tokens <= cost(first[0])[1]:
            found = found.replace(first[0], capital, 1)
    return found


Decoded = tuple[list[int], float]  # a translation's ids and its confidence


class Translation(NamedTuple):
    """A line's translation, and how sure the model is of it."""

    text: str
    confidence: float  # geometric mean of the tokens' probabilities; 1 if blank


@dataclasses.dataclass
class Translator:
    """A model and its text: sentences in, translations out."""

    model: EncoderDecoder
    text: Text
    config: TrainingConfig
    threshold: float | None = None  # don't rely on a translation less confident

    def check(self, sentence: str, line: int | None = None) -> list[int]:
        """Return a sentence's ids; DataError if the model can't take that many.

        ``line`` is the number that the error mentions.
        """
        ids = self.text.encode(sentence)
        if len(ids) > self.config.max_tokens:
            what = f"has {len(ids)} tokens, the model takes {self.config.max_tokens}"
            where = f"sentence {sentence[:30]!r}…"
            where += "" if line is None else f" (line {line})"
            raise DataError(where, what, "Split it.")
        return ids

    def translate(
        self, lines: Sequence[str],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[str]:  # fmt: skip
        """Return a translation for each line, in order; a blank one stays blank.

        Raises DataError if a sentence is too long (see ``check``).
        """
        found = self.translations(lines, beam_size, length_penalty)
        return [translation.text for translation in found]

    def translations(
        self, lines: Sequence[str],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[Translation]:  # fmt: skip
        """Return what ``translate`` does, with confidences."""
        encoded = [
            [self.check(sentence, number) for sentence in self.sentences(line)]
            for number, line in enumerate(lines, 1)
        ]
        return self.translate_ids(encoded, beam_size, length_penalty)

    def sentences(self, line: str) -> list[str]:
        """Split a line, and spell its sentences as the model knows them."""
        return [respell(sentence, self.text) for sentence in split_sentences(line)]

    def translate_ids(
        self, lines: Sequence[list[list[int]]],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[Translation]:  # fmt: skip
        """Translate lines, each given as the ids of its sentences, and join them.

        A line is as trustworthy as its least certain sentence.
        """
        rows = [ids for line in lines for ids in line]
        decoded = iter(self.decode(rows, beam_size, length_penalty))
        found = []
        for line in lines:
            parts = list(islice(decoded, len(line)))
            text = " ".join(self.text.decode(ids) for ids, _ in parts)
            confidence = min((confidence for _, confidence in parts), default=1.0)
            found.append(Translation(text, confidence))
        return found

    def doubt(self, confidence: float) -> str | None:
        """Return why not to rely on a translation, or None if there is no reason."""
        if self.threshold is None or confidence >= self.threshold:
            return None
        limit = f"{confidence:.3f}, below {self.threshold:.3f}"
        return f"don't rely on this translation (confidence {limit})"

    def decode(
        self, rows: Sequence[list[int]],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[Decoded]:  # fmt: skip
        """Return the ids of each row's best translation, and their confidence.

        All hypotheses of a batch, with padding, take at most ``config.batch_tokens``.
        """
        beam = self.config.beam_size if beam_size is None else beam_size
        alpha = self.config.length_penalty if length_penalty is None else length_penalty
        work = functools.partial(
            self.decode_batch, beam_size=beam, length_penalty=alpha
        )
        lengths = [(len(row), 0) for row in rows]
        groups = token_budget_batches(lengths, self.config.batch_tokens // beam)[::-1]
        batches = [[rows[i] for i in group] for group in groups]  # the longest first
        found: dict[int, Decoded] = {}
        tqdm = optional_import("tqdm").tqdm
        with (
            self.evaluating(),  # once, not in each thread
            tqdm(total=len(rows), unit="sentence", leave=False, disable=None) as bar,
        ):
            decoded = map_in_threads(work, batches, self.device)
            for group, outputs in zip(groups, decoded, strict=True):
                found.update(zip(group, outputs, strict=True))
                bar.update(len(group))
        return [found[i] for i in range(len(rows))]

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.model.parameters()).device

    def evaluating(self) -> AbstractContextManager:
        """Return a context in which the model evaluates."""
        return in_mode(self.model, training=False)

    def decode_batch(
        self, rows: list[list[int]], beam_size: int, length_penalty: float
    ) -> list[Decoded]:
        """Do what ``decode`` does with all rows at once."""
        found, src = [], padded(rows).to(self.device)
        for ids, rating in beam_search(
            self.model, src, (src != PAD).unsqueeze(-2), self.config.max_tokens, START,
            end_symbol=END, beam_size=beam_size, length_penalty=length_penalty,
        ):  # fmt: skip
            n = self.length(ids)
            # the rating is sum / penalty; dividing by n / penalty leaves the mean
            mean = rating / length_normalized(n, n, length_penalty)
            found.append((ids, math.exp(mean)))
        return found

    def length(self, ids: Sequence) -> int:
        """Return how many tokens a search chose: the end, too, unless it was cut."""
        return min(len(ids) + 1, self.config.max_tokens - 1)


def evaluate(
    translator: Translator, pairs: Sequence[tuple[str, str]],
    beam_size: int | None = None, length_penalty: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Translate the source side of pairs and score it against the target side.

    Return what ``score`` returns, plus the seconds spent translating.
    """
    started = time.perf_counter()
    sources = [src for src, _ in pairs]
    translations = translator.translate(sources, beam_size, length_penalty)
    seconds = time.perf_counter() - started
    scores = score(translations, [tgt for _, tgt in pairs])
    return {**scores, "seconds": round(seconds, 1)}


def calibrate(
    translator: Translator, pairs: Sequence[tuple[str, str]], share: float = 0.05
) -> dict[str, Any]:
    """Choose the confidence below which a translation is not to be relied on.

    A ``share`` of the translations of pairs falls below it. Return it together with
    chrF below and above it, which differ if the confidence means something.
    Raises DataError for fewer than 100 pairs.
    """
    if len(pairs) < 100:
        what = f"{len(pairs)} pairs are too few to choose a threshold"
        raise DataError("calibrate", what, "Use 100 or more.")
    found = translator.translations([src for src, _ in pairs])
    ranked = sorted(translation.confidence for translation in found)
    threshold = math.floor(1000 * ranked[int(share * len(ranked))]) / 1000
    outputs: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for translation, (_, reference) in zip(found, pairs, strict=True):
        below = translation.confidence < threshold
        outputs[below].append((translation.text, reference))
    chrf = {
        name: score(*map(list, zip(*some)))["chrf"] if some else None
        for name, some in (
            ("chrf_below", outputs[True]),
            ("chrf_above", outputs[False]),
        )
    }
    return {"threshold": threshold, "share": share, "sentences": len(pairs), **chrf}
