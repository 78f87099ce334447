"""The exercises: what chapters say of them, and their files in notebooks/exercises/.

python tools/exercises.py    (`make notebooks` does the same)

writes what follows from the two: notebooks/exercise_checks.py, which readers and
students get, the list that ends each chapter, and the one in TEACHING.md.
"""

import argparse
import ast
import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from chapters import NOTEBOOKS, ROOT, Refused, chapters, read, replace
from digest import defined, global_names
from export_module import ruff
from links import anchor
from nbformat import NotebookNode

FOLDER = NOTEBOOKS / "exercises"
HANDED_OUT = NOTEBOOKS / "exercise_checks.py"
NOTICE = """\
# Generated from notebooks/exercises/: edit the files there, then run `make notebooks`.
"""
RERUN = "run `make notebooks`"
FUTURE = "from __future__ import annotations\n"
HEADING = re.compile(r"^### Exercise (?P<number>\d+\.\d+): (?P<title>.+)$", re.M)
SECTION = re.compile(r"^## (\d+\.\d+) ", re.M)
KIND = re.compile(
    r"^\*(?P<kind>[A-Z][a-z -]+) · (?P<minutes>\d+) minutes "
    r"· level (?P<level>[1-5])\*$",
    re.M,
)
CHECK = re.compile(r'^check\("(?P<number>\d+\.\d+)", (?P<answer>.+)\)$', re.M)
TABLE = re.compile(r"(?m)^(\| exercise \|.*\n\|[-|]+\|\n)(?:\|.*\n)*")


@dataclass
class Exercise:
    """What a chapter says about one exercise."""

    number: str
    title: str
    section: str
    text: str  # from its heading on
    chapter: Path
    between: list[NotebookNode] = field(default_factory=list)  # cells before the stub
    code: str = ""  # the cell with stub and check

    @property
    def facts(self) -> tuple[str, str, str]:
        """Return kind, minutes, and level."""
        if found := KIND.search(self.text):
            return found.groups()
        raise Refused(
            f"exercise {self.number}: below its heading, a line such as "
            "`*Implement · 10 minutes · level 2*` is missing"
        )

    @property
    def kind(self) -> str:
        return self.facts[0]

    @property
    def minutes(self) -> int:
        return int(self.facts[1])

    @property
    def answer(self) -> str:
        """Return the expression that the check judges."""
        return CHECK.search(self.code)["answer"]


def exercises(path: Path) -> list[Exercise]:
    """Return the exercises of a chapter, or of its solutions, as they stand there."""
    found: list[Exercise] = []
    section = ""
    for cell in read(path):
        prose = cell.source if cell.cell_type == "markdown" else ""
        if headings := [*HEADING.finditer(prose)]:
            for heading in headings:
                before, text = prose[: heading.start()], prose[heading.start() :]
                here = ([section] + SECTION.findall(before))[-1]
                found.append(Exercise(*heading.groups(), here, text, path))
        elif found and not found[-1].code:
            if CHECK.search(cell.source):
                found[-1].code = cell.source
            else:
                found[-1].between.append(cell)
        section = ([section] + SECTION.findall(prose))[-1]
    return found


def by_number() -> dict[str, Exercise]:
    """Return the exercises of all chapters by their numbers, in their order."""
    found: dict[str, Exercise] = {}
    for each in (each for path in chapters() for each in exercises(path)):
        where = f"{each.chapter.name}, exercise {each.number}"
        if each.number in found:
            raise Refused(f"{where}: another one has this number; change one of them")
        if [check["number"] for check in CHECK.finditer(each.code)] != [each.number]:
            raise Refused(
                f'{where}: one line `check("{each.number}", …)` must end the cell '
                "below its text"
            )
        found[each.number] = each
    return {number: found[number] for number in sorted(found, key=_order)}


def _order(number: str) -> list[int]:
    return [int(part) for part in number.split(".")]


def files() -> dict[str, Path]:
    """Return the file of each exercise by its number."""
    found = {path.stem: path for path in FOLDER.glob("[0-9]*.py")}
    return {number: found[number] for number in sorted(found, key=_order)}


