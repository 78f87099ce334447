"""What do translators' files hold: memories, catalogs of messages, subtitles?"""

from __future__ import annotations

import gettext
import html
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import NamedTuple
from xml.etree import ElementTree

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.files import log_once
from transformer_workshop.base.text_files import open_bytes, stream_lines
from transformer_workshop.text.formats import (
    UNIT_KINDS,
    kind_of,
    refuse_others,
    report_unreadable,
)


class Unit(NamedTuple):
    """A unit of a translators' file.

    key: what tells it from others, in each language's file: a message, or times.
    texts: its texts, by column.
    """

    key: str
    texts: dict[str, str]


def stream_units(file: str, column: str) -> Iterator[Unit]:
    """Yield the units of TMX, XLIFF, PO, MO, or subtitles, with their text in a column.

    The column of TMX and XLIFF is a language, and of XLIFF also source or target; a
    text that a unit lacks is blank. What is left out is counted, and said at the end.
    Raises DataError if the file can't be read, has no units, or none in that language.
    """
    left_out = Counter[str]()
    read = {"xml": _memory, "catalog": _catalog, "subtitles": _subtitles}
    any_unit = False
    with report_unreadable(file):
        for unit in read[kind_of(file)](file, column, left_out):
            any_unit = True
            yield unit
    counts = ", ".join(f"{what} ({n})" for what, n in left_out.items() if n)
    if not any_unit:
        what = "has no text" + (f" but what is left out: {counts}" if counts else "")
        raise DataError(file, what, "Name a file with translations.")
    if counts:
        log_once(f"{file}: left out {counts}")


def refuse_unaligned(one: tuple[str, str], two: tuple[str, str]) -> None:
    """Raise DataError if two translators' files don't have the same units in order.

    Each file has its column with it. Subtitles are the same where their times are;
    messages of PO and MO, where their source is; units of TMX and XLIFF, where their
    names are. Other pairs of files are left to those who count their lines. Raises
    DataError for two kinds of files, too, and as ``stream_units`` does.
    """
    kinds = kind_of(one[0]), kind_of(two[0])
    known = set(kinds) <= set(UNIT_KINDS)
    if one[0] == two[0] or not (known or "subtitles" in kinds):
        return
    files = f"{one[0]}, {two[0]}"
    for file, _ in (one, two):
        refuse_others(file)
    if kinds[0] != kinds[1]:
        what = "are of two kinds, so nothing says which texts belong together"
        raise DataError(files, what, "Name two files of the same kind.")
    keys = ((unit.key for unit in stream_units(*each)) for each in (one, two))
    for number, pair in enumerate(zip_longest(*keys), 1):
        if pair[0] != pair[1]:
            first, second = ("missing" if key is None else repr(key) for key in pair)
            what = f"aren't aligned: number {number} is {first} in one and {second} in "
            do = "Name two files made for each other, or save their pairs as a table."
            raise DataError(files, f"{what}the other", do)


def meant(column: str, names: Iterable[str]) -> list[str]:
    """Return the names that a column means: the same one, or else those in its range.

    Case doesn't count. As a language, de has de-AT and de_DE in its range.
    """
    wanted, folded = _folded(column), {name: _folded(name) for name in names}
    same = [name for name in folded if name == column]
    same = same or [name for name, code in folded.items() if code == wanted]
    return same or [n for n, code in folded.items() if code.startswith(f"{wanted}-")]


def _folded(code: str) -> str:
    return code.casefold().replace("_", "-")


def lacks(place: str, column: str, names: Iterable[str]) -> DataError:
    """Return the error that a place has no such column, but others."""
    what = f"has no column {column!r}; it has {', '.join(names) or 'none'}"
    return DataError(place, what, "Name another as FILE:COLUMN.")


# TMX and XLIFF

_Sides = list[tuple[tuple[str, ...], str]]  # the names of each text of a unit, and it
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_XLIFF_LANGUAGES = ("source-language", "target-language"), ("srcLang", "trgLang")
_TODO = {"new", "needs-translation", "initial"}  # states of a target in XLIFF
_LINE_BREAK = {"lb", "xlf:lb"}  # what a code stands for


