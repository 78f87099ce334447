"""Give the command line many kinds of bad input: a clear line each, nothing lost.

Cases are drawn at random, but the same ones every time; SEED=2 draws others. Each must
end within seconds with a non-zero status and a one-line error that names the culprit,
without a traceback; every file that was there must still be there, unchanged.
test_fuzz.py tries some of each kind, and `make fuzz` more.
"""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import string
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = map(str, Path(__file__).resolve().parents[1:3])

from small_runs import SIX, contents  # noqa: E402

from transformer_workshop.base import machine  # noqa: E402
from transformer_workshop.base.config import TrainingConfig  # noqa: E402
from transformer_workshop.base.files import (  # noqa: E402
    load_tensors,
    load_with_notes,
    save_tensors,
)
from transformer_workshop.cli import terminal  # noqa: E402
from transformer_workshop.models.architectures import build_model  # noqa: E402
from transformer_workshop.models.translator import Translator, save_translator  # noqa: E402
from transformer_workshop.text.encoding import prepare_text  # noqa: E402
from transformer_workshop.training.run_folder import saved_steps  # noqa: E402

LIMIT = 20  # seconds for each case
SMALL = {
    "bpe_size": 280, "N": 1, "d_model": 16, "d_ff": 16, "h": 2, "tie": "all",
    "batch_tokens": 60, "max_tokens": 40, "warmup": 3, "base_lr": 0.01,
    "device": "cpu", "epochs": 2,
}  # fmt: skip


@dataclass
class Case:
    """A command that must be refused."""

    argv: list[str]
    words: list[str]  # what the error must name
    stdin: bytes = b""
    status: int = 2


class Place:
    """A folder for one case with the four files of a training run."""

    def __init__(self, folder: Path, templates: Path, draw: random.Random):
        self.folder, self.templates, self.draw = folder, templates, draw
        self.files = {}  # by their flags
        for side, lines in zip(("src", "tgt"), zip(*SIX)):
            for split in ("train", "valid"):
                path = folder / f"{split}.{'de' if side == 'src' else 'en'}"
                path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
                self.files[f"{split}_{side}"] = path

    def copied(self, name: str) -> Path:
        """Copy a template: model, words (by words), or run (unfinished); return it."""
        folder = shutil.copytree(self.templates / name, self.folder / name)
        if name == "run":  # make it use the files of this case
            settings = folder / "config.json"
            text = settings.read_text("utf-8")
            text = text.replace(f"{self.templates}/model", str(folder))
            text = text.replace(str(self.templates), str(self.folder))
            settings.write_text(text, "utf-8")
        return folder

    def train(self, words: list[str], **changes) -> Case:
        """Return a case that trains on the files, with some settings changed."""
        given = {"run_dir": self.folder / "run", **self.files, **SMALL, **changes}
        flags = [
            f"--{name.replace('_', '-')}={value}"
            for name, value in given.items()
            if value is not None
        ]
        return Case(["train", *flags], words)

    def translate(self, model: Path, words: list[str], *flags: str) -> Case:
        """Return a case that translates a sentence with a model."""
        return Case(["translate", "--model", str(model), *flags, "Ein Hund."], words)

    def evaluate(self, words: list[str], *flags: str) -> Case:
        return Case(["evaluate", f"--model={self.copied('model')}", *flags], words)

    def pair(self) -> list[str]:
        """Return flags that evaluate on the training files."""
        return [f"--src={self.files['train_src']}", f"--ref={self.files['train_tgt']}"]

    def pick(self) -> Path:
        """Draw the training file that will have something wrong with it."""
        return self.draw.choice(list(self.files.values()))

    def word(self, letters: str = string.ascii_lowercase) -> str:
        return "".join(self.draw.choices(letters, k=self.draw.randint(3, 12)))


KINDS: dict[str, Callable[[Place], Case]] = {}


def kind(name: str, *arguments):
    """Register a function that makes a case, under the name of its kind."""

    def register(make):
        KINDS[name] = lambda place: make(place, *arguments)
        return make

    return register


# text to train on


def cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(1, len(data))]


def flip(draw: random.Random, data: bytes, number: int) -> bytes:
    """Change one byte."""
    byte = bytes([data[number] ^ draw.randint(1, 255)])
    return data[:number] + byte + data[number + 1 :]


