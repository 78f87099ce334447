"""Every check of tools/ bites, shown on a small tree with the real tools."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import chapters
import digest
import links
import make_student
import nbformat
import pytest
import run_notebooks

from transformer_workshop.exercises import checking

ROOT = Path(__file__).resolve().parents[2]

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


def unused(x: float) -> float:
    """Return half of it."""
    return x / 2
```

It is used at once.

```python
print(double(3))
assert os.sep and math.pi
```

```console
$ make help
```

## 1.7 Numbers

### Exercise 1.1: Twice

*Recall · 5 minutes · level 1*

```python tags=["exercise"]
from exercise_checks import check

answer = 3
check("twice", answer)
```

## 1.8 Exercises

| exercise | section | kind | minutes | level |
|---|---|---|---|---|
'''
TEACHING = """\
| exercise | kind | minutes | level | tests |
|---|---|---|---|---|

The end.
"""
SECOND = '''\
# Second

The second chapter uses the first, the workshop, and a file.

```python
from __future__ import annotations

from pathlib import Path

from annotated_transformer import double
from transformer_workshop.printing import shout
```

```python tags=["export"]
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


def circle(r: float | Fraction) -> float:
    """Return twice the area of a circle."""
    return double(math.pi * float(r * r))
```

The number comes out, and a sum of the data.

```python tags=["summary"]
shout(f"{circle(2):.3f}", Path("../data/numbers.txt").read_text().strip())
```
'''
CHECK = '''\
"""what doubles"""

import annotated_transformer as at


def judge(answer):
    # double is the oracle
    return answer == at.double(3)
'''
SOLUTION = """\
# Solutions

The folder of the chapters is one up.

```python
import sys

sys.path.append("..")
```

```python
from exercise_checks import check

check("twice", 6.0)
```
"""
WORKSHOP = {
    "__init__.py": """\
__version__ = "1"
""",
    "names_of_2022.py": """\
from transformer_workshop.printing import shout

__all__ = ["shout"]
""",
    "printing.py": '''\
from collections.abc import Iterable


def shout(*words: str) -> None:
    """Print words."""
    print(*words, sep=_between(words))


def _between(words: Iterable[str]) -> str:
    return " " if words else ""


def whisper(words: Iterable[str]) -> str:
    """Return nothing."""
    return ""
''',
    "exercises/__init__.py": """\
from importlib import import_module


def check(name, answer):
    judge = import_module(f"{__name__}.{name}").judge
    print("right" if judge(answer) else "wrong")
""",
    "exercises/twice.py": CHECK,
    "cli/__init__.py": "",
    "cli/terminal.py": """\
from annotated_transformer import circle


def main() -> int:
    print(f"{circle(1):.3f}")
    return 0
""",
}
DOUBLE = "01_first, cell 2 (import math)"
PRINT = "01_first, cell 4 (print(double(3)))"
ONE, TWO = "notebooks/01_first.md", "notebooks/02_second.md"
SOLUTIONS = "notebooks/solutions/01_first.md"
CHECK_FILE = "transformer_workshop/exercises/twice.py"
PRINTING = "transformer_workshop/printing.py"
MODULE = "annotated_transformer.py"
STALE = "the code, the module or data changed"


def tool(tree: Path, name: str, *arguments: str, lint=False) -> SimpleNamespace:
    """Run one of the tree's own tools; return its status, stdout, and stderr.

    It runs in this process, since a new one would first spend a second on imports, and
    without ruff and its like, which take another, unless asked.
    """
    stdout, stderr = StringIO(), StringIO()
    tools = [path.stem for path in (tree / "tools").glob("*.py")]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        for each in tools:
            patch.delitem(sys.modules, each, raising=False)
        patch.setattr(os, "environ", os.environ.copy())
        patch.setattr(sys, "argv", [name, *arguments])
        patch.syspath_prepend(tree / "tools")
        patch.chdir(tree)
        module = importlib.import_module(name)
        if name == "check" and not lint:
            patch.setattr(module, "_program", lambda *command: ())
        try:
            status = module.main()
        except SystemExit as end:
            status = end.code
        for each in tools:
            sys.modules.pop(each, None)
    return SimpleNamespace(
        status=status, stdout=stdout.getvalue(), stderr=stderr.getvalue()
    )


def run(tree: Path, *arguments: str) -> SimpleNamespace:
    """Run the tool that executes notebooks."""
    return tool(tree, "run_notebooks", *arguments)


def contents(tree: Path) -> dict[Path, bytes]:
    """Return every file of a tree except the caches."""
    files = (p for p in tree.rglob("*") if p.is_file() and "cache" not in str(p))
    return {p.relative_to(tree): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Build a tree of two chapters and a solution in which everything agrees."""
    tree = tmp_path_factory.mktemp("built") / "tree"
    shutil.copytree(
        ROOT / "tools", tree / "tools", ignore=shutil.ignore_patterns("*cache*")
    )
    files = {
        ONE: FIRST,
        TWO: SECOND,
        SOLUTIONS: SOLUTION,
        "notebooks/exercise_checks.py": "from transformer_workshop.exercises "
        "import check  # noqa: F401\n",
        "TEACHING.md": TEACHING,
        "data/numbers.txt": "6\n",
    } | {f"transformer_workshop/{name}": text for name, text in WORKSHOP.items()}
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    for name in ("pyproject.toml", "notebooks/jupytext.toml", "conftest.py"):
        shutil.copy(ROOT / name, tree / name)
    done = run(tree)
    assert done.status == 0, done.stderr
    return tree


