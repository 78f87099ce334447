"""What is a file: a text, a table, a translator's file, or something else?"""

from __future__ import annotations

import os
import re
import shlex
import zlib
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from annotated_transformer import DataError
from transformer_workshop.base.files import reported
from transformer_workshop.base.text_files import likely_encoding, open_bytes

_ENDINGS = {
    "table": (".csv", ".tsv", ".tab"),
    "json": (".json", ".jsonl", ".ndjson"),
    "xml": (".xml", ".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff"),
    "catalog": (".po", ".pot", ".mo", ".gmo"),
    "subtitles": (".srt", ".vtt", ".ass", ".ssa", ".sub"),
    "parquet": (".parquet",),
    "arrow": (".arrow",),
}
_KIND_OF = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
_BEGINNINGS = (
    (rb"(\xef\xbb\xbf)?\s*<(\?xml|tmx|xliff)\b", "xml"),
    (rb"\xff\xfe<\0|\xfe\xff\0<", "xml"),  # in UTF-16
    (rb"\xde\x12\x04\x95|\x95\x04\x12\xde", "catalog"),
    (rb"(\xef\xbb\xbf)?(WEBVTT|\[Script Info\])", "subtitles"),
    (rb"(\xef\xbb\xbf)?\s*\d+\s*\n[\d:,. ]+-->", "subtitles"),
    (rb"(\xef\xbb\xbf)?\{\d+\}\{\d+\}", "subtitles"),  # MicroDVD
    (rb"PAR1", "parquet"),
    (rb'{"|\[{"', "json"),
)
UNIT_KINDS = "xml", "catalog", "subtitles"

_OFFICE = (
    "is a document of an office program",
    "Save it there as CSV (UTF-8), or as text with a sentence a line.",
)
_UNPACK = "Unpack it: `python -m {} -e {{0}} {{1}}`."
_TAR = "is a tar archive", _UNPACK.format("tarfile")
_SAVE = "Save its text as UTF-8, a sentence a line."
_YAML = "is YAML", "Write its texts as CSV, or as JSON with an object on each line."
_OTHERS = (  # how else a file begins; what it is; what to do, with its name and stem
    (rb"PK\x03\x04", "is a zip archive", _UNPACK.format("zipfile")),
    (rb"7z\xbc\xaf\x27\x1c", "is a 7z archive", "Unpack it: `7z x {0}`."),
    (rb"Rar!\x1a\x07", "is a RAR archive", "Unpack it: `unrar x {0}`."),
    (rb"(?s).{257}ustar", *_TAR),
    (rb"BZh", "is compressed with bzip2", "Unpack it: `bzip2 -dk {0}`."),
    (rb"\xfd7zXZ", "is compressed with xz", "Unpack it: `xz -dk {0}`."),
    (rb"\x28\xb5\x2f\xfd", "is compressed with zstd", "Unpack it: `zstd -d {0}`."),
    (rb"\x1f\x8b", "is compressed with gzip", "Give it a name that ends in .gz."),
    (rb"SQLite format 3\0", "is an SQLite database",
     "Export a table: `sqlite3 -csv -header {0} 'select * from NAME' > {1}.csv`."),
    (rb"{\\rtf", "is RTF", _SAVE),
    (rb"%PDF", "is a PDF", _SAVE),
    (rb"(?i)(\xef\xbb\xbf)?\s*<(!doctype )?html", "is a web page", _SAVE),
    (rb"%YAML|---\r?\n", *_YAML),
    (rb"\xd0\xcf\x11\xe0", *_OFFICE),
    (rb"<srcset|<refset|<tstset|<DOC", "is SGML",
     r"Convert it: `sed -n 's/.*<seg[^>]*>\(.*\)<\/seg>.*/\1/p' {0} > {1}.txt`."),
)  # fmt: skip
_OTHER_ENDINGS = {  # for what begins like another format, or like a text
    (".xlsx", ".ods", ".docx", ".odt", ".pptx", ".odp"): _OFFICE,
    (".tgz", ".tar.gz"): _TAR,
    (".yaml", ".yml"): _YAML,
}
_POINTER = b"version https://git-lfs"


def report_unreadable(file: str) -> AbstractContextManager:
    """Turn an error raised in the block into a DataError about a file.

    That is any error, as each library that reads files has classes of its own.
    """
    do = "Check it, or export it again."
    return reported(Exception, file, "can't be read ({})", do)


_GZIP = b"\x1f\x8b"


def _beginning(file: str) -> bytes:
    """Return the first bytes of a file, unpacked; a pipe is left alone."""
    with suppress(OSError, EOFError, zlib.error):  # who reads it will say why
        if os.path.isfile(file):
            with open(file, "rb") as opened:
                begins = opened.read(4096)
            if not (file.endswith(".gz") and begins.startswith(_GZIP)):
                return begins
            with open_bytes(file) as unpacked:
                return unpacked.read(4096)
    return b""


def _is_called_gzip(file: str) -> bool:
    """Return whether a file that isn't compressed with gzip has a name that says so."""
    if not (file.endswith(".gz") and os.path.isfile(file)):
        return False
    with open(file, "rb") as opened:
        return opened.read(2) != _GZIP


def kind_of(file: str) -> str:
    """Return the kind of table that a file or a folder is, or "" for a text."""
    if os.path.isdir(file):
        return "folder"
    suffix = Path(file.lower().removesuffix(".gz")).suffix
    if kind := _KIND_OF.get(suffix):
        return kind
    begins = _beginning(file)
    return next((kind for start, kind in _BEGINNINGS if re.match(start, begins)), "")


def refuse_others(file: str) -> None:
    """Raise DataError for a file that is neither a text nor a table we read."""
    begins = _beginning(file)
    if begins.startswith(_POINTER):
        what = "is a pointer of Git LFS, not the file itself"
        raise DataError(file, what, "Fetch the file: `git lfs pull`.")
    found = [say for start, *say in _OTHERS if re.match(start, begins)]
    for endings, say in _OTHER_ENDINGS.items():
        if os.path.isfile(file) and file.lower().endswith(endings):
            found = [list(say)]
    for what, do in found:
        stem = os.path.splitext(file)[0].removesuffix(".tar") or "unpacked"
        raise DataError(file, what, do.format(shlex.quote(file), shlex.quote(stem)))
    if _is_called_gzip(file):  # who reads it will say so
        return
    if b"\0" in begins and kind_of(file) in ("", "table", "json", "subtitles"):
        encoding, _, do = likely_encoding(file, begins)
        if encoding.startswith(("UTF-16", "UTF-32")):
            raise DataError(file, f"is {encoding}", do)
        do = "Name a file of text, in UTF-8, or a table."
        raise DataError(file, "is no text: it has NUL bytes", do)
