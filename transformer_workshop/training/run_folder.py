"""Which run is in a folder, and may it go on there?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.config import (
    MAY_CHANGE,
    TrainingConfig,
    read_config_file,
)
from transformer_workshop.base.files import (
    load_with_notes,
    log,
    report_unwritable,
    reported,
    write_json,
)
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.models.export import is_exported
from transformer_workshop.text.fingerprints import changed, fingerprints_of
from transformer_workshop.training.processes import is_main_process

_RUN_FILES = """
    config.json vocabulary.json confidence.json metrics.jsonl
    best.safetensors model.safetensors
    checkpoints/step-[0-9]*.safetensors resume/step-[0-9]*.safetensors
""".split()


def run_files(folder: Path, ending: str = "") -> list[Path]:
    """Return a folder's files that a run wrote; with ".tmp", those left unfinished."""
    return [p for name in _RUN_FILES for p in sorted(folder.glob(name + ending))]


def saved_steps(folder: Path) -> list[Path]:
    """Return a folder's step-….safetensors files, oldest first."""
    files = [p for p in folder.glob("step-*.safetensors") if p.stem[5:].isdecimal()]
    return sorted(files, key=lambda path: int(path.stem[5:]))


def starts_so_far(config: TrainingConfig, restart: bool = False) -> list[Any]:
    """Return the starts of the run that a configuration continues; none if it is new.

    Raises DataError if the folder contains a run with another configuration, or
    anything else. A setting that did not exist yet when the run started had its
    default value.
    """
    folder = Path(config.run_dir)
    if is_exported(folder):
        what = "holds a model that was exported for an inference engine"
        raise DataError(folder, what, "Choose another `run_dir`.")
    files = run_files(folder)
    settings = read_config_file(folder) if files else {}
    if restart or not any(path.suffix == ".safetensors" for path in files):
        return []
    there = asdict(TrainingConfig()) | settings["config"]
    free = set(MAY_CHANGE)
    if config.epochs > there["epochs"] or config.schedule != "linear":
        free.add("epochs")  # with more of them, a linear schedule's rate rises again
    differ = [
        f"{name} ({there[name]} there, {value} now)"
        for name, value in asdict(config).items()
        if there[name] != value and name not in free
    ]
    if differ:
        what = "holds a run of another configuration: " + ", ".join(differ)
    elif not saved_steps(folder / "resume"):
        what = "holds weights, but no checkpoint to continue from"
    elif texts := changed(settings.get("text", {}), config):
        what = f"holds a run on another text: {texts} has changed since"
    else:
        return settings["starts"]
    do = "Choose another `run_dir`, or delete that run with `restart`."
    raise DataError(folder, what, do)


def open_run_folder(
    config: TrainingConfig, starts: list[Any], restart: bool = False
) -> None:
    """Prepare the folder of a run with these starts so far.

    restart: delete the run in the folder first.
    """
    folder = Path(config.run_dir)
    unfinished = run_files(folder, ".tmp")  # left by an interrupted write
    for path in [*unfinished, *(reversed(run_files(folder)) if restart else ())]:
        path.unlink()
    now = describe_environment()
    starts = starts if now in starts[-1:] else [*starts, now]
    about = {
        "config": asdict(config),
        "starts": starts,
        "text": fingerprints_of(config),
    }
    write_json(folder / "config.json", about)


def is_finished(config: TrainingConfig) -> bool:
    """Return whether a model trained for all of the configuration's epochs exists."""
    path = Path(config.run_dir, "model.safetensors")
    try:
        return path.exists() and load_with_notes(path)[1]["epochs"] >= config.epochs
    except DataError as error:
        log(f"{error.where} {error.what}: making it again.")
        return False


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """Return the records in a run's metrics.jsonl, except for an incomplete last one.

    Raises DataError if any other line is damaged.
    """
    path, do = Path(folder) / "metrics.jsonl", "Restore it from a copy, or delete it."
    with reported(ValueError, path, "is not JSON ({})", do):
        text = path.read_text("utf-8") if path.exists() else ""
        *lines, _ = text.split("\n")  # what follows the last newline is incomplete
        return json.loads("[" + ",\n".join(lines) + "]")


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from training in a folder inside this block.

    Of a run's processes, the first one claims it. A folder that is still empty at the
    end is removed if it was not there before. Raises DataError if another process has
    claimed it.
    """
    if not is_main_process():
        yield
        return
    filelock, path = optional_import("filelock"), folder / "run.lock"
    what = "is in use: another process is training in it"
    do = "Wait until that one has ended, or choose another `run_dir`."
    with report_unwritable(folder), reported(filelock.Timeout, folder, what, do):
        made = [p for p in (folder, *folder.parents) if not p.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        claim = filelock.FileLock(path).acquire(blocking=False)
    try:
        with claim:
            try:
                yield
            finally:
                with suppress(OSError):  # Windows deletes it after the release
                    path.unlink()
    finally:
        with suppress(OSError):  # not empty
            for empty in made:
                empty.rmdir()


def resume_hint(folder: Path) -> str:
    """Return a sentence that says where the same command will resume."""
    states = saved_steps(folder / "resume")
    if not states:
        return "The same command starts over."
    last = states[-1].stem
    return f"The same command continues from {last}, unless it says `restart`."
