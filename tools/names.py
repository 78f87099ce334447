"""Which of the module's names may be used where.

- Exported cells of chapters 1 to 6 use few names of the appendices: see BORROWED.
- What a chapter shows, benchmarks, figures, and tools use no underscored name from
  elsewhere. (Exported cells may: they are one module. Tests may look inside.)
- In an exported function, no argument or variable hides an exported name.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chapters import ROOT, chapters, name, place, read, tags

BORROWED = {  # name -> why chapters 1 to 6 need it
    "DataError": "all errors of files and arguments",
    "optional_import": "packages that only some functions need",
    "read_lines": "text files",
    "load_translator": "explain also takes the name of a folder",
    "write_atomically": "the page of explain",
    "data_file": "the corpus that build_vocabulary counts when called as in 2022",
    "load_tensors": "the checkpoints that average_checkpoints reads",
    "Translator": "record_translation shows how one of its translations is made",
}
CHARTS = "94"  # any name of this appendix may be borrowed


@dataclass
class Survey:
    """What the chapters define and use."""

    owner: dict[str, str] = field(default_factory=dict)  # name -> its chapter
    cells: list[tuple[str, str, bool, ast.Module]] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Read a chapter; code that isn't Python is refused elsewhere."""
        for number, cell in enumerate(read(path), 1):
            if cell.cell_type == "code" and not cell.source.startswith(("%", "!")):
                tree, exported = ast.parse(cell.source), "export" in tags(cell)
                where = place(path, number, cell.source)
                self.cells.append((name(path), where, exported, tree))
                for node in tree.body if exported else []:
                    self.owner |= dict.fromkeys(_defined(node), name(path))

    def borrowed(self) -> dict[str, list[str]]:
        """Return which appendix names the exported cells of 1 to 6 use, and where."""
        found: dict[str, list[str]] = {}
        for chapter, where, exported, tree in self.cells:
            for used in _used(tree) if exported and chapter < "07" else ():
                if self.owner.get(used, "") >= "90":
                    found.setdefault(used, []).append(where)
        return found

    def faults(self) -> Iterator[str]:
        """Yield each place where a name is used that should not be."""
        for used, places in self.borrowed().items():
            if used not in BORROWED and not self.owner[used].startswith(CHARTS):
                reason = f"`{used}` belongs to {self.owner[used]}; see tools/names.py"
                yield from (f"{where}: {reason}" for where in places)
        public = {bound for bound in self.owner if not bound.startswith("_")}
        private = self.owner.keys() - public
        for chapter, where, exported, tree in self.cells:
            if exported:
                for bound in sorted(_bound(tree) & public):
                    yield f"{where}: a variable hides the exported `{bound}`; rename it"
            else:
                for used in sorted(_used(tree) & private):
                    if self.owner[used] != chapter:
                        yield f"{where}: `{used}` is private to {self.owner[used]}"
        for folder in ("benchmarks", "images", "tools"):
            for path in sorted((ROOT / folder).glob("*.py")):
                for used in sorted(_used(ast.parse(path.read_text("utf-8"))) & private):
                    yield f"{folder}/{path.name}: `{used}` is private to the module"


def survey() -> Survey:
    """Read all chapters."""
    found = Survey()
    for path in chapters():
        found.add(path)
    return found


def _defined(node: ast.stmt) -> list[str]:
    """Return what a definition or a constant binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [n.id for target in targets for n in ast.walk(target) if _is_stored(n)]
    return []


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _used(tree: ast.AST) -> set[str]:
    """Return the names that code reads, or takes from the module ``at``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "at":
            found.add(node.attr)
    return found


def _bound(tree: ast.AST) -> set[str]:
    """Return the arguments and variables of all functions."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    inside = [node for function in functions for node in ast.walk(function)]
    arguments = {node.arg for node in inside if isinstance(node, ast.arg)}
    return arguments | {node.id for node in inside if _is_stored(node)}
