"""Which sentences does a file hold, whatever program wrote it?

A name is that of a text, with a sentence a line, or FILE:COLUMN for a table. Whatever
can't be read is refused, with a command or a step that turns it into what can be.
"""

from __future__ import annotations

import ast
import csv
import gzip
import json
import os
import re
import shlex
import struct
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from xml.etree import ElementTree

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.files import reported
from transformer_workshop.base.text_files import stream_lines

_ENDINGS = {
    "table": (".csv", ".tsv", ".tab"),
    "json": (".json", ".jsonl", ".ndjson"),
    "xml": (".xml", ".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff"),
    "po": (".po", ".pot"),
    "mo": (".mo", ".gmo"),
    "parquet": (".parquet",),
    "arrow": (".arrow",),
}
_KIND_OF = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
_BEGINNINGS = {
    b"<?xml": "xml",
    b"<tmx": "xml",
    b"<xliff": "xml",
    b"\xef\xbb\xbf<?xml": "xml",
    b"\xde\x12\x04\x95": "mo",
    b"\x95\x04\x12\xde": "mo",
    b"PAR1": "parquet",
    b'{"': "json",
    b'[{"': "json",
}
_OFFICE = "Save it there as CSV (UTF-8), or as text with a sentence a line."
_UNPACK = "Unpack it: `python -m {} -e {{0}} {{1}}`."
_OTHERS = (  # how else a file begins; what it is; what to do, with its name and stem
    (b"PK\x03\x04", "is a zip archive", _UNPACK.format("zipfile")),
    (b"BZh", "is compressed with bzip2", "Unpack it: `bzip2 -dk {0}`."),
    (b"\xfd7zXZ", "is compressed with xz", "Unpack it: `xz -dk {0}`."),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", "Unpack it: `zstd -d {0}`."),
    (b"\x1f\x8b", "is compressed with gzip", "Give it a name that ends in .gz."),
    (b"%PDF", "is a PDF", "Save its text as UTF-8, a sentence a line."),
    (b"\xd0\xcf\x11\xe0", "is a document of an office program", _OFFICE),
    *(
        (mark, "is UTF-16", "Convert it: `iconv -f UTF-16 -t UTF-8 {0} > {1}.utf8{2}`.")
        for mark in (b"\xff\xfe", b"\xfe\xff")
    ),
    *(
        (
            tag,
            "is SGML",
            r"Convert it: `sed -n 's/.*<seg[^>]*>\(.*\)<\/seg>.*/\1/p' {0} > {1}.txt`.",
        )
        for tag in (b"<srcset", b"<refset", b"<tstset", b"<DOC")
    ),
)
_OFFICE_ENDINGS = (".xlsx", ".ods", ".docx", ".odt", ".pptx", ".odp")


def _beginning(file: str) -> bytes:
    """Return the first bytes of a file, unpacked; a pipe is left alone."""
    with suppress(OSError, EOFError, zlib.error):  # who reads it will say why
        if os.path.isfile(file):
            with _content(file) as opened:
                return opened.read(300)
    return b""


def _kind(file: str) -> str:
    """Return the kind of table that a file or a folder is, or "" for a text."""
    if os.path.isdir(file):
        return "folder"
    suffix = Path(file.lower().removesuffix(".gz")).suffix
    if kind := _KIND_OF.get(suffix):
        return kind
    begins = _beginning(file)
    return next((k for b, k in _BEGINNINGS.items() if begins.startswith(b)), "")


def _refuse_others(file: str) -> None:
    """Raise DataError for a file that is neither a text nor a table we read."""
    begins, lower = _beginning(file), file.lower()
    stem, suffix = os.path.splitext(file)
    what = do = ""
    for start, said, advice in _OTHERS:
        if begins.startswith(start):
            what, do = said, advice
    if what and lower.endswith(_OFFICE_ENDINGS):
        what, do = "is a document of an office program", _OFFICE
    if lower.endswith((".tgz", ".tar.gz")) or begins[257:262] == b"ustar":
        what, do = "is a tar archive", _UNPACK.format("tarfile")
        stem = stem.removesuffix(".tar")
    if what:
        names = shlex.quote(file), shlex.quote(stem or "unpacked"), suffix
        raise DataError(file, what, do.format(*names))