@pytest.fixture
def tree(built, tmp_path) -> Path:
    """Copy that tree, to be spoiled."""
    without = shutil.ignore_patterns("*cache*")
    return shutil.copytree(built, tmp_path / "tree", ignore=without)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def edit_cell(tree: Path, change: Callable) -> None:
    """Change the fourth cell of the first notebook, print(double(3))."""
    path = tree / "notebooks/01_first.ipynb"
    notebook = nbformat.read(path, 4)
    change(notebook.cells[3])
    nbformat.write(notebook, path)


def mark_outputs(tree: Path) -> None:
    """Change a stored output, to see later whether it was regenerated."""
    edit_cell(tree, lambda cell: cell.outputs[0].update(text="kept\n"))


def stored(tree: Path) -> nbformat.NotebookNode:
    return nbformat.read(tree / "notebooks/01_first.ipynb", 4)


def refused(tree: Path, *words: str, lint=False) -> None:
    """Assert that the check fails, and prints a line that contains all the words."""
    done = tool(tree, "check", lint=lint)
    assert done.status == 1, done.stdout
    lines = done.stdout.splitlines()
    assert any(all(word in line for word in words) for line in lines), done.stdout


def accepted(tree: Path) -> None:
    done = tool(tree, "check")
    assert done.status == 0, done.stdout


# What the check refuses


def test_the_check_writes_nothing(built):
    before = contents(built)
    done = tool(built, "check", lint=True)
    assert done.status == 0 and "3 notebooks" in done.stdout, done.stdout
    assert contents(built) == before


@pytest.mark.parametrize(
    "file, old, new, words",
    [
        (ONE, "double(3)", "double(4)", ["01_first, cell 4 (print(double(4)))"]),
        (ONE, "at once", "now", ["01_first, cell 3 (It is used now.)", "differ"]),
        (TWO, '"summary"', '"nbval-skip"', ["02_second, cell 5", "differ"]),
        (ONE, "help\n```", "help\n```\n\n```python\n5\n```", ["cell 5", "differ"]),
        (MODULE, "x * _SCALE", "x + x", [f"{MODULE} isn't what the chapters export"]),
        (CHECK_FILE, "def judge(", "def judge(:", ["twice.py:6: "]),
        (ONE, "```console", "```bash", ["cell 5 (%%bash)", "```console"]),
        (ONE, "print(double(3))", "!ls", ["cell 4 (!ls)", "this would run"]),
    ],
)
def test_an_edit_is_noticed(tree, file, old, new, words):
    edit(tree / file, old, new)
    refused(tree, *words)


def spoil_error(cell):
    cell.outputs = [
        nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
    ]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda c: c.update(execution_count=1), [PRINT, "count 1 instead of 2"]),
        (spoil_error, [PRINT, "the error ValueError"]),
        (
            lambda c: c.outputs[0].update(text="x" * 2_000_000),
            ["01_first: ", " bytes, limit 2,000,000"],
        ),
        (lambda c: c.update(source="Another."), ["01_first, cell 4", "differ"]),
    ],
    ids=["count", "error", "size", "source"],
)
def test_an_edited_notebook_is_noticed(tree, change, words):
    edit_cell(tree, change)
    refused(tree, *words)


def test_what_ruff_mypy_and_codespell_find_is_said(tree):
    """Use `Path`, which is there in the notebook, but not in the module."""
    edit(tree / TWO, "math.pi", "len(Path('x').name)")
    edit(tree / TWO, "return double(", "return 'a' + double(")
    edit(tree / ONE, "It is used at once.", "It is used at teh end.")
    tool(tree, "export_module")
    edit_cell(tree, lambda cell: cell.update(source="print(treble(3))"))
    edit(tree / "tools/links.py", "import re\n", "import re, json\n")
    done = tool(tree, "check", lint=True)
    for words in (
        (f"{MODULE}:", "`Path`", "F821"),
        (f"{MODULE}:", "[operator]"),
        ("notebooks/01_first.ipynb:cell 4:1:7: F821",),
        ("tools/links.py:", "`json`"),
        (f"{ONE}:", "teh ==> the"),
    ):
        lines = done.stdout.splitlines()
        assert any(all(word in line for word in words) for line in lines), done.stdout


