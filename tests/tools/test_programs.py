"""Each program of benchmarks/ and tools/ answers --help, and does nothing else."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [
    path
    for folder in ("benchmarks", "tools")
    for path in sorted((ROOT / folder).glob("*.py"))
    if "__main__" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_help(path, monkeypatch, capsys):
    assert "ArgumentParser(" in path.read_text(encoding="utf-8")  # else it would run
    monkeypatch.delenv("ANNOTATED_TRANSFORMER_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(str(path.parent))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out.startswith(f"usage: {path.name}")
