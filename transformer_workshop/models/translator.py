"""How does a finished model translate, and when does it doubt?"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import itertools
import math
import operator
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from annotated_transformer import (
    END,
    PAD,
    START,
    UNK,
    DataError,
    EncoderDecoder,
    Text,
    beam_search,
    check_sizes,
    in_mode,
    length_normalized,
    optional_import,
    padded,
    token_budget_batches,
)
from transformer_workshop.base.config import TrainingConfig, load_config
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import (
    load_state,
    load_tensors,
    log,
    read_json,
    reported,
    save_tensors,
    write_json,
)
from transformer_workshop.base.machine import choose_device, describe_environment
from transformer_workshop.base.shipped_models import (
    REPOSITORY_MODELS,
    model_folder,
    our_models,
)
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.speed import map_in_threads, optimize_for_cpu
from transformer_workshop.text.encoding import load_text, pack_text
from transformer_workshop.text.spelling import respell, split_sentences, tidied


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

    The name of a model that comes with the project does, too, such as "captions".
    Its model is in evaluation mode, and optimized for speed (chapter 93) unless
    ``optimize`` is False.
    Raises DataError if the folder contains no model, or a damaged one.
    """
    folder = model_folder(folder)
    _weights_in(folder)  # an error if there are none
    config, text = load_config(folder), load_text(folder)
    where, what = folder / "config.json", "describes no model ({})"
    with reported(ValueError, where, what, "Restore it."):
        model = build_model(config, text.vocab_src, text.vocab_tgt)
    load_weights(model, folder)
    model.to(choose_device(device)).eval()
    if optimize:
        optimize_for_cpu(model)
    return Translator(model, text, config, load_threshold(folder))


def _weights_in(folder: Path) -> Path:
    """Return the file with a model's or an unfinished run's best weights."""
    files = [folder / f"{name}.safetensors" for name in ("model", "best")]
    if file := next(filter(Path.exists, files), None):
        return file
    what = "holds no trained model" if folder.is_dir() else "is not a folder"
    do = "Name the folder of a trained model"
    if others := sorted(folder.parent.glob("*/model.safetensors")):
        do += f", such as {', '.join(str(path.parent) for path in others)}"
    weights = {name: path / "model.safetensors" for name, path in our_models().items()}
    ours = [name for name, path in weights.items() if path.exists()]
    if ours:
        do += f", or one that comes with the project: {', '.join(ours)}"
    do += "."
    if len(folder.parts) == 1 and not folder.is_dir():
        for near in difflib.get_close_matches(folder.name.lower(), ours, 1):
            do = f"Did you mean {near}? {do}"
        if folder.name in REPOSITORY_MODELS:
            what = "isn't installed with the package"
            do = f"Clone the repository, and name its folder models/{folder.name}."
    if (home := project_folder()).is_file():
        do += f" (From the zip file {home.name}, none can be read: install it.)"
    if (folder / "model.bin").exists():
        what, do = "holds an exported model", "Load it with load_exported."
    raise DataError(folder, what, do)


def load_weights(model: EncoderDecoder, folder: str | Path) -> None:
    """Load a folder's weights into a model; DataError if they don't fit it."""
    file = _weights_in(Path(folder))
    load_state(model, load_tensors(file), file)


Decoded = tuple[list[int], float]  # a translation's ids and its confidence


class Translation(NamedTuple):
    """A line's translation, and how sure the model is of it."""

    text: str
    confidence: float  # geometric mean of the tokens' probabilities; 1 if blank
    fault: str = ""  # what is wrong with it, however sure the model is


_LONGEST = 3, 20  # an output has at most 3 times its source's tokens, and 20 more