def test_outputs_of_older_code_on_both_sides(tree):
    """Leave new code beside old outputs, as an editor that syncs the pair does."""
    edit(tree / ONE, "double(3)", "double(4)")
    edit_cell(tree, lambda cell: cell.update(source="print(double(4))"))
    refused(tree, "01_first: ", STALE)


def test_notebooks_and_sources_come_in_pairs(tree):
    (tree / "notebooks/01_first.ipynb").unlink()
    shutil.copy(tree / "notebooks/02_second.ipynb", tree / "notebooks/03_third.ipynb")
    (tree / SOLUTIONS).unlink()
    refused(tree, "01_first: not executed yet")
    refused(tree, "03_third: there is no .md")
    refused(tree, "solutions/01_first: there is no .md")


def test_minutes_that_do_not_add_up_are_found(tree):
    edit(tree / ONE, "It is used at once.", "The exercises take\nanother 7 minutes.")
    refused(tree, "01_first.md: 7 minutes for exercises of 5")


# What makes outputs stale: what the code uses, as the chapters export it now


def stale(tree: Path) -> list[str]:
    """Return the notebooks that the check calls stale."""
    lines = tool(tree, "check").stdout.splitlines()
    return [line.partition(": ")[0] for line in lines if STALE in line]


@pytest.mark.parametrize(
    "file, old, new, expected",
    [
        (ONE, "x / 2", "x / 4", "01_first"),
        (ONE, "_SCALE = 2.0", "_SCALE = 3.0", "01_first 02_second solutions/01_first"),
        (TWO, "float(r * r))", "float(r) ** 2)", "02_second"),
        (PRINTING, '" " if', '"-" if', "02_second"),
        (CHECK_FILE, "at.double(3)", "2 * at.LOW", "01_first solutions/01_first"),
        ("data/numbers.txt", "6", "7", "02_second"),
        (SOLUTIONS, "6.0", "7.0", "solutions/01_first"),
    ],
)
def test_what_an_edit_makes_stale(tree, file, old, new, expected):
    edit(tree / file, old, new)
    assert stale(tree) == expected.split()


def test_what_makes_nothing_stale(tree):
    for file, old, new in (
        (ONE, "# a comment", "# another"),
        (ONE, "twice as much", "two times as much"),
        (PRINTING, 'return ""', 'return "."'),  # which no chapter calls
        (PRINTING, "Print words", "Say words"),
        (CHECK_FILE, "double is the oracle", "double knows"),
    ):
        edit(tree / file, old, new)
    assert stale(tree) == []


def test_a_new_version_makes_nothing_stale(tree):
    edit(tree / SOLUTIONS, '"twice", 6.0', f'"twice", len("{MODULE}") / 4')  # uses all
    run(tree)
    edit(tree / "transformer_workshop/__init__.py", '"1"', '"2"')
    assert stale(tree) == []


@pytest.mark.parametrize(
    "code, same",
    [
        ("def f(a):\n    {} = [a]\n    return f'{{}}', {}", True),
        ("class A:\n    def f(self, a):\n        return [{} * a for {} in a]", True),
        ("def f(a):\n    {} = a\n    return f'{{}=}'", False),  # which is shown
        ("def f(a):\n    {} = a\n    return a.{}", False),
        ("def f(a):\n    {} = a\n    return '{}'", False),
        ("def f(a):\n    {} = a\n    return f({}={})", False),
        ("def f(a, {}):\n    {} = a", False),
        ("def f(a):\n    global {}\n    {} = a", False),
        ("class A:\n    {} = 1\n\n    def f(self):\n        {} = 2", False),
        ("{} = 1", False),
    ],
)
def test_a_local_variable_may_have_another_name(code, same):
    texts = [
        digest._File("", code.replace("{}", name)).parts[0].text for name in ("b", "c")
    ]
    assert (texts[0] == texts[1]) == same


@pytest.mark.parametrize("code, same", [
    ("raise ValueError({})", True),
    ("def f(a):\n    if a:\n        raise KeyError({}) from None\n    return 1", True),
    ("raise SystemExit(len({}))", False),
    ("print({})", False),
])  # fmt: skip
def test_an_error_may_say_it_in_other_words(code, same):
    words = ('"müde"', '(\n        f"at {1}"\n        " twice")')
    parts = [digest._File("", code.replace("{}", each)).parts[0] for each in words]
    assert (parts[0].quiet == parts[1].quiet) == same
    assert parts[0].text != parts[1].text


