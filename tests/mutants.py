"""Plant known faults in a copy of the code, one at a time: a test must fail.

python tests/mutants.py            all faults, as a table
python tests/mutants.py beam mask  those whose line contains one of the words

The faults are in faults.txt, which begins with how it is written. Exit status 1 if a
fault survives, 2 if one can't be planted or tested.
"""

import ast
import functools
import importlib.util
import io
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import textwrap
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "annotated_transformer.py"
COPIED = ("tests", "tools", "results", "conftest.py", "pyproject.toml")
LINKED = ("data", "models", "notebooks")  # large, and only read
LINE = "{:60}  {:52}  {}"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Mutant:
    """A fault: in each place, which is a function or a file, old becomes new."""

    row: str  # a known error
    fault: str
    tests: list[str]  # file::test, one or more that should fail
    changes: list[tuple[str, str, str]] = field(default_factory=list)  # place, old, new


def listed(text: str) -> tuple[dict[str, str], list[Mutant]]:
    """Return the rows, with a reason for each without faults, and the faults."""
    rows: dict[str, str] = {}
    mutants: list[Mutant] = []
    row = ""
    for line in text.splitlines():
        if line.startswith("# "):
            row, _, reason = line.removeprefix("# ").partition(" -- ")
            rows[row] = reason
        elif row and line.startswith("    "):
            place, _, change = line.strip().partition(": ")
            old, _, new = change.replace(r"\n", "\n").partition(" =>")
            mutants[-1].changes.append((place, old, new.removeprefix(" ")))
        elif row and line:
            fault, _, tests = line.partition(" | ")
            mutants.append(Mutant(row, fault, tests.split()))
    return rows, mutants


FAULTS = Path(__file__).with_name("faults.txt").read_text(encoding="utf-8")
ROWS, MUTANTS = listed(FAULTS)

# What takes longest to import is imported once; each job forks from there.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    ["torch", "torch._dynamo", "hypothesis", "nbval.plugin"]
)


class Stop(Exception):
    """A fault can't be planted or tested."""


def planted(mutant: Mutant, texts: dict[str, str]) -> dict[str, str]:
    """Return the texts of the files with the fault in one of them."""
    for place, old, new in mutant.changes:
        found = [
            (file, lines, code)
            for file, text in texts.items()
            for name, lines, code in definitions(Path(file).name, text)
            if name == place
        ]
        if len(found) != 1:
            raise Stop(f"{mutant.fault}: {len(found)} definitions are called {place}")
        [(file, lines, code)] = found
        whole = texts[file].splitlines()
        indent = re.match(" *", whole[lines.start]).group()
        code = replaced(f"{mutant.fault}: in {place}", code, old, new)
        whole[lines] = textwrap.indent(code, indent).splitlines()
        texts = texts | {file: "\n".join(whole) + "\n"}
    return texts


@functools.cache
def definitions(file: str, text: str) -> list[tuple[str, slice, str]]:
    """Return the name of each definition of a file, its lines, and its plain code.

    The file itself comes first. Plain code is without comments and docstrings, and
    formatted as by `ast.unparse`. Inner definitions are called outer.inner.
    """
    tree = ast.parse(text)
    documented = [tree, *(n for n in ast.walk(tree) if isinstance(n, Definition))]
    for node in documented:
        if ast.get_docstring(node) is not None:
            node.body[:1] = [] if node.body[1:] else [ast.Pass()]
    found = [(file, slice(0, None), ast.unparse(tree))]
    nodes = [(node, "") for node in tree.body]
    for node, outer in nodes:
        name = outer
        if isinstance(node, Definition):
            name = f"{outer}{node.name}."
            first = min(each.lineno for each in [node, *node.decorator_list])
            lines = slice(first - 1, node.end_lineno)
            found.append((name[:-1], lines, ast.unparse(node)))
        nodes += [(each, name) for each in ast.iter_child_nodes(node)]
    return found


def replaced(where: str, text: str, old: str, new: str) -> str:
    """Replace what occurs once; a new line is indented like the one it follows."""
    found = set()
    for line in text.splitlines():
        indent = re.match(" *", line).group()
        before, after = (part.replace("\n", f"\n{indent}") for part in (old, new))
        if before.split("\n")[0] in line and (times := text.count(before)):
            found.add((times, text.replace(before, after)))
    if [times for times, _ in found] != [1]:
        raise Stop(
            f"{where}: `{old}` occurs {sum(t for t, _ in found)} times in\n{text}"
        )
    return found.pop()[1]


def texts() -> dict[str, str]:
    """Return the texts of textbook and workshop, by their paths in the project."""
    files = [MODULE, *sorted((ROOT / "transformer_workshop").rglob("*.py"))]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in files
    }


def copy_project(folder: Path, texts: dict[str, str]) -> None:
    """Copy what the tests need, with these texts as textbook and workshop."""
    for name in COPIED + LINKED:
        source, target = ROOT / name, folder / name
        if name in LINKED and source.exists():
            target.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.pyc"))
        elif source.exists():
            shutil.copy(source, target)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


class Watch:
    """A pytest plugin that remembers the first test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid.removeprefix("tests/")


def failure(what: str, texts: dict[str, str], tests: list[str]) -> str:
    """Return the first of the tests that fails with these texts, or "".

    Needs a process of its own: it moves into the copy and imports the module there.
    """
    watch, said = Watch(), io.StringIO()
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said):
        copy_project(Path(folder), texts)
        os.chdir(folder)
        status = pytest.main([*options, *(f"tests/{t}" for t in tests)], [watch])
        tested = importlib.util.find_spec(MODULE.stem).origin
        if not os.path.samefile(tested, MODULE.name):
            raise Stop(f"{what}: {tested} was tested in place of the copy")
    if status not in (0, 1) or (status == 1) != bool(watch.failed):
        raise Stop(f"{what}: pytest could not run\n{said.getvalue()}")
    return watch.failed


def main(words: list[str]) -> int:
    """Print the table; return 0 if every fault was caught."""
    os.environ["OMP_NUM_THREADS"] = "1"
    chosen = [
        mutant
        for mutant in MUTANTS
        if not words
        or any(word in f"{mutant.row} {mutant.fault} {mutant.tests}" for word in words)
    ]
    if not chosen:
        raise Stop(f"no fault is called {' or '.join(words)}")
    whole = texts()
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    jobs = [("no fault", whole, tests)]
    jobs += [(m.fault, planted(m, whole), m.tests) for m in chosen]
    print(f"{len(tests)} tests without a fault first, then {len(chosen)} faults.")
    survived = 0
    with (
        ProcessPoolExecutor(2, FORKSERVER, max_tasks_per_child=1) as pool,
        closing(pool.map(failure, *zip(*jobs, strict=True))) as failures,
    ):
        if broken := next(failures):
            raise Stop(f"{broken} fails without any fault")
        print(LINE.format("known error", "fault planted here", "caught by"))
        for mutant, test in zip(chosen, failures, strict=True):
            print(LINE.format(mutant.row, mutant.fault, test or "SURVIVED"), flush=True)
            survived += not test
    print(f"{len(chosen) - survived} of {len(chosen)} faults caught")
    return 1 if survived else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except Stop as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
