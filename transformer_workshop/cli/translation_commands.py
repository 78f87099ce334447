"""What do `translate`, `attend` and `export` do?"""

from __future__ import annotations

import codecs
import dataclasses
import os
import sys
from argparse import Namespace
from pathlib import Path

from annotated_transformer import DataError
from transformer_workshop.base.config import SEARCH
from transformer_workshop.base.files import check_writable, log
from transformer_workshop.base.shipped_models import INSTALLED_MODEL, model_folder
from transformer_workshop.base.text_files import decode_line
from transformer_workshop.cli.lines import encode_or_refuse, lines_named, standard_input
from transformer_workshop.models.export import (
    export_to_ctranslate2,
    is_exported,
    load_exported,
)
from transformer_workshop.models.speed import share_one_heap
from transformer_workshop.models.translator import (
    Notes,
    Translator,
    load_translator,
)
from transformer_workshop.pictures.attention_maps import explain
from transformer_workshop.text.spelling import one_line


def load_model(arguments: Namespace, needs_weights: bool = False) -> Translator:
    """Load the translator that --model names, with the flags' search settings.

    From then on, --model is its folder, if it was the name of a model of ours.
    Raises DataError if ``needs_weights`` is set but the model is an exported one.
    """
    folder = arguments.model
    if folder.name == INSTALLED_MODEL:
        log(
            "Using the captions model: it knows about 1,000 German words and can only "
            "translate simple picture captions. Name another model with --model."
        )
    arguments.model = folder = model_folder(folder)
    exported = is_exported(folder)
    if exported and needs_weights:
        what = "is an exported model, whose weights only its engine can read"
        raise DataError(folder, what, "Name the folder it was exported from.")
    load = load_exported if exported else load_translator
    translator = load(folder, arguments.device)
    if not exported and not (folder / "model.safetensors").exists():
        log(f"{folder}: training isn't finished; using its best model so far")
    given = {name: getattr(arguments, name) for name in SEARCH if name in arguments}
    translator.config = dataclasses.replace(translator.config, **given)
    adapts = translator.adapts("by_sentence") or translator.adapts("respell")
    if "source_language" in given and not adapts:
        log("--source-language: changes nothing without --by-sentence or --respell")
    return translator


def note_if_uncalibrated(folder: Path, translator: Translator) -> None:
    """Say so if doubtful translations can't be told from others."""
    if translator.threshold is None:
        what = "not calibrated, so few bad translations get a note; run `calibrate`"
        log(f"{folder}: {what}")


_UTF16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE  # how such a text begins


def translate_command(arguments: Namespace) -> int:
    """Translate the sentences or files in the arguments, or standard input.

    Return 1 if a line was refused or, with --strict, if one is not to be relied on.
    """
    share_one_heap()  # otherwise a long text would take more and more memory
    given: list[bytes] = []
    if arguments.sentences != ["-"]:  # line by line, as they arrive
        for sentence in arguments.sentences:
            given += lines_named(sentence)
        if arguments.sentences and not given:
            return 0  # from empty files
    translator = load_model(arguments)
    if arguments.strict and translator.threshold is None:
        what = "is not calibrated, so --strict can't tell what not to rely on"
        raise DataError(arguments.model, what, "Run `calibrate` first.")
    note_if_uncalibrated(arguments.model, translator)
    notes = Notes(translator)
    refused = False
    for lines in [given] if given else standard_input():
        if notes.lines == 0 and lines[0].startswith(_UTF16):
            do = "Save it as UTF-8, or pipe it through `iconv -f UTF-16 -t UTF-8`."
            raise DataError("input", "is UTF-16", do)
        numbered = enumerate(lines, notes.lines + 1)
        encoded = [encode_or_refuse(notes, i, line) for i, line in numbered]
        refused = refused or None in encoded
        translated = translator.translate_ids([rows or [] for rows in encoded])
        notes.add(translated)
        for translation in translated:
            sys.stdout.buffer.write(one_line(translation.text).encode() + b"\n")
        sys.stdout.buffer.flush()
    notes.close()
    return 1 if refused or (arguments.strict and notes.doubtful) else 0


def attend_command(arguments: Namespace) -> int:
    """Write the page of ``explain`` for the sentences; print their translations."""
    given: list[bytes] = []
    for text in arguments.sentences:
        given += sum(standard_input(), []) if text == "-" else [os.fsencode(text)]
    sentences = [decode_line("sentence", i, line) for i, line in enumerate(given, 1)]
    if Path(arguments.out).suffix not in (".html", ".htm"):
        what = "is not the name of a web page"
        raise DataError(arguments.out, what, "Let it end in .html.")
    translator = load_model(arguments, needs_weights=True)
    check_writable(arguments.out)
    note_if_uncalibrated(arguments.model, translator)
    explanation = explain(translator, *sentences)
    explanation.save(arguments.out)
    for text in explanation.translations:
        sys.stdout.buffer.write(f"{text}\n".encode())
    log(f"{arguments.out}: open it in a browser; it needs no network.")
    return 0


def export_command(arguments: Namespace) -> int:
    """Write a model to a folder that an inference engine can load."""
    translator = load_model(arguments, needs_weights=True)
    export_to_ctranslate2(translator, arguments.out, arguments.quantization)
    log(f"The model is in {arguments.out}. Try `translate --model {arguments.out}`.")
    return 0
