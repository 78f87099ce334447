"""What a chapter's outputs depend on, in a few words.

They cover the chapter's code cells, the definitions of the module that these reach,
the files of data/, models/ and results/ that any of this code names, and the Python
files of notebooks/ that it imports (exercise_checks.py). Prose, and docstrings and
comments outside of the cells, are left out: editing them keeps the outputs.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from chapters import MODULE, NOTEBOOKS, ROOT, Refused, code_only, place, read
from export_module import Definition, on_disk

Scope = (
    Definition
    | ast.Lambda
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)
FOLDERS = ("data", "models", "results")


def digest(source: Path) -> dict[str, str]:
    """The digest of a chapter, stored as `executed` in its notebook's metadata.

    `cells` has a word for each code cell, `module` and `files` are one word each, and
    so is `helpers`, there only where files of notebooks/ are imported.
    """
    cells = []
    for number, cell in enumerate(read(source), 1):
        if cell.cell_type == "code":
            try:
                ast.parse(cell.source)
            except SyntaxError as error:
                where = place(source, number, cell.source)
                raise Refused(f"{where}: {error.msg}, line {error.lineno}") from None
            cells.append(cell.source)
    helpers = imported_files("\n".join(cells))
    used = reached("\n".join(cells + helpers))
    files = [
        f"{path.relative_to(ROOT).as_posix()} {sha256(path.read_bytes())}"
        for path in named_files("\n".join(cells + helpers + used))
    ]
    extra = {"helpers": sha256("\n".join(helpers).encode())[:16]} if helpers else {}
    return {
        "cells": " ".join(sha256(cell.encode())[:8] for cell in cells),
        "module": sha256("\n".join(used).encode())[:16],
        "files": sha256("\n".join(files).encode())[:16],
        **extra,
    }


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def reached(code: str) -> list[str]:
    """The module's definitions that code uses, directly or through others.

    Code with a string that names the module may run it as a program: it uses `main`.
    """
    module = definitions(on_disk())
    found: dict[str, str] = {}
    waiting = names(code)
    if any(MODULE.stem in text for text in strings(code)):
        waiting.add("main")
    while waiting:
        name = waiting.pop()
        if name in module and name not in found:
            found[name] = code_only(module[name])
            waiting |= names(found[name])
    return [found[name] for name in sorted(found)]


def names(code: str) -> set[str]:
    """The names of the module that code may mean.

    Those it imports, those it uses without binding them, and attributes of the
    module itself.
    """
    tree = ast.parse(code)
    found = free_names(tree)
    module = aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == MODULE.stem:
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in module:
                found.add(node.attr)
    return found


def imported_files(code: str) -> list[str]:
    """The Python files of notebooks/ that code imports, without their comments."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    found = []
    for path in sorted(NOTEBOOKS.glob("*.py")):
        if path.stem in imported:
            text = path.read_text(encoding="utf-8")
            try:
                ast.parse(text)
            except SyntaxError as error:
                raise Refused(f"{path.name}:{error.lineno}: {error.msg}") from None
            found.append(code_only(text))
    return found


def aliases(tree: ast.AST) -> set[str]:
    """What code calls the module."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    listed = [alias for node in imports for alias in node.names]
    return {a.asname or a.name for a in listed if a.name == MODULE.stem}


def free_names(node: ast.AST) -> set[str]:
    """The names that a module, a function or a class uses but does not bind."""
    used: set[str] = set()
    inside: set[str] = set()  # used by the functions in it
    bound: set[str] = set()
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        child = waiting.pop()
        if isinstance(child, ast.Name):
            (used if isinstance(child.ctx, ast.Load) else bound).add(child.id)
        elif isinstance(child, ast.arg):
            bound.add(child.arg)
        elif isinstance(child, ast.alias):
            bound.add((child.asname or child.name).partition(".")[0])
        elif isinstance(child, Definition):
            bound.add(child.name)
        if isinstance(child, Scope):
            inside |= free_names(child)
        else:
            waiting += ast.iter_child_nodes(child)
    if isinstance(node, ast.ClassDef):  # its methods don't see what it binds
        return inside | (used - bound)
    return (inside | used) - bound


def strings(code: str) -> set[str]:
    """Every string constant in code."""
    values = {n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)}
    return {value for value in values if isinstance(value, str)}


def definitions(text: str) -> dict[str, str]:
    """The source of each name that a module's text binds."""
    lines = text.splitlines()
    return {name: "\n".join(lines[start:end]) for name, start, end in spans(text)}


def spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Each name that a module's text binds, with the slice of lines that binds it."""
    for node in ast.parse(text).body:
        bound: list[str] = []
        start = node.lineno - 1
        if isinstance(node, Definition):
            bound = [node.name]
            start = min([start, *(d.lineno - 1 for d in node.decorator_list)])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            bound = [part.id for part in parts if isinstance(part, ast.Name)]
        for name in bound:
            yield name, start, node.end_lineno


def named_files(code: str) -> list[Path]:
    """The files of data/, models/ and results/ that strings in code name."""
    said = {re.sub(r"^(\.\./)+|/$", "", text) for text in strings(code)}
    files = [f for top in FOLDERS for f in (ROOT / top).rglob("*") if f.is_file()]
    content = (f for f in files if f.suffix not in (".md", ".pyc"))
    return sorted(f for f in content if said & called(f))


def called(path: Path) -> set[str]:
    """What a file may be called: by its path, or by a folder that holds it.

    `data/captions/a.txt` has the names data/captions/a.txt, captions/a.txt,
    data/captions and captions; `data` alone, or `a.txt`, would say too little.
    """
    whole = path.relative_to(ROOT)
    below = whole.relative_to(whole.parts[0])
    longer = [p for p in (whole, *whole.parents, below) if len(p.parts) > 1]
    return {p.as_posix() for p in (*longer, *below.parents)} - {"."}
