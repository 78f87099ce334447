"""Measure what the chapters say of their trainings: results/findings.json.

    python tools/findings.py notebooks/02_training.md --section 2.3 --section 2.7

Executes chapters, or sections that need nothing but one another, imports and exported
cells, from different seeds on this processor, and from the first few of these seeds
on three simulated ones: environment variables choose other kernels of PyTorch and MKL,
which round differently. Different seeds show how a training varies; a simulated
processor, that its end doesn't hang on rounding. Of each `finding`, `values` has one
value for each seed on this processor, and `simulated` those of the others.
Each run is kept in runs/findings/ until the code changes, so that the program goes on
where it was stopped. What is stored is replaced when all runs of a chapter, or of its
sections, have ended.
"""

import argparse
import ast
import asyncio
import hashlib
import json
import re
from pathlib import Path

import nbformat
from chapters import ROOT, Refused, chapters, name, replace
from digest import EXERCISE
from export_module import with_import
from run_notebooks import AT_ONCE, build, execute

from transformer_workshop.lab.workers import compute

RESULTS = ROOT / "results" / "findings.json"
THIS = "this one"
PROCESSORS = {
    THIS: {},
    "no vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "old products": {"MKL_CBWR": "COMPATIBLE"},
    "both": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
}
ASK = """import json
from transformer_workshop.lab.findings import seen
print(json.dumps(seen))"""


def only(sections: list[str], cells: list[nbformat.NotebookNode]) -> list:
    """Return the code cells of sections, the exported ones, and others' imports."""
    kept: list[nbformat.NotebookNode] = []
    headings: dict[str, str] = {}  # by their marks: a section, and a part of it
    for cell in cells:
        if cell.cell_type == "code":
            under = " ".join(headings.values())
            if "export" in cell.metadata.get("tags", []):
                cell.source = with_import(cell.source)
            elif not any(words in under for words in sections):
                cell.source = imports(cell.source)
            if cell.source:
                kept.append(cell)
        elif cell.cell_type == "markdown":
            for marks, heading in re.findall(r"^(##+) (.*)", cell.source, re.M):
                headings = {key: headings[key] for key in headings if key < marks}
                headings[marks] = heading
    return kept


def imports(code: str) -> str:
    """Return the statements of a cell that import, or say where to import from."""
    kinds = ast.Import, ast.ImportFrom
    statements = [(each, ast.unparse(each)) for each in ast.parse(code).body]
    return "\n".join(
        text for each, text in statements
        if isinstance(each, kinds) or text.startswith("sys.path")
    )  # fmt: skip


def until_the_last_finding(source: Path, sections: list[str]) -> nbformat.NotebookNode:
    """Return a chapter's notebook without the cells that come after."""
    notebook = build(source)
    if sections:
        notebook.cells = only(sections, notebook.cells)
    ends = [i for i, cell in enumerate(notebook.cells, 1) if "finding(" in cell.source]
    notebook.cells[max(ends) :] = [nbformat.v4.new_code_cell(ASK)]
    return notebook


async def findings_of(
    source: Path, sections: list[str], processor: str, seed: int
) -> list[dict]:
    """Return what a chapter finds, executed from another seed."""
    notebook = until_the_last_finding(source, sections)
    await execute(
        source,
        notebook,
        EXERCISE,
        PYTHONSTARTUP=str(ROOT / "tools" / "disturbed.py"),
        DISTURBED=str(seed),
        **PROCESSORS[processor],
    )
    return json.loads(notebook.cells[-1].outputs[0].text)


def found_in(source: Path, sections: list[str], processor: str, seed: int) -> list:
    """Return what ``findings_of`` does; for a process of its own."""
    return asyncio.run(findings_of(source, sections, processor, seed))


def table(runs: dict[tuple[str, int], list[dict]]) -> dict[str, dict]:
    """Return each finding's bounds and values, of runs by processor and seed."""
    entries: dict[str, dict] = {}
    for (processor, _), rows in runs.items():
        for row in rows:
            bounds = {key: row[key] for key in ("at_least", "at_most")}
            new = {**bounds, "values": [], "simulated": {}}
            entry = entries.setdefault(row["what"], new)
            values = entry["values"]
            if processor != THIS:
                values = entry["simulated"].setdefault(processor, [])
            values.append(round(row["value"], 6))
    return entries


def measure(
    source: Path, sections: list[str], seeds: int, simulated: int, at_once: int
) -> dict[str, dict]:
    """Return the table of a chapter or of sections, measured where it isn't yet."""
    cells = until_the_last_finding(source, sections).cells
    code = "".join(cell.source for cell in cells if cell.cell_type == "code")
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    folder = ROOT / "runs" / "findings" / f"{name(source)}-{digest}"
    runs = {
        (processor, seed): folder / f"{processor}-{seed}.json"
        for processor in PROCESSORS
        for seed in range(seeds if processor == THIS else simulated)
    }
    compute(
        lambda: {
            path: (source, sections, *run)
            for run, path in runs.items()
            if not path.exists()
        },
        found_in,
        at_once,
    )
    return table({run: json.loads(path.read_text()) for run, path in runs.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=lambda p: Path(p).resolve())
    parser.add_argument("--section", action="append", default=[],
                        help="words of a heading; may be repeated")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=32, help="on this processor")
    parser.add_argument("--simulated", type=int, default=2, help="on each other one")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    arguments = parser.parse_args()
    with_findings = [path for path in chapters() if "finding(" in path.read_text()]
    for source in arguments.sources or with_findings:
        try:
            found = measure(
                source,
                arguments.section,
                arguments.seeds,
                arguments.simulated,
                arguments.at_once,
            )
        except Refused as refusal:
            raise SystemExit(str(refusal)) from None
        stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept = stored.get(name(source), {}) if arguments.section else {}
        stored[name(source)] = kept | found
        text = json.dumps(stored, indent=1, ensure_ascii=False)
        replace(RESULTS, text + "\n")
        for what, entry in found.items():
            low, high = min(entry["values"]), max(entry["values"])
            different = len(set(entry["values"]))  # 1: does it depend on the seed?
            print(f"   {low:8.3f} to {high:8.3f}   {different:2} different   {what}")


if __name__ == "__main__":
    main()