def column_of(name: str | Path) -> tuple[str, str] | None:
    """Return file and column of a name like text.csv:german; None for other names.

    Raises DataError for a table without a column.
    """
    name = str(name)
    file, _, column = name.rpartition(":")
    if not os.path.exists(name):
        is_table = file and (_kind(file) or os.path.isfile(file))
        return (file, column) if is_table and column == column.strip() else None
    kind = _kind(name)
    if kind and (kind != "folder" or os.path.exists(f"{name}/state.json")):
        do = f"Name the column, too: {name}:1 is the first one."
        raise DataError(name, "is a table", do)
    return None


def stream_text(name: str | Path) -> Iterator[str]:
    """Yield the lines of a text file, or the texts in a column of a table.

    A column is FILE:COLUMN. The file is a table with commas, semicolons, tabs, or bars,
    JSON (a list, or an object a line), TMX, XLIFF, PO, MO, Parquet, or a folder that
    Hugging Face's datasets wrote; text may be .gz. A column has a name (in JSON also
    translation.de), or a number from 1. In a table whose names are its first row, a
    number makes that one row like the others. Raises DataError as ``stream_lines``
    does, for a file of another kind, and for a row without text in the column.
    """
    if (found := column_of(name)) is None:
        _refuse_others(str(name))
        yield from _plain(str(name))
        return
    file, column = found
    _refuse_others(file)
    rows = _rows(file, column)
    for first in islice(rows, 1):
        column = _resolved(first, column)
        rows = chain([first], rows)
    for number, row in enumerate(rows, 1):
        yield _text_in(file, number, row, column)


def _lines(file: str) -> Iterator[str]:
    """Yield the lines of a text; in one without newlines, carriage returns end them."""
    lines = stream_lines(file)
    begin = list(islice(lines, 2))
    if len(begin) == 1:
        begin = begin[0].split("\r")
    for line in chain(begin, lines):
        yield line.replace("\r", " ")


def _plain(file: str) -> Iterator[str]:
    """Yield the lines of a text; DataError if it looks like a table."""
    lines = _lines(file)
    begin = list(islice(lines, 100))
    tabs = {line.count("\t") for line in begin}
    if len(begin) > 1 and len(tabs) == 1 and (count := tabs.pop()):
        what = f"looks like a table: each line has {count + 1} columns between tabs"
        raise DataError(file, what, f"Name one: {file}:1 is the first column.")
    yield from chain(begin, lines)


def _names(row: Any) -> list[str]:
    """Return the names of a row's columns, such as translation.de, or their numbers."""
    if isinstance(row, list):
        return [str(number) for number in range(1, len(row) + 1)]
    found = []
    for name, value in row.items() if isinstance(row, dict) else ():
        inner = _names(value) if isinstance(value, dict) else []
        found += [f"{name}.{each}" for each in inner] or [str(name)]
    return found


def _resolved(row: Any, column: str) -> str:
    """Return the name of the column that is meant by a number, or by another case."""
    names = _names(row)
    if column in names or isinstance(row, list):
        return column
    if column.isdecimal() and 0 < int(column) <= len(names):
        return names[int(column) - 1]
    wanted = column.casefold()
    same = [name for name in names if name.casefold() == wanted] or [
        name for name in names if _language(name) == wanted
    ]
    return same[0] if len(same) == 1 else column


def _value(row: Any, column: str) -> Any:
    """Return what a row holds in a column; an error if it lacks that."""
    if isinstance(row, list):
        return dict(enumerate(row, 1))[int(column)]
    name, _, inner = column.partition(".")
    return row[column] if column in row or not inner else _value(row[name], inner)