def flip_zipped(draw: random.Random, data: bytes) -> bytes:
    """Change a byte of a gzip file's magic number or of its checksums."""
    return flip(draw, data, draw.choice([0, 1, 2, *range(len(data) - 8, len(data))]))


def other_bits(draw: random.Random, data: bytes) -> bytes:
    return data.decode().encode(draw.choice(["utf-16", "utf-32"]))


@kind("text: empty", lambda draw, _: draw.choice([b"", b"\xef\xbb\xbf"]), [])
@kind("text: random bytes", lambda draw, _: b"\xff" + draw.randbytes(999), ["UTF-8"])
@kind("text: UTF-16", other_bits, ["UTF-8"])
def _(place, change, words):
    path = place.pick()
    path.write_bytes(change(place.draw, path.read_bytes()))
    return place.train([path.name, *words])


@kind("text: not UTF-8", [b"a\xff", b"\xe4b", b"\xc3(", b"\xed\xa0\x80"], ["UTF-8"])
def _(place, bad, words):
    path, number = place.pick(), place.draw.randrange(6)
    lines = path.read_bytes().split(b"\n")
    lines[number] = place.draw.choice(bad)
    path.write_bytes(b"\n".join(lines))
    return place.train([path.name, f"line {number + 1}", *words])


@kind("text: missing", lambda path: None)
@kind("text: a folder", Path.mkdir)
@kind("text: a link to itself", lambda path: path.symlink_to(path))
def _(place, put):
    path = place.pick()
    path.unlink()
    put(path)
    return place.train([path.name])


@kind("text: other number of lines")
def _(place):
    path = place.pick()
    lines = place.draw.choice([["Ein Hund."] * 5, ["Ein Hund."] * 7])
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return place.train([path.name, str(len(lines)), "6"])


@kind("text: gzip cut off", cut)
@kind("text: gzip with a changed byte", flip_zipped)
@kind("text: no gzip but called so", lambda draw, _: b"x" + draw.randbytes(30))
def _(place, change):
    name, path = place.draw.choice(list(place.files.items()))
    zipped = path.with_name(path.name + ".gz")
    zipped.write_bytes(change(place.draw, gzip.compress(path.read_bytes())))
    return place.train([zipped.name, "gzip"], **{name: zipped})


@kind("text: a name that can't be", ["train_src", "valid_tgt"], "can't be read")
@kind("run folder: a name that can't be", ["run_dir"], "can't be")
def _(place, names, said):
    bad = place.draw.choice(["x" * 300, "a\0b", "d/" * 2100])
    return place.train([said], **{place.draw.choice(names): str(place.folder / bad)})


@kind("text: a table", [".csv", ".csv:0", ".csv:fr", ".csv:9", ".tsv:en", ".jsonl:x"])
def _(place, endings):
    path = place.folder / f"{place.word()}{place.draw.choice(endings)}"
    file = path.with_name(path.name.split(":")[0])
    file.write_text("de,en\nein,a\n", "utf-8")
    return place.train([file.name], **{place.draw.choice(list(place.files)): path})


@kind("text: one side only")
def _(place):
    name = place.draw.choice(list(place.files))
    return place.train([name[:6]], **{name: None})


# the command line

FIELDS = dataclasses.fields(TrainingConfig)
ALLOWED = {f.name: f.metadata["allowed"] for f in FIELDS if f.metadata["allowed"]}
INTEGERS = [f.name for f in FIELDS if f.type == "int"]
NUMBERS = [f.name for f in FIELDS if f.type.startswith("float")]
CHOICES = [f.name for f in FIELDS if f.type == "str" and f.name in ALLOWED]
COMMANDS = ["train", "translate", "evaluate"]


@kind("command: unknown", lambda place: [place.word() + "x"], ["train", "translate"])
@kind("command: none", lambda place: [], ["COMMAND"])
@kind("flag: unknown preset", lambda p: ["train", "--config", p.word()], ["tiny"])
def _(place, argv, words):
    return Case(argv(place), words)


@kind("flag: unknown")
def _(place):
    flag = "--" + place.word("xyz") + place.draw.choice(["", "\nx", "=3", "ä"])
    return Case([place.draw.choice(COMMANDS), flag], ["--"])


@kind("flag: without its value")
def _(place):
    flag = "--" + place.draw.choice(list(SMALL)).replace("_", "-")
    return Case(["train", flag], [flag, "argument"])


