"""Is this still the text that a run or a store was made from?"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable
from pathlib import Path

from annotated_transformer import Example
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import reported
from transformer_workshop.text.tables import column_of


def fingerprint_of_ids(examples: Iterable[Example]) -> str:
    """Return a SHA-256 over the ids of all the examples, in order."""
    digest = hashlib.sha256()
    for src, tgt in examples:
        digest.update(array("i", [len(src), *src, *tgt]).tobytes())
    return digest.hexdigest()


def fingerprint_of_file(name: str) -> str:
    """Return a SHA-256 of what a file holds, or of the files in a folder."""
    file = Path(name)
    digest, do = hashlib.sha256(), "Check its name and place."
    with reported(OSError, file, "can't be read ({})", do):
        files = [f for f in sorted(file.rglob("*")) if f.is_file()]
        for path in files if file.is_dir() else [file]:
            with open(path, "rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


_MADE_FROM = "train_src", "train_tgt", "valid_src", "valid_tgt"


def files_of(config: TrainingConfig) -> dict[str, str]:
    """Return the files of text that a configuration names, without columns."""
    named = {name: getattr(config, name) for name in _MADE_FROM}
    return {n: (column_of(file) or [file])[0] for n, file in named.items() if file}


def fingerprints_of(config: TrainingConfig) -> dict[str, str]:
    """Return the SHA-256 of each file of text, and of the store, that is there."""
    files = files_of(config)
    if config.store:
        files["store"] = str(Path(config.store, "store.json"))
    there = {n: f for n, f in files.items() if os.path.isfile(f) or os.path.isdir(f)}
    return {name: fingerprint_of_file(file) for name, file in there.items()}


def changed(there: dict[str, str], config: TrainingConfig) -> str:
    """Return which of a configuration's files aren't what they were, or ""."""
    now = fingerprints_of(config)
    names = [name for name in there if now.get(name, there[name]) != there[name]]
    return ", ".join(f"{name} ({getattr(config, name)})" for name in names)
