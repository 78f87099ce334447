"""Execute chapters: notebooks/*.md -> notebooks/*.ipynb.

python tools/run_notebooks.py                     those whose code or data changed
python tools/run_notebooks.py notebooks/03_*.md   only these
python tools/run_notebooks.py --force             also where nothing has changed
python tools/run_notebooks.py --into build/notebooks
    run the chapters from top to bottom as a reader would, whatever happens in one;
    leave the committed notebooks alone, and end with what the cells tagged `summary`
    printed, with the findings that a training missed, and with the cells that failed;
    a copy of images/ is put beside that folder, where the chapters look for it
"""

import argparse
import asyncio
import hashlib
import math
import os
import re
import shutil
import sys
import time
from pathlib import Path

import exercises
import nbformat
from chapters import (
    NOTEBOOKS,
    ROOT,
    Refused,
    cell_name,
    chapters,
    lacks,
    name,
    pair,
    read,
    replace,
    sources,
    tags,
)
from check import stored_faults
from digest import EXERCISE, digests
from export_module import with_import
from export_module import write as write_module
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)
from nbformat import NotebookNode

from transformer_workshop.lab.findings import MISSED
from transformer_workshop.notebooks import ALONE

AT_ONCE = 2  # notebooks
HEADING = re.compile(r"^#{1,3} (.*)", re.M)
CHART = "application/vnd.vegalite.v5+json"
DATA = re.compile(r"^data-[0-9a-f]{32}$")  # as Altair names them
TIMEOUT = 1200  # seconds for one cell, however busy the machine
METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def build(source: Path) -> NotebookNode:
    """Return the notebook of a source, not yet executed.

    The id of a cell comes from its content, so that building twice gives the same.
    """
    notebook = nbformat.v4.new_notebook(metadata=METADATA)
    taken: set[str] = set()
    for cell in read(source):
        text = cell.cell_type + cell.source
        while (cell_id := hashlib.sha256(text.encode()).hexdigest()[:8]) in taken:
            text += "'"
        taken.add(cell_id)
        cell.id = cell_id
        cell.metadata = {"tags": tags(cell)} if tags(cell) else {}
        if "hide-input" in tags(cell):  # the site's word for it; this is Jupyter's
            cell.metadata["jupyter"] = {"source_hidden": True}
        notebook.cells.append(cell)
    return notebook


async def execute(
    source: Path, notebook: NotebookNode, skip: str = "", **variables: str
) -> None:
    """Run cells in a new kernel, at one thread, with the module of this tree.

    Those with the tag ``skip`` are left out. ``variables`` go into its environment.
    """
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONSTARTUP": "",
        "TQDM_DISABLE": "1",  # progress isn't an output
        "PYTHONWARNINGS": "ignore:IProgress not found",  # nor is what shows it
    }
    running = notebook.cells[0]

    def started(cell: NotebookNode, cell_index: int) -> None:
        nonlocal running
        running = cell

    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        skip_cells_with_tag=skip,
        coalesce_streams=True,  # in one piece, however it arrived
        extra_arguments=["--log-level=ERROR"],
        on_cell_start=started,
        resources={"metadata": {"path": str(source.parent)}},
    )
    try:
        await client.async_execute(env=environment | variables)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        ids = [cell.id for cell in build(source).cells]
        number = ids.index(running.id) + 1 if running.id in ids else 0
        where = cell_name(source, number, running.source)
        trace = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # without colors
        raise Refused(f"{where}: the cell fails\n\n{trace}") from None
    notebook.metadata = nbformat.from_dict(METADATA)


async def execute_chapter(source: Path, notebook: NotebookNode) -> None:
    """Run all cells but the exercises; those that export give the module's objects."""
    cells = [(c, c.source) for c in _code(notebook) if "export" in tags(c)]
    for cell, code in cells:
        cell.source = with_import(code)
    await execute(source, notebook, EXERCISE, ANNOTATED_TRANSFORMER_STRICT="1")
    for cell, code in cells:
        cell.source = code


async def execute_exercises(source: Path, stubs: list[NotebookNode]) -> None:
    """Run exercises without their chapter, against the module."""
    names = nbformat.v4.new_code_cell(ALONE)
    await execute(source, nbformat.v4.new_notebook(cells=[names, *stubs]))


def alike(new: object, old: object) -> bool:
    """Return whether outputs show the same, up to rounding.

    A chart's picture is drawn from its values, and the names of these are their hashes.
    """
    match new, old:
        case dict(), dict() if CHART in new and CHART in old:
            return alike(new[CHART], old[CHART])
        case dict(), dict():
            names = [[DATA.sub("", str(key)) for key in each] for each in (new, old)]
            return names[0] == names[1] and alike([*new.values()], [*old.values()])
        case list(), list():
            return len(new) == len(old) and all(map(alike, new, old))
        case float(), float():
            return math.isclose(new, old, rel_tol=1e-4, abs_tol=1e-6)
        case str(), str():
            return DATA.sub("", new) == DATA.sub("", old)
    return type(new) is type(old) and new == old