def test_a_cell_that_shows_an_error_is_stale_when_it_says_something_else(tree):
    raising = '    if 0:\n        raise OSError("")\n    return'
    edit(tree / PRINTING, "    return", raising)
    run(tree)
    edit(tree / PRINTING, 'OSError("")', 'OSError("b")')
    assert stale(tree) == []
    edit(tree / PRINTING, 'OSError("b")', 'KeyError("b")')
    assert stale(tree) == ["02_second"]


def test_a_use_in_words_or_by_an_old_name_is_followed(tree):
    edit(tree / SOLUTIONS, '"twice", 6.0', f'"twice", len("{MODULE}") / 4')
    edit(tree / TWO, "transformer_workshop.printing", "annotated_transformer")
    run(tree)
    edit(tree / ONE, "x / 2", "x / 4")  # which the solution calls nowhere
    edit(tree / PRINTING, '" " if', '"-" if')
    assert stale(tree) == ["01_first", "02_second", "solutions/01_first"]


def test_files_that_code_names(tmp_path, monkeypatch):
    for name in ("a/b.txt", "a/README.md", "a/__pycache__/c.cpython-311.pyc", "d.txt"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).touch()
    monkeypatch.setattr(digest, "ROOT", tmp_path)
    for code in (
        "'../data/a'",
        "'../data/a/b.txt'",
        "f / 'a'",
        'f / "data" / "a" / "b.txt"',
    ):
        assert digest._named_files(code) == [tmp_path / "data/a/b.txt"]
    assert digest._named_files("'../data', 'b.txt', 'd.txt'") == []


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
    edit(tree / TWO, "import math\n", code + "\n")
    cell = f"02_second, cell 3 ({code.splitlines()[0]})"
    before = contents(tree)
    for name in ("export_module", "run_notebooks"):
        done = tool(tree, name)
        assert done.status == 1
        assert cell in done.stderr and reason in done.stderr, done.stderr
    assert contents(tree) == before
    if "broken" in code:
        refused(tree, cell, reason)


# The module


def python(folder: Path, *arguments: str) -> str:
    """Run Python in a folder; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_module_holds_what_is_exported(tree):
    module = (tree / MODULE).read_text()
    assert module.count("import math") == 1
    assert "import os" not in module  # only a cell that isn't exported uses it
    assert "if TYPE_CHECKING:\n    from fractions import Fraction\n" in module
    parts = ["Do not edit this file", "from __future__ import annotations"]
    parts += [ONE, "def double", TWO, "def circle"]
    assert sorted(parts, key=module.index) == parts
    (tree / MODULE).unlink()
    exported = '```python tags=["export"]\nN = 1\n```\n\n```python'
    edit(tree / SOLUTIONS, "```python", exported)  # a solution exports nothing
    assert tool(tree, "export_module").status == 0
    assert (tree / MODULE).read_text() == module


def test_the_module_finds_the_workshop_and_does_without(tree, monkeypatch):
    code = "import annotated_transformer as m; print(*m.__all__, m.shout)"
    *names, function = python(tree, "-c", code).split(maxsplit=6)
    assert names == ["LOW", "HIGH", "double", "unused", "circle", "shout"]
    assert "function shout" in function
    assert python(tree, MODULE) == "6.283\n"
    shutil.rmtree(tree / "transformer_workshop")
    monkeypatch.delenv("PYTHONPATH")  # nor is this project's found, with -S
    code = "import annotated_transformer as m; print(*m.__all__)"
    assert python(tree, "-S", "-c", code).split() == names[:-1]


# The runner


def executed(done: SimpleNamespace) -> list[str]:
    """Return the notebooks that a run has executed, and not kept."""
    assert done.status == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return sorted(line.partition(":")[0] for line in lines if ": executed" in line)


def test_editing_prose_and_comments_keeps_the_outputs(tree):
    mark_outputs(tree)
    before = stored(tree)
    edit(tree / ONE, "used at once", "used now")
    edit(tree / ONE, "# a comment", "# another comment")
    edit(tree / ONE, "# First", "A new cell.\n\n\n# First")
    assert executed(run(tree)) == []
    after = stored(tree)
    assert after.cells[4].outputs[0].text == "kept\n"
    assert after.cells[3].source == "It is used now."
    for number in (0, 4):  # ids of all but the edited cells, one further down
        assert after.cells[number + 1].id == before.cells[number].id
    accepted(tree)


def test_editing_code_makes_the_outputs_anew_where_it_is_used(tree):
    mark_outputs(tree)
    edit(tree / TWO, "float(r * r))", "float(r) ** 2)")
    done = run(tree)
    assert f"{MODULE}: written" in done.stdout
    assert executed(done) == ["02_second"]
    edit(tree / ONE, "print(double(3))", "print(double(4))")
    assert executed(run(tree, str(tree / TWO))) == []
    assert executed(run(tree)) == ["01_first"]
    assert stored(tree).cells[3].outputs[0].text == "8.0\n"
    accepted(tree)


def test_running_again_changes_nothing_and_force_makes_the_same_anew(tree):
    before = contents(tree)
    assert executed(run(tree)) == []
    assert contents(tree) == before
    edit_cell(tree, spoil_error)
    assert executed(run(tree)) == ["01_first"]
    assert contents(tree) == before
    mark_outputs(tree)
    (tree / "notebooks/02_second.ipynb").unlink()
    assert len(executed(run(tree, "--force"))) == 3
    assert contents(tree) == before


def chart(value: float, name: str, title: str = "loss") -> dict:
    """Return a chart's output, with a name that Altair would give its data."""
    data = f"data-{name * 32}"
    values = {"datasets": {data: [{title: value, "n": 3}]}, "data": {"name": data}}
    return {"data": {run_notebooks.CHART: values, "image/png": name}, "metadata": {}}


