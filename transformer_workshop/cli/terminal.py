"""How is all this called from a shell?

Here are the flags; what the commands do is in commands.py. For help, and to refuse a
wrong flag, neither PyTorch nor the textbook is imported.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
import re
import sys
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformer_workshop import __version__
from transformer_workshop.base.config import CONFIGS, SCALES, SEARCH, TrainingConfig
from transformer_workshop.base.shipped_models import default_model

VERSION = __version__
_FIELDS = {field.name: field for field in dataclasses.fields(TrainingConfig)}
_TOKENIZERS = ("13a", "zh", "ja-mecab", "ko-mecab", "char")
_ALSO_KNOWN = {  # other programs' names
    "--batch-size": "--batch-tokens",
    "--lr": "--base-lr",
    "--learning-rate": "--base-lr",
    "--layers": "--N",
    "--heads": "--h",
    "--vocab-size": "--bpe-size",
}
_BY_SIZE = {*SCALES[0]._fields, "epochs", "warmup", "average"}
_CORPUS = (
    *("train_src", "train_tgt", "valid_src", "valid_tgt", "store"),
    *("bpe_size", "min_freq", "max_tokens"),
)


def _value_in(presets: Iterable[str], name: str) -> str:
    """Return a setting's value in brackets, for help; by preset if they differ."""
    values = {preset: getattr(CONFIGS[preset], name) for preset in presets}
    if name == "run_dir":
        return " [runs/DATASET-PRESET]"
    if name in _BY_SIZE and list(values) == ["small"]:
        return " [from the data]"
    if "tiny" in values and name in _BY_SIZE:
        values["own text"] = "from the data"
    if len(set(values.values())) > 1:
        return f" [{', '.join(f'{key}: {value}' for key, value in values.items())}]"
    return "".join(f" [{value}]" for value in set(values.values()) - {None})


def _add_settings(
    parser: argparse.ArgumentParser,
    names: Iterable[str],
    presets: Iterable[str] = (),
    hidden: bool = False,
) -> None:
    """Add a flag for each of these settings; one that isn't given sets no attribute.

    presets: those whose values the help shows; hidden: whether the help is silent.
    """
    types = typing.get_type_hints(TrainingConfig)
    for name in names:
        kind = (typing.get_args(types[name]) or [types[name]])[0]  # str | None: str
        options: dict[str, Any] = {"action": _StoreEither}
        if kind is not bool:
            choices = _FIELDS[name].metadata["allowed"] if kind is str else ()
            options = {
                "type": kind,
                "metavar": "|".join(choices) or kind.__name__.upper(),
            }
        about = _FIELDS[name].metadata["about"] + _value_in(presets, name)
        options["help"] = argparse.SUPPRESS if hidden else about
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, default=argparse.SUPPRESS, **options)


class _Refused(Exception):
    """A wrong command line; argparse's own exception would be reported twice."""


class _CommandLine(argparse.ArgumentParser):
    """A parser that raises its errors, and takes each flag once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self.given: set[str] = set()  # what flags have set
        self.register("action", None, _Store)
        self.register("action", "store_true", _StoreTrue)

    def parse_known_args(self, *given: Any) -> Any:  # type: ignore[override]
        """Begin anew: no flag was there yet."""
        self.given.clear()
        return super().parse_known_args(*given)

    def take(self, flag: str | None, sets: str) -> None:
        """Refuse a flag that was there before: one of its values would be lost."""
        if flag and sets in self.given:
            self.error(f"{flag} is given twice: give it once, as only one counts")
        self.given.add(sets)

    def error(self, message: str) -> typing.NoReturn:
        about = {flag: a.help for a in self._actions for flag in a.option_strings}
        if missing := re.fullmatch("argument (--.*): expected one argument", message):
            message += f" ({missing[1]}: {about[missing[1]]})"
        message = f"command line: {message}. See {self.prog} --help."
        raise _Refused(message)

    def refuse(self, unknown: list[str]) -> typing.NoReturn:
        """Suggest the flags most like those that are unknown."""
        flags = re.findall(r"--[A-Za-z][\w-]*", self.format_help())
        names = (_ALSO_KNOWN.get(a.split("=")[0], a.split("=")[0]) for a in unknown)
        close = [difflib.get_close_matches(name, flags, 1) for name in names]
        suggested = " or ".join(sum(close, []))
        hint = f" (did you mean {suggested}?)" if suggested else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


class _Once(argparse.Action):
    """An action that refuses a flag that was there before."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: Any = None
    ) -> None:
        parser.take(option_string, self.dest)
        super().__call__(parser, namespace, values, option_string)  # type: ignore[safe-super]


class _Store(_Once, argparse._StoreAction):
    """Store a flag's value."""


class _StoreTrue(_Once, argparse._StoreTrueAction):
    """Store that a flag is given."""


class _StoreEither(_Once, argparse.BooleanOptionalAction):
    """Store whether a flag is given with no- or without."""


