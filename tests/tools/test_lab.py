"""`make lab`: the copy in my/ follows the chapters, and loses nothing of a reader's."""

import json

import lab
import nbformat
import pytest


@pytest.fixture
def folders(tmp_path):
    """Return a chapter's folder, and a copy of it."""
    source, mine = tmp_path / "notebooks", tmp_path / "my"
    (source / "solutions").mkdir(parents=True)
    mine.mkdir()
    (source / "exercise_checks.py").write_text("1")
    for name in ("01_a.ipynb", "02_b.ipynb", "solutions/01_a.ipynb"):
        write(source / name, f"first of {name}")
    assert lab.copy(source, mine) == []
    return source, mine


def write(path, text, output=None):
    cell = nbformat.v4.new_code_cell(text)
    cell.outputs = [nbformat.v4.new_output("stream", text=output)] if output else []
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)


def text(path):
    return json.loads(path.read_text())["cells"][0]["source"][0]


def test_what_was_only_run_is_renewed_and_what_was_changed_is_kept(folders):
    source, mine = folders
    write(mine / "01_a.ipynb", "first of 01_a.ipynb", output="it was run")
    write(mine / "02_b.ipynb", "my answer")
    assert lab.copy(source, mine) == []  # the chapters are as they were
    assert "it was run" in (mine / "01_a.ipynb").read_text()
    for name in ("01_a.ipynb", "02_b.ipynb"):
        write(source / name, "second")
    (source / "exercise_checks.py").write_text("2")
    for _ in range(2):
        assert lab.copy(source, mine) == ["02_b.ipynb"]
        assert text(mine / "01_a.ipynb") == "second"
        assert (mine / "exercise_checks.py").read_text() == "2"
        assert text(mine / "02_b.ipynb") == "my answer"


def test_renewing_keeps_what_was_changed_under_another_name(folders):
    source, mine = folders
    for number in (1, 2):
        write(mine / "02_b.ipynb", f"answer {number}")
        write(source / "02_b.ipynb", f"version {number}")
        [said] = lab.copy(source, mine, renew=True)
        assert f"02_b-mine-{number}.ipynb" in said
        assert text(mine / "02_b.ipynb") == f"version {number}"
        assert text(mine / f"02_b-mine-{number}.ipynb") == f"answer {number}"
    assert lab.copy(source, mine, renew=True) == []


def test_a_copy_that_nobody_recorded_counts_as_changed(folders):
    source, mine = folders
    (mine / lab.RECORD).unlink()
    write(source / "01_a.ipynb", "second")
    assert lab.copy(source, mine) == ["01_a.ipynb"]
    assert text(mine / "01_a.ipynb") == "first of 01_a.ipynb"
