"""Measure what the chapters say of their trainings: results/findings.json.

    python tools/findings.py notebooks/02_training.md --seeds 8

Executes chapters from several seeds on each of four processors, two at a time, and
stores the value of each `finding` in each run (with --section, those under one heading,
which must need nothing but imports and exported cells; others are kept). Three of the
processors are simulated: environment variables choose other kernels of PyTorch and MKL,
which round differently.
Each run is kept in runs/findings/ until the chapter's code changes, so that the program
goes on where it was stopped. What is stored of a chapter is replaced when all its runs
have ended.
"""

import argparse
import asyncio
import hashlib
import json
import re
from collections import defaultdict
from pathlib import Path

import nbformat
from chapters import ROOT, Refused, chapters, name, replace
from export_module import with_import
from run_notebooks import AT_ONCE, build, execute

from transformer_workshop.lab.workers import compute

RESULTS = ROOT / "results" / "findings.json"
PROCESSORS = {
    "this one": {},
    "no vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "old products": {"MKL_CBWR": "COMPATIBLE"},
    "both": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
}
ASK = """import json
from transformer_workshop.lab.findings import seen
print(json.dumps(seen))"""


def only(section: str, cells: list[nbformat.NotebookNode]) -> list:
    """Return the code cells before the first section, under a heading, and exported."""
    kept, heading = [], ""
    for cell in cells:
        if cell.cell_type == "code":
            exported = "export" in cell.metadata.get("tags", [])
            if exported:
                cell.source = with_import(cell.source)
            if not heading or section in heading or exported:
                kept.append(cell)
        elif headings := re.findall(r"^##+ .*", cell.source, re.M):
            heading = headings[-1]
    return kept


def until_the_last_finding(source: Path, section: str) -> nbformat.NotebookNode:
    """Return a chapter's notebook without the cells that come after."""
    notebook = build(source)
    if section:
        notebook.cells = only(section, notebook.cells)
    ends = [i for i, cell in enumerate(notebook.cells, 1) if "finding(" in cell.source]
    notebook.cells[max(ends) :] = [nbformat.v4.new_code_cell(ASK)]
    return notebook


async def findings_of(
    source: Path, section: str, processor: str, seed: int
) -> list[dict]:
    """Return what a chapter finds, executed from another seed."""
    notebook = until_the_last_finding(source, section)
    await execute(
        source,
        notebook,
        PYTHONSTARTUP=str(ROOT / "tools" / "disturbed.py"),
        DISTURBED=str(seed),
        **PROCESSORS[processor],
    )
    return json.loads(notebook.cells[-1].outputs[0].text)


def found_in(source: Path, section: str, processor: str, seed: int) -> list[dict]:
    """Return what ``findings_of`` does; for a process of its own."""
    return asyncio.run(findings_of(source, section, processor, seed))


def measure(source: Path, section: str, seeds: int, at_once: int) -> dict[str, dict]:
    """Return each finding's bounds, and its values by processor and seed."""
    cells = until_the_last_finding(source, section).cells
    code = "".join(cell.source for cell in cells if cell.cell_type == "code")
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    folder = ROOT / "runs" / "findings" / f"{name(source)}-{digest}"
    runs = {
        folder / f"{processor}-{seed}.json": (source, section, processor, seed)
        for seed in range(seeds)
        for processor in PROCESSORS
    }
    compute(
        lambda: {path: run for path, run in runs.items() if not path.exists()},
        found_in,
        at_once,
        name(source),
    )
    table: dict[str, dict] = {}
    for path, (_, _, processor, _) in runs.items():
        for row in json.loads(path.read_text()):
            bounds = {key: row[key] for key in ("at_least", "at_most")}
            new = {**bounds, "values": defaultdict(list)}
            entry = table.setdefault(row["what"], new)
            entry["values"][processor].append(round(row["value"], 4))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=lambda p: Path(p).resolve())
    parser.add_argument("--section", default="", help="words of one heading")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    arguments = parser.parse_args()
    with_findings = [path for path in chapters() if "finding(" in path.read_text()]
    for source in arguments.sources or with_findings:
        try:
            table = measure(
                source, arguments.section, arguments.seeds, arguments.at_once
            )
        except Refused as refusal:
            raise SystemExit(str(refusal)) from None
        stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept = stored.get(name(source), {}) if arguments.section else {}
        stored[name(source)] = kept | table
        text = json.dumps(stored, indent=1, ensure_ascii=False)
        replace(RESULTS, text + "\n")
        for what, entry in table.items():
            values = sorted(v for row in entry["values"].values() for v in row)
            print(f"   {values[0]:8.3f} to {values[-1]:8.3f}   {what}")


if __name__ == "__main__":
    main()
