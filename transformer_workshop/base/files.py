"""How is a file written so that nothing is lost, and read so that errors help?

Imports PyTorch and the textbook only where they are used: `--help` needs neither.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


def log(message: object) -> None:
    """Write a message to standard error."""
    if sys.stderr:  # without it, print would write to standard output
        print(message, file=sys.stderr, flush=True)


@contextmanager
def reported(errors: Any, where: object, what: str, do: str) -> Iterator[None]:
    """Turn errors of these classes, raised in the block, into a DataError.

    ``{}`` in ``what`` stands for the error or, if it has one, for its cause. What says
    itself what to do stays as it is.
    """
    try:
        yield
    except errors as error:
        from annotated_transformer import DataError

        for raised in (error, error.__cause__):
            if isinstance(raised, (DataError, ImportError, MemoryError)):
                raise raised from None
        cause = error.__cause__ or error
        reason = getattr(cause, "strerror", None) or cause
        raise DataError(where, what.format(reason), do) from error


def report_unwritable(path: Path) -> AbstractContextManager:
    """Turn an OSError raised in the block into a DataError about path."""
    do = "Make room, or choose another file or folder."
    return reported(OSError, path, "can't be written ({})", do)


@contextmanager
def _renamed_at_the_end(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to path if the block succeeds."""
    temporary = path.with_name(path.name + ".tmp")
    with report_unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
            _folder_to_disk(path.parent)
        finally:
            if temporary.is_dir():
                shutil.rmtree(temporary)
            else:
                temporary.unlink(missing_ok=True)


def _folder_to_disk(folder: Path) -> None:
    """Flush a folder to disk: the names of its files, not their content."""
    with suppress(OSError):  # Windows and some network drives refuse
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _write_to_disk(path: Path, mode: str, data: bytes) -> None:
    """Open a file in a mode, write data and wait until the disk has it."""
    with open(path, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _target(path: Path) -> Path:
    """Return where a link leads, so that what is renamed doesn't replace it."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _written_through(path: Path) -> int | Path | None:
    """Return what can't be renamed over: an open stream, a device; None for a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    for number in (1, 2):  # standard output and standard error
        with suppress(OSError):
            if os.path.samestat(status, os.fstat(number)):
                return number
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return None if is_plain else path


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file so that it ends up complete or unchanged, never half written.

    Creates its folder if needed. A link stays, and so does a device, which is written
    to, as is a file that is standard output. Raises DataError if writing fails.
    """
    if through := _written_through(Path(path)):
        with report_unwritable(Path(path)):
            with open(through, "wb", closefd=isinstance(through, Path)) as file:
                file.write(data)
        return
    with _renamed_at_the_end(_target(Path(path))) as temporary:
        _write_to_disk(temporary, "wb", data)


def check_writable(path: str | Path) -> None:
    """Raise DataError if a file can't be written; make its folder if needed."""
    path = Path(path)
    with report_unwritable(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _written_through(path) is None:
            file = _target(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(file.name + ".tmp")
            temporary.touch()
            temporary.unlink()
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def atomic_folder(folder: str | Path) -> Iterator[Path]:
    """Yield an empty temporary folder, renamed to ``folder`` if the block succeeds.

    Raises DataError if that name is taken or the folder can't be written.
    """
    folder = _target(Path(folder))
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        from annotated_transformer import DataError

        raise DataError(folder, "exists already", "Choose another one, or delete it.")
    with _renamed_at_the_end(folder) as temporary:
        shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
        temporary.mkdir()
        yield temporary
        for path in temporary.iterdir():
            _write_to_disk(path, "ab", b"")
        _folder_to_disk(temporary)
        if folder.exists():
            folder.rmdir()


def append_line(path: Path, value: object) -> None:
    """Append a value to a file as one line of JSON, and flush it to disk."""
    with report_unwritable(path):
        _write_to_disk(path, "ab", f"{json.dumps(value)}\n".encode())


def write_json(path: str | Path, value: object) -> None:
    """Write a value as indented JSON, atomically."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    write_atomically(path, f"{text}\n".encode())


def _read(path: str | Path) -> bytes:
    """Return a file's content; raise DataError if it can't be read."""
    errors = OSError, ValueError  # ValueError: not a valid file name
    do = "Check its name and place."
    with reported(errors, path, "can't be read ({})", do):
        return Path(path).read_bytes()


def read_json(path: str | Path) -> Any:
    """Read a JSON file; raise DataError if it is missing or damaged."""
    data, errors = _read(path), (ValueError, RecursionError)
    with reported(errors, path, "is not JSON ({})", "Restore it from a copy."):
        return json.loads(data)


def save_tensors(
    path: str | Path, tensors: dict[str, Tensor], notes: dict[str, Any] | None = None
) -> None:
    """Write named tensors, with notes about them (JSON), to a safetensors file.

    Tensors that share memory (tied weights) are stored once.
    """
    import torch

    from annotated_transformer import optional_import

    save = optional_import("safetensors.torch").save
    first_in: dict[Any, str] = {}  # the name of the first tensor there
    unique: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in tensors.items():
        memory = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if first_in.setdefault(memory if tensor.numel() else name, name) == name:
            unique[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
        else:
            tied[name] = first_in[memory]
    room = "?" * 64  # as long as the checksum that replaces it
    about = {"notes": json.dumps(notes or {}), "tied": json.dumps(tied), "sha256": room}
    data = save(unique, metadata=about)
    write_atomically(path, data.replace(room.encode(), fingerprint(data).encode(), 1))


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """Return a safetensors file's header, and where it ends."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), end


def fingerprint(data: bytes) -> str:
    """Return the SHA-256 of a safetensors file's content, except for this entry."""
    header, end = _header(data)
    header.get("__metadata__", {}).pop("sha256", None)
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(memoryview(data)[end:])
    return digest.hexdigest()


def load_with_notes(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and notes in a file that save_tensors wrote.

    Names that versions before 2026.3 wrote are today's. Raises DataError if the file is
    missing or damaged.
    """
    from annotated_transformer import optional_import

    load, data = optional_import("safetensors.torch").load, _read(path)
    # any error: the package has a class of its own
    with reported(Exception, path, "is damaged ({})", "Restore it or train again."):
        tensors, about = load(data), _header(data)[0].get("__metadata__", {})
        if "sha256" in about and about["sha256"] != fingerprint(data):
            raise ValueError("wrong SHA-256")
        for name, original in json.loads(about.get("tied", "{}")).items():
            tensors[name] = tensors[original]
        # the norms of queries and keys had longer names
        older = re.compile(r"_attn\.(attention\.)?(q|k)(uery|ey)_norm\.")
        named = {older.sub(r"_attn.\2_norm.", n): t for n, t in tensors.items()}
        return named, json.loads(about.get("notes", "{}"))


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """Return the named tensors in a safetensors file, on the CPU."""
    return load_with_notes(path)[0]


def load_state(
    model: nn.Module, tensors: dict[str, Tensor], where: object, assign: bool = False
) -> None:
    """Load weights into a model; if they don't fit, the error names ``where``.

    With ``assign``, the model takes the tensors themselves instead of copies.
    """
    do = "Use the config.json that lies beside it, and the version that wrote both."
    with reported(RuntimeError, where, "holds the weights of another model", do):
        model.load_state_dict(tensors, assign=assign)