def _text_in(file: str, number: int, row: Any, column: str) -> str:
    """Return a row's text in a column; DataError if there is none."""
    if row is None:  # a blank line of JSON
        return ""
    try:
        text = _value(row, column)
        if text is None:
            return ""  # JSON's null
    except (KeyError, TypeError, ValueError):
        text = None
    if isinstance(text, str):
        return " ".join(text.split("\n"))
    names = _names(row)
    known = f"1 to {len(names)}" if isinstance(row, list) else ", ".join(names)
    what = f"has no text in column {column!r} (columns: {known})"
    raise DataError(f"{file}, row {number}", what, "Name another as FILE:COLUMN.")


def datasets_library() -> ModuleType:
    """Import Hugging Face's datasets; show its progress bars only in a terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about progress bars for notebooks
        datasets = optional_import("datasets")
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _rows(file: str, column: str) -> Iterator[Any]:
    """Yield the rows of a table: lists, or dictionaries where columns have names."""
    kind = _kind(file)
    if kind == "json":
        yield from _json_rows(file)
    elif kind in ("", "table"):
        yield from _table_rows(file, column)
    else:
        read = {"xml": _xml_rows, "po": _po_rows, "mo": _mo_rows}.get(kind, _arrow_rows)
        do = "Check it, or export it again."
        with reported(Exception, file, "can't be read ({})", do):  # any error:
            yield from read(file)  # each library has classes of its own


def _arrow_rows(file: str) -> Iterator[dict]:
    """Yield the rows of a Parquet or Arrow file, or of a folder of datasets'."""
    kind = _kind(file)
    if kind == "parquet":
        parquet = optional_import("pyarrow.parquet")
        for batch in parquet.ParquetFile(file).iter_batches(1000):
            yield from batch.to_pylist()
        return
    datasets = datasets_library()
    if kind == "arrow":
        yield from datasets.Dataset.from_file(file)
        return
    found = datasets.load_from_disk(file)
    if isinstance(found, dict):
        what = f"holds several splits: {', '.join(found)}"
        raise DataError(file, what, f"Name one: {file}/{next(iter(found))}:COLUMN.")
    yield from found


# tables of text