@functools.cache
def module(number: str) -> ModuleType:
    """Return what an exercise's file defines, `WRONG` and perhaps `hidden` included."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # of checking.py
    path = files()[number]
    spec = importlib.util.spec_from_file_location(f"exercise {number}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def wrong_answers() -> dict[str, list]:
    """Return typical wrong answers to each exercise; each must get a complaint."""
    return {number: module(number).WRONG for number in files()}


# What is generated


def handed_out() -> str:
    """Return exercise_checks.py: of each exercise's file, what its check uses."""
    text = (FOLDER / "checking.py").read_text(encoding="utf-8")
    shared = set().union(*map(defined, _parsed(FOLDER / "checking.py", text).body))
    owners = dict.fromkeys(shared, "checking")
    imports = body = ""
    for number, path in files().items():
        more, kept = needed(number, path.read_text(encoding="utf-8"))
        for name in kept:
            if (other := owners.setdefault(name, number)) != number:
                raise Refused(f"{_shown(path)}: {other}.py defines `{name}`, too")
        imports += more
        body += "\n\n" + "\n\n\n".join(dict.fromkeys(kept.values())) + "\n"
    text = NOTICE + text.replace(FUTURE, FUTURE + imports, 1) + body
    ours = 'lint.isort.known-first-party = ["annotated_transformer"]'
    sorting = ["--select=I,F401", "--fix", "--config", ours]
    return ruff(ruff(text, "check", *sorting), "format")


def needed(number: str, source: str) -> tuple[str, dict[str, str]]:
    """Return a file's imports, and the code of its check and of what that uses.

    The code is by the names that it binds. What only hidden checks and wrong answers
    use isn't in it.
    """
    path = FOLDER / f"{number}.py"
    tree = _parsed(path, source)
    lines = source.splitlines()
    imports, code, uses = "", {}, {}
    todo: set[str] = set()
    end = 0
    for node in tree.body:
        text = "\n".join(lines[end : node.end_lineno]).strip()
        end = node.end_lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            if getattr(node, "module", "") != "checking":
                imports += ast.unparse(node) + "\n"
            continue
        if repr(number) in defined(node):  # @exercise("1.4")
            todo = defined(node)
        for name in defined(node):
            code[name] = f"{code[name]}\n{text}" if name in code else text
            used = {each.partition(".")[0] for each in global_names(text, node)}
            uses.setdefault(name, set()).update(used)
    if not todo or not ast.get_docstring(tree):
        raise Refused(
            f'{_shown(path)}: it begins with what the exercise tests, as """text""", '
            f'and has a function below @exercise("{number}")'
        )
    kept: set[str] = set()
    while todo:
        kept |= todo
        todo = set().union(*(uses[name] for name in todo)) & code.keys() - kept
    return imports, {name: text for name, text in code.items() if name in kept}


def tests(number: str) -> str:
    """Return what an exercise tests: the first words of its file."""
    if number not in files():
        raise Refused(f"exercise {number}: there is no {_shown(FOLDER)}/{number}.py")
    tree = ast.parse(files()[number].read_text(encoding="utf-8"))
    return " ".join((ast.get_docstring(tree) or "").split())


def lists() -> Iterator[tuple[Path, str]]:
    """Yield chapters, and TEACHING.md, with the lists of exercises that they have."""
    known = by_number()
    for path in dict.fromkeys(each.chapter for each in known.values()):
        rows = ""
        for each in known.values():
            if each.chapter == path:
                bare = re.sub("[`*]", "", each.title)
                to = anchor(f"Exercise {each.number}: {bare}")
                title = f"{each.number} · {each.title}"
                cells = f"[{title}](#{to})", each.section, *each.facts
                rows += f"| {' | '.join(cells)} |\n"
        yield path, _listing(path, rows)
    if known:
        rows = ""
        for each in known.values():
            title = f"{each.number} · {each.title}"
            rows += f"| {' | '.join((title, *each.facts, tests(each.number)))} |\n"
        page = ROOT / "TEACHING.md"
        yield page, _listing(page, rows)


def _listing(path: Path, rows: str) -> str:
    """Return a page whose table of exercises has these rows."""
    text = path.read_text(encoding="utf-8")
    new, count = TABLE.subn(lambda table: table[1] + rows, text)
    if count != 1:
        raise Refused(
            f"{_shown(path)}: {count} tables begin with `| exercise |`; one must, for "
            "the list of exercises"
        )
    return new


def _parsed(path: Path, source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise Refused(f"{_shown(path)}:{error.lineno}: {error.msg}") from None


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def generated() -> Iterator[tuple[Path, str]]:
    """Yield what the files that follow from the exercises should hold."""
    if FOLDER.exists():
        if extra := [*(files().keys() - by_number().keys())]:
            path = _shown(files()[extra[0]])
            raise Refused(f"{path}: no chapter has this exercise; add it, or delete it")
        yield HANDED_OUT, handed_out()
        yield from lists()


def faults() -> Iterator[str]:
    """Yield how those files differ from it."""
    try:
        for path, text in generated():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                yield f"{_shown(path)} isn't what the exercises say; {RERUN}"
    except Refused as refusal:
        yield str(refusal)


def write() -> None:
    for path, text in list(generated()):
        replace(path, text)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    write()
