"""A fingerprint of everything that a notebook's outputs depend on."""

import ast
import functools
import hashlib
import io
import re
import symtable
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chapters import MODULE, NOTEBOOKS, ROOT, WORKSHOP, Refused, read, tags
from export_module import exported

from transformer_workshop.notebooks import ALONE

EXERCISES = f"{WORKSHOP.name}.exercises"
CHECKED = "exercise_checks", EXERCISES  # only exercises call it
EXERCISE = "exercise"  # the tag of their cells
FOLDERS = ("data", "models", "results")
WORD = re.compile(r"\w+")
CATCHES = re.compile(r"except .* as ")  # to show what it says
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def digests(source: Path) -> dict[str, str]:
    """Return the digests that a notebook stores in its metadata.

    `executed` is that of the chapter, `exercises` that of its exercises, if it has any,
    which run by themselves. They cover the code cells; what these use, directly or
    through others, of the textbook as the chapters export it now, of the workshop, and
    of the Python files in notebooks/; all of this without docstrings and comments; and
    the files of data/, models/ and results/ that any of this code names. Editing prose,
    renaming a local variable, or changing the version or a definition that isn't used
    keeps the outputs; so does another wording of an error, unless a cell catches one.
    """
    code = [cell for cell in read(source) if cell.cell_type == "code"]
    stubs = [cell.source for cell in code if EXERCISE in tags(cell)]
    rest = [cell.source for cell in code if EXERCISE not in tags(cell)]
    if not stubs:
        return {"executed": _digest(rest)}
    found = {"executed": _digest(rest, without=CHECKED)}
    return found | {"exercises": _digest([ALONE, *stubs])}


