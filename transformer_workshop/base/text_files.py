"""How is a text read line by line, so that an error says where it is?"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from annotated_transformer import DataError, optional_import


def open_bytes(path: str | Path) -> IO[bytes]:
    """Open a file to read its bytes, unpacked if its name ends in .gz.

    Raises OSError if there is no such file, and ValueError if its name can't be one.
    """
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    return opened(path, "rb")


def stream_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, plain or .gz, without line endings.

    Raises DataError if the file is missing, cut off, or not UTF-8; it then names the
    encoding that is likely.
    """
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                try:
                    decoded = decode_line(path, number, line.removesuffix(b"\n"))
                except DataError as error:
                    name, shown, do = likely_encoding(path, line + file.read(50_000))
                    do = f"If {shown!r} is right, it is {name}. {do}" if name else do
                    raise DataError(error.where, error.what, do) from error
                yield decoded
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


_ICONV = {  # how it calls encodings, where Python calls them otherwise
    "-LE": "LE",
    "-BE": "BE",
    "LATIN-1": "LATIN1",
    "MAC-ROMAN": "MACINTOSH",
    "ISO2022": "ISO-2022",
}


def likely_encoding(path: str | Path, data: bytes) -> tuple[str, str, str]:
    """Return the encoding that a file's bytes suggest, some text, and what to do.

    "" stands for none. Where a character is a byte, the wrong encoding is often as
    likely, which shows in the text: it is from where a letter isn't ASCII.
    """
    best = optional_import("charset_normalizer").from_bytes(data).best()
    if best is None:
        return "", "", "Save the text as UTF-8, if it is one."
    name = best.encoding.upper().replace("_", "-")
    for ours, theirs in _ICONV.items():
        name = name.replace(ours, theirs)
    text = str(best)
    shown = re.search(r".{0,20}[^\0-\x7f].{0,20}", text) or re.search(".{0,40}", text)
    stem, suffix = os.path.splitext(str(path).removesuffix(".gz"))
    old, new = shlex.quote(str(path)), shlex.quote(f"{stem}.utf8{suffix}")
    iconv = f"iconv -f {name} -t UTF-8"
    packed = str(path).endswith(".gz")
    command = f"gzip -dc {old} | {iconv}" if packed else f"{iconv} {old}"
    return name, shown[0].strip() if shown else "", f"Convert it: `{command} > {new}`."
