"""Every check of tools/ bites, shown on a small tree with the real tools."""

import os
import runpy
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import chapters
import digest
import links
import make_student
import nbformat
import pytest
from nbclient import NotebookClient
from run_notebooks import printed

ROOT = Path(__file__).resolve().parent.parent

FIRST = '''\
# First

The first chapter has a helper, a constant and a function.

```python tags=["export"]
import math
import os

LOW, HIGH = 1, 2
_SCALE = 2.0


def double(x: float) -> float:
    """Return twice as much."""
    return x * _SCALE  # a comment
```

It is used at once.

```python
print(double(3))
assert os.sep and math.pi
```

```console
$ make help
```
'''
SECOND = '''\
# Second

The second chapter uses the first, and a file.

```python
from __future__ import annotations

from pathlib import Path

from annotated_transformer import double
```

```python tags=["export"]
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


def circle(r: float | Fraction) -> float:
    """Return twice the area of a circle."""
    return double(math.pi * float(r * r))


def main() -> int:
    """Print an area."""
    print(f"{circle(1):.3f}")
    return 0
```

The number comes out, and a sum of the data.

```python tags=["summary"]
print(f"{circle(2):.3f}", Path("../data/numbers.txt").read_text().strip())
```
'''
DOUBLE = "01_first, cell 2 (import math)"
PRINT = "01_first, cell 4 (print(double(3)))"


@dataclass
class Done:
    """What a tool left behind."""

    status: int | str | None
    stdout: str
    stderr: str


def tool(tree: Path, name: str, *arguments: str) -> Done:
    """Run one of the tree's own tools.

    It runs in this process, since a new one would first spend a second on imports.
    """
    stdout, stderr = StringIO(), StringIO()
    tools = [path.stem for path in (tree / "tools").glob("*.py")]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        for module in tools:
            patch.delitem(sys.modules, module, raising=False)
        patch.setattr(os, "environ", os.environ.copy())
        patch.setattr(sys, "argv", [name, *arguments])
        patch.syspath_prepend(tree / "tools")
        patch.chdir(tree)
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(tree / "tools" / name), run_name="__main__")
        for module in tools:
            sys.modules.pop(module, None)
    return Done(end.value.code, stdout.getvalue(), stderr.getvalue())


