"""What do `evaluate`, `compare` and `calibrate` do?"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import os
from argparse import Namespace
from pathlib import Path

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import (
    append_line,
    check_writable,
    log,
    report_unwritable,
    write_json,
)
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.cli.translation_commands import load_model
from transformer_workshop.lab.comparison import report
from transformer_workshop.models.evaluation import calibrate, choose_tokenizer, evaluate
from transformer_workshop.models.translator import Translator
from transformer_workshop.text.corpora import load_pairs, read_pairs
from transformer_workshop.text.spelling import one_line


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
    translator = load_model(arguments)
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
    project = project_folder()  # it has results unless only the package is there
    if _sha256(references) not in TEST_2016 or not (project / "results").is_dir():
        return
    settings = dataclasses.asdict(translator.config)
    look = {
        "date": datetime.date.today().isoformat(),
        "model": folder.resolve().name,
        "config": _sha256(json.dumps(settings, sort_keys=True))[:16],
        "bleu": bleu,
    }
    looks = project / "runs" / "test_looks.jsonl"
    try:
        with report_unwritable(looks):
            looks.parent.mkdir(exist_ok=True)
        append_line(looks, look)
    except DataError as error:
        log(f"{error.where}: {error.what}, so this look at a test isn't counted")


def compare_command(arguments: Namespace) -> int:
    """Print how two models' translations of the same sentences differ."""
    pairs = [pair for pair in _pairs_to_judge(arguments) if all(map(str.strip, pair))]
    translators, given = [], list(pairs)
    for folder in arguments.models:
        arguments.model = folder
        translators.append(load_model(arguments))
        pairs = [pair for pair in pairs if _can_translate(translators[-1], pair[0])]
    if not pairs:
        what = "there is no sentence that both can translate"
        raise DataError("compare", what, "Give sentences and their translations.")
    if len(pairs) < len(given):
        log(f"{len(given) - len(pairs)} of {len(given)} sentences are too long for one")
    sacrebleu = optional_import("sacrebleu")
    sources, references = map(list, zip(*pairs, strict=True))
    both = [
        [one_line(each.text) for each in translator.translations(sources)]
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
        translator.encode_line(source)
    except DataError:
        return False
    return True


def _sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def calibrate_command(arguments: Namespace) -> int:
    """Write the threshold of a model to confidence.json in its folder."""
    pairs = _pairs_to_judge(arguments)
    translator = load_model(arguments)
    file = arguments.model / "confidence.json"
    check_writable(file)
    result = calibrate(translator, pairs)
    _print_result(json.dumps(result))
    write_json(file, result | describe_environment())
    log(f"{file}: `translate` now notes a confidence below {result['threshold']}.")
    return 0