@pytest.mark.parametrize(
    "new, same",
    [
        (chart(0.1234567, "a"), True),
        (chart(0.1234569, "b"), True),
        (chart(0.1239, "b"), False),
        (chart(0.1234567, "a", "nats"), False),
    ],
)
def test_what_rounding_alone_changes_in_a_chart_stays_as_it_was(new, same):
    old, printed = chart(0.1234567, "a"), {"name": "stdout", "text": "0.1234567"}
    assert run_notebooks.alike([printed, new], [printed, old]) is same
    assert not run_notebooks.alike([new], [printed, old])
    assert not run_notebooks.alike([printed | {"text": "0.1234569"}], [printed])


@pytest.mark.parametrize(
    "argument, reason",
    [("1 / 0", "ZeroDivisionError"), ("os._exit(1)", "Kernel died")],
)
def test_failing_cell_is_named_and_the_notebook_left_alone(tree, argument, reason):
    before = (tree / "notebooks/01_first.ipynb").read_bytes()
    edit(tree / ONE, "double(3)", f"double({argument})")
    done = run(tree)
    assert done.status == 1 and reason in done.stderr
    assert f"01_first, cell 4 (print(double({argument})))" in done.stderr
    assert (tree / "notebooks/01_first.ipynb").read_bytes() == before


def test_a_readers_run_goes_on_after_a_failure_and_leaves_the_notebooks(tree):
    mark_outputs(tree)
    before = contents(tree)
    done = run(tree, "--into", "build/notebooks")
    assert done.status == 0, done.stderr
    assert "1/2 01_first" in done.stdout and "2/2 02_second" in done.stdout
    assert done.stdout.index("build/notebooks/") < done.stdout.index("25.133 6")
    after = contents(tree)
    made = {path.as_posix() for path in after if path not in before}
    assert made == {f"build/notebooks/{n}.ipynb" for n in ("01_first", "02_second")}
    assert all(after[path] == before[path] for path in before)
    edit(tree / ONE, "print(double(3))", "print(double(None))")
    done = run(tree, "--into", "build/notebooks")
    assert done.status == 1 and "01_first, cell 4" in done.stderr
    assert "a cell failed" in done.stdout and "2/2 02_second" in done.stdout
    assert "25.133 6" in done.stdout  # the second chapter's summary


def test_a_chapter_without_its_language_model_is_left_as_stored(
    tree, tmp_path, monkeypatch
):
    monkeypatch.setenv("ANNOTATED_TRANSFORMER_LLM", str(tmp_path))
    edit(tree / ONE, "```python\nprint(double(3))", '```python tags=["llm"]\nprint(9)')
    before = (tree / "notebooks/01_first.ipynb").read_bytes()
    done = run(tree)
    assert done.status == 0 and "01_first: left as stored; it needs" in done.stdout
    done = run(tree, "--into", "build/notebooks")
    assert done.status == 0 and "left as stored; it needs the lang" in done.stdout
    assert (tree / "notebooks/01_first.ipynb").read_bytes() == before
    made = nbformat.read(tree / "build/notebooks/01_first.ipynb", 4)
    assert made.cells == stored(tree).cells
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").touch()
    assert executed(run(tree)) == ["01_first"]