@kind(
    "flag: a word for an integer", INTEGERS, ["1.5", "1e3", "0x10", "1 2", "9" * 5000]
)
@kind("flag: a word for a number", NUMBERS, ["1,5", "--", "0..1", "½"])
def _(place, names, values):
    name = place.draw.choice(names)
    value = place.draw.choice([*values, "", place.word()])
    return place.train([name.split("_")[0]], **{name: value})


def outside(place: Place, names: list[str]) -> tuple[str, object]:
    """Draw a setting, and a value of the right type that is outside its limits."""
    name = place.draw.choice(names)
    low, high = ALLOWED[name]
    if name in INTEGERS:
        values = [low - 1, high + 1, -(10**9), 10**12, 10**30]
    else:
        values = [low - 0.5 - abs(low), high * 2 + 1, "nan", "inf", "-inf", 1e300]
    return name, place.draw.choice(values)


@kind("flag: an integer out of its limits", INTEGERS)
@kind("flag: a number out of its limits", NUMBERS)
def _(place, names):
    name, value = outside(place, names)
    return place.train([name, "limits"], **{name: value})


@kind("flag: a choice that is none")
def _(place):
    name = place.draw.choice(CHOICES)
    return place.train([name, ALLOWED[name][0]], **{name: place.word()})


@kind("flag: unknown device")
def _(place):
    names = ["gpu", "cpu:", "cpu:x", "cpu:99", "cuda:77", "cuda:-1", "mps:9", "", "CPU"]
    device = place.draw.choice([*names, place.word()])
    if place.draw.random() < 0.5:
        return place.train([f"device {device}"], device=device)
    model = place.copied("model")
    return place.translate(model, [f"device {device}"], f"--device={device}")


WIDTHS = [{"d_model": d, "h": h} for d, h in ((16, 3), (15, 3), (18, 4), (1, 1))]
SIZES = [{"bpe_size": size} for size in (1, 100, 259)]


@kind("flag: heads that do not divide the width", ["d_model"], WIDTHS)
@kind("flag: too few subwords", ["260"], SIZES)
@kind("flag: shared tables for two vocabularies", ["tie"], [{"bpe_size": 0}])
@kind("text: every sentence too long", ["max_tokens"], [{"max_tokens": 3}])
def _(place, words, changes):
    return place.train(words, **place.draw.choice(changes))


# folders of runs


def any_json(draw: random.Random, _: bytes = b"") -> bytes:
    """Draw a JSON text that none of our files could hold."""
    values = ["{}", "[]", "null", "1", '"text"', "NaN", "[1, {}]", '{"name": "other"}',
              '{"config": [], "starts": {}}', '{"config": null, "starts": []}',
              '{"config": {}}', "1" * 400, '{"source": 1, "target": 2, "merges": 3}',
              '{"source": [], "target": [], "merges": null}']  # fmt: skip
    return draw.choice(values).encode()


def broken_json(draw: random.Random, good: bytes) -> bytes:
    """Return a damaged JSON text."""
    nested = draw.choice([b"[", b'{"a":']) * 100_000
    noise = draw.randbytes(50) + b"\xff"
    whole = [good[1:], b"\xff" + good, good + b"}", nested, b"", noise]
    return draw.choice([good[: draw.randrange(len(good) - 2)], *whole])


