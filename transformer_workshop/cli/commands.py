"""What does each command do?"""

from __future__ import annotations

import codecs
import dataclasses
import datetime
import hashlib
import json
import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import torch

from annotated_transformer import UNK, DataError, optional_import
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import (
    append_line,
    check_writable,
    log,
    report_unwritable,
    write_json,
)
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.base.settings import (
    INSTALLED_MODEL,
    SEARCH,
    SIZES,
    TrainingConfig,
    choose_config,
    load_config,
    model_folder,
)
from transformer_workshop.base.text_files import decode_line
from transformer_workshop.lab.comparison import report
from transformer_workshop.models.engine import (
    export_to_ctranslate2,
    is_exported,
    load_exported,
)
from transformer_workshop.models.speed import share_one_heap
from transformer_workshop.models.translator import (
    Translator,
    calibrate,
    choose_tokenizer,
    evaluate,
    load_translator,
)
from transformer_workshop.pictures.attention import explain
from transformer_workshop.text.corpora import (
    load_pairs,
    prepare_store,
    read_pairs,
    stream_parallel,
    write_splits,
)
from transformer_workshop.text.spelling import one_line
from transformer_workshop.text.tables import column_of, stream_text
from transformer_workshop.training.loop import (
    claim_folder,
    is_finished,
    is_out_of_memory,
    raise_on_signal,
    resume_hint,
    starts_so_far,
    train_set_up,
)
from transformer_workshop.training.own_data import fit_subwords
from transformer_workshop.training.set_up import set_up


def given_settings(arguments: Namespace) -> dict[str, Any]:
    """Return the settings that were given as flags."""
    names = {field.name for field in dataclasses.fields(TrainingConfig)}
    return {name: value for name, value in vars(arguments).items() if name in names}


def as_flags(message: str) -> str:
    """Return a message with the settings that it names, as in `run_dir`, as flags."""
    names = {field.name for field in dataclasses.fields(TrainingConfig)}
    names |= {"restart", "clean", "text", "workers"}
    return re.sub(
        r"`(\w+)`",
        lambda m: f"--{m[1].replace('_', '-')}" if m[1] in names else m[0],
        message,
    )


def train_command(arguments: Namespace) -> int:
    """Train, or resume the run in the folder; return the exit status."""
    restart, given = arguments.restart, given_settings(arguments)
    if "init" in given:
        sizes = vars(load_config(given["init"]))
        given = {name: sizes[name] for name in SIZES} | given
    config = choose_config(arguments.config, **given)
    folder = Path(config.run_dir)
    if "RANK" in os.environ and "LOCAL_RANK" not in os.environ:
        what = "is set, but LOCAL_RANK isn't"
        raise DataError("RANK", what, "Start with torchrun, or unset RANK.")
    with report_unwritable(folder):  # its name may be too long
        begun = not restart and (folder / "config.json").exists()
    if begun and not arguments.config:  # its own settings, apart from the flags
        config = dataclasses.replace(
            load_config(folder), **{"run_dir": str(folder)} | given
        )
    if begun and not os.access(folder, os.W_OK):  # nobody can train or claim it
        starts_so_far(config)  # an error if they are another configuration's
        if _is_done(config):
            return 0
    fits = not (begun or arguments.config) and config.dataset == "files"
    claim = nullcontext() if arguments.dry_run else claim_folder(folder)
    try:
        with raise_on_signal(), claim:
            starts = starts_so_far(config, restart)
            if not restart and _is_done(config):
                return 0
            setup = set_up(config, starts, given=given if fits else None)
            if arguments.dry_run:
                return 0
            train_set_up(setup, restart, report=True)
    except KeyboardInterrupt as stop:
        log(f"Stopped. {as_flags(resume_hint(folder))}")
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    log(f"The model is in {folder}. `translate --model {folder}` uses it.")
    return 0


def _is_done(config: TrainingConfig) -> bool:
    """Return whether a configuration's run is finished, and say so if it is."""
    if not is_finished(config):
        return False
    do = f"`translate --model {config.run_dir}` uses it; --restart starts over."
    log(f"{Path(config.run_dir)}: this run is finished. {do}")
    return True