def test_a_missed_finding_is_a_sentence_for_a_reader_and_fails_elsewhere(
    tree, monkeypatch
):
    shutil.copy(ROOT / "transformer_workshop/lab/findings.py", tree / PRINTING)
    monkeypatch.delenv("ANNOTATED_TRANSFORMER_STRICT")
    look = "from transformer_workshop.printing import finding"
    cell = f'{look}\n\nfinding("the loss", 0.5, at_most=0.1)\nprint(double(3))'
    edit(tree / ONE, "print(double(3))", cell)
    done = run(tree, ONE, "--into", "build/notebooks")
    sentence = "Not in this run: the loss is 0.5, and the text expects at most 0.1."
    assert done.status == 0 and f"01_first, First: {sentence}" in done.stdout
    done = run(tree, ONE)
    assert done.status == 1 and f"AssertionError: {sentence}" in done.stderr


def test_run_into_a_folder_outside_of_the_project(tree, tmp_path):
    (tree / "images").mkdir()
    (tree / "images/a.svg").write_text("<svg/>")
    into = tmp_path / "elsewhere/notebooks"
    done = run(tree, ONE, SOLUTIONS, "--into", str(into))
    assert done.status == 0, done.stderr
    found = {path.relative_to(into).as_posix() for path in into.rglob("*.ipynb")}
    assert found == {"01_first.ipynb", "solutions/01_first.ipynb"}
    assert f"The executed chapters are in {into}/." in done.stdout
    assert (tmp_path / "elsewhere/images/a.svg").exists()


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["--into", "notebooks/solutions"], "would replace their notebooks"),
        (["notebooks/glossary.md"], "glossary.md is not a chapter"),
        (["notebooks/01_first.ipynb"], "01_first.ipynb is not a chapter"),
    ],
)
def test_runner_refuses(tree, arguments, reason):
    before = contents(tree)
    done = run(tree, *arguments)
    assert done.status == 2 and reason in done.stderr
    assert contents(tree) == before


# One definition


def test_a_chapter_runs_the_modules_definitions_and_a_reader_the_cells_own(tree):
    break_module = "import annotated_transformer as m\n\nm._SCALE = None\nprint("
    edit(tree / ONE, "print(", break_module)
    edit(tree / CHECK_FILE, "at.double(3)", "6")  # the check may use the module
    done = run(tree)
    assert done.status == 1
    assert "01_first, cell 4 " in done.stderr and "TypeError" in done.stderr
    done = run(tree, ONE, "--into", "build/notebooks")
    assert done.status == 0, done.stderr
    assert '"6.0\\n"' in (tree / "build/notebooks/01_first.ipynb").read_text()


def test_a_class_is_the_modules_class(tree):
    edit(tree / ONE, "def double", "class A:\n    pass\n\n\ndef double")
    look = "import annotated_transformer as m\nassert isinstance(A(), m.A)\nprint("
    edit(tree / ONE, "print(", look)
    assert executed(run(tree)) == ["01_first"]


def test_a_rung_may_define_an_earlier_version_of_a_name(tree):
    rung = '```python tags=["rung"]\ndef double(x):\n    return 0\n```\n\n'
    use = "```python\nassert double(3) == 0\n```\n\n"
    edit(
        tree / ONE,
        '```python tags=["export"]',
        rung + use + '```python tags=["export"]',
    )
    assert "01_first" in executed(run(tree))


# What a class gets


@pytest.fixture(scope="module")
def student(tmp_path_factory) -> Path:
    """Write the students' copy of this project; return its folder."""
    folder = tmp_path_factory.mktemp("student")
    (folder / "notebooks").mkdir()
    make_student.write_student(folder)
    return folder


def test_students_get_all_chapters_and_no_answers(student):
    names = {p.relative_to(student).as_posix() for p in student.rglob("*")}
    for path in chapters.chapters():
        assert {f"notebooks/{path.name}", f"notebooks/{path.stem}.ipynb"} <= names
    assert {"README.md", "constraints.txt", "notebooks/glossary.md"} <= names
    assert not [n for n in names if re.search("solution|wrong_answers|hidden", n)]
    assert not [n for n in names if "tests/" in n]


def test_what_a_students_copy_names_is_there(student):
    named = re.compile(r"\.\./((?:data|images|models|results)[\w./-]*)")
    for path in student.rglob("*.md"):
        assert not links.dead(path), path
    for path in (student / "notebooks").glob("*.md"):
        for name in named.findall(path.read_text(encoding="utf-8")):
            assert (student / name).exists() == (ROOT / name).exists(), (path, name)


def test_dead_links_become_words_outside_of_code(tmp_path):
    (tmp_path / "here.md").write_text("")
    text = (
        "[a `b` c](here.md#x) [gone](there.md) `f[0](x)` [web](https://x.org) [y](#y)\n"
        "![picture](there.svg)\n```python\nlayers[0](x)\n```\n"
    )
    expected = text.replace("[gone](there.md)", "gone")
    expected = expected.replace("![picture](there.svg)", "picture")
    assert make_student.without_dead_links(text, tmp_path) == expected