def broken_tensors(draw: random.Random, good: bytes) -> bytes:
    """Return a damaged safetensors file."""
    among_the_numbers = draw.randrange(len(good) * 2 // 3, len(good))
    size = draw.choice([b"\xff" * 8, b"\0" * 8, (2**40).to_bytes(8, "little")])
    return draw.choice([
        good[: draw.randrange(len(good))],
        flip(draw, good, among_the_numbers),
        draw.randbytes(draw.randint(1, 3000)),
        size + good,
        good + draw.randbytes(draw.randint(1, 50)),
    ])  # fmt: skip


@kind("run folder: a file")
def _(place):
    (place.folder / "run").write_text(place.word())
    below = place.draw.choice(["run", f"run/{place.word()}", f"run/{place.word()}/x"])
    return place.train(["run", "can't be written"], run_dir=place.folder / below)


@kind("run folder: config.json of another program")
def _(place):
    (place.folder / "run").mkdir()
    (place.folder / "run" / "config.json").write_bytes(any_json(place.draw))
    case = place.train(["config.json"])
    case.argv += place.draw.choice([[], ["--restart"]])
    return case


@kind("run folder: damaged config.json", "config.json", broken_json)
@kind("run folder: damaged vocabulary.json", "vocabulary.json", broken_json)
@kind("run folder: damaged metrics", "metrics.jsonl", lambda _, good: b"\xff" + good)
def _(place, name, breaks):
    path = place.copied("run") / name
    path.write_bytes(breaks(place.draw, path.read_bytes()))
    return place.train([name])


@kind("run folder: another configuration")
def _(place):
    place.copied("run")
    name = place.draw.choice(["d_model", "d_ff", "batch_tokens", "warmup"])
    value = SMALL[name] + 2 * place.draw.randint(1, 9)
    return place.train([f"{name} (", f"{value} now", "--restart"], **{name: value})


@kind("run folder: every state damaged")
def _(place):
    for path in saved_steps(place.copied("run") / "resume"):
        path.write_bytes(broken_tensors(place.draw, path.read_bytes()))
    return place.train(["run", "--restart"])


@kind("run folder: weights without a state")
def _(place):
    for path in saved_steps(place.copied("run") / "resume"):
        path.unlink()
    return place.train(["run", "no checkpoint to continue from", "--restart"])


@kind("run folder: the state of another model")
def _(place):
    paths = saved_steps(place.copied("run") / "resume")
    tensors, notes = load_with_notes(paths[-1])
    names = [name for name in tensors if name.startswith("model/")]
    del tensors[place.draw.choice(names)]
    for path in paths:
        save_tensors(path, tensors, notes)
    return place.train(["another version. Finish it with that version"])


# folders of models

PARTS = ["config.json", "vocabulary.json", "model.safetensors"]


@kind("model: no such folder")
def _(place):
    bad = place.draw.choice(["nowhere", "a/b/c", "x" * 300, "d/" * 2100])
    return place.translate(place.folder / bad, [])


@kind("model: an empty folder")
def _(place):
    (place.folder / "model").mkdir()
    return place.translate(place.folder / "model", ["model"])


@kind("model: a part is missing", lambda path: None)
@kind("model: a part is a folder", Path.mkdir)
def _(place, put):
    path = place.copied("model") / place.draw.choice(PARTS)
    path.unlink()
    put(path)
    named = path.name if path.exists() else path.name.removesuffix(".safetensors")
    return place.translate(path.parent, [named])


@kind("model: damaged JSON", PARTS[:2], broken_json)
@kind("model: other JSON", PARTS[:2], any_json)
@kind("weights: damaged", PARTS[2:], broken_tensors)
def _(place, names, breaks):
    path = place.copied("model") / place.draw.choice(names)
    path.write_bytes(breaks(place.draw, path.read_bytes()))
    return place.translate(path.parent, [path.name])


def edited(name: str, part: str, *templates: str):
    """Register a function that changes a JSON file's content, and returns words."""

    def register(change):
        def make(place):
            path = place.copied(place.draw.choice(templates or ["model", "words"]))
            content = json.loads((path / part).read_text("utf-8"))
            words = change(place, content)
            (path / part).write_text(json.dumps(content), "utf-8")
            return place.translate(path, words)

        KINDS[name] = make

    return register


@edited("model: a setting of another version", "config.json")
def _(place, content):
    content["config"][place.word()] = place.draw.choice([1, "x", None])
    return ["config.json"]


@edited("model: a setting of another type", "config.json")
def _(place, content):
    values = {"norm_first": ["yes", 1, None, []], "run_dir": [1, None, []]}
    values |= {n: ["two", "2", [1], {}, True] for n in [*INTEGERS, *NUMBERS]}
    values |= {n: ["two", [1], {"a": 1}, True, 1, None] for n in CHOICES}
    name = place.draw.choice(list(values))
    content["config"][name] = place.draw.choice(values[name])
    return ["config.json", name]


@edited("model: a setting out of its limits", "config.json")
def _(place, content):
    name, value = outside(place, [*INTEGERS, *NUMBERS])
    content["config"][name] = float(value) if isinstance(value, str) else value
    return ["config.json", name]


@edited("model: settings of a model of another size", "config.json")
def _(place, content):
    name = place.draw.choice(["N", "d_model", "d_ff"])
    content["config"][name] += place.draw.randint(1, 9) * 2
    return ["model"]


@edited("vocabulary: too short or too long", "vocabulary.json")
def _(place, content):
    side = content[place.draw.choice(["source", "target"])]
    side[place.draw.choice([5, 9, len(side)]) :] = [place.word("xyz") for _ in range(3)]
    return ["model"]


@edited("vocabulary: tokens that are no text, or twice there", "vocabulary.json")
def _(place, content):
    tokens = content[place.draw.choice(["source", "target"])]
    bad = place.draw.choice([None, 7, [], {}, 1.5, tokens[5], "<s>"])
    tokens[place.draw.randint(6, 9)] = bad
    return ["vocabulary.json"]


@edited("vocabulary: without its special tokens", "vocabulary.json")
def _(place, content):
    del content[place.draw.choice(["source", "target"])][place.draw.randrange(4)]
    return ["vocabulary.json"]


@edited("vocabulary: damaged merges", "vocabulary.json", "model")
def _(place, content):
    model = content["merges"]["model"]
    part = place.draw.choice(["all", "model", "vocab", "merges", "unknown"])
    if part == "all":
        content["merges"] = place.draw.choice([{}, [], 1, "x", False])
    elif part == "model":
        del content["merges"]["model"]
    elif part == "vocab":
        del model["vocab"][place.draw.choice(list(model["vocab"]))]
    elif part == "merges":
        model["merges"] = place.draw.choice([1, [["q"]], "x"])
    else:
        model["merges"].append(["qqq", "zzz"])
    return ["vocabulary.json"]


@kind("weights: of another model")
def _(place):
    path = place.copied("model") / "model.safetensors"
    tensors = load_tensors(path)
    name = place.draw.choice(list(tensors))
    weight = tensors.pop(name)
    if place.draw.random() < 0.5:
        tensors[name] = weight.flatten()[:3].clone()
    save_tensors(path, tensors)
    return place.translate(path.parent, ["model.safetensors", "another model"])


@kind("weights: a header that says something else")
def _(place):
    path = place.copied("model") / "model.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    said = header["__metadata__"]
    bad = {"tied": ["{", "[1]", '{"a": "nowhere"}', "3"], "notes": ["{", "x"]}
    entry = place.draw.choice([*bad, "sha256"])
    del said["sha256"]  # or the checksum would be what is wrong
    said[entry] = place.draw.choice(bad.get(entry, [place.word()]))
    changed = json.dumps(header).encode()
    changed += b" " * (-len(changed) % 8)
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + data[8 + size :])
    return place.translate(path.parent, ["model.safetensors"])