def prepare_command(arguments: Namespace) -> int:
    """Write the training pairs to --store as ids, or all pairs to --text as text."""
    if arguments.workers < 1:
        raise DataError("--workers", f"is {arguments.workers}", "Use 1 or more.")
    given = given_settings(arguments)
    config = choose_config(arguments.config, **given)
    if arguments.text:
        if config.store:
            do = "Give one; --store can be made from what --text has written."
            raise DataError("prepare", "is given --text and --store", do)
        write_splits(config, arguments.text, arguments.clean)
        return 0
    src, tgt = config.train_src, config.train_tgt
    if not arguments.config and "bpe_size" not in given and src and tgt:
        bpe_size = fit_subwords(stream_parallel(src, tgt, arguments.clean))
        config = dataclasses.replace(config, bpe_size=bpe_size)
    prepare_store(config, arguments.workers, arguments.clean)
    return 0


def _load_model(arguments: Namespace, needs_weights: bool = False) -> Translator:
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


def _note_if_uncalibrated(folder: Path, translator: Translator) -> None:
    """Say so if doubtful translations can't be told from others."""
    if translator.threshold is None:
        what = "not calibrated, so few bad translations get a note; run `calibrate`"
        log(f"{folder}: {what}")


def read_available_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield a stream's lines as they arrive, as many at a time as are available."""
    begun = bytearray()  # a line that has not ended yet
    while data := stream.read1(8192):  # type: ignore[attr-defined]
        *lines, last = data.split(b"\n")
        if lines:
            lines[0] = bytes(begun) + lines[0]
            begun.clear()
            yield lines
        begun += last
    if begun:
        yield [bytes(begun)]


def standard_input() -> Iterator[list[bytes]]:
    """Yield the lines of standard input as they arrive."""
    return read_available_lines(sys.stdin.buffer)


def encode_line(
    translator: Translator, number: int, line: bytes
) -> list[list[int]] | None:
    """Return the ids of a line's sentences, or None (with a note) if it is refused."""
    longest, text = translator.config.max_tokens, translator.text
    try:
        if len(line) > 1000 * longest:  # slow to tokenize, and refused anyway
            what = f"has {len(line):,} bytes, the model takes {longest} tokens"
            raise DataError("input", what, "Split it.")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        sentences = translator.sentences(decode_line("input", number, line))
        rows = [translator.check(sentence) for sentence in sentences]
    except DataError as error:
        log(f"input, line {number}: {error.what}. {error.do} Left empty.")
        return None
    if any(UNK in ids for ids in rows):
        tokens = sum(map(text.tokenizer_src.tokenize, sentences), [])
        unknown = [repr(token) for token in tokens if text.vocab_src[token] == UNK]
        log(f"input, line {number}: unknown words: {', '.join(unknown)}")
    return rows


_NOTES = 10  # about single lines; then they are only counted
_UTF16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE  # how such a text begins


def lines_named(argument: str) -> list[bytes]:
    """Return the lines that an argument stands for: a file's, or itself as a sentence.

    Only what exists is a file or a table's column; "-" is standard input. A note says
    what was taken for the other one of the two, if that is not obvious.
    """
    if argument == "-":
        return sum(standard_input(), [])
    column = column_of(argument)
    is_file = os.path.exists(column[0] if column else argument)
    if is_file and (column or not os.path.isdir(argument)):
        if not re.search(r"[./\\:]", argument):
            log(f"{argument}: is a file here, so its lines are translated")
        # half a character is refused later, with the number of its line
        texts = stream_text(argument)
        return [text.encode(errors="surrogatepass") for text in texts]
    if re.fullmatch(r"\S+\.[a-z]{2,5}(:\w+)?", argument) or os.path.isdir(argument):
        what = "a folder" if os.path.isdir(argument) else "no file here"
        log(f"{argument}: is {what}, so it is translated as a sentence")
    return [os.fsencode(argument)]


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
    translator = _load_model(arguments)
    if arguments.strict and translator.threshold is None:
        what = "is not calibrated, so --strict can't tell what not to rely on"
        raise DataError(arguments.model, what, "Run `calibrate` first.")
    _note_if_uncalibrated(arguments.model, translator)
    search = translator.config.beam_size, translator.config.length_penalty
    number = doubtful = 0
    refused = False
    for lines in [given] if given else standard_input():
        if number == 0 and lines[0].startswith(_UTF16):
            do = "Save it as UTF-8, or pipe it through `iconv -f UTF-16 -t UTF-8`."
            raise DataError("input", "is UTF-16", do)
        numbered = enumerate(lines, number + 1)
        encoded = [encode_line(translator, i, line) for i, line in numbered]
        refused = refused or None in encoded
        translated = translator.translate_ids([rows or [] for rows in encoded], *search)
        for text, confidence, fault in translated:
            number += 1
            if doubt := translator.doubt(confidence, fault):
                doubtful += 1
                if doubtful <= _NOTES:
                    log(f"input, line {number}: {doubt}")
            sys.stdout.buffer.write(one_line(text).encode() + b"\n")
        sys.stdout.buffer.flush()
    if doubtful > _NOTES:
        log(f"input: don't rely on the translations of {doubtful} of {number} lines")
    return 1 if refused or (arguments.strict and doubtful) else 0


