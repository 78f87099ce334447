"""Plant known faults in a copy of the code, one at a time: a test must fail.

python tests/mutants.py            all faults, as a table
python tests/mutants.py beam mask  those whose line contains one of the words

The faults are in faults.txt, which begins with how it is written. Exit status 1 if a
fault survives or no longer fits the code.
"""

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOUSES = ("transformer_workshop", "site", "teaching")
COPIED = (*HOUSES, "tests", "tools", "results", "conftest.py")
COPIED += ("annotated_transformer.py", "pyproject.toml")
LINKED = ("data", "models", "notebooks", "notebooks-zh")  # large, and only read
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def listed() -> list[tuple[str, list[str], list[str]]]:
    """Return each fault's name, the tests that should fail, and its changes."""
    faults: list[tuple[str, list[str], list[str]]] = []
    text = (ROOT / "tests/faults.txt").read_text(encoding="utf-8")
    for line in text.partition("\n# ")[2].splitlines()[1:]:
        if line.startswith("    "):
            faults[-1][2].append(line.strip())
        elif line and not line.startswith("# "):
            fault, _, tests = line.partition(" | ")
            faults.append((fault, tests.split(), []))
    return faults


@functools.cache
def named(text: str) -> list[tuple[str, str]]:
    """Return the definitions of a file, such as Run.save, with their source texts."""
    found: list[tuple[str, str]] = []
    lines = text.splitlines(keepends=True)
    nodes: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    for node, outer in nodes:
        if isinstance(node, Definition):
            own = "".join(lines[node.lineno - 1 : node.end_lineno])
            found.append((outer + node.name, own))
            outer += f"{node.name}."
        nodes += [(child, outer) for child in ast.iter_child_nodes(node)]
    return found


def definitions(target: str, texts: dict[Path, str]) -> list[tuple[Path, str]]:
    """Return the files and source texts of what is called `Run.save` or `export.py`."""
    matching = [(path, text) for path, text in texts.items() if path.name == target]
    for path, text in texts.items():
        matching += [(path, own) for name, own in named(text) if name == target]
    return matching


def planted(changes: list[str]) -> dict[Path, str]:
    """Return the files with a fault in them, by path.

    Raises ValueError if an old text doesn't occur exactly once in its place.
    """
    paths = [ROOT / "annotated_transformer.py"]
    for house in HOUSES:
        paths += sorted((ROOT / house).rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    for change in changes:
        target, _, rest = change.partition(": ")
        old, _, new = rest.replace(r"\n", "\n").partition(" =>")
        first = old.split("\n")[0]
        matching = definitions(target, {p: t for p, t in texts.items() if first in t})
        if len(matching) != 1:
            raise ValueError(
                f"{len(matching)} definitions called {target} have `{first}`"
            )
        [(path, text)] = matching
        lines = [line for line in text.splitlines() if first in line]
        indent = re.match(" *", lines[0])[0] if lines else ""
        old = old.replace("\n", f"\n{indent}")
        new = new.removeprefix(" ").replace("\n", f"\n{indent}")
        if (times := text.count(old)) != 1:
            raise ValueError(f"`{old}` occurs {times} times in {target}")
        texts[path] = texts[path].replace(text, text.replace(old, new))
    return texts


def path_of(test: str) -> str:
    """Return the path of a test, given as `test_site.py::test_links`."""
    file, _, name = test.partition("::")
    [path] = (ROOT / "tests").glob(f"*/{file}")
    return f"{path.relative_to(ROOT)}::{name}"


def caught_by(tests: list[str], texts: dict[Path, str]) -> str:
    """Return the first test that fails in a copy with these texts, or ""."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for top in COPIED:
            one = shutil.copytree if (ROOT / top).is_dir() else shutil.copy
            one(ROOT / top, copy / top)
        for top in LINKED:
            (copy / top).symlink_to(ROOT / top)
        for path, text in texts.items():
            (copy / path.relative_to(ROOT)).write_text(text, encoding="utf-8")
        options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *map(path_of, tests)],
            cwd=copy, capture_output=True, encoding="utf-8",
        )  # fmt: skip
    if done.returncode not in (0, 1):
        raise ValueError(f"pytest could not run\n{done.stdout}{done.stderr}")
    failed = re.search(r"^(?:FAILED|ERROR) tests/\w+/(\S+)", done.stdout, re.M)
    return failed[1] if failed else ""


def main(words: list[str]) -> int:
    """Print the table; return 0 if every fault was caught."""
    os.environ["OMP_NUM_THREADS"] = "1"
    faults = [f for f in listed() if not words or any(w in f"{f}" for w in words)]

    def verdict(fault: tuple[str, list[str], list[str]]) -> str:
        name, tests, changes = fault
        try:
            return caught_by(tests, planted(changes))
        except ValueError as error:
            return f"DOES NOT FIT: {error}"

    everything = sorted({test for _, tests, _ in faults for test in tests})
    if broken := caught_by(everything, {}):
        print(f"{broken} fails without any fault", file=sys.stderr)
        return 1
    bad = 0
    with ThreadPoolExecutor(2) as pool:
        for (name, *_), test in zip(faults, pool.map(verdict, faults), strict=True):
            print(f"{name:52}  {test or 'SURVIVED'}", flush=True)
            bad += not test or test.startswith("DOES NOT FIT")
    print(f"{len(faults) - bad} of {len(faults)} faults caught")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
