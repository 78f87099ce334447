"""The chapters, as every tool reads them."""

import ast
import io
import os
import tokenize
from pathlib import Path

import jupytext
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
MODULE = ROOT / "annotated_transformer.py"


class Refused(Exception):
    """What a chapter may not hold; the message says where it is."""


def chapters() -> list[Path]:
    """The sources of the chapters, in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9]*.md"))


def sources() -> list[Path]:
    """The sources of all notebooks: the chapters, then the solutions."""
    return chapters() + sorted(NOTEBOOKS.glob("solutions/[0-9]*.md"))


def pair(source: Path) -> Path:
    """The notebook that belongs to a source."""
    return source.with_suffix(".ipynb")


def read(path: Path) -> list[NotebookNode]:
    """The cells of a source or a notebook."""
    return jupytext.read(path).cells


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def name(path: Path) -> str:
    """What messages call a chapter: its path below notebooks/, without suffix."""
    return path.relative_to(NOTEBOOKS).with_suffix("").as_posix()


def place(path: Path, number: int, source: str) -> str:
    """What messages call a cell: its chapter, its number from 1, how it begins.

    Prose is counted as well as code, as ruff does.
    """
    lines = [line.strip() for line in source.splitlines()]
    start = next((line[:50] for line in lines if line and line[0] != "@"), "empty")
    return f"{name(path)}, cell {number} ({start})"


def code_only(source: str) -> str:
    """Python source without docstrings, comments and blank lines.

    It stays text, so that every version of Python gives the same answer.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                for row in range(docstring.lineno - 1, docstring.end_lineno):
                    lines[row] = ""
                if len(node.body) == 1:  # without it there would be no body
                    lines[docstring.lineno - 1] = " " * docstring.col_offset + "..."
    return "\n".join(line.rstrip() for line in lines if line.strip())


def replace(path: Path, text: str) -> None:
    """Write a file in one step, so that nobody reads half of it."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)
