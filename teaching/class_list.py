"""What a list of the class says, and files with points that Moodle and Canvas read.

A list has a name in each line, or is a table as Excel, Moodle, or Canvas writes it.
Moodle's grading worksheet has a column `Identifier`; its form for importing grades
takes any table with addresses or numbers of students. Canvas takes a table that begins
as its gradebook does. Both skip students who are not in the file.
"""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

NAMES = {"student", "students", "name", "full name", "student name"}
FIRST_NAMES, LAST_NAMES = {"first name", "firstname"}, {"last name", "surname"}
NO_STUDENTS = {"points possible", "student, test"}  # of Canvas
NO_ROW = re.compile(r"\s*(Muted|Manual Posting.*)?\s*", re.I)  # of Canvas
IMPORTED_BY = {"email address", "e-mail", "email", "id number", "username"}
CANVAS = (
    "Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account",
    "Section",
)  # fmt: skip

Columns = dict[str, str]  # what a row has below each heading


class Points(NamedTuple):
    """A student's points; ``moodle`` is the number that Moodle gave the submission."""

    student: str
    points: float
    columns: Columns
    moodle: str = ""


def decoded(data: bytes) -> str:
    """Return the text of a file as editors and Excel write it, whatever the system."""
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")  # Windows before UTF-8


def one_form(name: str) -> str:
    """Return a name as we write it: macOS takes letters and their accents apart."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def in_heading(cells: Iterable[str]) -> list[int]:
    """Return which columns have the names, as headings say; none if there are none."""
    folded = [one_form(cell).casefold() for cell in cells]
    if whole := [n for n, cell in enumerate(folded) if cell in NAMES]:
        return whole[:1]
    parts = [
        [n for n, cell in enumerate(folded) if cell in names]
        for names in (FIRST_NAMES, LAST_NAMES)
    ]
    return [each[0] for each in parts] if all(parts) else []


def students_in(text: str) -> dict[str, Columns]:
    """Return the students of a list, and what its other columns say of each.

    A first line with a heading for names ("name", "student", "full name", or "first
    name" and "last name") makes it a table; without one, a comma is part of a name
    ("Lee, Ann"), and only the first column is read. Raises ValueError for a line whose
    name is missing, is there twice, or can't be the name of a folder or of a person.
    """
    lines = text.splitlines()
    if lines and re.fullmatch(r"sep=.", lines[0]):  # for Excel
        lines[0] = ""
    first = next(filter(str.strip, lines), "")
    headed = in_heading(cell.strip('" ') for cell in re.split("[\t;,]", first))
    signs, among = ("\t;,", first) if headed else ("\t;", "".join(lines))
    between = next((sign for sign in signs if sign in among), "\t")
    headings: list[str] = []
    found: dict[str, Columns] = {}
    lines_of: dict[str, int] = {}
    for number, row in enumerate(csv.reader(lines, delimiter=between), 1):
        if all(map(NO_ROW.fullmatch, row)):
            continue
        if headed and not headings:
            headings = [one_form(cell) for cell in row]
            continue
        cells = [*map(one_form, row), *[""] * (len(headings) - len(row))]
        name = " ".join(cells[n] for n in headed or [0]).strip()
        if name.casefold() in NO_STUDENTS:
            continue
        where = f"line {number} of the list of students"
        if not name:
            raise ValueError(f"{where} has no name; add it")
        if re.search(",.*@", name):
            raise ValueError(
                f"{where}: {name!r} is a row of a table; write `name` above its names"
            )
        if re.search(r'[<>:"/\\|?*\0-\x1f]|^\.|^__MACOSX$|\.$', name):
            raise ValueError(
                f"{where}: {name!r} can't be the name of a folder; spell it another way"
            )
        before = lines_of.setdefault(name.casefold(), number)
        if before != number:
            raise ValueError(
                f"{where}: {name} is also in line {before}; tell the two apart"
            )
        found[name] = {at: cell for at, cell in zip(headings, cells) if at}
    if not found:
        raise ValueError("the list of students has no names")
    return found


def other_columns(listed: Mapping[str, Columns]) -> list[str]:
    """Return the headings of a list but those of its names, in their order."""
    every = list(dict.fromkeys(at for columns in listed.values() for at in columns))
    names = [every[n] for n in in_heading(every)]
    return [at for at in every if at not in names]


def value_of(columns: Columns, heading: str) -> str:
    """Return what a row has below a heading, however that is capitalized, or ""."""
    folded = {at.casefold(): value for at, value in columns.items()}
    return folded.get(heading.casefold(), "")


def number_in(columns: Columns, heading: str) -> str:
    """Return the number at the end of what a row has below a heading, or ""."""
    found = re.search(r"\d+$", value_of(columns, heading))
    return found[0] if found else ""


def for_moodle(name: str, rows: list[Points]) -> str | None:
    """Return the homework's points for Moodle; None if it couldn't tell the students.

    With Moodle's numbers it is a grading worksheet of those who have one, and that is
    the list itself, with grades, if it is one. Otherwise, it is a table for *Import*.
    """
    every = list(dict.fromkeys(at for row in rows for at in row.columns))
    if any(row.moodle for row in rows):
        table = [
            {
                "Identifier": f"Participant {row.moodle}",
                "Full name": row.student,
                "Last modified (grade)": "-",
                **row.columns,
                "Grade": f"{row.points:g}",
            }
            for row in rows
            if row.moodle
        ]
        ours = ["Identifier", "Full name", "Grade", "Last modified (grade)"]
        return as_csv(list(dict.fromkeys([*every, *ours])), table)
    by = [at for at in every if at.casefold() in IMPORTED_BY]
    table = [
        row.columns | {name: f"{row.points:g}"}
        for row in rows
        if any(map(row.columns.get, by))
    ]
    return as_csv([*by, name], table) if by else None


def for_canvas(name: str, most: float, rows: list[Points]) -> str | None:
    """Return the points for Canvas; None if the list isn't its gradebook.

    A column of the gradebook that is called as the homework gets them.
    """
    every = list(dict.fromkeys(at for row in rows for at in row.columns))
    if not {"Student", "ID"} <= {*every}:
        return None
    known = [at for at in CANVAS if at in every or at == "Section"]
    title = re.compile(re.escape(name) + r"( \(\d+\))?", re.I)
    name = next(filter(title.fullmatch, every), name)
    table = [{"Student": "    Points Possible", name: f"{most:g}"}]
    table += [
        row.columns | {name: f"{row.points:g}"} for row in rows if row.columns.get("ID")
    ]
    return as_csv([*known, name], table)


def as_csv(headings: list[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return a table as CSV, with nothing where a row has no value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, headings, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