def _without_blank_end(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, but for blank ones at the end."""
    blank = []
    for line in lines:
        blank.append(line)
        if line.strip():
            yield from blank
            blank = []


def _table_rows(file: str, column: str) -> Iterator[Any]:
    """Yield the rows of a table of text, whatever separates its columns."""
    lines, skipped = _without_blank_end(_lines(file)), 0
    begin = list(islice(lines, 100))
    if begin and (declared := re.fullmatch(r'(?i)"?sep=(.)"?;*', begin[0])):  # Excel's
        skipped, delimiter, begin = 1, declared[1], begin[1:]
    else:
        delimiter = _delimiter(begin, column, file)
    lines, taken = chain(begin, lines), list[str]()
    options = _options(begin, delimiter)
    table = csv.reader(_noted(lines, taken), **options)
    do = "Cut that text into sentences."
    if "strict" in options:
        do = 'Close its quotation marks; write "" for one that belongs to the text.'
    named, names = not column.isdecimal(), list[str]()
    widths = Counter(map(len, _first_rows(begin, delimiter)))
    [(width, _)] = widths.most_common(1) or [(0, 0)]
    number = 0  # of the row; names aren't one
    while True:
        place = f"{file}, line {table.line_num + skipped + 1}"
        taken.clear()
        with reported(csv.Error, place, "can't be read ({})", do):
            row = next(table, None)
        if row is None:
            return
        inner = [line.count(delimiter) for line in taken[1:-1]]
        if len(inner) > 1 and set(inner) == {width - 1}:
            what = f"has a quotation mark that swallows {len(inner) + 1} more rows"
            raise DataError(place, what, do)
        if named and not names:
            names = [name.strip("\ufeff ") for name in row]
            width = len(names)
            if column and names.count(column) > 1:
                what = f"has {names.count(column)} columns called {column!r}"
                raise DataError(file, what, "Rename one, or use a number.")
            continue
        number += 1
        if any(map(str.strip, row[width:])) and (named or delimiter != "\t"):
            what = f"has {len(row)} columns where others have {width}"
            quote = f"Put a text that holds {delimiter!r} between quotation marks."
            raise DataError(f"{file}, row {number}", what, quote)
        if not any(map(str.strip, row)):  # a blank line
            row = [""] * width
        yield dict(zip(names, row)) if named else row


def _noted(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """Yield lines for a reader of CSV, and append them to ``taken``."""
    for line in lines:
        taken.append(line)
        yield f"{line}\n"


_DOUBLED = r'"([^"]|"")*""([^"]|"")*"'  # a text between quotation marks that has some


def _options(begin: list[str], delimiter: str, strict: bool = True) -> dict[str, Any]:
    """Return how to read a table of text; between tabs, quotes seldom mean anything."""
    if delimiter != "\t":
        return {"delimiter": delimiter, "strict": strict, "skipinitialspace": True}
    fields = [field for line in begin for field in line.split("\t") if field]
    every = all(len(f) > 1 and f[0] == f[-1] == '"' for f in fields)
    if fields and (every or any(re.fullmatch(_DOUBLED, f) for f in fields)):
        return {"delimiter": "\t", "strict": strict}
    return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}


def _first_rows(begin: list[str], delimiter: str) -> list[list[str]]:
    """Return the rows in a table's first lines, as far as they can be read."""
    rows = []
    with suppress(csv.Error):  # who reads all of them will say where
        for row in csv.reader(begin, **_options(begin, delimiter, strict=False)):
            rows.append(row)
    return rows


def _delimiter(begin: list[str], column: str, file: str) -> str:
    """Return what separates a table's columns, judged by its first lines."""

    def fitness(delimiter: str) -> tuple:
        rows = _first_rows(begin, delimiter) or [[]]
        first = [name.strip("\ufeff ").casefold() for name in rows[0]]
        if column.isdecimal():
            holds = 1 < len(first) and int(column) <= len(first)
        else:
            holds = column.casefold() in first
        same = sum(len(row) == len(first) for row in rows) / len(rows)
        return holds, same if len(first) > 1 else same / 2, len(first) > 1

    tabs = ".tsv" in file.lower()
    candidates = "\t;|," if tabs or not file.lower().endswith(".csv") else ";\t|,"
    return max(candidates, key=fitness) if begin else ","


# other formats


def _json_rows(file: str) -> Iterator[Any]:
    """Yield what a list in JSON holds, or the lines of a file with one object each."""
    lines = _without_blank_end(_lines(file))
    begin = list(islice(lines, 1))
    while begin and not begin[-1].strip():
        begin.append(next(lines))
    start = begin[-1].strip() if begin else ""
    begin += islice(lines, 1)
    alone = len(begin) == 1 and start.startswith("[")
    if alone or start in ("[", "{") or re.match(r"\[\s*[\[{]", start):
        rows = _parsed(file, "\n".join([*begin, *lines]))
        if not isinstance(rows, list):
            raise DataError(file, "holds one object of JSON, not a list", _JSON)
        yield from ([row] if isinstance(row, str) else row for row in rows)
        return
    for number, line in enumerate(chain(begin, lines), 1):
        yield _parsed(f"{file}, line {number}", line) if line.strip() else None


_JSON = "Give a list of objects, or an object on each line."


def _parsed(place: str, text: str) -> Any:
    """Return what JSON holds; DataError if it is damaged."""
    with reported(ValueError, place, "is not JSON ({})", _JSON):
        return json.loads(text)


def _content(file: str) -> IO[bytes]:
    """Open a file to read, plain or .gz."""
    opened: Any = gzip.open if file.endswith(".gz") else open
    return opened(file, "rb")


def _tag(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _text_of(element: ElementTree.Element) -> str:
    """Return an element's text without the codes of a document's format."""
    text = element.text or ""
    for child in element:
        inside = _tag(child) in ("hi", "g", "mrk", "pc")
        text += (_text_of(child) if inside else "") + (child.tail or "")
    return text


def _xml_rows(file: str) -> Iterator[dict[str, str]]:
    """Yield the units of a TMX or XLIFF file: texts by language, or source and target.

    What a unit lacks is blank. Where some units are in de and others in DE or de-AT,
    all of them are in de.
    """
    found = dict.fromkeys(name for unit in _units(file) for name in unit)
    same = {name.casefold(): name for name in reversed(found)}
    name_of = {name: same.get(_language(name), same[name.casefold()]) for name in found}
    blank = dict.fromkeys(name_of.values(), "")
    for unit in _units(file):
        yield blank | {name_of[name]: unit[name] for name in reversed(unit)}


def _language(name: str) -> str:
    """Return a language without its country: de for de-DE or de_AT."""
    return re.split("[-_]", name.casefold())[0]


def _units(file: str) -> Iterator[dict[str, str]]:
    """Yield what each unit of a TMX or XLIFF file holds."""
    root, languages = "", ("", "")
    with _content(file) as opened:
        for event, element in ElementTree.iterparse(opened, ["start", "end"]):
            tag, row = _tag(element), dict[str, str]()
            root = root or tag
            if event == "start" and tag in ("file", "xliff"):
                for one, two in _XLIFF_LANGUAGES:
                    if one in element.attrib or two in element.attrib:
                        languages = element.get(one, ""), element.get(two, "")
            elif event == "end" and tag == "tu":
                for part in element:
                    language = part.get(_LANGUAGE) or part.get("lang", "")
                    for each in part:
                        if _tag(each) == "seg":
                            row[language] = _text_of(each)
            elif event == "end" and tag in ("trans-unit", "segment"):
                sides = {_tag(each): each for each in element}
                if {side.get("state") for side in (element, *sides.values())} & _TODO:
                    sides.pop("target", None)
                texts = [_text_of(sides[side]) if side in sides else ""
                         for side in ("source", "target")]  # fmt: skip
                row = dict(zip(("source", "target"), texts))
                row |= {name: t for name, t in zip(languages, texts) if name}
            if row:
                yield row
                element.clear()
    if root not in ("tmx", "xliff"):
        do = "Export TMX, XLIFF, CSV, or text with a sentence a line."
        raise DataError(file, f"is XML of another kind (<{root}>)", do)


_TODO = {"new", "needs-translation", "initial"}  # states of a target in XLIFF
_XLIFF_LANGUAGES = ("source-language", "target-language"), ("srcLang", "trgLang")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_PO_TEXT = r'\s+((?:"(?:[^"\\\n]|\\.)*"\s*)+)'
_PO_MESSAGE = re.compile(
    rf"((?:^\#.*\n)*)(?:^msgctxt{_PO_TEXT})?^msgid{_PO_TEXT}"
    rf"(?:^msgid_plural{_PO_TEXT})?^msgstr(?:\[0\])?{_PO_TEXT}",
    re.M,
)


def _po_rows(file: str) -> Iterator[dict[str, str]]:
    """Yield the messages of a PO file, but for those that are marked as fuzzy."""
    text = "\n".join(_lines(file))
    if lost := re.search("^msgid .*", _PO_MESSAGE.sub("", text), re.M):
        raise ValueError(f"{lost[0]} has no msgstr, or a quotation mark too few")
    for comment, _, *texts in _PO_MESSAGE.findall(text):
        source, _, target = (text and ast.literal_eval(f"({text})") for text in texts)
        if source and not re.search("^#,.*fuzzy", comment, re.M):
            yield {"msgid": source, "msgstr": target}


def _mo_rows(file: str) -> Iterator[dict[str, str]]:
    """Yield the messages of an MO file, which gettext compiles from PO."""
    with _content(file) as opened:
        data = opened.read()
    order = "<" if data.startswith(b"\xde\x12\x04\x95") else ">"
    count, *tables = struct.unpack_from(f"{order}3I", data, 8)
    for i in range(count):
        row = []
        for table in tables:
            length, start = struct.unpack_from(f"{order}2I", data, table + 8 * i)
            text = data[start : start + length].split(b"\0")[0]  # before plurals
            row.append(text.rpartition(b"\4")[2].decode())  # after a context
        if row[0]:  # otherwise it is the header
            yield dict(zip(("msgid", "msgstr"), row))
