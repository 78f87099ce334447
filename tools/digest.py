"""A fingerprint of everything that a notebook's outputs depend on."""

import ast
import functools
import hashlib
import io
import re
import tokenize
from pathlib import Path

from chapters import MODULE, NOTEBOOKS, ROOT, Refused, read

FOLDERS = ("data", "models", "results")


def digest(source: Path) -> str:
    """Return the digest that a notebook stores as `executed` in its metadata.

    It covers the notebook's code cells, the module and the Python files of notebooks/
    without docstrings and comments, and the files of data/, models/ and results/ that
    any of this code names. Editing prose keeps the outputs.
    """
    parts = [cell.source for cell in read(source) if cell.cell_type == "code"]
    parts += map(_bare, [MODULE, *sorted(NOTEBOOKS.glob("*.py"))])
    for path in _named_files("\n".join(parts)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        parts.append(f"{path.relative_to(ROOT).as_posix()} {content}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def _bare(path: Path) -> str:
    """Return a Python file without docstrings, comments and blank lines.

    It stays text, so that every version of Python gives the same answer.
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
    return "\n".join(line.rstrip() for line in lines if line.strip())


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