def memory_columns(file: str) -> list[str]:
    """Return the columns of TMX or XLIFF that its first unit has.

    Raises DataError if the file can't be read.
    """
    with report_unreadable(file):
        _, sides = next(_units(file, Counter()), ("", []))
    return [names[0] for names, _ in sides]


def _memory(file: str, column: str, left_out: Counter[str]) -> Iterator[Unit]:
    """Yield the units of TMX or XLIFF, with their text in a column."""
    asked, known, taken = column, dict[str, None](), Counter[str]()
    for number, (key, sides) in enumerate(_units(file, left_out), 1):
        if number == 1 and column.isdecimal() and 0 < int(column) <= len(sides):
            column = sides[int(column) - 1][0][0]
        known.update((name, None) for names, _ in sides for name in names)
        names = meant(column, (name for names, _ in sides for name in names))
        if len({_folded(name) for name in names}) > 1:
            what = f"has {' and '.join(names)} for {column!r}"
            do = f"Name one of them: {file}:{names[0]}."
            raise DataError(f"{file}, unit {number}", what, do)
        found = [(own[-1], text) for own, text in sides if not {*own}.isdisjoint(names)]
        for language, _ in found[:1]:
            taken[_folded(language)] += 1
            left_out[f"second texts in {column}"] += len(found) - 1
        yield Unit(key, {asked: found[0][1] if found else ""})
    if known and not taken:
        raise lacks(file, column, known)
    if len(taken) > 1:
        counts = ", ".join(f"{count} in {name}" for name, count in taken.items())
        log_once(f"{file}:{column}: texts are {counts}")


def _units(file: str, left_out: Counter[str]) -> Iterator[tuple[str, _Sides]]:
    """Yield key and texts of each unit of TMX, and of each segment of XLIFF."""
    root, languages, translate = "", ("", ""), ["yes"]
    with open_bytes(file) as opened:
        for event, element in ElementTree.iterparse(opened, ["start", "end"]):
            tag = _tag(element)
            root = root or tag
            if root not in ("tmx", "xliff"):
                do = "Export TMX, XLIFF, CSV, or text with a sentence a line."
                raise DataError(file, f"is XML of another kind (<{root}>)", do)
            if event == "start":
                translate.append(element.get("translate", translate[-1]))
                for one, two in _XLIFF_LANGUAGES if tag in ("file", "xliff") else ():
                    if one in element.attrib or two in element.attrib:
                        languages = element.get(one, ""), element.get(two, "")
                continue
            wanted = translate.pop() != "no"
            if tag == "tu":
                yield element.get("tuid", ""), list(_variants(element))
                element.clear()
            elif tag in ("trans-unit", "segment"):
                left_out["segments not to translate"] += not wanted
                for key, *texts in _segments(element, left_out) if wanted else ():
                    roles = zip(("source", "target"), languages)
                    names = (tuple(filter(None, role)) for role in roles)
                    yield key, list(zip(names, texts))
                element.clear()


def _variants(unit: ElementTree.Element) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield language and text of each part of a unit of TMX."""
    for part in unit:
        for each in part:
            if _tag(each) == "seg":
                language = part.get(_LANGUAGE) or part.get("lang") or ""
                yield (language,), _text_of(each)


def _segments(
    unit: ElementTree.Element, left_out: Counter[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield key, source, and target of each segment of a unit of XLIFF.

    Where source and target are divided, parts with the same ``mid`` belong together.
    """
    sides, key = {_tag(part): part for part in unit}, unit.get("id", "")
    source, target = sides.get("source"), sides.get("target")
    if {part.get("state") for part in (unit, *sides.values())} & _TODO:
        target = None
    targets = _divided(target)
    sources = _divided(sides.get("seg-source")) or _divided(source)
    if not (sources and targets):
        yield key, _text_of(source), _text_of(target)
        return
    for mid, text in sources.items():
        yield f"{key}, {mid}", text, targets.get(mid, "")
    if lost := len(targets.keys() - sources.keys()):
        left_out["segments without a source"] += lost


