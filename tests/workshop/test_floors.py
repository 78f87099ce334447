"""The workshop's floors: a file imports from its own floor and from those below it."""

import ast

from chapters import WORKSHOP

FLOORS = ["base", "text", "models", "training", "pictures", "lab", "cli"]


def test_no_floor_imports_a_higher_one():
    assert {p.parent.name for p in WORKSHOP.glob("*/__init__.py")} == set(FLOORS)
    for path in sorted(WORKSHOP.glob("*/*.py")):
        above = FLOORS[FLOORS.index(path.parent.name) + 1 :]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                floor = (node.module + "...").split(".")[1]
                assert floor not in above, f"{path}: {node.module} is a higher floor"
