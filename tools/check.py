"""Prove, without writing anything, that chapters, notebooks, and module agree.

    python tools/check.py

Every line printed says where the fault is and what to do about it.
"""

import argparse
import difflib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

import exercises
import nbformat
from chapters import (
    MODULE,
    NOTEBOOKS,
    ROOT,
    Refused,
    cell_name,
    lacks,
    name,
    pair,
    read,
    sources,
    tags,
)
from digest import digests
from export_module import exported, on_disk
from nbformat import NotebookNode

NOTEBOOK_LIMIT = 2_000_000  # bytes; GitHub doesn't show larger ones
RERUN = "run `make notebooks`"


def faults() -> Iterator[str]:
    """Yield all faults of the tree."""
    with ThreadPoolExecutor() as pool:
        programs = [
            pool.submit(_program, "-m", "mypy", "--no-error-summary"),
            pool.submit(_program, "tools/translations.py", "--check"),
            pool.submit(_program, "-m", "codespell_lib", "."),
            pool.submit(
                _program, "-m", "ruff", "check", "--quiet", "--output-format=concise"
            ),
        ]
        yield from _own_faults()
        for program in programs:
            yield from program.result()


def _own_faults() -> Iterator[str]:
    """Yield the faults of chapters, notebooks, module, and exercises."""
    for source in sources():
        yield from _magics(source)
        if not pair(source).exists():
            yield f"{name(source)}: not executed yet; {RERUN}"
            continue
        notebook = nbformat.read(pair(source), 4)
        yield from _pairing(source, notebook)
        yield from stored_faults(source, notebook)
        yield from _freshness(source, notebook)
    for path in {p for f in ("", "solutions") for p in (NOTEBOOKS / f).glob("*.ipynb")}:
        if path.with_suffix(".md") not in sources():
            yield f"{name(path)}: there is no .md with this name"
    yield from _module()
    yield from exercises.faults()


def _magics(source: Path) -> Iterator[str]:
    """Yield cells that are magics, which fences of other languages turn into."""
    for number, cell in enumerate(read(source), 1):
        if cell.cell_type == "code" and re.match(r"\s*[%!]", cell.source):
            where = cell_name(source, number, cell.source)
            yield f"{where}: this would run; show it in a ```console or ```text fence"


def _pairing(source: Path, notebook: NotebookNode) -> Iterator[str]:
    """Yield the first cell that differs from its source in content or tags."""
    cells = zip_longest(read(source), notebook.cells)
    for number, (ours, theirs) in enumerate(cells, 1):
        if not (ours and theirs and _identity(ours) == _identity(theirs)):
            where = cell_name(source, number, (ours or theirs).source)
            yield f"{where}: .md and .ipynb differ; edit the .md, and {RERUN}"
            return


def _identity(cell: NotebookNode) -> tuple:
    return cell.cell_type, cell.source, tags(cell)


def stored_faults(source: Path, notebook: NotebookNode) -> Iterator[str]:
    """Yield execution counts other than 1..n, stored errors, and too large a size."""
    code = [c for c in enumerate(notebook.cells, 1) if c[1].cell_type == "code"]
    for count, (number, cell) in enumerate(code, 1):
        where = cell_name(source, number, cell.source)
        if (stored := cell.execution_count) != count:
            yield f"{where}: execution count {stored} instead of {count}; {RERUN}"
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                yield f"{where}: the stored output is the error {output.ename}; {RERUN}"
    if (size := len(nbformat.writes(notebook).encode())) > NOTEBOOK_LIMIT:
        yield f"{name(source)}: {size:,} bytes, limit {NOTEBOOK_LIMIT:,}"


def _freshness(source: Path, notebook: NotebookNode) -> Iterator[str]:
    """Yield a fault unless the outputs come from today's code, module, and data."""
    try:
        today = digests(source)
        if {what: notebook.metadata.get(what) for what in today} != today:
            need = f"; it needs {missing}" if (missing := lacks(source)) else ""
            yield f"{name(source)}: the code, the module or data changed; {RERUN}{need}"
    except Refused as refusal:
        yield str(refusal)


def _module() -> Iterator[str]:
    """Yield how the module differs from what the chapters export."""
    try:
        expected = exported()
    except Refused as refusal:
        yield str(refusal)
        return
    lines = (on_disk().splitlines(), expected.splitlines())
    titles = ("on disk", "from the chapters")
    if changes := list(difflib.unified_diff(*lines, *titles, lineterm="")):
        what = f"{MODULE.name} isn't what the chapters export; edit these, and {RERUN}"
        yield "\n".join([what, *changes])


def _program(*command: str) -> list[str]:
    """Return what a program, run in the project's folder, has to say."""
    whole = [sys.executable, *command]
    done = subprocess.run(whole, cwd=ROOT, capture_output=True, encoding="utf-8")
    return (done.stdout + done.stderr).splitlines()


def main() -> int:
    start = time.perf_counter()
    lines = list(dict.fromkeys(faults()))
    for fault in lines:
        print(fault)
    seconds = time.perf_counter() - start
    verdict = f"{len(lines)} faults" if lines else "in order"
    what = "the module, translations, lint, types, and spelling"
    print(f"{len(sources())} notebooks, {what}: {verdict}, {seconds:.0f} s")
    return 1 if lines else 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    raise SystemExit(main())