# lines to translate, and evaluation


@kind("line: not UTF-8", [b"\xff", b"sch\xf6n", b"\xc3", b"\xed\xa0\x80"], "UTF-8", [1])
@kind("line: too long", ["sehr ", "👩‍🚒", "قطة ", "x", "漢字"], "40", [60, 300, 900])
@kind(
    "line: of a megabyte", ["x", "sehr ", "-", "\0", "((", "http://a.b/"], "40", [2**18]
)
def _(place, choices, word, times):
    """Return a case of good lines and a bad one: status 1, and as many lines out."""
    bad, number = place.draw.choice(choices), place.draw.randrange(4)
    bad = bad.encode() if isinstance(bad, str) else bad
    lines = [b"Ein Hund."] * 3
    lines.insert(number, bad * place.draw.choice(times))
    argv = ["translate", f"--model={place.copied('model')}"]
    return Case(argv, [word, f"line {number + 1}"], b"\n".join(lines) + b"\n", status=1)


@kind("search: out of its limits", "beam-size", ["0", "-3", "100000", "x"])
@kind("search: no such penalty", "length-penalty", ["nan", "inf", "-1e9", "y"])
def _(place, name, values):
    flag, words = f"--{name}={place.draw.choice(values)}", [name.split("-")[0]]
    if place.draw.random() < 0.3:
        return place.evaluate(words, flag, *place.pair())
    return place.translate(place.copied("model"), words, flag)


@kind(
    "evaluate: files that do not fit", ["", "\n" * 6, *("Hund.\n" * n for n in (1, 7))]
)
def _(place, texts):
    path = place.files[place.draw.choice(["train_src", "train_tgt"])]
    path.write_text(place.draw.choice(texts))
    return place.evaluate([path.name], *place.pair())


@kind("evaluate: a sentence too long")
def _(place):
    long = "sehr " * place.draw.randint(60, 300)
    place.files["train_src"].write_text("Ein Hund.\n" * 5 + long + "\n")
    case = place.evaluate(["40"], *place.pair())
    return dataclasses.replace(case, status=0)  # the others are scored


