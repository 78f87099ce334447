"""A chapter opened anywhere finds the rest, or says how; verdicts are boxes."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from chapters import ROOT, chapters, read

from transformer_workshop import notebooks

MARK = "import enter_folder"
CELL = next(cell.source for cell in read(chapters()[0]) if MARK in cell.source)
WHERE = f"{CELL}\nimport os; print(os.getcwd())"


def alone(folder):
    """Run the cell where no package is installed."""
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.path[:0] = ['']\n"]
    command[-1] += WHERE
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_every_chapter_begins_with_the_same_cell():
    for path in chapters():
        code = [c.source for c in read(path) if c.cell_type == "code"]
        assert CELL in code[:2], path
        before = "\n".join(code[: code.index(CELL)])
        assert "transformer" not in before and "exercise" not in before


def test_alone_it_says_the_line_that_brings_the_rest(tmp_path):
    done = alone(tmp_path)
    last = done.stderr.splitlines()[-1]
    assert done.returncode and last.startswith("!git clone ADDRESS"), done.stderr


@pytest.mark.parametrize(
    "place, start",
    [("annotated-transformer", ""), (".", ""), (".", "my"), (".", "notebooks")],
)
def test_it_finds_the_rest(tmp_path, place, start):
    """Look in a clone beside it, in the repository, and in a folder of that."""
    root, start = (tmp_path / place).resolve(), tmp_path / start
    for name in ("transformer_workshop/notebooks.py", "notebooks/exercise_checks.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    start.mkdir(exist_ok=True)
    done = alone(start)
    assert done.stdout.strip() == str(root / "notebooks"), done.stderr


def test_a_folder_with_its_own_checks_is_not_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exercise_checks.py").touch()
    notebooks.enter_folder()
    assert sys.path[0] != str(notebooks.CHAPTERS)
    (tmp_path / "exercise_checks.py").unlink()
    monkeypatch.setattr(notebooks, "CHAPTERS", tmp_path)
    with pytest.raises(FileNotFoundError, match="pip uninstall"):
        notebooks.enter_folder()


def test_in_a_notebook_a_verdict_is_a_box_with_the_hint_first(monkeypatch, capsys):
    shown = []
    display = SimpleNamespace(publish=shown.append)
    shell = SimpleNamespace(kernel=1, display_pub=display)
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    line = "Exercise 1.4: not yet: for `a<b` it is 3; it should be 2. Hint: halve it."
    notebooks.tell(line)
    assert capsys.readouterr().out == f"{line}\n"  # here is none
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    notebooks.tell(line)
    [bundle] = shown
    page = bundle["text/html"]
    assert " ".join(bundle["text/plain"].split()) == line
    assert page.index("Halve it.") < page.index("<details>") < page.index("a&lt;b")
    assert "<details>" not in notebooks.box(
        "Exercise 1.4: not yet: a tensor is needed."
    )
