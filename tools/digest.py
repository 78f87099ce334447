"""A fingerprint of everything that a notebook's outputs depend on."""

import ast
import functools
import hashlib
import io
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

from chapters import MODULE, NOTEBOOKS, ROOT, Refused, read

FOLDERS = ("data", "models", "results")


def digest(source: Path) -> str:
    """Return the digest that a notebook stores as `executed` in its metadata.

    It covers the notebook's code cells, the definitions of the module that they use,
    directly or through others, the Python files of notebooks/, all without docstrings
    and comments, and the files of data/, models/ and results/ that any of this code
    names. Editing prose, or a definition that isn't used, keeps the outputs.
    """
    parts = [cell.source for cell in read(source) if cell.cell_type == "code"]
    checks = sorted(NOTEBOOKS.glob("*.py"))
    parts += ["\n".join(part.text for part in _parts(path)) for path in checks]
    parts += _used("\n".join(parts))
    for path in _named_files("\n".join(parts)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        parts.append(f"{path.relative_to(ROOT).as_posix()} {content}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class _Part(NamedTuple):
    """A statement at the top level of a Python file."""

    defines: set[str]
    mentions: set[str]
    text: str  # without docstrings, comments, and blank lines


def _used(code: str) -> list[str]:
    """Return the texts of the module's parts that the code uses, even indirectly.

    Code that names the module's file runs it as a program, and uses all of it.
    """
    parts = _parts(MODULE)
    if MODULE.name in code:
        return [part.text for part in parts]
    seen: set[str] = set()
    try:
        new = _mentioned(ast.parse(code))
    except SyntaxError:  # a magic or a mistake, which check.py and the kernel report
        new = set(re.findall(r"\w+", code))
    while new:
        seen |= new
        used = [part for part in parts if part.defines & seen]
        new = set().union(*(part.mentions for part in used)) - seen
    return [part.text for part in used]


@functools.cache
def _parts(path: Path) -> list[_Part]:
    """Return the statements of a Python file.

    They stay text, so that every version of Python gives the same answer.
    """
    source = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise Refused(f"{path.name}:{error.lineno}: {error.msg}") from None
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            for row in range(docstring.lineno - 1, docstring.end_lineno):
                lines[row] = ""
    parts = []
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        first = min(each.lineno for each in [node, *decorators])
        here = lines[first - 1 : node.end_lineno]
        text = "\n".join(line.rstrip() for line in here if line.strip())
        parts.append(_Part(_defined(node), _mentioned(node), text))
    return parts


def _mentioned(tree: ast.AST) -> set[str]:
    """Return the names that code uses or imports, and those it defines."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    imported = {alias.name for node in imports for alias in node.names}
    return names | imported


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(each.asname or each.name).split(".")[0] for each in node.names}
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}


def _named_files(code: str) -> list[Path]:
    """Return the files of data/, models/ and results/ that a word of the code names.

    data/captions/a.txt is named by data/captions/a.txt, captions/a.txt, data/captions
    and captions; data alone, or a.txt, would be too vague.
    """
    words = re.findall(r"[\w./-]+", code)
    said = {re.sub(r"^(\.\./)+|/$", "", word) for word in words}
    found = []
    for path in sorted(f for top in FOLDERS for f in (ROOT / top).rglob("*.*")):
        whole = path.relative_to(ROOT)
        below = whole.relative_to(whole.parts[0])
        names = {whole, *whole.parents, below, *below.parents}
        names -= {Path("."), Path(whole.parts[0]), Path(path.name)}
        if path.suffix not in (".md", ".pyc") and said & {p.as_posix() for p in names}:
            found.append(path)
    return found