def _repeats(tokens: Sequence) -> bool:
    """Return whether one to three tokens come three times running, or more twice."""
    for width in range(1, min(30, len(tokens) // 2) + 1):
        equal, needed = 0, width * (2 if width < 4 else 1)
        for before, now in zip(tokens, tokens[width:]):
            equal = equal + 1 if before == now else 0
            if equal == needed:
                return True
    return False


# Words that negate in German, and what can stand for them in English
_NEGATIVES = re.compile(
    r"\b(kein\w*|nichts?|nie|niemals|niemand\w*|nirgend\w*|ohne|weder)\b", re.I
)


_NEGATIVES_IN_ENGLISH = re.compile(
    r"\b(not?|none|nobody|nothing|nowhere|never|neither|nor|cannot|without)\b"
    r"|n['’]t\b|less\b|\bbare",  # isn't, shirtless, barefoot
    re.I,
)


# German numbers, and what can stand for them in English
_NUMBERS = {
    german: re.compile(rf"\b({english}|{number})\b", re.I)
    for number, (german, english) in enumerate({
        "zwei": "two|both|couple|pair|second", "drei": "three|third",
        "vier": "four|fourth", "fünf": "five|fifth", "sechs": "six", "sieben": "seven",
        "acht": "eight", "neun": "nine", "zehn": "ten", "elf": "eleven",
        "zwölf": "twelve|dozen", "dreizehn": "thirteen", "vierzehn": "fourteen",
        "fünfzehn": "fifteen", "sechzehn": "sixteen", "siebzehn": "seventeen",
        "achtzehn": "eighteen", "neunzehn": "nineteen", "zwanzig": "twenty",
    }.items(), start=2)
}  # fmt: skip
_NUMBERS_IN_GERMAN = re.compile(rf"\b({'|'.join(_NUMBERS)})\b", re.I)


@dataclasses.dataclass
class Translator:
    """A model and its text: sentences in, translations out."""

    model: EncoderDecoder
    text: Text
    config: TrainingConfig
    threshold: float | None = None  # don't rely on a translation less confident

    @property
    def language(self) -> str:
        """The code of the source language; xx if it is unknown."""
        known = "xx" if self.config.dataset == "files" else "de"
        return self.config.source_language or known

    def encode(self, sentence: str) -> list[int]:
        """Return a sentence's ids; DataError if the model can't take that many."""
        ids = self.text.encode(tidied(sentence))
        if len(ids) > self.config.max_tokens:
            what = f"has {len(ids)} tokens, the model takes {self.config.max_tokens}"
            raise DataError(f"sentence {sentence[:30]!r}…", what, "Split it.")
        return ids

    def encode_line(self, line: str) -> list[list[int]]:
        """Return the ids of each sentence of a line; a blank line has none.

        Raises DataError for half a character, which is one of the two surrogates that
        UTF-16 has for an emoji, and for a sentence that is too long.
        """
        if half := re.search("[\ud800-\udfff]", line):
            what = f"has half a character, {half[0]!r}"
            raise DataError("line", what, "Delete it, or read the text again.")
        return [self.encode(sentence) for sentence in self.sentences(line)]

    def unknown_words(self, line: str) -> list[str]:
        """Return the tokens of a line that the model reads as <unk>."""
        vocab, tokenizer = self.text.vocab_src, self.text.tokenizer_src
        tokens = map(tokenizer.tokenize, self.sentences(line))
        return [t for t in itertools.chain(*tokens) if vocab[t] == UNK]

    def translate(
        self, lines: Sequence[str],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[str]:  # fmt: skip
        """Return a translation for each line, in order; a blank one stays blank.

        Notes on standard error which not to rely on, as the command `translate` does.
        Raises DataError if a sentence is too long (see ``encode``).
        """
        encoded = self._encode_lines(lines)
        translations = self.translate_ids(encoded, beam_size, length_penalty)
        notes = Notes(self)
        for number, (line, rows) in enumerate(zip(lines, encoded, strict=True), 1):
            notes.add_unknown(number, line, rows)
        notes.add(translations)
        notes.close()
        return [translation.text for translation in translations]

    def translations(
        self, lines: Sequence[str],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[Translation]:  # fmt: skip
        """Return what ``translate`` does, with confidences and faults, and no notes."""
        encoded = self._encode_lines(lines)
        return self.translate_ids(encoded, beam_size, length_penalty)

    def _encode_lines(self, lines: Sequence[str]) -> list[list[list[int]]]:
        """Return the ids of each line's sentences; an error names the line."""
        if isinstance(lines, str):
            raise TypeError("lines is one string; give a list of lines: [line]")
        encoded = []
        for number, line in enumerate(lines, 1):
            if not isinstance(line, str):
                what = f"line {number} is {line!r:.40}, not a string"
                raise TypeError(f'{what}; leave it out, or give "" to keep its place')
            try:
                encoded.append(self.encode_line(line))
            except DataError as error:
                raise DataError(f"line {number}", error.what, error.do) from error
        return encoded

    def sentences(self, line: str) -> list[str]:
        """Return what the model reads of a line: its sentences, as it knows them.

        A model of a text of one's own reads the whole line as it is, apart from what
        ``tidied`` does to training text, too. The settings ``by_sentence`` and
        ``respell`` change that.
        """
        sentences = [tidied(line)]
        if self.adapts("by_sentence"):
            sentences = split_sentences(sentences[0], self.language)
        if self.adapts("respell"):
            sentences = [respell(s, self.text, self.language) for s in sentences]
        return [s for s in sentences if s]

    def adapts(self, setting: str) -> bool:
        """Return whether lines are changed by a setting, by_sentence or respell."""
        chosen = getattr(self.config, setting)
        return self.config.dataset != "files" if chosen is None else chosen

    def translate_ids(
        self, lines: Sequence[list[list[int]]],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[Translation]:  # fmt: skip
        """Translate lines, each given as the ids of its sentences, and join them.

        A line is as trustworthy as its least certain sentence.
        """
        rows = [ids for line in lines for ids in line]
        decoded = iter(self.decode(rows, beam_size, length_penalty))
        translations = []
        for line in lines:
            parts = list(islice(decoded, len(line)))
            text = " ".join(self.text.decode(ids) for ids, _ in parts)
            text = unicodedata.normalize("NFC", re.sub("(?<=[。！？]) ", "", text))
            confidence = min((confidence for _, confidence in parts), default=1.0)
            faults = (
                self.fault(row, ids) for row, (ids, _) in zip(line, parts, strict=True)
            )
            fault = next(filter(None, faults), "")
            translations.append(Translation(text, confidence, fault))
        return translations

    def fault(self, src: Sequence[int], output: Sequence[int]) -> str:
        """Return what shows that an output isn't a translation of src, or ""."""
        if _repeats(output) and not _repeats(src):
            return "it repeats itself"
        if len(output) >= self.limit(src) - 1:
            return f"it was cut after {len(output)} tokens"
        if 3 * len(output) < len(src) - 2:
            return "much of the source is missing"
        if 0 < self.config.longest < len(src) - 2:
            usual = f"training sentences have {self.config.longest} at most"
            return f"its source has {len(src) - 2} tokens, {usual}"
        if self.loses_negation(src, output):
            return "a negation of the source is missing from it"
        if self.loses_number(src, output):
            return "a number of the source is missing from it"
        return ""

    @property
    def from_german(self) -> bool:
        """Whether the model translates German into English, as ours do."""
        return self.config.dataset != "files" and self.language == "de"

    def loses_negation(self, src: Sequence[int], output: Sequence[int]) -> bool:
        """Return whether the German src has a negative word, the English output none.

        False for a model of other languages, or of unknown ones.
        """
        if not self.from_german or not _NEGATIVES.search(self._source(src)):
            return False
        return not _NEGATIVES_IN_ENGLISH.search(self.text.decode(output))

    def loses_number(self, src: Sequence[int], output: Sequence[int]) -> bool:
        """Return whether the German src has a number from 2 to 20, the output not.

        False for a model of other languages, or of unknown ones.
        """
        if not self.from_german:
            return False
        english = self.text.decode(output)
        return any(
            not _NUMBERS[found[0].lower()].search(english)
            for found in _NUMBERS_IN_GERMAN.finditer(self._source(src))
        )

    def _source(self, src: Sequence[int]) -> str:
        """Return the sentence that source ids stand for."""
        return self.text.tokenizer_src.detokenize(self.text.vocab_src.tokens(src))

    def doubt(self, confidence: float, fault: str = "") -> str | None:
        """Return why not to rely on a translation, or None if there is no reason."""
        why = fault
        if not why and self.threshold is not None and confidence < self.threshold:
            shown = math.floor(1000 * confidence) / 1000  # below the threshold, too
            why = f"confidence {shown:.3f}, below {self.threshold:.3f}"
        return f"don't rely on this translation ({why})" if why else None

    def limit(self, src: Sequence[int]) -> int:
        """Return how long an output for the ids src may be, with its start symbol."""
        factor, more = _LONGEST
        return min(factor * len(src) + more, self.config.max_tokens)

    def decode(
        self, rows: Sequence[list[int]],
        beam_size: int | None = None, length_penalty: float | None = None,
    ) -> list[Decoded]:  # fmt: skip
        """Return the ids of each row's best translation, and their confidence.

        All hypotheses of a batch, with padding, take at most ``config.batch_tokens``.
        """
        beam = self.config.beam_size if beam_size is None else beam_size
        alpha = self.config.length_penalty if length_penalty is None else length_penalty
        check_sizes(beam_size=beam)
        _check_ids(rows, len(self.text.vocab_src))
        work = functools.partial(
            self.decode_batch, beam_size=beam, length_penalty=alpha
        )
        lengths = [(len(row), 0) for row in rows]
        groups = token_budget_batches(lengths, self.config.batch_tokens // beam)[::-1]
        batches = [[rows[i] for i in group] for group in groups]  # the longest first
        by_row: dict[int, Decoded] = {}
        tqdm = optional_import("tqdm").tqdm
        with (
            self.evaluating(),  # once, not in each thread
            tqdm(total=len(rows), unit="sentence", leave=False, disable=None) as bar,
        ):
            decoded = map_in_threads(work, batches, self.device)
            for group, outputs in zip(groups, decoded, strict=True):
                if any(math.isnan(confidence) for _, confidence in outputs):
                    do = "Load a checkpoint from before its training failed."
                    raise DataError("model", "computes NaN as probabilities", do)
                by_row.update(zip(group, outputs, strict=True))
                bar.update(len(group))
        return [by_row[i] for i in range(len(rows))]

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
        src, limits = padded(rows).to(self.device), [self.limit(row) for row in rows]
        outputs = beam_search(
            self.model, src, (src != PAD).unsqueeze(-2), limits, START,
            end_symbol=END, beam_size=beam_size, length_penalty=length_penalty,
        )  # fmt: skip
        decoded = []
        for (ids, rating), limit in zip(outputs, limits, strict=True):
            n = min(len(ids) + 1, limit - 1)  # tokens chosen: the end, too, if not cut
            # the rating is sum / penalty; dividing by n / penalty leaves the mean
            mean = rating / length_normalized(n, n, length_penalty)
            decoded.append((ids, math.exp(mean)))
        return decoded


class Notes:
    """Says on standard error which lines have unknown words or can't be relied on.

    The first ten of either kind are named, and more are only counted.
    """

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.lines = self.doubtful = self.strange = 0

    def add_unknown(self, number: int, line: str, rows: list[list[int]]) -> None:
        """Note a line's unknown words; ``rows`` are the ids of its sentences."""
        if any(UNK in ids for ids in rows):
            self.strange += 1
            if self.strange <= _NAMED:
                words = map(repr, self.translator.unknown_words(line))
                log(f"input, line {number}: unknown words: {', '.join(words)}")

    def add(self, translations: Iterable[Translation]) -> None:
        """Note which of the next lines not to rely on."""
        for translation in translations:
            self.lines += 1
            doubt = self.translator.doubt(translation.confidence, translation.fault)
            if doubt:
                self.doubtful += 1
                if self.doubtful <= _NAMED:
                    log(f"input, line {self.lines}: {doubt}")

    def close(self) -> None:
        """Say how many lines of the whole text they are, if not all were named."""
        if self.strange > _NAMED:
            log(f"input: {self.strange} lines have unknown words")
        if self.doubtful > _NAMED:
            count = f"{self.doubtful} of {self.lines} lines"
            log(f"input: don't rely on the translations of {count}")


_NAMED = 10  # lines with a note; then they are only counted


def _check_ids(rows: Sequence[Sequence[int]], known: int) -> None:
    """Raise ValueError unless rows are lists, not empty, of ids below ``known``."""
    try:
        right = all(
            len(row) > 0 and all(operator.index(i) in range(known) for i in row)
            for row in rows
        )
    except TypeError:  # no list, or no whole number in it
        right = False
    if not right:
        raise ValueError(
            "rows must be lists of ids, none of them empty, and "
            f"ids must be from 0 to {known - 1}, as in text.vocab_src"
        )