def _pairs_to_judge(arguments: Namespace) -> list[tuple[str, str]]:
    """Return the pairs of two files or of a split of a data set."""
    if arguments.dataset and (arguments.src or arguments.ref):
        what = "names a data set and files"
        raise DataError("command line", what, "Give --dataset, or --src and --ref.")
    if arguments.split and not arguments.dataset:
        do = "Leave it out, or give --dataset, too."
        raise DataError("--split", "is a part of a data set, and none is named", do)
    if arguments.dataset:
        config = TrainingConfig(arguments.dataset)
        return load_pairs(config, arguments.split or "valid")
    if arguments.src and arguments.ref:
        pairs = read_pairs(
            arguments.src, arguments.ref, blank=arguments.command != "calibrate"
        )
        if not any(src.strip() and tgt.strip() for src, tgt in pairs):
            what = "have no line with a sentence on both sides"
            do = "Give sentences and their translations."
            raise DataError(f"{arguments.src}, {arguments.ref}", what, do)
        return pairs
    given = arguments.src or arguments.ref
    what = "names only one file" if given else "there is nothing to evaluate on"
    raise DataError("command line", what, "Give --src and --ref, or --dataset.")


def _print_result(line: str) -> None:
    """Write what took long to compute to standard output or, if that fails, say it."""
    try:
        print(line, flush=True)
    except OSError:
        log(line)
        raise


TEST_2016 = {  # SHA-256 of the English and of the German sentences
    "a1efdee92d83876dbd9bc65f019b58eda88f1fc910e954aea943914d23fe89ca",
    "bb3e48712d8d4f8d6e16352ea830d2b3c64ff50439cb6e02486e02f8475d138e",
}


_APART = 40  # points between BLEU and chrF; for good models they differ by about 20


def evaluate_command(arguments: Namespace) -> int:
    """Score a model on two files or on a split of a data set; count looks at a test."""
    given = (str(name).rpartition(":") for name in (arguments.src, arguments.ref))
    inputs = {os.path.abspath(part) for parts in given for part in parts}
    if arguments.out and os.path.abspath(arguments.out) in inputs:
        what = "is one of the files to evaluate on"
        raise DataError(arguments.out, what, "Name another file with --out.")
    pairs = _pairs_to_judge(arguments)
    translator = _load_model(arguments)
    if arguments.out:
        check_writable(arguments.out)
    try:
        result = evaluate(
            translator, pairs, tokenize=arguments.tokenize, out=arguments.out
        )
    except DataError as error:
        for scores in getattr(error, "__notes__", ()):
            _print_result(scores)
        raise
    _print_result(json.dumps(result, ensure_ascii=False))
    bleu, chrf = result["bleu"], result["chrf"]
    if bleu == 0 < chrf:
        log(
            "BLEU is 0: no line shares a word with its reference, or all have fewer "
            f"than the four words that BLEU looks at. chrF ({chrf}) says more."
        )
    elif abs(bleu - chrf) > _APART:
        log(
            f"BLEU {bleu} and chrF {chrf} are far apart: look at the translations "
            "(--out), and choose the tokenizer with --tokenize if words are not "
            "between spaces."
        )
    if (copied := result["chrf_source"]) > chrf:
        log(
            f"The translations are more like the sources (chrF {copied}) than like the "
            f"references ({chrf}): are the two swapped?"
        )
    _count_look(translator, arguments.model, pairs, bleu)
    return 0


def _count_look(
    translator: Translator, folder: Path, pairs: list[tuple[str, str]], bleu: float
) -> None:
    """Note a look at Multi30k's test sentences, if these are they."""
    references = "\n".join(reference for _, reference in pairs)
    results = project_folder() / "results"  # not there if only the package is
    if _sha256(references) not in TEST_2016 or not results.is_dir():
        return
    settings = dataclasses.asdict(translator.config)
    look = {
        "date": datetime.date.today().isoformat(),
        "model": folder.resolve().name,
        "config": _sha256(json.dumps(settings, sort_keys=True))[:16],
        "bleu": bleu,
    }
    try:
        append_line(results / "test_looks.jsonl", look)
    except DataError as error:
        log(f"{error.where}: {error.what}, so this look at a test isn't counted")


