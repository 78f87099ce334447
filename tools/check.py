"""Prove, without writing anything, that chapters, notebooks and module agree.

    python tools/check.py

Every line printed says where the fault is and what to do about it.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

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
from digest import definitions, digest, spans
from export_module import difference, gather, on_disk
from nbformat import NotebookNode

OUTPUT_LIMIT = 500_000  # bytes of one output
NOTEBOOK_LIMIT = 2_000_000  # bytes of one notebook
RERUN = "run `make notebooks`"


def pairing(source: Path) -> Iterator[str]:
    """The notebook has the cells and tags of its source, in order."""
    ours, theirs = read(source), read(pair(source))
    for number, (cell, other) in enumerate(zip(ours, theirs, strict=False), 1):
        if identity(cell) != identity(other):
            where = place(source, number, cell.source)
            yield f"{where}: .md and .ipynb differ here; {RERUN} to follow the .md"
            return
    if len(ours) != len(theirs):
        longer, only = max((ours, ".md"), (theirs, ".ipynb"), key=lambda p: len(p[0]))
        number = min(len(ours), len(theirs)) + 1
        where = place(source, number, longer[number - 1].source)
        yield f"{where}: only the {only} has this cell; {RERUN} to follow the .md"


def identity(cell: NotebookNode) -> tuple:
    """What the two halves of a pair share."""
    return cell.cell_type, cell.source, tags(cell)


def magics(source: Path) -> Iterator[str]:
    """No cell is a magic, which is what a fence of another language becomes."""
    for number, cell in enumerate(read(source), 1):
        if cell.cell_type == "code" and re.match(r"\s*[%!]", cell.source):
            where = place(source, number, cell.source)
            yield f"{where}: this would run; show it in a ```console or ```text fence"


def freshness(source: Path) -> Iterator[str]:
    """The outputs come from today's code, module and data."""
    stored = nbformat.read(pair(source), 4).metadata.get("executed", {})
    today = digest(source)
    then, now = (d.get("cells", "").split() for d in (stored, today))
    code = [c for c in enumerate(read(source), 1) if c[1].cell_type == "code"]
    for (number, cell), *words in zip(code, now, then + [""] * len(code), strict=False):
        if words[0] != words[1]:
            where = place(source, number, cell.source)
            yield f"{where}: the outputs are of older code; {RERUN}"
            return
    if len(then) > len(now):
        yield f"{name(source)}, all cells: the outputs are of older code; {RERUN}"
    if stored.get("module") != today["module"]:
        yield f"{name(source)}, all cells: the outputs are of an older module; {RERUN}"
    if stored.get("files") != today["files"]:
        yield f"{name(source)}, all cells: the outputs are of older data; {RERUN}"
    if stored.get("helpers") != today.get("helpers"):
        yield f"{name(source)}, all cells: the outputs are of older checks; {RERUN}"


def storage(source: Path) -> Iterator[str]:
    """What the notebook stores is complete and small."""
    path = pair(source)
    yield from stored_faults(source, nbformat.read(path, 4))
    if (size := path.stat().st_size) > NOTEBOOK_LIMIT:
        yield f"{name(source)}, all cells: {size:,} bytes, limit {NOTEBOOK_LIMIT:,}"


def stored_faults(source: Path, notebook: NotebookNode) -> Iterator[str]:
    """Counts run 1..n, no output is an error or too large."""
    count = 0
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        count += 1
        where = place(source, number, cell.source)
        if (found := cell.execution_count) != count:
            yield f"{where}: execution count {found} instead of {count}; {RERUN}"
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                yield f"{where}: the stored output is the error {output.ename}; {RERUN}"
            if (size := len(json.dumps(output))) > OUTPUT_LIMIT:
                yield f"{where}: an output of {size:,} bytes, limit {OUTPUT_LIMIT:,}"


