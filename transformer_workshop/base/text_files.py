"""How is a text read line by line, so that an error says where it is?"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from annotated_transformer import DataError


def stream_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, plain or .gz, without line endings.

    Raises DataError if the file is missing, cut off, or not UTF-8.
    """
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield decode_line(path, number, line.removesuffix(b"\n"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"is a damaged or cut off gzip file ({error})"
        raise DataError(path, what, "Fetch or compress it again.") from error
    except (OSError, ValueError) as error:  # ValueError: not a valid file name
        what = f"can't be read ({getattr(error, 'strerror', None) or error})"
        raise DataError(path, what, "Check its name and place.") from error


def read_lines(path: str | Path) -> list[str]:
    """Return the lines that ``stream_lines`` yields."""
    return list(stream_lines(path))


def decode_line(where: object, number: int, line: bytes) -> str:
    """Decode a line of text, dropping carriage returns at its end."""
    try:
        return line.rstrip(b"\r").decode()
    except UnicodeDecodeError as error:
        where = f"{where}, line {number}"
        what = f"is not UTF-8 (byte {line[error.start]:#04x})"
        raise DataError(where, what, "Save the text as UTF-8.") from error