def compare_command(arguments: Namespace) -> int:
    """Print how two models' translations of the same sentences differ."""
    pairs = [pair for pair in _pairs_to_judge(arguments) if all(map(str.strip, pair))]
    translators, given = [], list(pairs)
    for folder in arguments.models:
        arguments.model = folder
        translators.append(_load_model(arguments))
        pairs = [pair for pair in pairs if _can_translate(translators[-1], pair[0])]
    if not pairs:
        what = "there is no sentence that both can translate"
        raise DataError("compare", what, "Give sentences and their translations.")
    if len(pairs) < len(given):
        log(f"{len(given) - len(pairs)} of {len(given)} sentences are too long for one")
    sacrebleu = optional_import("sacrebleu")
    sources, references = map(list, zip(*pairs, strict=True))
    both = [
        [one_line(text) for text in translator.translate(sources)]
        for translator in translators
    ]
    tokenize = arguments.tokenize or choose_tokenizer(references)
    names = [str(folder) for folder in arguments.models]
    _print_result(report(names, pairs, both, tokenize, arguments.show))
    for translator, folder, lines in zip(translators, names, both, strict=True):
        bleu = sacrebleu.corpus_bleu(lines, [references], tokenize=tokenize).score
        _count_look(translator, Path(folder), pairs, round(bleu, 2))
    return 0


def _can_translate(translator: Translator, source: str) -> bool:
    """Return whether no sentence of a source is too long or has unknown characters."""
    try:
        return all([translator.check(s) for s in translator.sentences(source)])
    except DataError:
        return False


def _sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def calibrate_command(arguments: Namespace) -> int:
    """Write the threshold of a model to confidence.json in its folder."""
    pairs = _pairs_to_judge(arguments)
    translator = _load_model(arguments)
    file = arguments.model / "confidence.json"
    check_writable(file)
    result = calibrate(translator, pairs)
    _print_result(json.dumps(result))
    write_json(file, result | describe_environment())
    log(f"{file}: `translate` now notes a confidence below {result['threshold']}.")
    return 0


def attend_command(arguments: Namespace) -> int:
    """Write the page of ``explain`` for the sentences; print their translations."""
    given: list[bytes] = []
    for text in arguments.sentences:
        given += sum(standard_input(), []) if text == "-" else [os.fsencode(text)]
    sentences = [decode_line("sentence", i, line) for i, line in enumerate(given, 1)]
    if Path(arguments.out).suffix not in (".html", ".htm"):
        what = "is not the name of a web page"
        raise DataError(arguments.out, what, "Let it end in .html.")
    translator = _load_model(arguments, needs_weights=True)
    check_writable(arguments.out)
    _note_if_uncalibrated(arguments.model, translator)
    explanation = explain(translator, *sentences)
    explanation.save(arguments.out)
    for text in explanation.translations:
        sys.stdout.buffer.write(f"{text}\n".encode())
    log(f"{arguments.out}: open it in a browser; it needs no network.")
    return 0


def export_command(arguments: Namespace) -> int:
    """Write a model to a folder that an inference engine can load."""
    translator = _load_model(arguments, needs_weights=True)
    export_to_ctranslate2(translator, arguments.out, arguments.quantization)
    log(f"The model is in {arguments.out}. Try `translate --model {arguments.out}`.")
    return 0


_COMMANDS = {
    "train": train_command,
    "prepare": prepare_command,
    "translate": translate_command,
    "evaluate": evaluate_command,
    "compare": compare_command,
    "calibrate": calibrate_command,
    "attend": attend_command,
    "export": export_command,
}


def run(arguments: Namespace) -> int:
    """Run the command that was parsed; return the exit status, 2 after an error."""
    try:
        return _COMMANDS[arguments.command](arguments)
    except BrokenPipeError:
        raise
    except torch.multiprocessing.ProcessRaisedException as error:
        last = str(error).strip().splitlines()[-1]  # of the process's traceback
        line = re.sub(r"^[\w.]+Error: ", "", last)
    except torch.multiprocessing.ProcessExitedException as error:
        line = f"{error}. Run the same command again to resume."
    except (DataError, ImportError, OSError, ValueError, FloatingPointError) as error:
        line = str(error).replace("\n", " ")  # file names can contain anything
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        line = "out of memory. Use a smaller model, batch or --beam-size."
    log(f"error: {as_flags(line)}")
    return 2