async def _bring_up_to_date(source: Path, force: bool) -> str:
    """Write a source's notebook, executing what has stale outputs.

    A chapter and its exercises are executed apart. Return what was done, in words, ""
    if nothing.
    """
    path, notebook = pair(source), build(source)
    old = nbformat.read(path, 4) if path.exists() else nbformat.v4.new_notebook()
    force = force or any(stored_faults(source, old))
    done = []
    for what, today in digests(source).items():
        cells, before = (_of(what, each) for each in (notebook, old))
        if force or old.metadata.get(what) != today:
            if what == "exercises":
                await execute_exercises(source, cells)
            elif missing := lacks(source):
                return f"left as stored; it needs {missing}"
            else:
                await execute_chapter(source, notebook)
            stored = {cell.source: cell.outputs for cell in before}
            for cell in cells:  # what rounding alone has changed stays as it was
                was = stored.get(cell.source, cell.outputs)
                if alike(cell.outputs, was):
                    cell.outputs = was
            done.append(what)
        else:
            for cell, was in zip(cells, before):
                cell.outputs = was.outputs
        notebook.metadata[what] = today
    for count, cell in enumerate(_code(notebook), 1):
        cell.execution_count = count
    write(notebook, path)
    return " and ".join(done)


async def _bring_all_up_to_date(sources: list[Path], force: bool) -> None:
    """Write the notebooks of these sources, two at a time; stop where one fails."""
    turn, kept = asyncio.Semaphore(AT_ONCE), []

    async def bring_up_to_date(source: Path) -> None:
        async with turn:
            start = time.perf_counter()
            done = await _bring_up_to_date(source, force)
            seconds = time.perf_counter() - start
            if done:
                print(f"{name(source)}: {done}, {seconds:.0f} s", flush=True)
            else:
                kept.append(source)

    try:
        async with asyncio.TaskGroup() as group:
            for source in sources:
                group.create_task(bring_up_to_date(source))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    print(f"{len(kept)} of {len(sources)} notebooks keep their outputs", flush=True)


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _of(what: str, notebook: NotebookNode) -> list[NotebookNode]:
    """Return the cells that are exercises, or those that aren't."""
    wanted = what == "exercises"
    return [cell for cell in _code(notebook) if (EXERCISE in tags(cell)) == wanted]


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook, or leave the file alone where it is the same."""
    replace(path, nbformat.writes(notebook) + "\n")


def _tour(sources: list[Path], into: Path) -> bool:
    """Execute chapters into another folder and end with what they showed.

    Go on to the next chapter where a cell fails. Return whether none did.
    """
    into.mkdir(parents=True, exist_ok=True)
    images = into.parent / "images"  # a chapter shows ../images/…
    if (ROOT / "images").is_dir() and images != ROOT / "images":
        shutil.copytree(ROOT / "images", images, dirs_exist_ok=True)
    shown, missed, broken = [], [], []
    for number, source in enumerate(sources, 1):
        start = time.perf_counter()
        print(f"{number}/{len(sources)} {name(source)} …", end=" ", flush=True)
        notebook = build(source)
        try:
            if missing := lacks(source):
                notebook = nbformat.read(pair(source), 4)
                end = f"s, left as stored; it needs {missing}"
            else:
                asyncio.run(execute(source, notebook))
                end = "s"
        except Refused as refusal:
            broken.append(str(refusal))
            end = "s, and a cell failed"
        path = into / f"{name(source)}.ipynb"  # solutions go one folder down
        path.parent.mkdir(exist_ok=True)
        write(notebook, path)
        print(f"{time.perf_counter() - start:.0f} {end}", flush=True)
        section = ""
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                section = ([section] + HEADING.findall(cell.source))[-1]
                continue
            printed = [o.text for o in cell.outputs if o.output_type == "stream"]
            if "summary" in tags(cell):
                shown += printed
            sentences = [s for s in "".join(printed).splitlines() if MISSED in s]
            missed += [f"{name(source)}, {section}: {s}" for s in sentences]
    shown_as = into.relative_to(ROOT) if into.is_relative_to(ROOT) else into
    print(f"\nThe executed chapters are in {shown_as}/.\n")
    print("\n".join([*shown, *missed]))
    if broken:
        print("\n".join(["", *broken]), file=sys.stderr)
    print(f"Next: run `make lab` and start reading at {name(sources[0])}.")
    return not broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=lambda p: Path(p).resolve())
    parser.add_argument(
        "--force", action="store_true", help="execute unchanged chapters, too"
    )
    parser.add_argument("--into", type=lambda p: Path(p).resolve(), metavar="FOLDER")
    arguments = parser.parse_args()
    for path in arguments.sources:
        if path not in sources():
            parser.error(f"{path} is not a chapter; chapters are notebooks/NN_name.md")
    if arguments.into and arguments.into.is_relative_to(NOTEBOOKS):
        parser.error("--into the folder of the chapters would replace their notebooks")
    try:
        if arguments.into:
            return 0 if _tour(arguments.sources or chapters(), arguments.into) else 1
        write_module()
        exercises.write()
        chosen = arguments.sources or sources()
        asyncio.run(_bring_all_up_to_date(chosen, arguments.force))
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
