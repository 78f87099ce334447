"""Prove, without writing anything, that chapters, notebooks and module agree.

    python tools/check.py

Every line printed says where the fault is and how to mend it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import export_module
import nbformat
from chapters import (
    MODULE,
    NOTEBOOKS,
    ROOT,
    Refused,
    name,
    pair,
    place,
    read,
    sources,
    tags,
)
from digest import digest
from nbformat import NotebookNode

OUTPUT_LIMIT = 500_000  # bytes of one output
NOTEBOOK_LIMIT = 2_000_000  # bytes of one notebook
RERUN = "run `make notebooks`"


def pairing(source: Path) -> Iterator[str]:
    """A notebook has the cells and tags of its source, in order."""
    if not pair(source).exists():
        yield f"{name(source)}: the notebook is missing; {RERUN}"
        return
    ours, theirs = read(source), read(pair(source))
    for number, (cell, other) in enumerate(zip(ours, theirs, strict=False), 1):
        same = (cell.cell_type, cell.source, tags(cell)) == (
            other.cell_type,
            other.source,
            tags(other),
        )
        if not same:
            where = place(source, number, cell.source)
            yield f"{where}: .md and .ipynb differ here; keep one and {RERUN}"
            return
    if len(ours) != len(theirs):
        number = min(len(ours), len(theirs)) + 1
        longer = (ours if len(ours) > len(theirs) else theirs)[number - 1]
        kept = ".md" if len(ours) > len(theirs) else ".ipynb"
        where = place(source, number, longer.source)
        yield f"{where}: this cell is in the {kept} only; {RERUN}"


def shell_cells(source: Path) -> Iterator[str]:
    """No cell is a magic, which is what a fence of another language becomes."""
    for number, cell in enumerate(read(source), 1):
        if cell.cell_type == "code" and re.match(r"\s*[%!]", cell.source):
            where = place(source, number, cell.source)
            yield f"{where}: this would run; show it in a ```console or ```text fence"


def fresh(source: Path) -> Iterator[str]:
    """The stored outputs come from today's code, module and data."""
    if not pair(source).exists():
        return
    stored = nbformat.read(pair(source), 4).metadata.get("executed")
    if stored != digest(source):
        yield (
            f"{name(source)}, all cells: the outputs are of older code, module or "
            f"data; {RERUN}"
        )


def stored_faults(source: Path, notebook: NotebookNode) -> Iterator[str]:
    """Counts run 1..n, no output is an error or too large."""
    count = 0
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        count += 1
        where = place(source, number, cell.source)
        if cell.execution_count != count:
            found = cell.execution_count
            yield f"{where}: execution count {found} instead of {count}; {RERUN}"
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                yield f"{where}: the output is an error, {output.ename}; {RERUN}"
            size = len(json.dumps(output))
            if size > OUTPUT_LIMIT:
                yield f"{where}: an output of {size:,} bytes, limit {OUTPUT_LIMIT:,}"


def stored(source: Path) -> Iterator[str]:
    """What is stored in the notebook on disk is complete and small."""
    path = pair(source)
    if not path.exists():
        return
    yield from stored_faults(source, nbformat.read(path, 4))
    size = path.stat().st_size
    if size > NOTEBOOK_LIMIT:
        yield f"{name(source)}, all cells: {size:,} bytes, limit {NOTEBOOK_LIMIT:,}"


def module() -> Iterator[str]:
    """The module is what the chapters export."""
    changed = export_module.difference(export_module.gather().text())
    if changed:
        yield f"{MODULE.name} is not what the chapters export; {RERUN}\n{changed}"


def main() -> int:
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
