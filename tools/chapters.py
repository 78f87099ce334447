"""The chapters, as every tool reads them."""

import ast
import copy
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import jupytext
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
MODULE = ROOT / "annotated_transformer.py"
WORKSHOP = ROOT / "transformer_workshop"
HEADING = re.compile(r"(?m)^## (.+)$")  # of a section


class Refused(Exception):
    """Something that a chapter may not hold; the message says where it is."""


def chapters() -> list[Path]:
    """Return the sources of the chapters, in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9]*.md"))


def sources() -> list[Path]:
    """Return the sources of all notebooks: the chapters, then the solutions."""
    return chapters() + sorted(NOTEBOOKS.glob("solutions/[0-9]*.md"))


def lacks(source: Path) -> str:
    """Return what a chapter needs that isn't here, by its tags; "" if nothing."""
    if not any("llm" in tags(cell) for cell in read(source)):
        return ""
    from transformer_workshop.base.smollm import is_here  # imports the module

    return "" if is_here() else "the language model, which `make llm` fetches"


def pair(source: Path) -> Path:
    """Return the notebook that belongs to a source."""
    return source.with_suffix(".ipynb")


def read(path: Path) -> list[NotebookNode]:
    """Return the cells of a source or a notebook."""
    text = path.read_text(encoding="utf-8")
    return copy.deepcopy(cells_of(text, path.suffix))


@functools.cache
def cells_of(text: str, suffix: str) -> list[NotebookNode]:
    """Return the cells that a text holds; whoever changes them takes a copy."""
    return jupytext.reads(text, suffix.removeprefix(".")).cells


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def name(path: Path) -> str:
    """Return what messages call a chapter: its path in notebooks/, without suffix."""
    return path.relative_to(NOTEBOOKS).with_suffix("").as_posix()


def cell_name(path: Path, number: int, source: str) -> str:
    """Return what messages call a cell: its chapter, its number, how it begins.

    Numbers start at 1 and count prose as well as code, as ruff's do.
    """
    lines = [line.strip() for line in source.splitlines()]
    start = next((line[:50] for line in lines if line and line[0] != "@"), "empty")
    return f"{name(path)}, cell {number} ({start})"


def replace(path: Path, text: str) -> None:
    """Write a file in one step, so that nobody reads half of it.

    Leave it alone where it is the same.
    """
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def in_sections(path: Path) -> Iterator[tuple[str, NotebookNode]]:
    """Yield each cell of a chapter with its section's heading, such as 1.4 Masks."""
    heading = ""
    for cell in read(path):
        if cell.cell_type == "markdown":
            heading = [heading, *HEADING.findall(cell.source)][-1]
        yield heading, cell


def section_numbers(path: Path) -> dict[str, str]:
    """Return a chapter's sections by what is in them, such as "Masks": "1.4".

    Keys are the headings, and the names that an exported cell or a rung defines first.
    """
    found: dict[str, str] = {}
    for heading, cell in in_sections(path):
        if cell.cell_type == "markdown":
            for each in HEADING.findall(cell.source):
                number, _, title = each.partition(" ")
                found[title] = number
        elif {"export", "rung"} & set(tags(cell)):
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found.setdefault(node.name, heading.partition(" ")[0])
    return found
