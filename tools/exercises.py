"""The exercises, as tests and the homework read them from the chapters."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from chapters import chapters, read
from nbformat import NotebookNode

HEADING = re.compile(r"^### Exercise (?P<number>\d+\.\d+) · (?P<title>.+)$", re.M)
KIND = re.compile(
    r"^\*(?P<kind>[A-Z][a-z -]+) · (?P<minutes>\d+) minutes "
    r"· level (?P<level>[1-5])\*$",
    re.M,
)
CHECK = re.compile(r'^check\("(?P<number>\d+\.\d+)", (?P<answer>.+)\)$', re.M)


@dataclass
class Exercise:
    """What a chapter says about one exercise."""

    number: str
    title: str
    text: str  # from its heading on
    chapter: Path
    between: list[NotebookNode] = field(default_factory=list)  # cells before the stub
    code: str = ""  # the cell with stub and check

    @property
    def kind(self) -> str:
        return KIND.search(self.text)["kind"]

    @property
    def minutes(self) -> int:
        return int(KIND.search(self.text)["minutes"])

    @property
    def answer(self) -> str:
        """Return the expression that the check judges."""
        return CHECK.search(self.code)["answer"]


def exercises(path: Path) -> list[Exercise]:
    """Return the exercises of a chapter, or of its solutions, in order."""
    found: list[Exercise] = []
    for cell in read(path):
        if cell.cell_type == "markdown" and (
            headings := [*HEADING.finditer(cell.source)]
        ):
            for heading in headings:
                text = cell.source[heading.start() :]
                found.append(Exercise(*heading.groups(), text, path))
        elif found and not found[-1].code:
            if CHECK.search(cell.source):
                found[-1].code = cell.source
            else:
                found[-1].between.append(cell)
    return found


def by_number() -> dict[str, Exercise]:
    """Return the exercises of all chapters by their numbers."""
    found = {each.number: each for path in chapters() for each in exercises(path)}
    return dict(sorted(found.items()))
