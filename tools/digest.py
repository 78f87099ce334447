"""What a chapter's outputs depend on, as one number.

It covers the chapter's code cells, the definitions of the module that they reach,
and the files of data/, models/ and results/ that any of this code names. Prose,
docstrings and comments of the module are left out: editing them keeps the outputs.
"""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from chapters import MODULE, ROOT, Refused, code_only, place, read

FOLDERS = ("data", "models", "results")


def digest(source: Path) -> str:
    """The digest of one chapter; `executed` in its notebook's metadata."""
    cells = []
    for number, cell in enumerate(read(source), 1):
        if cell.cell_type == "code":
            try:
                ast.parse(cell.source)
            except SyntaxError as error:
                where = place(source, number, cell.source)
                raise Refused(f"{where}: {error.msg}, line {error.lineno}") from None
            cells.append(cell.source)
    code = cells + reached("\n".join(cells))
    parts = [part.encode() for part in code]
    for path in named_files("\n".join(code)):
        inside = path.relative_to(ROOT).as_posix()
        parts += [inside.encode(), hashlib.sha256(path.read_bytes()).digest()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def reached(code: str) -> list[str]:
    """The module's definitions that code uses, directly or through others."""
    text = MODULE.read_text(encoding="utf-8") if MODULE.exists() else ""
    lines = text.splitlines()
    definitions = {
        name: "\n".join(lines[first - 1 : last]) for name, first, last in top_level(text)
    }
    found: dict[str, str] = {}
    waiting = names(ast.parse(code))
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found[name] = code_only(definitions[name])
            waiting |= names(ast.parse(found[name]))
    return [found[name] for name in sorted(found)]


def top_level(text: str) -> Iterator[tuple[str, int, int]]:
    """Each name that a module's text binds, with its first and its last line."""
    for node in ast.parse(text).body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(d.lineno for d in decorators)])
        bound = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            bound = [part.id for part in parts if isinstance(part, ast.Name)]
        for name in bound:
            yield name, first, node.end_lineno


def names(tree: ast.AST) -> set[str]:
    """Every name that code may mean: `f`, `module.f`, `from module import f`.

    A run of the module as a program reaches `main`.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if MODULE.stem in node.value:
                found.add("main")
    return found


def named_files(code: str) -> list[Path]:
    """The files of data/, models/ and results/ that strings in code name.

    A string names a file by its name or path, or by a folder that holds it.
    """
    strings = {
        node.value.removeprefix("../").removeprefix("./").rstrip("/")
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    files = [f for top in FOLDERS for f in (ROOT / top).rglob("*") if f.is_file()]
    return sorted(f for f in files if f.suffix != ".md" and strings & called(f))


def called(path: Path) -> set[str]:
    """What a file may be called: its name, its path, the folders that hold it."""
    inside = path.relative_to(ROOT)
    below = inside.relative_to(inside.parts[0])
    folders = [p for q in (inside, below) for p in (q, *q.parents)]
    return {p.as_posix() for p in folders} - {"."} | {path.name}
