"""Which sentences does a file hold, whatever program wrote it?

A name is that of a text, with a sentence a line, or FILE:COLUMN for a table. Whatever
can't be read is refused, with a command or a step that turns it into what can be.
"""

from __future__ import annotations

import csv
import json
import locale
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.files import log_once, reported
from transformer_workshop.base.text_files import stream_lines
from transformer_workshop.text.formats import (
    UNIT_KINDS,
    kind_of,
    refuse_others,
    report_unreadable,
)
from transformer_workshop.text.units import lacks, meant, memory_columns, stream_units


def column_of(name: str | Path) -> tuple[str, str] | None:
    """Return file and column of a name like text.csv:german; None for other names.

    Raises DataError for a table without a column.
    """
    name = str(name)
    if not os.path.exists(name):
        parts = name.split(":")
        splits = [
            (":".join(parts[:i]), ":".join(parts[i:])) for i in range(1, len(parts))
        ]
        tables = [split for split in splits if kind_of(split[0])]
        there = [split for split in splits if os.path.exists(split[0])]
        for file, column in there[::-1] + tables:
            return (file, column) if column == column.strip() else None
        return None
    kind = kind_of(name)
    if kind not in ("", "subtitles", "folder") or os.path.exists(f"{name}/state.json"):
        do = " and ".join(f"{name}:{column}" for column in _first_columns(name))
        raise DataError(name, "is a table", f"Name the column, too, such as {do}.")
    return None


def _first_columns(file: str) -> list[str]:
    """Return the names, or else the numbers, of a table's first two columns."""
    refuse_others(file)
    if kind_of(file) == "xml":
        names = memory_columns(file)
    else:
        first: Any = next(_rows(file, "1"), None)
        names = list(first) if _is_header(first) else _names(first)
    return names[:2] or ["1"]


def stream_text(name: str | Path) -> Iterator[str]:
    """Yield the lines of a text or of subtitles, or the texts in a column of a table.

    A column is FILE:COLUMN. The file is a table with commas, semicolons, tabs, bars, or
    `` ||| ``, JSON (a list, or an object a line), TMX, XLIFF, PO, MO, Parquet, or a
    folder that Hugging Face's datasets wrote; text may be .gz. A column has a name (in
    JSON also translation.de), or a number from 1. A first row of names is no text, also
    where a number is given. Raises DataError as ``stream_lines`` does, for a file of
    another kind, and for a row without text in the column.
    """
    file, column = column_of(name) or (str(name), "")
    refuse_others(file)
    kind = kind_of(file)
    if not (column or kind):
        yield from _plain(file)
        return
    if kind == "subtitles":
        column = column or "1"
    rows = _rows(file, column)
    for first in islice(rows, 1):
        column = _resolved(first, column)
        if _is_header(first):
            names = ", ".join(map(str, first))
            log_once(f"{file}: its first row has names of columns ({names})")
        else:
            rows = chain([first], rows)
    for number, row in enumerate(rows, 1):
        yield _text_in(file, number, row, column)


def _lines(file: str) -> Iterator[str]:
    """Yield the lines of a text; in one without newlines, carriage returns end them."""
    lines = stream_lines(file)
    begin = list(islice(lines, 2))
    if len(begin) == 1:
        begin = begin[0].split("\r")
    for number, line in enumerate(chain(begin, lines), 1):
        if "\0" in line:
            do = "Name a file of text, or mend this one."
            raise DataError(f"{file}, line {number}", "has a NUL byte", do)
        yield line.replace("\r", " ")


_BARS = re.compile(r" *\|\|\| *")  # between two sentences, in files for word alignment


def _plain(file: str) -> Iterator[str]:
    """Yield the lines of a text; DataError if it looks like a table."""
    lines = _lines(file)
    begin = list(islice(lines, 100))
    for mark, called in (("\t", "tabs"), ("|||", "|||")):
        counts = {line.count(mark) for line in begin}
        if len(begin) > 1 and len(counts) == 1 and (count := counts.pop()):
            what = f"looks like a table: each line has {count + 1} columns between "
            do = f"Name one: {file}:1 is the first column."
            raise DataError(file, what + called, do)
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
    if isinstance(row, list):
        return column
    if column.isdecimal() and column not in names and 0 < int(column) <= len(names):
        return names[int(column) - 1]
    found = meant(column, names)
    return found[0] if len(found) == 1 else column


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
    place = f"{file}, row {number}"
    try:
        text = _value(row, column)
    except (KeyError, TypeError, ValueError):
        raise lacks(place, column, _names(row)) from None
    if text is None:
        return ""  # JSON's null
    if isinstance(text, str):
        return text.replace("\n", " ")
    what = f"has no text in column {column!r}, but {str(text)[:40]}"
    raise DataError(place, what, "Name another as FILE:COLUMN.")


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
    kind = kind_of(file)
    if kind == "json":
        rows = _json_rows(file)
        yield from ([row] if isinstance(row, str) else row for row in rows)
    elif kind in ("", "table"):
        yield from _table_rows(file, column)
    elif kind in UNIT_KINDS:
        yield from (unit.texts for unit in stream_units(file, column))
    else:
        with report_unreadable(file):
            yield from _arrow_rows(file)


