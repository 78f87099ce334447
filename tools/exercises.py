"""The exercises: what chapters say of them, and the files of their checks.

python tools/exercises.py                          (`make notebooks` does the same)
python tools/exercises.py --new 8.4 some_words    (`make exercise N=8.4 NAME=…`)

The first writes what follows from the two: the list that ends each chapter, the one in
TEACHING.md, and the tables of contents.py. The second begins an exercise, and says what
is to be filled in.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import contents
from chapters import NOTEBOOKS, ROOT, WORKSHOP, Refused, chapters, read, replace
from links import anchor
from nbformat import NotebookNode

FOLDER = WORKSHOP / "exercises"
SHARED = "__init__", "checking"  # files that are no exercises
WRONG = ROOT / "tests" / "wrong_answers"
RERUN = "run `make notebooks`"
LISTED = "exercise"  # the first header of a list of exercises
HEADING = re.compile(r"^### Exercise (?P<number>\d+\.\d+): (?P<title>.+)$", re.M)
SECTION = re.compile(r"^## (\d+\.\d+) ", re.M)
KIND = re.compile(
    r"^\*(?P<kind>[A-Z][a-z -]+) · (?P<minutes>\d+) minutes "
    r"· level (?P<level>[1-5])\*$",
    re.M,
)
TOGETHER = re.compile(r"exercises take (?:about |another )*(\d+)")
CHECK = re.compile(r'^check\("(?P<name>\w+)", (?P<answer>.+)\)$', re.M)
STUB = """\
### Exercise {number}: Title

*Implement · 10 minutes · level 2*

What is to be done.

```python tags=["exercise"]
def {name}(x: Tensor) -> Tensor:
    \"\"\"Return …\"\"\"
    raise NotImplementedError


check("{name}", {name})
```

"""
JUDGE = '''\
"""what it tests, in a few words"""

from typing import Any

import torch

from transformer_workshop.exercises.checking import agree


def judge(answer: Any) -> None:
    x = torch.rand(2, 3)
    agree(answer(x), x, f"for {x.tolist()}", "a hint")
'''
ANSWERS = '''\
"""Wrong answers to the exercise {name}."""

WRONG = [
    lambda x: x + 1,
]
'''
SOLUTION = """
### Exercise {number}: Title

Why the answer is right.