def contents(tree: Path) -> dict[Path, bytes]:
    """Return every file of a tree except the caches."""
    files = (p for p in tree.rglob("*") if p.is_file() and "cache" not in str(p))
    return {p.relative_to(tree): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Build a tree of two chapters in which everything agrees."""
    tree = tmp_path_factory.mktemp("built") / "tree"
    shutil.copytree(
        ROOT / "tools", tree / "tools", ignore=shutil.ignore_patterns("*cache*")
    )
    (tree / "notebooks").mkdir()
    for name in ("pyproject.toml", "notebooks/jupytext.toml", "conftest.py"):
        shutil.copy(ROOT / name, tree / name)
    (tree / "notebooks/01_first.md").write_text(FIRST)
    (tree / "notebooks/02_second.md").write_text(SECOND)
    (tree / "data").mkdir()
    (tree / "data/numbers.txt").write_text("6\n")
    for name in ("export_module.py", "run_notebooks.py", "check.py"):
        done = tool(tree, name)
        assert done.status == 0, done.stdout + done.stderr
    return tree


@pytest.fixture
def tree(built, tmp_path) -> Path:
    """Copy that tree, to be spoiled."""
    return shutil.copytree(built, tmp_path / "tree")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def edit_notebook(path: Path, number: int, change) -> None:
    """Change a cell, counted from 1, of a notebook on disk."""
    notebook = nbformat.read(path, 4)
    change(notebook.cells[number - 1])
    nbformat.write(notebook, path)


def refused(tree: Path, *words: str) -> None:
    """Assert that the check fails, and prints a line that contains all the words."""
    done = tool(tree, "check.py")
    assert done.status == 1, done.stdout
    lines = done.stdout.splitlines()
    assert any(all(word in line for word in words) for line in lines), done.stdout


def test_the_check_writes_nothing(tree):
    before = contents(tree)
    done = tool(tree, "check.py")
    assert done.status == 0, done.stdout
    assert contents(tree) == before


# What the check refuses


def test_edited_code_cell(tree):
    edit(tree / "notebooks/01_first.md", "double(3)", "double(4)")
    cell = "01_first, cell 4 (print(double(4)))"
    refused(tree, cell, ".md and .ipynb differ")
    refused(tree, "01_first: the code, the module or data changed")


def test_prose_edited_in_the_source_only(tree):
    edit(tree / "notebooks/01_first.md", "used at once", "used now")
    refused(tree, "01_first, cell 3 (It is used now.)", ".md and .ipynb differ")


def test_prose_edited_in_the_notebook_only(tree):
    def change(cell):
        cell.source = "Something else."

    edit_notebook(tree / "notebooks/01_first.ipynb", 3, change)
    refused(tree, "01_first, cell 3 (It is used at once.)", ".md and .ipynb differ")


def test_tags_edited_on_one_side_only(tree):
    edit(tree / "notebooks/02_second.md", '"summary"', '"nbval-skip"')
    refused(tree, "02_second, cell 5", ".md and .ipynb differ")


def test_cell_added_at_the_end(tree):
    with (tree / "notebooks/01_first.md").open("a") as file:
        file.write("\n```python\ndouble(5)\n```\n")
    refused(tree, "01_first, cell 6 (double(5))", ".md and .ipynb differ")


def test_module_edited_by_hand(tree):
    edit(tree / "annotated_transformer.py", "x * _SCALE", "x + x")
    refused(tree, "annotated_transformer.py differs")
    refused(tree, "-    return x + x")


def test_outputs_of_older_code_on_both_sides(tree):
    """Leave new code beside old outputs, as an editor that syncs the pair does."""

    def change(cell):
        cell.source = "print(double(4))"

    edit(tree / "notebooks/01_first.md", "double(3)", "double(4)")
    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)
    refused(tree, "01_first: the code, the module or data changed")


def test_outputs_of_an_older_module(tree):
    edit(tree / "notebooks/01_first.md", "_SCALE = 2.0", "_SCALE = 3.0")
    tool(tree, "export_module.py")
    refused(tree, "02_second: the code, the module or data changed")


CHECKS = """\
from annotated_transformer import double

FIVE = 5


def check(number, answer):
    # double is the oracle
    print("right" if answer == double(number) else "wrong")
"""
SOLUTION = """\
# Solutions

The folder of the chapters is one up.

```python
import sys

sys.path.append("..")
```

```python
from exercise_checks import check

check(3, 6.0)
```
"""


@pytest.fixture(scope="module")
def built_with_solutions(built, tmp_path_factory) -> Path:
    """Add checks of exercises and a solution to a copy of that tree."""
    tree = shutil.copytree(built, tmp_path_factory.mktemp("taught") / "tree")
    (tree / "notebooks/exercise_checks.py").write_text(CHECKS)
    (tree / "notebooks/solutions").mkdir()
    (tree / "notebooks/solutions/01_first.md").write_text(SOLUTION)
    done = tool(tree, "run_notebooks.py")
    assert "solutions/01_first: executed" in done.stdout, done.stderr
    return tree


@pytest.fixture
def taught(built_with_solutions, tmp_path) -> Path:
    """Copy that one, to be spoiled."""
    return shutil.copytree(built_with_solutions, tmp_path / "tree")


def test_solutions_are_executed_and_checked_like_chapters(taught):
    assert stored(taught, "solutions/01_first").cells[2].outputs[0].text == "right\n"
    done = tool(taught, "check.py")
    assert done.status == 0, done.stdout
    assert "\n3 notebooks" in done.stdout
    edit(taught / "notebooks/solutions/01_first.md", "6.0", "7.0")
    refused(taught, "solutions/01_first: the code, the module or data changed")
    (taught / "notebooks/solutions/01_first.md").unlink()
    refused(taught, "solutions/01_first: there is no .md")


def test_solutions_are_not_exported(taught):
    edit(taught / "notebooks/solutions/01_first.md", "```python", NEW_EXPORT)
    before = (taught / "annotated_transformer.py").read_bytes()
    tool(taught, "export_module.py")
    assert (taught / "annotated_transformer.py").read_bytes() == before


NEW_EXPORT = '```python tags=["export"]\nNEW = 1\n```\n\n```python'


def test_outputs_depend_on_the_checks_of_exercises(taught):
    checks = taught / "notebooks/exercise_checks.py"
    edit(checks, "double is the oracle", "double knows")
    assert tool(taught, "check.py").status == 0  # comments don't count
    edit(checks, "FIVE = 5", "FIVE = 6")
    refused(taught, "solutions/01_first: the code, the module or data changed")


def test_broken_checks_are_named(taught):
    edit(taught / "notebooks/exercise_checks.py", "def check(", "def check(:")
    refused(taught, "exercise_checks.py:6: ")


def test_files_that_code_names(tmp_path, monkeypatch):
    for name in ("a/b.txt", "a/README.md", "a/__pycache__/c.cpython-311.pyc", "d.txt"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).touch()
    monkeypatch.setattr(digest, "ROOT", tmp_path)
    for code in ("'../data/a'", "'../data/a/b.txt'", "folder / 'a'"):
        assert digest._named_files(code) == [tmp_path / "data/a/b.txt"]
    assert digest._named_files("'../data', 'b.txt', 'd.txt'") == []


def test_outputs_of_older_data(tree):
    (tree / "data/numbers.txt").write_text("7\n")
    refused(tree, "02_second: the code, the module or data changed")


def test_missing_notebook(tree):
    (tree / "notebooks/01_first.ipynb").unlink()
    refused(tree, "01_first: not executed yet")


def test_notebook_without_source(tree):
    shutil.copy(tree / "notebooks/01_first.ipynb", tree / "notebooks/03_third.ipynb")
    refused(tree, "03_third: there is no .md")


@pytest.mark.parametrize("count", [None, 1, 7])
def test_execution_count(tree, count):
    def change(cell):
        cell.execution_count = count

    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)
    refused(tree, PRINT, f"execution count {count} instead of 2")


def test_stored_error(tree):
    def change(cell):
        cell.outputs = [
            nbformat.v4.new_output(
                "error", ename="ValueError", evalue="no", traceback=[]
            )
        ]

    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)
    refused(tree, PRINT, "the error ValueError")


def test_oversized_notebook(tree):
    def change(cell):
        cell.outputs[0].text = "x" * 2_000_000

    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)
    refused(tree, "01_first: ", "bytes, limit 2,000,000")


def test_shell_cell_made_from_a_fence(tree):
    edit(tree / "notebooks/01_first.md", "```console", "```bash")
    refused(tree, "01_first, cell 5 (%%bash)", "console")


@pytest.mark.parametrize("line", ["%timeit double(3)", "!ls"])
def test_magic(tree, line):
    edit(tree / "notebooks/01_first.md", "print(double(3))", line)
    refused(tree, f"01_first, cell 4 ({line})", "this would run")


def test_undefined_name(tree):
    def change(cell):
        cell.source = "print(treble(3))"

    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)
    refused(tree, "notebooks/01_first.ipynb:cell 4:1:7: F821")


def test_export_that_leans_on_an_untagged_cell(tree):
    """Use `Path`, which is there in the notebook, but not in the module."""
    edit(tree / "notebooks/02_second.md", "math.pi", "len(Path('x').name)")
    tool(tree, "export_module.py")
    refused(tree, "annotated_transformer.py:", "`Path`", "F821")


def test_wrong_type(tree):
    edit(tree / "notebooks/02_second.md", "    return 0\n", "    return 'none'\n")
    tool(tree, "export_module.py")
    refused(tree, "annotated_transformer.py:", "[return-value]")


def test_lint_of_other_files(tree):
    edit(tree / "tools/chapters.py", "import os\n", "import os\nimport sys\n")
    refused(tree, "tools/chapters.py:4:", "`sys` imported but unused")


# Which names may be used where


def test_a_variable_that_hides_an_exported_name(tree):
    edit(tree / "notebooks/02_second.md", "return 0\n", "double = 0\n    return 0\n")
    refused(tree, "02_second, cell 3 (import math)", "hides the exported `double`")


def test_an_underscored_name_outside_of_its_chapter(tree):
    edit(tree / "notebooks/02_second.md", "import double\n", "import double, _SCALE\n")
    assert "is private" not in tool(tree, "check.py").stdout  # a cell may import it
    edit(tree / "notebooks/02_second.md", "{circle(2):.3f}", "{_SCALE}")
    refused(tree, "02_second, cell 5", "`_SCALE` is private to 01_first")


def test_an_underscored_name_in_a_benchmark(tree):
    (tree / "benchmarks").mkdir()
    (tree / "benchmarks/speed.py").write_text(
        "import annotated_transformer as at\n\nprint(at.double(1), at._SCALE)\n"
    )
    refused(tree, "benchmarks/speed.py: `_SCALE` is private")


def test_what_the_ground_floor_borrows(tree):
    (tree / "notebooks/02_second.md").rename(tree / "notebooks/90_second.md")
    double = "    return x * _SCALE"
    edit(tree / "notebooks/01_first.md", double, f"    circle(x)\n{double}")
    refused(tree, DOUBLE, "`circle` belongs to 90_second; see tools/names.py")
    assert "Chapters 1 to 6 borrow: circle\n" in tool(tree, "check.py").stdout
    edit(tree / "tools/names.py", '"DataError":', '"circle": "", "DataError":')
    assert "belongs to" not in tool(tree, "check.py").stdout


# What may not be exported: the exporter refuses and the check repeats it


@pytest.mark.parametrize(
    "code, reason",
    [
        ("print(1)", "only imports, def, class and NAME ="),
        ("for i in range(3):\n    pass", "not `for i in range(3):`"),
        ("model = dict()", "not `model = dict()`"),
        ("HERE: int", "not `HERE: int`"),
        ("os.environ['A'] = 'b'", "only imports, def, class and NAME ="),
        ("if TYPE_CHECKING:\n    X = 1", "not `if TYPE_CHECKING:`"),
        ("import pandas as pd", "only the standard library and torch"),
        ("from numpy.linalg import norm", "only the standard library and torch"),
        ("from . import other", "only the standard library and torch"),
        ("def double(x):\n    return x", f"`double` is already bound by {DOUBLE}"),
        ("HIGH = 3", f"`HIGH` is already bound by {DOUBLE}"),
        ("import cmath as math", f"`math` is already bound by {DOUBLE}"),
        ("def broken(:", "invalid syntax"),
    ],
)
def test_export_refuses(tree, code, reason):
    edit(tree / "notebooks/02_second.md", "import math\n", code + "\n")
    cell = f"02_second, cell 3 ({code.splitlines()[0]})"
    before = (tree / "annotated_transformer.py").read_bytes()
    done = tool(tree, "export_module.py")
    assert done.status == 1
    assert cell in done.stderr and reason in done.stderr, done.stderr
    assert (tree / "annotated_transformer.py").read_bytes() == before
    refused(tree, cell, reason)


# The module


def test_module_holds_what_is_exported(built):
    module = (built / "annotated_transformer.py").read_text()
    assert module.count("import math") == 1
    assert "import os" not in module  # only a cell that isn't exported uses it
    assert "if TYPE_CHECKING:\n    from fractions import Fraction\n" in module
    assert "from __future__ import annotations" in module
    assert "Do not edit this file" in module
    assert module.index("# notebooks/01_first.md") < module.index("def double")
    assert module.index("def double") < module.index("# notebooks/02_second.md")
    code = "import annotated_transformer as m; print(*m.__all__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=built, capture_output=True, text=True
    )
    assert done.stdout.split() == ["LOW", "HIGH", "double", "circle", "main"]


def test_the_module_runs_as_a_program(tree):
    module = tree / "annotated_transformer.py"
    done = subprocess.run([sys.executable, module], capture_output=True, text=True)
    assert done.stdout == "6.283\n"


def test_export_is_deterministic(tree):
    before = (tree / "annotated_transformer.py").read_bytes()
    (tree / "annotated_transformer.py").unlink()
    assert tool(tree, "export_module.py").status == 0
    assert (tree / "annotated_transformer.py").read_bytes() == before


# The runner


def mark_outputs(tree: Path) -> None:
    """Change a stored output, to see later whether it was regenerated."""

    def change(cell):
        cell.outputs[0].text = "kept\n"

    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)


def stored(tree: Path, name: str = "01_first") -> nbformat.NotebookNode:
    return nbformat.read(tree / f"notebooks/{name}.ipynb", 4)


def test_editing_prose_keeps_the_outputs(tree):
    mark_outputs(tree)
    before = stored(tree)
    edit(tree / "notebooks/01_first.md", "used at once", "used now")
    edit(tree / "notebooks/01_first.md", "# First", "A new cell.\n\n\n# First")
    done = tool(tree, "run_notebooks.py")
    assert "01_first: outputs kept" in done.stdout, done.stdout + done.stderr
    after = stored(tree)
    assert after.cells[4].outputs[0].text == "kept\n"
    assert after.cells[3].source == "It is used now."
    for number in (0, 1, 3, 4):  # all but the edited cell, one further down
        assert after.cells[number + 1].id == before.cells[number].id
    assert tool(tree, "check.py").status == 0


def test_editing_docstrings_and_comments_of_the_module_keeps_the_outputs(tree):
    edit(tree / "notebooks/01_first.md", "twice as much", "two times as much")
    edit(tree / "notebooks/01_first.md", "# a comment", "# another comment")
    tool(tree, "export_module.py")
    done = tool(tree, "run_notebooks.py")
    assert "01_first: executed" in done.stdout  # its own cell has changed
    assert "02_second: outputs kept" in done.stdout


def test_editing_code_makes_the_outputs_anew(tree):
    mark_outputs(tree)
    edit(tree / "notebooks/01_first.md", "double(3)", "double(4)")
    done = tool(tree, "run_notebooks.py")
    assert "01_first: executed" in done.stdout
    assert stored(tree).cells[3].outputs[0].text == "8.0\n"
    assert tool(tree, "check.py").status == 0


def test_a_change_of_the_module_makes_the_outputs_anew_where_it_is_used(tree):
    edit(tree / "notebooks/02_second.md", "float(r * r))", "float(r) ** 2)")
    tool(tree, "export_module.py")
    done = tool(tree, "run_notebooks.py")
    assert "01_first: outputs kept" in done.stdout, done.stdout + done.stderr
    assert "02_second: executed" in done.stdout
    edit(tree / "notebooks/01_first.md", "_SCALE = 2.0", "_SCALE = 4.0")
    tool(tree, "export_module.py")  # the second chapter uses it through double
    edit(tree / "notebooks/01_first.md", "print(double(3))", "print(double(5))")
    done = tool(tree, "run_notebooks.py", str(tree / "notebooks/02_second.md"))
    assert "02_second: executed" in done.stdout
    refused(tree, "01_first: the code, the module or data changed")


def test_force_makes_the_outputs_anew(tree):
    mark_outputs(tree)
    assert "executed" in tool(tree, "run_notebooks.py", "--force").stdout
    assert stored(tree).cells[3].outputs[0].text == "6.0\n"


def test_faults_are_mended_by_executing(tree):
    def change(cell):
        cell.execution_count = None

    edit_notebook(tree / "notebooks/01_first.ipynb", 4, change)
    tool(tree, "run_notebooks.py")
    assert tool(tree, "check.py").status == 0


def test_running_again_changes_nothing(tree):
    before = contents(tree)
    tool(tree, "run_notebooks.py")
    assert contents(tree) == before
    (tree / "notebooks/01_first.ipynb").unlink()  # nor does building from scratch
    tool(tree, "run_notebooks.py")
    assert contents(tree) == before


@pytest.mark.parametrize(
    "argument, reason",
    [("1 / 0", "ZeroDivisionError"), ("os._exit(1)", "Kernel died")],
)
def test_failing_cell_is_named_and_the_notebook_left_alone(tree, argument, reason):
    before = (tree / "notebooks/01_first.ipynb").read_bytes()
    edit(tree / "notebooks/01_first.md", "double(3)", f"double({argument})")
    done = tool(tree, "run_notebooks.py")
    assert done.status == 1
    assert f"01_first, cell 4 (print(double({argument})))" in done.stderr
    assert reason in done.stderr
    assert (tree / "notebooks/01_first.ipynb").read_bytes() == before


def test_run_leaves_the_committed_notebooks_and_ends_with_the_summary(tree):
    before = contents(tree)
    done = tool(tree, "run_notebooks.py", "--into", "build/notebooks")
    assert done.status == 0, done.stderr
    after = contents(tree)
    made = {path for path in after if path not in before}
    assert {path.as_posix() for path in made} == {
        "build/notebooks/01_first.ipynb",
        "build/notebooks/02_second.ipynb",
    }
    assert all(after[path] == before[path] for path in before)
    assert "1/2 01_first" in done.stdout and "2/2 02_second" in done.stdout
    assert done.stdout.index("build/notebooks/") < done.stdout.index("25.133 6")


def test_run_into_a_folder_outside_of_the_project(taught, tmp_path):
    (taught / "images").mkdir()
    (taught / "images/a.svg").write_text("<svg/>")
    into = tmp_path / "elsewhere/notebooks"
    done = tool(taught, "run_notebooks.py", "--into", str(into))
    assert done.status == 0, done.stderr
    assert sorted(path.name for path in into.iterdir()) == [
        "01_first.ipynb",
        "02_second.ipynb",
    ]
    assert f"The executed chapters are in {into}/." in done.stdout
    assert (tmp_path / "elsewhere/images/a.svg").exists()


def test_run_into_keeps_chapter_and_solutions_apart(taught):
    names = ["notebooks/01_first.md", "notebooks/solutions/01_first.md"]
    done = tool(taught, "run_notebooks.py", *names, "--into", "build/notebooks")
    assert done.status == 0, done.stderr
    for name in ("01_first", "solutions/01_first"):
        assert (taught / f"build/notebooks/{name}.ipynb").exists()


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["--into", "notebooks"], "would replace their notebooks"),
        (["--into", "notebooks/solutions"], "would replace their notebooks"),
        (["notebooks/glossary.md"], "glossary.md is not a chapter"),
        (["notebooks/01_first.ipynb"], "01_first.ipynb is not a chapter"),
    ],
)
def test_runner_refuses(tree, arguments, reason):
    before = contents(tree)
    done = tool(tree, "run_notebooks.py", *arguments)
    assert done.status == 2 and reason in done.stderr
    assert contents(tree) == before


# One definition


def spoil(tree: Path) -> None:
    """Break the module's `double`, but leave its source as exported."""
    with (tree / "annotated_transformer.py").open("a") as module:
        module.write('\nglobals()["double"] = lambda x: x / 0\n')


def test_a_chapter_runs_the_modules_definitions(tree):
    spoil(tree)
    done = tool(tree, "run_notebooks.py", "--force", "notebooks/01_first.md")
    assert done.status == 1
    assert PRINT in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_class_is_the_modules_class_and_nothing_else_is_in_the_notebook(tree):
    edit(
        tree / "notebooks/01_first.md",
        "def double",
        "class A:\n    pass\n\n\ndef double",
    )
    look = "import annotated_transformer as m\nassert isinstance(A(), m.A)\nassert "
    look += "not {'ast', 'Path', '_use_the_modules_definitions'} & set(dir())\nprint("
    edit(tree / "notebooks/01_first.md", "print(", look)
    assert tool(tree, "export_module.py").status == 0
    done = tool(tree, "run_notebooks.py", "notebooks/01_first.md")
    assert done.status == 0, done.stderr


def test_a_definition_that_is_not_the_modules_is_refused(tree):
    edit(tree / "annotated_transformer.py", "x * _SCALE", "x + x")
    done = tool(tree, "run_notebooks.py", "--force", "notebooks/01_first.md")
    assert done.status == 1
    assert f"{DOUBLE}: the cell fails" in done.stderr
    assert "`double` is defined differently in annotated_transformer.py" in done.stderr


def test_a_reader_runs_the_cells_own_definitions(tree):
    spoil(tree)
    arguments = ("notebooks/01_first.md", "--into", "build/notebooks")
    done = tool(tree, "run_notebooks.py", *arguments)
    assert done.status == 0, done.stderr
    assert "All outputs match the stored notebooks." in done.stdout


def test_run_names_the_cells_that_print_something_else(tree):
    mark_outputs(tree)
    done = tool(tree, "run_notebooks.py", "--into", "build/notebooks")
    assert done.status == 1
    assert f"{PRINT}: the stored notebook has a different output" in done.stdout
    assert "02_second, cell" not in done.stdout
    edit(tree / "notebooks/01_first.md", "double(3)", "double(4)")
    done = tool(tree, "run_notebooks.py", "--into", "build/notebooks")
    assert done.status == 0  # a reader's own edit
    assert "01_first: not compared with the stored notebook" in done.stdout


# What a class gets


@pytest.fixture(scope="module")
def student(tmp_path_factory) -> Path:
    """Write the students' copy of this project; return its folder."""
    folder = tmp_path_factory.mktemp("student")
    (folder / "notebooks").mkdir()
    make_student.write_student(folder)
    return folder


def test_students_get_all_chapters_and_no_answers(student):
    names = {path.as_posix() for path in contents(student)}
    for path in chapters.chapters():
        assert {f"notebooks/{path.name}", f"notebooks/{path.stem}.ipynb"} <= names
    assert {"README.md", "requirements.txt", "annotated_transformer.py"} <= names
    assert {"notebooks/exercise_checks.py", "notebooks/glossary.md"} <= names
    assert {"images/transformer.svg", "models/captions/model.safetensors"} <= names
    assert not [n for n in names if "solution" in n or "wrong" in n or "tests/" in n]


def test_students_links_lead_somewhere(student):
    for path in student.rglob("*.md"):
        assert not links.dead(path), path


def test_dead_links_become_words_outside_of_code(tmp_path):
    (tmp_path / "here.md").write_text("")
    text = (
        "[a `b` c](here.md#x) [gone](there.md) `f[0](x)` [web](https://x.org) [y](#y)\n"
        "![picture](there.svg)\n```python\nlayers[0](x)\n```\n"
    )
    expected = text.replace("[gone](there.md)", "gone")
    expected = expected.replace("![picture](there.svg)", "picture")
    assert make_student.without_dead_links(text, tmp_path) == expected


def in_student(student: Path, code: str) -> str:
    """Run Python in the folder of the students' notebooks; return what it prints."""
    own = {k: v for k, v in os.environ.items() if k != "ANNOTATED_TRANSFORMER_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=student / "notebooks",
        env=own | {"PYTHONPATH": str(student)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_students_copy_works_by_itself(student):
    code = (
        "import annotated_transformer as m\n"
        "from exercise_checks import check\n"
        "print(m.project_folder())\n"
        "check('1.1', None)\n"
        "translator = m.load_translator('../models/captions')\n"
        "print(translator.translate(['Ein Hund läuft.'])[0])\n"
        "print(len(m.read_lines(m.data_file('captions', 'test.de'))))\n"
    )
    folder, verdict, english, lines = in_student(student, code).splitlines()
    assert folder == str(student) and int(lines) > 100
    assert verdict == "Exercise 1.1: not answered yet."
    assert "dog" in english


@pytest.mark.slow
def test_a_students_notebook_runs(student, monkeypatch):
    """Run the chapter that needs the module, weights, data, and pictures."""
    monkeypatch.setenv("PYTHONPATH", str(student))
    monkeypatch.delenv("PYTHONSTARTUP")
    path = student / "notebooks/05_attention_visualization.ipynb"
    notebook = nbformat.read(path, 4)
    before = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    NotebookClient(
        notebook,
        timeout=1200,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        coalesce_streams=True,  # what is printed may arrive in pieces
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    after = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert before and after == before


def test_make_student_starts_afresh(taught):
    for name in make_student.FILES:
        if name.startswith("notebooks/") and not (taught / name).exists():
            (taught / name).write_text("")
    (taught / "build/student").mkdir(parents=True)
    (taught / "build/student/old.txt").write_text("")
    done = tool(taught, "make_student.py")
    assert done.status == 0, done.stderr
    assert "build/student: " in done.stdout and "no solutions" in done.stdout
    names = {path.as_posix() for path in contents(taught / "build/student")}
    assert "old.txt" not in names and "notebooks/02_second.ipynb" in names
    assert not [name for name in names if "solutions" in name]
    (taught / "notebooks/02_second.ipynb").unlink()
    done = tool(taught, "make_student.py")
    assert done.status == 1 and "02_second: not executed yet" in done.stdout


# nbval, skipped tests, the Makefile


def pytest_in(tree: Path, *arguments: str, **environment: str):
    """Run pytest in a tree, with the project's conftest.py and settings."""
    own = {
        key: value
        for key, value in os.environ.items()
        if key not in ("CI", "ANNOTATED_TRANSFORMER_DATA")
        and not key.startswith("PYTEST_")
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        env=own | environment,
        capture_output=True,
        text=True,
    )


def nbval(tree: Path):
    return pytest_in(tree, "--nbval", "--nbval-current-env", "notebooks/01_first.ipynb")


@pytest.mark.slow
def test_nbval_compares_outputs_and_runs_the_modules_definitions(tree):
    assert nbval(tree).returncode == 0
    spoil(tree)
    done = nbval(tree)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stdout
    tool(tree, "export_module.py")
    mark_outputs(tree)
    assert nbval(tree).returncode == 1


@pytest.mark.slow
def test_nbval_skips_charts_but_not_what_is_printed_beside_them(tree):
    chart = 'display({"application/vnd.vegalite.v5+json": {"a": 1}}, raw=True)'
    edit(tree / "notebooks/01_first.md", "print(double(3))", f"{chart}\nprint(6.0)")
    tool(tree, "run_notebooks.py", "notebooks/01_first.md")

    def another_chart(cell):
        [bundle] = [o.data for o in cell.outputs if o.output_type == "display_data"]
        bundle["application/vnd.vegalite.v5+json"] = {"a": 2}

    def another_number(cell):
        [stream] = [o for o in cell.outputs if o.output_type == "stream"]
        stream.text = "7.0\n"

    path = tree / "notebooks/01_first.ipynb"
    edit_notebook(path, 4, another_chart)
    assert nbval(tree).returncode == 0
    edit_notebook(path, 4, another_number)
    assert nbval(tree).returncode == 1


SKIPPED = """\
import pytest


def test_that_skips():
    pytest.skip("no data, one")


@pytest.mark.skip(reason="no data, two")
def test_skipped():
    pass


@pytest.mark.xfail
def test_known_to_fail():
    raise AssertionError
"""
NOT_COLLECTED = (
    "import pytest\n\npytest.importorskip('nowhere', reason='no data, three')\n"
)


@pytest.mark.slow
def test_a_skip_fails_where_the_data_is(tree):
    (tree / "tests").mkdir()
    (tree / "tests/test_skipped.py").write_text(SKIPPED)
    (tree / "tests/test_not_collected.py").write_text(NOT_COLLECTED)
    arguments = ["tests", "--continue-on-collection-errors"]
    assert pytest_in(tree, *arguments).returncode == 0
    for variable in ("CI", "ANNOTATED_TRANSFORMER_DATA"):
        done = pytest_in(tree, *arguments, **{variable: "1"})
        assert done.returncode == 1
        for number in ("one", "two", "three"):
            assert (
                f"nothing may be skipped here: Skipped: no data, {number}"
                in done.stdout
            )
        assert "1 failed, 1 xfailed, 2 errors" in done.stdout


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run make as at a prompt, even if the tests were started by make."""
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    return subprocess.run(
        ["make", "-f", ROOT / "Makefile", *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("minor", [10, 11, 13, 14])
def test_setup_refuses_other_pythons_in_one_line(tmp_path, minor):
    for name in ("requirements.txt", "pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "other-python"
    claim = f"import sys; sys.version_info = (3, {minor}, 0); exec(sys.argv[2])"
    python.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -c ] || exit 9\n'
        f"exec {sys.executable} -c '{claim}' \"$@\"\n"
    )
    python.chmod(0o755)
    done = make(tmp_path, "setup", f"PYTHON={python}")
    assert done.returncode != 0  # the stand-in can't make an environment
    assert ("Installing" in done.stdout) == (11 <= minor <= 13)
    if "Installing" not in done.stdout:
        message, *rest = done.stderr.splitlines()
        assert f"is 3.{minor}" in message and "3.11" in message
        assert all(line.startswith("make") for line in rest)
    assert not (tmp_path / ".venv").exists()


def test_help_lists_every_target(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    done = make(tmp_path)
    lines = (ROOT / "Makefile").read_text().splitlines()
    [phony] = [line for line in lines if line.startswith(".PHONY:")]
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert listed == phony.split()[1:]


def test_clean_leaves_runs_and_nothing_of_its_own(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    own = [".venv/bin/python", "build/notebooks/1.ipynb", "a.egg-info/x", "runs/r/w"]
    own += [".pytest_cache/x", "tools/__pycache__/x", "notebooks/.ipynb_checkpoints/x"]
    own += [".mypy_cache/x", ".ruff_cache/x", ".hypothesis/x", "notebooks/1.ipynb"]
    for name in own:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    done = make(tmp_path, "clean")
    left = {path.as_posix() for path in contents(tmp_path)}
    assert left == {"Makefile", "runs/r/w", "notebooks/1.ipynb"}
    assert not any(path.name.endswith("cache") for path in tmp_path.iterdir())
    assert "runs/" in done.stdout
