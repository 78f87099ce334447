"""Which of the module's names may be used where.

- What a chapter shows, benchmarks, figures, tools, and the workshop use no underscored
  name of the module. (Tests may look inside.)
- In an exported function, no argument or variable hides an exported name.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chapters import ROOT, chapters, name, place, read, tags


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

    def faults(self) -> Iterator[str]:
        """Yield each place where a name is used that should not be."""
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
        for folder in ("benchmarks", "images", "tools", "transformer_workshop"):
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