@pytest.mark.slow
def test_students_copy_works_by_itself(student, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(student))
    monkeypatch.delenv("ANNOTATED_TRANSFORMER_DATA", raising=False)
    code = """if True:
        import annotated_transformer
        from exercise_checks import check
        from transformer_workshop.base.data_sets import data_file, project_folder
        from transformer_workshop.base.text_files import read_lines
        from transformer_workshop.models.translator import load_translator
        check("1.1", None)
        print(project_folder())
        print(load_translator.__code__.co_filename)  # not that of this project
        translator = load_translator("../models/captions")
        print(translator.translate(["Ein Hund läuft."])[0])
        print(len(read_lines(data_file("captions", "test.de"))))
    """
    said = python(student / "notebooks", "-c", code)
    verdict, folder, workshop, english, lines = said.splitlines()
    assert verdict == "Exercise 1.1: not answered yet."
    assert folder == str(student) and workshop.startswith(folder)
    assert "dog" in english and int(lines) == 800


def test_make_student_starts_afresh_and_only_when_all_is_executed(tree):
    for name in make_student.FILES:
        if name.startswith("notebooks/") and not (tree / name).exists():
            (tree / name).write_text("")
    (tree / "build/student").mkdir(parents=True)
    (tree / "build/student/old.txt").write_text("")
    done = tool(tree, "make_student")
    assert done.status == 0, done.stderr
    names = {path.as_posix() for path in contents(tree / "build/student")}
    assert "old.txt" not in names and "notebooks/02_second.ipynb" in names
    assert not [name for name in names if "solutions" in name]
    (tree / "notebooks/02_second.ipynb").unlink()
    done = tool(tree, "make_student")
    assert done.status == 1 and "02_second: not executed yet" in done.stdout


def test_lists_follow_from_the_exercises(tree):
    row = "| [1.1 · Twice](#Exercise-1.1:-Twice) | 1.7 | Recall | 5 | 1 |\n"
    assert (tree / ONE).read_text().endswith(row)
    row = "| 1.1 · Twice | Recall | 5 | 1 | what doubles |\n"
    assert (tree / "TEACHING.md").read_text() == TEACHING.replace("\n\n", f"\n{row}\n")
    edit(tree / CHECK_FILE, "what doubles", "what halves")
    refused(tree, "TEACHING.md", "run `make notebooks`")
    (tree / CHECK_FILE).with_name("thrice.py").write_text(CHECK)
    refused(tree, "thrice.py: no chapter has this exercise")


def test_an_exercise_runs_without_its_chapter(tree):
    """An edited stub or check executes no chapter; the module's names are there."""
    mark_outputs(tree)
    edit(tree / ONE, "answer = 3", "answer = double(3)")
    assert stale(tree) == ["01_first"]
    done = run(tree)
    assert "01_first: exercises, " in done.stdout and executed(done) == []
    chapter, stub = stored(tree).cells[3], stored(tree).cells[5]
    assert chapter.outputs[0].text == "kept\n" and stub.outputs[0].text == "right\n"
    edit(tree / CHECK_FILE, "double(3)", "double(4)")
    done = run(tree)
    assert "01_first: exercises, " in done.stdout
    assert executed(done) == ["solutions/01_first"]
    accepted(tree)
    edit(tree / ONE, "answer = double(3)", "answer = 1 / 0")
    done = run(tree)
    assert done.status == 1 and "01_first, cell 6 (from exercise_checks" in done.stderr


def test_a_chapter_runs_without_its_exercises(tree):
    with open(tree / ONE, "a") as chapter:
        chapter.write("\n```python\nassert 'answer' not in globals()\n```\n")
    assert executed(run(tree)) == ["01_first"]
    accepted(tree)