def _divided(element: ElementTree.Element | None) -> dict[str, str]:
    """Return the segments of a side by their ``mid``."""
    found = dict[str, str]()
    for part in () if element is None else element.iter():
        if _tag(part) == "mrk" and part.get("mtype") == "seg":
            mid = part.get("mid", "")
            found[mid] = found.get(mid, "") + _text_of(part)
    return found


def _tag(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _text_of(element: ElementTree.Element | None) -> str:
    """Return an element's text without the codes of a document's format.

    A line break is a blank.
    """
    if element is None:
        return ""
    text = element.text or ""
    for child in element:
        if _tag(child) in ("hi", "g", "mrk", "pc"):
            text += _text_of(child)
        elif not _LINE_BREAK.isdisjoint(child.attrib.values()):
            text += " "
        text += child.tail or ""
    return text


# PO and MO


def _catalog(file: str, column: str, left_out: Counter[str]) -> Iterator[Unit]:
    """Yield the messages of PO or MO, as msgid and msgstr.

    Fuzzy ones count as not translated, so that catalogs in two languages pair.
    """
    polib = optional_import("polib")
    with _unpacked(file) as name, open_bytes(file) as opened:
        if opened.read(4) in (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde"):
            entries = polib.mofile(name)
        else:
            _check_quotes(file)
            entries = polib.pofile(name)
    singular = _form_of_one(entries.metadata.get("Plural-Forms"))
    for entry in entries:
        if entry.obsolete:
            left_out["obsolete messages"] += 1
            continue
        target = entry.msgstr
        if entry.msgid_plural:
            left_out["plurals"] += 1
            target = entry.msgstr_plural.get(singular, "")
        if "fuzzy" in entry.flags:
            left_out["fuzzy translations"] += 1
            target = ""
        key = "|".join(filter(None, (entry.msgctxt, entry.msgid)))
        yield Unit(key, {"msgid": entry.msgid, "msgstr": target})


def _form_of_one(header: str | None) -> int | None:
    """Return which form of a message is that of 1, by its catalog's Plural-Forms.

    Without that header, it is the first, as in gettext; None if it can't be read.
    """
    try:
        formula = header.split(";")[1].partition("plural=")[2] if header else "n != 1"
        return gettext.c2py(formula)(1)  # type: ignore[attr-defined]
    except (IndexError, ValueError):
        return None


def _check_quotes(file: str) -> None:
    """Raise DataError for a line of PO without a last quote: polib would cut it."""
    with open_bytes(file) as opened:
        for number, line in enumerate(map(bytes.strip, opened), 1):
            if not line.startswith(b"#") and b'"' in line and not line.endswith(b'"'):
                what, do = "has a quotation mark too few", "Add it at the line's end."
                raise DataError(f"{file}, line {number}", what, do)


@contextmanager
def _unpacked(file: str) -> Iterator[str]:
    """Yield the name of a file's content, which is temporary for .gz."""
    if not file.endswith(".gz"):
        yield file
        return
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "unpacked")
        with open_bytes(file) as packed, open(name, "wb") as plain:
            shutil.copyfileobj(packed, plain)
        yield name


# subtitles

_ARROW = re.compile(r"\d\s*-->|-->\s*\d")  # between two times


def _subtitles(file: str, column: str, left_out: Counter[str]) -> Iterator[Unit]:
    """Yield the texts of subtitles, each in a line, with their times."""
    lines = list(stream_lines(file))
    subtitles = optional_import("pysubs2").SSAFile.from_string("\n".join(lines))
    if subtitles.format in ("srt", "vtt"):
        arrows = sum(map(bool, map(_ARROW.search, lines)))
        if arrows != len(subtitles):
            raise ValueError(f"{arrows - len(subtitles)} of {arrows} times are damaged")
    for event in subtitles:
        text = event.plaintext
        if subtitles.format == "vtt":  # a blank line ends it: what follows is a note,
            text = html.unescape(text.partition("\n\n")[0])  # or the next one's name
        if event.is_comment or event.is_drawing:
            left_out["comments or drawings"] += 1
        else:
            key = f"{event.start / 1000:.3f}-{event.end / 1000:.3f} s"
            yield Unit(key, {"1": text})
