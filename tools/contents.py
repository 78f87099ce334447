"""What the tables of the chapters say, in README.md, in TEACHING.md, and on the site.

It stands in contents.toml of notebooks/ and, in their own words, of translations.
`make notebooks` writes the tables; nobody edits them.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from chapters import NOTEBOOKS, ROOT, Refused, chapters

RUN = {  # under a minute; minutes
    "notebooks": ("under 1", "{} to {}"),
    "notebooks-zh": ("不到 1", "{} 到 {}"),
}
HEADERS = {  # of the two tables
    "notebooks": ("notebook", "chapter"),
    "notebooks-zh": ("notebook", "章"),
}


@dataclass
class Entry:
    """What is said of a notebook in one language."""

    path: Path  # of its source; in English where it isn't translated
    title: str
    about: str
    lesson: str  # what a class gets from it; nothing for an appendix
    read: int  # minutes
    run: list[int]  # from so many minutes to so many
    folder: str

    @property
    def runs(self) -> str:
        """Return the minutes that it runs, in words."""
        under, words = RUN[self.folder]
        low, high = self.run
        return (
            under if not low else str(low) if low == high else words.format(low, high)
        )


def told(folder: str) -> dict:
    path = ROOT / folder / "contents.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def entries(folder: str = NOTEBOOKS.name) -> list[Entry]:
    """Return what is said of the notebooks, in the words of a language's folder."""
    english, own = told(NOTEBOOKS.name), told(folder)
    found = []
    for path in chapters() if english else []:
        if path.stem not in english:
            raise Refused(f"notebooks/contents.toml says nothing of {path.stem}")
        said = {**english[path.stem], **own.get(path.stem, {})}
        source = ROOT / folder / path.name
        source = source if source.exists() else path
        heading = source.read_text(encoding="utf-8").partition("\n")[0]
        title = said.get("title", heading.removeprefix("# "))
        lesson, read = said.get("class", ""), said.get("read", 0)
        entry = Entry(source, title, said["about"], lesson, read, said["run"], folder)
        found.append(entry)
    return found


def table(path: Path, header: str, rows: list[str], text: str | None = None) -> str:
    """Return a page, or its text, where the table with this header has these rows."""
    text = path.read_text(encoding="utf-8") if text is None else text
    lines = text.splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith(f"| {header} |")]
    if len(starts) != 1:
        raise Refused(
            f"{path.relative_to(ROOT).as_posix()}: {len(starts)} tables begin with "
            f"`| {header} |`; one must"
        )
    end = first = starts[0] + 2
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return "".join([*lines[:first], *(f"{row}\n" for row in rows), *lines[end:]])


def pages() -> dict[Path, str]:
    """Return the pages that have those tables, as they should be."""
    found = {}
    for folder, (notebooks, lessons) in HEADERS.items():
        top = ROOT if folder == NOTEBOOKS.name else ROOT / folder
        all_rows, lesson_rows = [], []
        for entry in entries(folder):
            place = Path(os.path.relpath(entry.path.with_suffix(".ipynb"), top))
            link = f"[{entry.title}]({place.as_posix()})"
            all_rows.append(f"| {link} | {entry.about} | {entry.runs} |")
            if entry.lesson:
                cells = link, str(entry.read), entry.runs, entry.lesson
                lesson_rows.append(f"| {' | '.join(cells)} |")
        if all_rows:
            for name, header, rows in (
                ("README.md", notebooks, all_rows),
                ("TEACHING.md", lessons, lesson_rows),
            ):
                found[top / name] = table(top / name, header, rows)
    return found