@kind("evaluate: nothing, or one side, to evaluate on")
def _(place):
    flags = place.draw.choice([[], ["--src=x"], ["--ref=x"], ["--src="], ["--ref="]])
    return place.evaluate(["--src", "--ref"], *flags)


@kind("evaluate: unknown data set or split")
def _(place):
    if place.draw.random() < 0.5:
        return place.evaluate(["dataset"], f"--dataset={place.word()}")
    return place.evaluate(["--split"], "--dataset=captions", f"--split={place.word()}")


# running them


class Hang(BaseException):
    """A case took too long."""


def make_templates(folder: Path) -> None:
    """Make a trained model, an untrained one by words, and an unfinished run."""
    case = Place(folder, folder, random.Random(0)).train([], run_dir=folder / "model")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        if terminal.main(case.argv):
            raise SystemExit(said.getvalue())
    shutil.copytree(folder / "model", folder / "run")
    (folder / "run" / "model.safetensors").unlink()
    config = TrainingConfig(**SMALL | {"bpe_size": 0, "min_freq": 1, "tie": "none"})
    text = prepare_text(SIX, config.bpe_size, config.min_freq)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    save_translator(folder / "words", Translator(model, text, config))
    for unneeded in ("resume", "checkpoints"):
        shutil.rmtree(folder / "model" / unneeded)
    (folder / "model" / "best.safetensors").unlink()


def what_was_lost(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """Say which file is gone or changed, or was made outside the run's folder."""
    for name, data in before.items():
        if name not in after:
            return f"{name} is gone"
        if name == "run/config.json" and after[name] != data:  # a start may be added
            old, new = json.loads(data), json.loads(after[name])
            if old["config"] != new["config"]:
                return "the run's configuration was changed"
        elif after[name] != data:
            return f"{name} was changed"
    made = [n for n in after if n not in before and Path(n).parts[0] != "run"]
    return f"{made[0]} was made" if made else ""


def run_here(case: Case) -> tuple[int, str, bytes]:
    """Run a case in this process; return its status, error output, and output."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()

    def too_long(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    try:
        with (
            mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(case.stdin))),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(machine, "_current_commit", str),  # git is slow
        ):
            status = terminal.main(case.argv)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return status, err.getvalue(), out.buffer.getvalue()


def complaint(case: Case, folder: Path) -> tuple[str, str]:
    """Say what is wrong with how a case ended, if anything, and the line it printed."""
    before = contents(folder)
    try:
        status, said, out = run_here(case)
    except Hang:
        return f"still running after {LIMIT} s", ""
    except BaseException as error:  # a traceback, had it been a process
        return f"{type(error).__name__}: {error}", ""
    # a model that was hardly trained repeats itself
    said = re.sub(r"(?m)^.*: don't rely on this translation.*\n", "", said)
    # what `train` says before it begins
    said = re.sub(r"(?m)^(The training pairs|Settings|  |valid: ).*\n", "", said)
    last = said.splitlines()[-1] if said else ""
    own = last  # without what it repeats from the command
    given = [part for word in case.argv for part in (word, word.partition("=")[2])]
    for word in sorted(filter(None, given), key=len, reverse=True):
        own = own.replace(word, "…")
    lines, missing = out.count(b"\n"), [w for w in case.words if w not in said]
    for wrong, what in (
        ("Traceback" in said, "a traceback"),
        (status != case.status, f"status {status}, not {case.status}"),
        (status == 2 and not last.startswith("error: "), "no line that begins error:"),
        (status == 2 and out, "some output"),
        (said.count("\n") > 3, "many lines of message"),
        (status == 1 and lines != case.stdin.count(b"\n"), f"{lines} lines of output"),
        (len(own) > 600, f"a message of {len(own)} characters"),
        (missing, f"the message does not name {missing}"),
    ):
        if wrong:
            return what, last[:600]
    return what_was_lost(before, contents(folder)), last


def try_kind(name: str, number: int, templates: Path):
    """Draw and run a case; return what is wrong, the line it printed, and the case."""
    draw = random.Random(f"{os.environ.get('SEED', '1')} {name} {number}")
    with tempfile.TemporaryDirectory() as folder:
        case = KINDS[name](Place(Path(folder), templates, draw))
        wrong, line = complaint(case, Path(folder))
        return wrong, line.replace(folder, "…"), case