```python
def {name}(x):
    return x


check("{name}", {name})
```
"""


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
    def name(self) -> str:
        """Return what the check calls the exercise, whatever its number."""
        return CHECK.search(self.code)["name"]

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
    names: dict[str, str] = {}
    for each in (each for path in chapters() for each in exercises(path)):
        where = f"{each.chapter.name}, exercise {each.number}"
        if each.number in found:
            raise Refused(f"{where}: another one has this number; change one of them")
        if len(CHECK.findall(each.code)) != 1:
            raise Refused(
                f'{where}: one line `check("name", …)` must end the cell below its text'
            )
        other = names.setdefault(each.name, each.number)
        if other != each.number:
            raise Refused(f"{where}: its check is that of {other}, {each.name!r}")
        found[each.number] = each
    return {number: found[number] for number in sorted(found, key=_order)}


def by_name() -> dict[str, Exercise]:
    """Return the exercises of all chapters by their names."""
    return {each.name: each for each in by_number().values()}


def _order(number: str) -> list[int]:
    return [int(part) for part in number.split(".")]


def files() -> dict[str, Path]:
    """Return the file of each exercise by its name."""
    found = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
    return {name: path for name, path in found.items() if name not in SHARED}


def tests(name: str) -> str:
    """Return what an exercise tests: the first words of its file."""
    if name not in files():
        raise Refused(f"exercise {name}: there is no {_shown(FOLDER)}/{name}.py")
    path = files()[name]
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise Refused(f"{_shown(path)}:{error.lineno}: {error.msg}") from None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not (said := ast.get_docstring(tree)) or "judge" not in functions:
        raise Refused(
            f'{_shown(path)}: it begins with what the exercise tests, as """text""", '
            "and has a function `judge`"
        )
    return " ".join(said.split())


# What follows from them


def lists() -> Iterator[tuple[Path, list[str]]]:
    """Yield chapters, and TEACHING.md, and the rows of their lists of exercises."""
    known = by_number()
    for path in dict.fromkeys(each.chapter for each in known.values()):
        rows = []
        for each in known.values():
            if each.chapter == path:
                bare = re.sub("[`*]", "", each.title)
                to = anchor(f"Exercise {each.number}: {bare}")
                title = f"{each.number} · {each.title}"
                cells = f"[{title}](#{to})", each.section, *each.facts
                rows.append(f"| {' | '.join(cells)} |")
        yield path, rows
    if known:
        rows = []
        for each in known.values():
            title = f"{each.number} · {each.title}"
            rows.append(f"| {' | '.join((title, *each.facts, tests(each.name)))} |")
        yield ROOT / "TEACHING.md", rows


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def generated() -> Iterator[tuple[Path, str]]:
    """Yield what the files that follow from the exercises should hold."""
    if extra := [*(files().keys() - by_name().keys())]:
        path = _shown(files()[extra[0]])
        raise Refused(f"{path}: no chapter has this exercise; add it, or delete it")
    texts = contents.pages()
    for path, rows in lists():
        texts[path] = contents.table(path, LISTED, rows, texts.get(path))
    yield from texts.items()


def faults() -> Iterator[str]:
    """Yield how those files differ from it, and sums of minutes that are wrong."""
    try:
        for path in chapters():
            minutes = sum(each.minutes for each in exercises(path))
            prose = " ".join(path.read_text(encoding="utf-8").split())
            for said in TOGETHER.findall(prose):
                if int(said) != minutes:
                    yield f"{_shown(path)}: {said} minutes for exercises of {minutes}"
        for path, text in generated():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                yield f"{_shown(path)} isn't what follows from the chapters; {RERUN}"
    except Refused as refusal:
        yield str(refusal)


def write() -> None:
    for path, text in list(generated()):
        replace(path, text)


# A new one


def begin(number: str, name: str) -> list[str]:
    """Write the first version of an exercise; return what is to be filled in, where."""
    known = by_number()
    if not re.fullmatch(r"[a-z][a-z_]*", name):
        raise Refused(f"{name!r} is no name: write a word or two, as in NAME=two_words")
    if name in by_name() or name in (*files(), *SHARED):
        raise Refused(f"there is an exercise {name}; choose another NAME")
    first = re.fullmatch(r"(\d+)\.\d+", number)
    numbered = {int(path.name[:2]): path for path in chapters()}
    if not first or not (chapter := numbered.get(int(first[1]))):
        raise Refused(f"{number!r} is no number of an exercise: give one, as in N=8.4")
    if number in known:
        pairs = [n.split(".") for n in known]
        last = max(int(n) for of, n in pairs if of == first[1])
        raise Refused(f"there is an exercise {number}; choose {first[1]}.{last + 1}")
    text = chapter.read_text(encoding="utf-8")
    above, listed, _ = text.partition(f"\n| {LISTED} |")
    if not listed:
        raise Refused(f"{_shown(chapter)}: no table begins with `| {LISTED} |`")
    at = [found.start() for found in SECTION.finditer(above)][-1]
    solutions = NOTEBOOKS / "solutions" / chapter.name
    fields = {"number": number, "name": name}
    replace(chapter, text[:at] + STUB.format(**fields) + text[at:])
    solved = solutions.read_text(encoding="utf-8")
    replace(solutions, solved.rstrip("\n") + "\n" + SOLUTION.format(**fields))
    judge, wrong = FOLDER / f"{name}.py", WRONG / f"{name}.py"
    replace(judge, JUDGE)
    replace(wrong, ANSWERS.format(**fields))
    return [
        f"{_shown(chapter)}: text and stub, moved below the section they practice",
        f"{_shown(judge)}: what it tests, and the check",
        f"{_shown(wrong)}: typical wrong answers, the likeliest first",
        f"{_shown(solutions)}: why an answer is right, and the answer",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--new", nargs=2, metavar=("NUMBER", "NAME"))
    given = parser.parse_args()
    try:
        if given.new:
            todo = begin(*given.new)
            print("Fill in:", *todo, sep="\n  ")
            tests = "pytest tests/book/test_exercises.py tests/teaching"
            print(f"Then: make notebooks && make check && {tests}")
        else:
            write()
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
