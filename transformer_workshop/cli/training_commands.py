"""What do `train` and `prepare` do?"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from annotated_transformer import DataError
from transformer_workshop.base.config import (
    SIZES,
    TrainingConfig,
    choose_config,
    load_config,
)
from transformer_workshop.base.files import log, report_unwritable
from transformer_workshop.text.cleaning import write_splits
from transformer_workshop.text.corpora import stream_parallel
from transformer_workshop.text.store import prepare_store
from transformer_workshop.training.inputs import read_inputs
from transformer_workshop.training.interruptions import raise_on_signal
from transformer_workshop.training.loop import launch_training
from transformer_workshop.training.run_folder import (
    claim_folder,
    is_finished,
    resume_hint,
    starts_so_far,
)
from transformer_workshop.training.sizing import fit_subwords


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
            inputs = read_inputs(config, starts, given=given if fits else None)
            if arguments.dry_run:
                return 0
            launch_training(inputs, restart, report=True)
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