def test_make_exercise_writes_what_only_needs_to_be_filled_in(tree):
    (tree / "tests/wrong_answers").mkdir(parents=True)
    for name in ("exercises/__init__.py", "exercises/checking.py", "notebooks.py"):
        name = f"transformer_workshop/{name}"
        shutil.copy(ROOT / name, tree / name)
    done = tool(tree, "exercises", "--new", "1.2", "some_words")
    assert done.status == 0, done.stderr
    made = [line.partition(":")[0].strip() for line in done.stdout.splitlines()]
    folders = "transformer_workshop/exercises", "tests/wrong_answers"
    assert made[1:5] == [ONE, *(f"{f}/some_words.py" for f in folders), SOLUTIONS]
    names = {}
    for folder in folders:
        text = (tree / folder / "some_words.py").read_text()
        exec(compile(text, folder, "exec"), names)
    solved = (tree / SOLUTIONS).read_text().rpartition("```python\n")[2].split("```")[0]
    answers = {}
    exec(solved, {"check": answers.__setitem__})  # it needs nothing of its chapter
    assert answers["some_words"](3) == 3
    assert checking.complaint_of(names["judge"], lambda x: x) is None
    assert "a hint" in checking.complaint_of(names["judge"], names["WRONG"][0])
    done = run(tree, ONE)
    assert "01_first: exercises, " in done.stdout, done.stderr
    rows = (tree / ONE).read_text().splitlines()[-2:]
    assert [row.split(" · ")[0] for row in rows] == ["| [1.1", "| [1.2"]
    for number, name, says in (
        ("1.2", "other", "there is an exercise 1.2"),
        ("1.3", "twice", "there is an exercise twice"),
        ("1.3", "No-name", "is no name"),
        ("7.3", "other", "is no number of an exercise"),
    ):
        done = tool(tree, "exercises", "--new", number, name)
        assert done.status == 1 and says in done.stderr


# nbval, the Makefile


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


CELLS = """
```python
display({"application/vnd.vegalite.v5+json": {"a": 1}}, raw=True)
print("beside a chart")
```

```python
print("kept")
```

```python tags=["export"]
def other():
    return 1
```

```python
print(unused(4))
```
"""


@pytest.mark.slow
def test_nbval_compares_outputs_except_charts_and_runs_the_modules_definitions(tree):
    with (tree / ONE).open("a") as file:
        file.write(CELLS)
    run(tree, ONE)
    path = tree / "notebooks/01_first.ipynb"
    edit(path, '"a": 1\n', '"a": 2\n')
    edit(path, '"kept\\n"', '"not kept\\n"')
    with (tree / MODULE).open("a") as module:  # the same source, but another function
        module.write('\nglobals()["unused"] = lambda x: x / 0\n')
    done = pytest_in(
        tree, "--nbval", "--nbval-current-env", "-rf", "notebooks/01_first.ipynb"
    )
    failed = re.findall(r"^FAILED \S+::Cell (\d)", done.stdout, re.M)
    assert failed == ["4", "6"], done.stdout
    assert "ZeroDivisionError" in done.stdout


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


def write_python(path: Path, script: str) -> Path:
    """Write a stand-in for a Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("minor", [10, 11, 13, 14, 15])
def test_setup_refuses_other_pythons_in_one_line(tmp_path, minor):
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    claim = f"import sys; sys.version_info = (3, {minor}, 0); exec(sys.argv[2])"
    script = f'[ "$1" = -c ] || exit 9\nexec {sys.executable} -c \'{claim}\' "$@"'
    python = write_python(tmp_path / "other-python", script)
    done = make(tmp_path, "setup", f"PYTHON={python}")
    assert done.returncode != 0  # the stand-in can't make an environment
    assert ("Installing" in done.stdout) == (11 <= minor <= 14)
    assert ("untested" in done.stdout) == (minor == 14)
    if "Installing" not in done.stdout:
        message, *rest = done.stderr.splitlines()
        assert f"is 3.{minor}" in message and "3.11" in message
        assert all(line.startswith("make") for line in rest)
    assert not (tmp_path / ".venv").exists()


def test_only_other_contents_are_installed_anew(tmp_path):
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python = write_python(tmp_path / ".venv/bin/python", "")

    def installs() -> bool:
        done = make(tmp_path, "setup", f"PYTHON={python}")
        assert done.returncode == 0, done.stderr
        return "Installing" in done.stdout

    assert installs() and not installs()
    for path in tmp_path.glob("*.t*"):  # as a new checkout does
        os.utime(path, (2e9, 2e9))
    assert not installs()
    before = (tmp_path / "constraints.txt").read_text()
    (tmp_path / "constraints.txt").write_text(before + "# another\n")
    assert installs() and not installs()
    (tmp_path / "constraints.txt").write_text(before)
    assert installs()  # since the other contents were


def test_clean_leaves_runs_and_nothing_of_its_own(tmp_path):
    own = [".venv/bin/python", "build/notebooks/1.ipynb", "a.egg-info/x", "runs/r/w"]
    own += [".pytest_cache/x", "tools/__pycache__/x", "notebooks/.ipynb_checkpoints/x"]
    own += [".mypy_cache/x", ".ruff_cache/x", ".hypothesis/x", "notebooks/1.ipynb"]
    for name in own:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    done = make(tmp_path, "clean")
    left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")}
    assert left == {
        "runs",
        "runs/r",
        "runs/r/w",
        "notebooks",
        "notebooks/1.ipynb",
        "tools",
    }
    assert "runs/" in done.stdout