def chapter_lint(source: Path) -> Iterator[str]:
    """ruff has nothing against a chapter's cells."""
    cells = read(source)
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["language_info"] = {"name": "python"}
    inside = pair(source).relative_to(ROOT).as_posix()
    for fault in ruff("-", "--stdin-filename", inside, text=nbformat.writes(notebook)):
        where = place(source, fault["cell"], cells[fault["cell"] - 1].source)
        yield f"{where}: line {fault['location']['row']}: {described(fault)}"


def python_lint() -> Iterator[str]:
    """ruff has nothing against the Python files, the module among them."""
    where = module_places()
    for fault in ruff("."):
        path = Path(fault["filename"])
        row = fault["location"]["row"]
        cell = f" from {where(row)}" if path == MODULE else ""
        yield f"{path.relative_to(ROOT)}:{row}{cell}: {described(fault)}"


def ruff(*arguments: str, text: str = "") -> list[dict]:
    """What ruff finds."""
    command = ["ruff", "check", "--quiet", "--output-format", "json", *arguments]
    return json.loads(run(command, text))


def described(fault: dict) -> str:
    return f"{fault['message']} ({fault['code']})"


def types() -> Iterator[str]:
    """mypy has nothing against the module."""
    where = module_places()
    for line in run(["mypy", "--no-error-summary"]).splitlines():
        path, row, kind, message = [*line.split(":", 3), "", "", ""][:4]
        if kind.strip() != "note":  # what explains the error before it
            cell = f" from {where(int(row))}" if row.isdigit() else ""
            yield f"{path}:{row}{cell}:{message or kind}"


def module_places() -> Callable[[int], str]:
    """A function from a line of the module to the cell that it came from."""
    owners = gather().owners
    known = [span for span in spans(on_disk()) if span[0] in owners]

    def where(row: int) -> str:
        for bound, start, end in known:
            if start < row <= end:
                return owners[bound]
        return "the chapters' imports"

    return where


def module() -> Iterator[str]:
    """The module is what the chapters export."""
    export = gather()
    expected = export.text()
    if on_disk() == expected:
        return
    ours, theirs = definitions(expected), definitions(on_disk())
    for bound in dict.fromkeys([*ours, *theirs]):
        if ours.get(bound) != theirs.get(bound):
            where = export.owners.get(bound, "no chapter, no cell")
            yield f"{where}: `{bound}` differs in {MODULE.name}; {RERUN}"
    if ours == theirs:
        yield f"{MODULE.name} differs; {RERUN}\n{difference(expected)}"


def orphans() -> Iterator[str]:
    """Every notebook has a source, every source a notebook."""
    expected = {pair(source) for source in sources()}
    found = {p for f in (".", "solutions") for p in (NOTEBOOKS / f).glob("*.ipynb")}
    for path in sorted(found - expected):
        yield f"{name(path)}, all cells: there is no .md of this name"
    for path in sorted(expected - found):
        yield f"{name(path)}, all cells: not executed yet; {RERUN}"


def run(command: list[str], text: str = "") -> str:
    """What a Python program prints, run in the project's folder."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        input=text,
        capture_output=True,
        encoding="utf-8",
    )
    if done.stderr:
        raise Refused(done.stderr)
    return done.stdout


def faults() -> Iterator[str]:
    """All faults of the tree."""
    for source in sources():
        checks = [magics, chapter_lint]
        if pair(source).exists():
            checks += [pairing, freshness, storage]
        for check in checks:
            yield from refused_is_fault(check(source))
    for check in (orphans, module, python_lint, types):
        yield from refused_is_fault(check())


def refused_is_fault(found: Iterable[str]) -> Iterator[str]:
    """A chapter that a check can't even read is a fault like another."""
    try:
        yield from found
    except Refused as refusal:
        yield str(refusal)


def main() -> int:
    start = time.perf_counter()
    found = list(dict.fromkeys(faults()))
    for fault in found:
        print(fault)
    seconds = time.perf_counter() - start
    verdict = f"{len(found)} faults" if found else "in order"
    print(f"{len(sources())} notebooks, the module, lint and types: {verdict}, "
          f"{seconds:.0f} s")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
