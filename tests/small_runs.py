"""A few sentences, training runs on them that take a moment, and other helpers."""

import dataclasses
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import torch

from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import load_tensors, load_with_notes, read_json
from transformer_workshop.cli.terminal import main
from transformer_workshop.text.encoding import prepare_text
from transformer_workshop.training.loop import train_run
from transformer_workshop.training.run_folder import (
    open_run_folder,
    read_metrics,
    run_files,
    saved_steps,
    starts_so_far,
)

PAIRS = [
    ("Ein Hund läuft.", "A dog runs."),
    ("Eine Katze schläft.", "A cat sleeps."),
    ("Zwei Hunde schlafen heute.", "Two dogs sleep today."),
    ("Der Mann liest.", "The man reads."),
    ("Die Frau läuft durch den Park.", "The woman runs through the park."),
    ("Ein Kind.", "A child."),
    ("Ein Mann und eine Frau lesen.", "A man and a woman read."),
]
SIX = PAIRS[:6]


def write_text(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    """Write sentence pairs to two files, German and English; return their paths."""
    paths = []
    for side, lines in zip(("de", "en"), zip(*pairs)):
        path = folder / f"text.{side}"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths.append(str(path))
    return paths


def small_config(folder: Path, pairs: list[tuple[str, str]], **own) -> TrainingConfig:
    """Configure training on these pairs, validated on copies; `own` settings win."""
    german, english = write_text(folder, pairs)
    copies = [
        shutil.copy(path, path.replace("text.", "valid.")) for path in (german, english)
    ]
    settings = dict(
        dataset="files",
        train_src=german,
        train_tgt=english,
        valid_src=copies[0],
        valid_tgt=copies[1],
        bpe_size=280,
        N=1,
        d_model=16,
        d_ff=16,
        h=2,
        tie="all",
        batch_tokens=60,
        warmup=3,
        base_lr=0.01,
        device="cpu",
    )
    return TrainingConfig(**{**settings, **own})


def small_run(folder, pairs=SIX, **changes):
    """Return a configuration that trains in a moment, and its text."""
    own = dict(run_dir=str(folder / "run"), dropout=0.3, epochs=4, keep=2, average=2)
    config = small_config(folder, pairs, **{**own, **changes})
    return config, prepare_text(pairs, config.bpe_size)


def flags(config):
    """Return a configuration as flags of `train`."""
    given = []
    for name, value in dataclasses.asdict(config).items():
        if isinstance(value, bool):
            given += [("--" if value else "--no-") + name.replace("_", "-")]
        elif value is not None:
            given += ["--" + name.replace("_", "-"), str(value)]
    return given


def open_folder(config, restart=False):
    """Check and open a run's folder, as training does."""
    open_run_folder(config, starts_so_far(config, restart), restart)


def train(tiny, **changes):
    config, text = tiny
    config = dataclasses.replace(config, **changes)
    train_run(config, text)
    return Path(config.run_dir)


def repeatable(folder):
    """Return a run's metrics without those that depend on the clock."""
    return [
        {k: v for k, v in record.items() if "second" not in k}
        for record in read_metrics(folder)
    ]


def assert_same_run(one, two):
    """Assert that losses, weights, and last state are the same, bit for bit."""
    assert repeatable(one) == repeatable(two) != []
    newest = f"resume/{saved_steps(one / 'resume')[-1].name}"
    for name in ("best.safetensors", "model.safetensors", newest):
        first, second = load_tensors(one / name), load_tensors(two / name)
        assert first.keys() == second.keys()
        for key, weight in first.items():
            assert torch.equal(weight, second[key]), (name, key)


def check_whole(folder: Path) -> None:
    """Check that each file of a run under its final name can be read to the end."""
    for path in run_files(folder):
        if path.suffix == ".json":
            read_json(path)
        elif path.suffix == ".safetensors":
            load_with_notes(path)


def contents(folder: str | Path) -> dict[str, bytes]:
    """Return the contents of all files in a folder, by name."""
    folder = Path(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class Killed(BaseException):
    """A stand-in for the sudden end of the process."""


def break_off(patch, moment, error):
    """Let a moment, the n-th call of a function, raise an error instead."""
    (owner, name), count = moment
    real, calls = getattr(owner, name), []

    def counted(*args, **kwargs):
        calls.append(name)
        if len(calls) == count:
            raise error
        return real(*args, **kwargs)

    patch.setattr(owner, name, counted)


def train_until(tiny, monkeypatch, moment, **changes):
    """Train until a moment as in `break_off`."""
    with monkeypatch.context() as patch, pytest.raises(Killed):
        break_off(patch, moment, Killed())
        train(tiny, **changes)


def program(path: str) -> ModuleType:
    """Import a program of the project, such as benchmarks/ship.py, as a module."""
    file = project_folder() / path
    specification = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def refused(capfd: pytest.CaptureFixture, *argv: str) -> str:
    """Return the single line that a refused command prints, with nothing on stdout."""
    assert main(list(argv)) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1, err
    return err