def _digest(cells: list[str], without: tuple[str, ...] = ()) -> str:
    """Return the digest of cells, of which some modules don't matter."""
    notebook = _File("", "")
    parts = []
    for cell in cells:
        try:
            code = _File("", cell)
        except Refused:  # a magic or a mistake, which check.py and the kernel report
            parts.append(cell)
            continue
        parts.append("\n".join(part.text for part in code.parts))
        notebook.parts += code.parts
        notebook.meaning |= code.meaning
    for name, (module, _) in list(notebook.meaning.items()):
        if module in without:
            del notebook.meaning[name]
    catches = any(CATCHES.search(cell) for cell in cells)
    parts += [part.text if catches else part.quiet for part in _used(notebook)]
    for path in _named_files("\n".join(parts)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        parts.append(f"{path.relative_to(ROOT).as_posix()} {content}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(eq=False)
class _Part:
    """A statement at the top level of a Python file."""

    text: str  # without docstrings, comments, and names of local variables
    quiet: str  # the text without what errors say
    defines: set[str]
    uses: set[str]  # global names; "numpy.random" for an attribute of one
    strings: set[str]


@dataclass
class _File:
    """The parts of a Python file, and what the names mean that it imports."""

    name: str
    source: str
    parts: list[_Part] = field(default_factory=list)
    meaning: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            tree = ast.parse(self.source)
        except SyntaxError as error:
            raise Refused(f"{self.name}.py:{error.lineno}: {error.msg}") from None
        whole, lines = self.source.splitlines(), _bare(self.source, tree)
        silent = _without_messages(lines, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.meaning[alias.asname or alias.name] = (
                        node.module or "",
                        alias.name,
                    )
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.meaning[alias.asname or alias.name] = alias.name, ""
        for node in tree.body:
            first = min(part.lineno for part in [node, *_decorators(node)])
            here = slice(first - 1, node.end_lineno)
            uses = global_names("\n".join(whole[here]), node)
            text, quiet = (
                _numbered("\n".join(filter(None, each[here])), node, uses)
                for each in (lines, silent)
            )
            if defined(node) == {"__version__"}:
                text = quiet = ""
            strings = {
                inner.value
                for inner in ast.walk(node)
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
            }
            self.parts.append(_Part(text, quiet, defined(node), uses, strings))

    def defining(self, name: str) -> list[_Part]:
        return [part for part in self.parts if name in part.defines]


def _used(notebook: _File) -> list[_Part]:
    """Return the parts of our files that a notebook uses, even indirectly.

    A name means what the file in which it stands imports or defines. A notebook that
    speaks of the module in a string may run it as a program, and uses everything.
    """
    files = _files()
    used: dict[_Part, None] = {}

    def follow(module: str, name: str) -> None:
        """Find what a module means by a name; all of it if the name is ""."""
        file = files.get(module)
        if f"{module}.{name}" in files:
            follow(f"{module}.{name}", "")
        elif file and not name:
            add(file, file.parts)
        elif file and (parts := file.defining(name)):
            add(file, parts)
        elif file and name in file.meaning:
            follow(*file.meaning[name])
        elif module == MODULE.stem:  # its __getattr__ looks it up
            follow(f"{WORKSHOP.name}.names_of_2022", name)

    def add(file: _File, parts: list[_Part]) -> None:
        new = [part for part in parts if part not in used]
        used.update(dict.fromkeys(new))
        for part in new:
            for name in part.uses:
                base, _, attribute = name.partition(".")
                module, original = file.meaning.get(base, (file.name, base))
                whole = f"{module}.{original}".strip(".")
                if attribute and whole in files:
                    follow(whole, attribute)
                elif base in file.meaning or file is not notebook:
                    follow(module, original)
                elif "*" in file.meaning:
                    follow(file.meaning["*"][0], base)

    add(notebook, notebook.parts)
    own = set().union(*(part.defines for part in notebook.parts))
    said = set().union(*(part.strings for part in notebook.parts))
    for name in own:  # a cell that exports is the module's: with_import
        add(files[MODULE.stem], files[MODULE.stem].defining(name))
    if "check" in notebook.meaning:  # check("masks", …) calls what masks.py defines
        for text in said:
            follow(f"{EXERCISES}.{text}", "")
    if any(
        word in text for text in said for word in (MODULE.name, f"{WORKSHOP.name}.")
    ):
        for file in files.values():
            ours = file.name.startswith((MODULE.stem, WORKSHOP.name))
            if ours and not file.name.startswith(EXERCISES):  # no program runs these
                add(file, file.parts)
    return [part for file in files.values() for part in file.parts if part in used]


@functools.cache
def _files() -> dict[str, _File]:
    """Return the textbook, the workshop, and the files of notebooks/ by module name."""
    files = [_File(MODULE.stem, exported())]
    for path in sorted(WORKSHOP.rglob("*.py")) + sorted(NOTEBOOKS.glob("*.py")):
        top = NOTEBOOKS if path.parent == NOTEBOOKS else ROOT
        name = ".".join(path.relative_to(top).with_suffix("").parts)
        name = name.removesuffix(".__init__")
        files.append(_File(name, path.read_text(encoding="utf-8")))
    return {file.name: file for file in files}


def _bare(source: str, tree: ast.Module) -> list[str]:
    """Return the lines of some code, empty where only docstrings and comments are."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            for row in range(docstring.lineno - 1, docstring.end_lineno):
                lines[row] = ""
    return [line.rstrip() for line in lines]


def _without_messages(lines: list[str], tree: ast.Module) -> list[str]:
    """Return lines without what is in the parentheses of ``raise Error("…")``."""
    found = [line.encode() for line in lines]  # as ast counts columns
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
            continue
        if any(isinstance(arg, ast.Constant | ast.JoinedStr) for arg in node.exc.args):
            begin, end = node.exc.func, node.exc
            rest = found[end.end_lineno - 1][end.end_col_offset :]
            for row in range(begin.end_lineno, end.end_lineno):
                found[row] = b""
            row = begin.end_lineno - 1
            found[row] = found[row][: begin.end_col_offset] + rest
    return [line.decode() for line in found]


def _numbered(text: str, node: ast.stmt, uses: set[str]) -> str:
    """Return a statement's text with the local variables of its functions numbered.

    A name that means something else in it, too, such as a parameter or an attribute,
    stays as it is.
    """
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    inside = list(ast.walk(node))
    within = {x for f in inside if isinstance(f, functions) for x in ast.walk(f)}
    names = [n for n in inside if isinstance(n, ast.Name)]
    local = {n.id for n in names if isinstance(n.ctx, ast.Store) and n in within}
    local -= {n.id for n in names if n not in within}
    local -= {name.partition(".")[0] for name in uses}
    for part in inside:
        if isinstance(part, ast.JoinedStr):  # f"{name=}" shows a name
            constants = [v.value for v in part.values if isinstance(v, ast.Constant)]
            local -= set(WORD.findall(" ".join(constants)))
    as_names, as_words = Counter(n.id for n in names), Counter(WORD.findall(text))
    found = [w for w in as_words if w in local and as_words[w] == as_names[w]]
    numbers = {name: f"${number}" for number, name in enumerate(found)}
    return WORD.sub(lambda word: numbers.get(word[0], word[0]), text)


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


def defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(node, Documented):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return set()
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return {inner.id for inner in names if isinstance(inner.ctx, ast.Store)}


def global_names(source: str, node: ast.stmt) -> set[str]:
    """Return the global names that a statement uses, and what it imports.

    Of a name whose attribute is used, that attribute comes instead. Annotations don't
    count: symtable leaves them out where they aren't evaluated.
    """
    without = "from __future__ import annotations\n"
    names = set(_read_globally(symtable.symtable(without + source, "", "exec")))
    inside = list(ast.walk(node))
    dots = [n for n in inside if isinstance(n, ast.Attribute)]
    of_names = [n for n in dots if isinstance(n.value, ast.Name)]
    dotted = {f"{n.value.id}.{n.attr}" for n in of_names if n.value.id in names}
    bare = {n for n in inside if isinstance(n, ast.Name)} - {n.value for n in of_names}
    return dotted | names & {n.id for n in bare}


def _read_globally(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a scope and those in it import or read from the module."""
    for symbol in table.get_symbols():
        outermost = table.get_type() == "module" and symbol.is_referenced()
        if outermost or symbol.is_global() or symbol.is_imported():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _read_globally(inner)


def _named_files(code: str) -> list[Path]:
    """Return the files of data/, models/ and results/ that a word of the code names.

    folder / "data" / "a.txt" names data/a.txt, too.
    """
    words = re.findall(r"[\w./-]+", re.sub(r"""["']\s*/\s*["']""", "/", code))
    said = {re.sub(r"^(\.\./)+|/$", "", word) for word in words}
    return [path for path, names in _names_of_files(ROOT).items() if said & names]


@functools.cache
def _names_of_files(root: Path) -> dict[Path, set[str]]:
    """Return what code can call each file of data/, models/ and results/.

    data/captions/a.txt is named by data/captions/a.txt, captions/a.txt, data/captions
    and captions; data alone, or a.txt, would be too vague.
    """
    found = {}
    for path in sorted(f for top in FOLDERS for f in (root / top).rglob("*.*")):
        whole = path.relative_to(root)
        below = whole.relative_to(whole.parts[0])
        names = {whole, *whole.parents, below, *below.parents}
        names -= {Path("."), Path(whole.parts[0]), Path(path.name)}
        if path.suffix not in (".md", ".pyc"):
            found[path] = {name.as_posix() for name in names}
    return found