def _command_line() -> _CommandLine:
    """Return the parser for all commands."""
    parser = _CommandLine(prog="annotated-transformer")
    parser.description = "Train a Transformer and translate with it"
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")

    def add(name: str, about: str, *parents: Any, more: str = "") -> _CommandLine:
        command = commands.add_parser(name, help=about, parents=parents)
        command.description = f"{about}. {more}"
        command.set_defaults(parser=command)
        return command

    model = _CommandLine(add_help=False)
    folder = "/".join(default_model().parts[-2:])
    about = f"folder of a run or a model [{folder}]"
    model.add_argument("--model", type=Path, default=default_model(), help=about)
    model.set_defaults(device="auto")
    search = _CommandLine(add_help=False, parents=[model])
    _add_settings(search, [*SEARCH, "device"])
    pairs = _CommandLine(add_help=False)
    pairs.add_argument("--src", help="file of sentences, one per line, or TABLE:COLUMN")
    pairs.add_argument("--ref", help="file of reference translations, line by line")
    pairs.add_argument("--dataset", help="multi30k or captions, instead of two files")
    splits, about = ("valid", "test"), "part of the dataset [valid]"
    pairs.add_argument("--split", choices=splits, help=about)

    more = "[In brackets: the value that is used, by preset where these differ.]"
    train = add("train", "Train a model or resume a run", more=more)
    train.usage = "%(prog)s [OPTION ...]"  # not every setting
    train.formatter_class = argparse.RawDescriptionHelpFormatter
    rows = [SCALES[0]._fields, *([f"{s.pairs:,.0f}", *s[1:]] for s in SCALES)]
    table = ("  " + " ".join(f"{cell:>12}" for cell in row) for row in rows)
    train.epilog = "\n".join(["own text, by the number of pairs (up to):", *table])
    about = f"one of {', '.join(CONFIGS)} [captions: tiny, multi30k: small]"
    train.add_argument("--config", metavar="PRESET", help=about)
    _add_settings(train, _FIELDS, presets=("tiny", "small"))
    train.add_argument("--restart", action="store_true", help="delete the run first")
    about = "say which settings it would choose, and stop"
    train.add_argument("--dry-run", action="store_true", help=about)

    more = "Takes the other flags of `train`, too, and ignores them."
    prepare = add("prepare", "Write a corpus to disk, as ids or split", more=more)
    prepare.usage = train.usage
    about = f"one of {', '.join(CONFIGS)} [small]"
    prepare.add_argument("--config", metavar="PRESET", help=about)
    _add_settings(prepare, _CORPUS, presets=["small"])
    _add_settings(prepare, [n for n in _FIELDS if n not in _CORPUS], hidden=True)
    about = (
        "leave out pairs that are blank, repeated, in validation, untranslated, with "
        "markup, or of odd length"
    )
    prepare.add_argument("--clean", action="store_true", help=about)
    about = (
        "write text to this folder, not --store: training and validation pairs, none "
        "in both; without --valid-src, split into train, valid, and test"
    )
    prepare.add_argument("--text", type=Path, metavar="FOLDER", help=about)
    prepare.add_argument("--workers", type=int, default=1, help="processes [1]")

    more = (
        "The default model can translate captions of pictures and little else; notes "
        "name the first ten lines whose translation not to rely on, then their number."
    )
    translate = add("translate", "Translate lines of text", search, more=more)
    about = "sentences, files, TABLE:COLUMN, or -: standard input [-]"
    translate.add_argument("sentences", nargs="*", help=about)
    about = "exit with status 1 if a translation is not to be relied on"
    translate.add_argument("--strict", action="store_true", help=about)

    evaluate = add("evaluate", "Score a model as JSON", search, pairs)
    about = f"sacreBLEU's: {', '.join(_TOKENIZERS)} [by the references' script]"
    options: dict[str, Any] = {"metavar": "NAME", "choices": _TOKENIZERS}
    evaluate.add_argument("--tokenize", help=about, **options)
    evaluate.add_argument("--out", help="file for the translations, one a line")
    more = (
        "Give the sentences as for `evaluate`; prints BLEU, chrF, and the difference."
    )
    comparing = add("compare", "Compare two models", pairs, more=more)
    _add_settings(comparing, [*SEARCH, "device"])
    about = "the folders of two models"
    comparing.add_argument("models", nargs=2, type=Path, metavar="MODEL", help=about)
    about = f"sacreBLEU's: {', '.join(_TOKENIZERS)} [by the references' script]"
    comparing.add_argument("--tokenize", help=about, **options)
    about = "how many of the sentences that differ most [10]"
    comparing.add_argument("--show", type=int, default=10, help=about, metavar="N")
    comparing.set_defaults(device="auto")
    purpose = "Choose, with 100 pairs or more, when translate warns of a translation"
    add("calibrate", purpose, search, pairs)

    attend = add("attend", "Draw what the model looks at", model)
    _add_settings(attend, ["device"])
    attend.add_argument("sentences", nargs="+", help="sentences, or -: standard input")
    page = "attention.html"
    attend.add_argument("--out", default=page, help=f"file to write [{page}]")

    export = add("export", "Convert a model for an engine", model)
    export.set_defaults(device="cpu")
    export.add_argument("--to", required=True, choices=["ctranslate2"], help="engine")
    export.add_argument("--out", required=True, help="folder to write")
    about = "number format of the weights: float32 or int8 [float32]"
    export.add_argument("--quantization", default="float32", help=about)
    return parser


_PRINTING = "translate", "evaluate", "compare", "calibrate", "attend"


def _replace_closed_streams(arguments: argparse.Namespace) -> None:
    """Refuse to work if a stream that is needed is closed; let others go nowhere."""
    reading = arguments.command == "translate" and not arguments.sentences
    if sys.stdin is None and reading:
        raise _Refused("standard input: is closed. Give sentences or a file.")
    if sys.stdout is None and arguments.command in _PRINTING:
        raise _Refused("standard output: is closed. Direct it to a file: > FILE.")
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit status (see chapter 91)."""
    try:
        arguments, unknown = _command_line().parse_known_args(argv)
        if unknown:
            arguments.parser.refuse(unknown)
        _replace_closed_streams(arguments)
        from transformer_workshop.cli.commands import run

        return run(arguments)
    except _Refused as error:
        line = str(error).replace("\n", " ")  # arguments can contain anything
        if sys.stderr:  # without it, print would write to standard output
            print(f"error: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