def _arrow_rows(file: str) -> Iterator[dict]:
    """Yield the rows of a Parquet or Arrow file, or of a folder of datasets'."""
    kind = kind_of(file)
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
    elif " ||| " in "".join(begin) and all(map(_BARS.search, filter(str.strip, begin))):
        delimiter = "\x1f"  # csv takes one character
        begin = [_BARS.sub(delimiter, line) for line in begin]
        lines = (_BARS.sub(delimiter, line) for line in lines)
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
            break
        inner = [line.count(delimiter) for line in taken[1:-1]]
        if len(inner) > 1 and 0 < width - 1 == min(inner) == max(inner):
            what = f"has a quotation mark that swallows {len(inner) + 1} more rows"
            raise DataError(place, what, do)
        if named and not names:
            names = _names_with(column, row, place)
            width = len(names)
            continue
        number += 1
        if not any(map(str.strip, row)):  # a blank line
            row = [""] * width
        fits = not any(map(str.strip, row[width:])) and (named or len(row) >= width)
        if not fits and (named or delimiter != "\t"):
            what = f"has {len(row)} columns where others have {width}"
            quote = f"Put a text that holds {delimiter!r} between quotation marks."
            do = quote if "strict" in options else "Give each line as many columns."
            raise DataError(f"{file}, row {number}", what, do)
        yield dict(zip(names, row)) if named else row
    if names and not number:
        what = "has names of columns, and no row below them"
        raise DataError(file, what, "Name a file with sentences.")


def _names_with(column: str, row: list[str], place: str) -> list[str]:
    """Return the names in a table's first row; DataError if not one is the column's."""
    names = [name.strip("\ufeff ") for name in row]
    found = meant(column, names)
    if len(found) != 1:
        raise lacks(place, column, names)
    if (count := names.count(found[0])) > 1:
        what = f"has {count} columns called {found[0]!r}"
        raise DataError(place, what, "Rename one, or use a number.")
    return names


_WORDS = {  # of the names of columns
    *"source target src tgt trg sentence sentences text translation original".split(),
    *"reference id key name label".split(),
    *locale.locale_alias,  # de, en_us, german
}


def _is_header(row: Any) -> bool:
    """Return whether a row without names is itself that of the columns' names."""
    cells = row if isinstance(row, list) else []
    cells = [str(cell).strip("\ufeff ").casefold() for cell in cells if cell]
    for cell in cells:
        words = re.findall(r"[^\W_]+", cell)
        if cell.replace("-", "_") not in _WORDS and not _WORDS.issuperset(words):
            return False
    return 1 < len(cells) == len(set(cells)) and any(map(str.isalnum, "".join(cells)))


def _noted(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """Yield lines for a reader of CSV, and append them to ``taken``."""
    for line in lines:
        taken.append(line)
        yield f"{line}\n"


_DOUBLED = r'"([^"]|"")*""([^"]|"")*"'  # a text between quotation marks that has some


def _options(begin: list[str], delimiter: str, strict: bool = True) -> dict[str, Any]:
    """Return how to read a table of text; between tabs, quotes seldom mean anything."""
    if delimiter == "\x1f":
        return {"delimiter": delimiter, "quoting": csv.QUOTE_NONE}
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
        yield from rows
        return
    for number, line in enumerate(chain(begin, lines), 1):
        yield _parsed(f"{file}, line {number}", line) if line.strip() else None


_JSON = "Give a list of objects, or an object on each line."


def _parsed(place: str, text: str) -> Any:
    """Return what JSON holds; DataError if it is damaged."""
    with reported(ValueError, place, "is not JSON ({})", _JSON):
        return json.loads(text)
