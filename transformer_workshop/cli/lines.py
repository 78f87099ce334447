"""Which lines are to be translated: a sentence's, a file's, or those that arrive?"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

from annotated_transformer import DataError
from transformer_workshop.base.files import log
from transformer_workshop.base.text_files import decode_line
from transformer_workshop.models.translator import Notes
from transformer_workshop.text.tables import column_of, stream_text


def read_available_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield a stream's lines as they arrive, as many at a time as are available."""
    begun = bytearray()  # a line that has not ended yet
    while data := stream.read1(8192):  # type: ignore[attr-defined]
        *lines, last = data.split(b"\n")
        if lines:
            lines[0] = bytes(begun) + lines[0]
            begun.clear()
            yield lines
        begun += last
    if begun:
        yield [bytes(begun)]


def standard_input() -> Iterator[list[bytes]]:
    """Yield the lines of standard input as they arrive."""
    return read_available_lines(sys.stdin.buffer)


def encode_or_refuse(notes: Notes, number: int, line: bytes) -> list[list[int]] | None:
    """Return the ids of a line's sentences, or None (with a note) if it is refused.

    ``notes`` names unknown words.
    """
    translator = notes.translator
    longest = translator.config.max_tokens
    try:
        if len(line) > 1000 * longest:  # slow to tokenize, and refused anyway
            what = f"has {len(line):,} bytes, the model takes {longest} tokens"
            raise DataError("input", what, "Split it.")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        decoded = decode_line("input", number, line)
        rows = translator.encode_line(decoded)
    except DataError as error:
        log(f"input, line {number}: {error.what}. {error.do} Left empty.")
        return None
    notes.add_unknown(number, decoded, rows)
    return rows


def lines_named(argument: str) -> list[bytes]:
    """Return the lines that an argument stands for: a file's, or itself as a sentence.

    Only what exists is a file or a table's column; "-" is standard input. A note says
    what was taken for the other one of the two, if that is not obvious.
    """
    if argument == "-":
        return sum(standard_input(), [])
    column = column_of(argument)
    is_file = os.path.exists(column[0] if column else argument)
    if is_file and (column or not os.path.isdir(argument)):
        if not re.search(r"[./\\:]", argument):
            log(f"{argument}: is a file here, so its lines are translated")
        # half a character is refused later, with the number of its line
        texts = stream_text(argument)
        return [text.encode(errors="surrogatepass") for text in texts]
    if re.fullmatch(r"\S+\.[a-z]{2,5}(:\w+)?", argument) or os.path.isdir(argument):
        what = "a folder" if os.path.isdir(argument) else "no file here"
        log(f"{argument}: is {what}, so it is translated as a sentence")
    return [os.fsencode(argument)]
