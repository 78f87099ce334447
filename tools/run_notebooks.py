"""Execute chapters: notebooks/*.md -> notebooks/*.ipynb.

python tools/run_notebooks.py                     those whose code has changed
python tools/run_notebooks.py notebooks/03_*.md   only these
python tools/run_notebooks.py --force             also where nothing has changed
python tools/run_notebooks.py --into build/notebooks
    run the chapters from top to bottom as a reader would, leave the committed
    notebooks alone, and end with what the cells tagged `summary` printed and which
    cells print something else than the committed notebooks; a copy of images/ is
    put beside that folder, where the chapters look for it
"""

import argparse
import difflib
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from chapters import (
    NOTEBOOKS,
    ROOT,
    Refused,
    chapters,
    name,
    pair,
    place,
    read,
    replace,
    sources,
    tags,
)
from check import stored_faults
from digest import digest
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)
from nbformat import NotebookNode
from tqdm import tqdm

ONE_DEFINITION = ROOT / "tools" / "one_definition.py"
TIMEOUT = 600  # seconds for one cell
METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def build(source: Path, old: NotebookNode) -> NotebookNode:
    """The notebook of a source, not executed.

    A cell that the old notebook has with the same content keeps its id, its
    metadata and its outputs. The id of a new cell comes from its content, so that
    building twice gives the same file.
    """
    notebook = nbformat.v4.new_notebook(metadata=METADATA)
    for cell in read(source):
        cell.metadata = {"tags": tags(cell)} if tags(cell) else {}
        notebook.cells.append(cell)
    before, after = (
        [(cell.cell_type, cell.source) for cell in cells]
        for cells in (old.cells, notebook.cells)
    )
    kept = set()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for old_start, start, size in matcher.get_matching_blocks():
        for i in range(size):
            was, cell = old.cells[old_start + i], notebook.cells[start + i]
            was.metadata.pop("tags", None)
            cell.metadata = {**was.metadata, **cell.metadata}
            cell.id = was.id
            kept.add(cell.id)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = was.outputs, was.execution_count
    for cell in notebook.cells:
        if cell.id not in kept:
            cell.id = new_id(cell, kept)
            kept.add(cell.id)
    return notebook


def new_id(cell: NotebookNode, taken: set[str]) -> str:
    """An id from a cell's content that no other cell has."""
    text = cell.cell_type + cell.source
    while (found := hashlib.sha256(text.encode()).hexdigest()[:8]) in taken:
        text += "'"
    return found


def execute(source: Path, notebook: NotebookNode, bind: bool) -> None:
    """Run all cells in a new kernel, at one thread, with the module of this tree.

    With ``bind``, what they define is the module's, see one_definition.py.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONSTARTUP": str(ONE_DEFINITION) if bind else "",
    }
    bar = tqdm(
        total=len(notebook.cells),
        desc=name(source),
        unit="cell",
        disable=None,
        leave=False,
    )
    running = 0

    def started(cell: NotebookNode, cell_index: int) -> None:
        nonlocal running
        running = cell_index
        bar.update(cell_index - bar.n)

    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # in one piece, however it arrived
        extra_arguments=["--log-level=ERROR"],
        on_cell_start=started,
        resources={"metadata": {"path": str(source.parent)}},
    )
    try:
        client.execute(env=environment)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        where = place(source, running + 1, notebook.cells[running].source)
        trace = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # without colours
        raise Refused(f"{where}: the cell fails\n\n{trace}") from None
    finally:
        bar.close()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.update(METADATA)


def bring_up_to_date(source: Path, force: bool) -> str:
    """Write a source's notebook, executing it where its outputs are not of today.

    Returns what was done, in words.
    """
    path = pair(source)
    old = nbformat.read(path, 4) if path.exists() else nbformat.v4.new_notebook()
    notebook = build(source, old)
    today = digest(source)
    current = old.metadata.get("executed") == today
    if force or not current or any(stored_faults(source, notebook)):
        execute(source, notebook, bind=True)
        done = "executed"
    else:
        done = "outputs kept"
    notebook.metadata["executed"] = today
    write(notebook, path)
    return done


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook, or leave the file alone where it is the same."""
    text = nbformat.writes(notebook) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        replace(path, text)


def tour(sources: list[Path], into: Path) -> bool:
    """Execute chapters into another folder and end with what they showed.

    Return whether they printed what the stored notebooks say.
    """
    into.mkdir(parents=True, exist_ok=True)
    images = into.parent / "images"  # a chapter shows ../images/…
    if (ROOT / "images").is_dir() and images != ROOT / "images":
        shutil.copytree(ROOT / "images", images, dirs_exist_ok=True)
    shown, differing = [], []
    for number, source in enumerate(sources, 1):
        start = time.perf_counter()
        notebook = build(source, nbformat.v4.new_notebook())
        execute(source, notebook, bind=False)
        path = into / f"{name(source)}.ipynb"  # solutions go one folder down
        path.parent.mkdir(exist_ok=True)
        write(notebook, path)
        seconds = time.perf_counter() - start
        print(f"{number}/{len(sources)} {name(source)}: {seconds:.0f} s", flush=True)
        for cell in notebook.cells:
            if "summary" in tags(cell):
                shown += [o.text for o in cell.outputs if o.output_type == "stream"]
        differing += differences(source, notebook)
    place_of = into.relative_to(ROOT) if into.is_relative_to(ROOT) else into
    print(f"\nThe executed chapters are in {place_of}/.\n")
    print("\n".join(shown))
    print("\n".join(differing or ["All outputs are those of the stored notebooks."]))
    print(f"Next: `make lab`, and read from {name(sources[0])} on.")
    return not differing


def differences(source: Path, notebook: NotebookNode) -> Iterator[str]:
    """Name the cells that print something else than in the stored notebook."""
    path = pair(source)
    stored = nbformat.read(path, 4) if path.exists() else nbformat.v4.new_notebook()
    if [c.source for c in notebook.cells] != [c.source for c in stored.cells]:
        yield f"{name(source)}: not compared, the stored notebook has other cells"
        return
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code" and "nbval-ignore-output" not in tags(cell):
            if printed(cell) != printed(stored.cells[number - 1]):
                where = place(source, number, cell.source)
                yield f"{where}: the stored notebook has another output"


def printed(cell: NotebookNode) -> list[str]:
    """Return the text of a cell's outputs."""
    return [
        output.get("text") or output.get("evalue") or output.data.get("text/plain", "")
        for output in cell.outputs
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=lambda p: Path(p).resolve())
    parser.add_argument("--force", action="store_true", help="execute unchanged ones")
    parser.add_argument("--into", type=lambda p: Path(p).resolve(), metavar="FOLDER")
    arguments = parser.parse_args()
    for path in arguments.sources:
        if path not in sources():
            parser.error(f"{path} is no chapter: those are notebooks/NN_name.md")
    if arguments.into and arguments.into.is_relative_to(NOTEBOOKS):
        parser.error("--into the folder of the chapters would replace their notebooks")
    try:
        if arguments.into:
            return 0 if tour(arguments.sources or chapters(), arguments.into) else 1
        else:
            for source in arguments.sources or sources():
                start = time.perf_counter()
                done = bring_up_to_date(source, arguments.force)
                seconds = time.perf_counter() - start
                print(f"{name(source)}: {done}, {seconds:.0f} s", flush=True)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
