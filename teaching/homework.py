"""Write homework: exercises to hand in, and what a teacher grades them with.

    python teaching/homework.py --chapters 1,2 | --exercises 1.4,2.7
        [--name homework] [--seed WORD] [--students FILE]

The folder is build/homework/NAME. If it has this homework already, its seed and its
students stay as they are. Into the folder go

- `release/`: the notebook for students, to be put into `notebooks/` of their copy; with
  FILE, a list of students (`class_list.py`), one for each of them, whose recall
  questions have numbers of their own;
- `nbgrader/`: the same as an nbgrader course, with hidden tests;
- `course.json`: what `grade.py` needs. It holds the seed, so it is not for students.
"""

import argparse
import json
import random
import re
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tools"), str(HERE)]

import nbformat  # noqa: E402
from chapters import replace  # noqa: E402
from class_list import Columns, decoded, students_in  # noqa: E402
from exercises import Exercise, by_number  # noqa: E402
from hidden_checks import seed_of  # noqa: E402
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook  # noqa: E402

from transformer_workshop.exercises.checking import named  # noqa: E402
from transformer_workshop.notebooks import ALONE  # noqa: E402

MINUTES_A_POINT = 5
INTRODUCTION = """\
# Homework{name}

Exercises {numbers}: {minutes} minutes of work. Put this notebook into the folder
`notebooks/` of your copy of the course.

- Write each answer into the cell below its exercise. If you need more cells, for a
  function that helps or for a training, insert them between that cell and the check.
  (Where a model is trained, only that cell counts.)
- The check says whether the answer is right, and if not, what is wrong with it. Your
  teacher has others, with inputs that you don't see, so an answer that only fits the
  inputs of the check is worth half of the points.
- What counts is the text in the cells; outputs are not read. Each exercise is run by
  itself, with the imports of the next cell and nothing of the other exercises.
"""
EXPLAIN = """\
**Why?** Explain in three sentences what you had predicted, what happened, and why.
*(Your teacher reads this.)*
"""
CONFIGURATION = """\
\"\"\"The nbgrader course: `nbgrader generate_assignment {name}` in this folder.\"\"\"

import os
import pathlib
import sys

c = get_config()
c.CourseDirectory.root = str(pathlib.Path(__file__).resolve().parent)
c.CourseDirectory.course_id = "annotated-transformer"
# The answer cells hold stubs already; nothing is cut out of them.
c.GenerateAssignment.preprocessors = [
    f"nbgrader.preprocessors.{{each}}"
    for each in (
        "LockCells", "ClearOutput", "CheckCellMetadata", "ComputeChecksums",
        "SaveCells", "ClearHiddenTests", "ComputeChecksums", "CheckCellMetadata",
    )
]
c.ExecutePreprocessor.timeout = 120
# What a student hands in beside the notebook is never imported.
c.ExecutePreprocessor.extra_arguments = ["--InteractiveShellApp.ignore_cwd=True"]
# nbgrader calls alembic, which is installed beside it.
here = os.path.dirname(sys.executable)
os.environ["PATH"] = os.pathsep.join([here, os.environ["PATH"]])
# Where the kernels find the module, the checks, and the course.
os.environ["PYTHONPATH"] = os.pathsep.join({paths})
os.environ["HOMEWORK_COURSE"] = {course!r}
"""
HIDDEN = """\
check({question})
### BEGIN HIDDEN TESTS
from hidden_checks import earned
earned({question}, points={points})
### END HIDDEN TESTS"""

Numbers = dict[str, Any]
Variant = tuple[Numbers, list[tuple[str, str]]]  # numbers for the check; old, new text
VARIANTS: dict[str, Callable[[random.Random], Variant]] = {}


def variant(name: str):
    def register(draw: Callable[[random.Random], Variant]):
        VARIANTS[name] = draw
        return draw

    return register


@variant("shapes")
def other_shapes(draw: random.Random) -> Variant:
    h = draw.choice([4, 6, 12, 16])
    d_model = h * draw.choice([32, 48, 96])
    B, S, L = draw.sample(range(2, 12), 3)
    sizes = {"B": B, "S": S, "L": L, "d_model": d_model, "h": h}
    return sizes, [
        ("The paper's base model ($d_{model} = 512$, $h = 8$)",
         f"A model ($d_{{model}} = {d_model}$, $h = {h}$)"),
        ("2 sources of 7 tokens", f"{B} sources of {S} tokens"),
        ("targets of 4 tokens", f"targets of {L} tokens"),
    ]  # fmt: skip


@variant("decoder_reads")
def other_row(draw: random.Random) -> Variant:
    words = [draw.randint(3, 30) for _ in range(draw.randint(2, 5))]
    ids = [0, *words, 1, *[2] * draw.randint(1, 4)]
    return {"ids": ids}, [("0, 7, 4, 9, 1, 2, 2", ", ".join(map(str, ids)))]


@variant("word_to_number")
def other_sentence(draw: random.Random) -> Variant:
    words = ["der", "Vogel", "nie", draw.choice(["schläft", "Hund"]), "schläft"]
    sentence = " ".join(draw.sample(words, 5))
    return {"sentence": sentence}, [
        ("*der Vogel schläft nie*", f"*{sentence}* (which need not be good German)")
    ]


def task(exercise: Exercise, draw: random.Random) -> tuple[str, Numbers]:
    """Return an exercise's text, with links into the chapters, and its numbers.

    Raises ValueError if the chapter no longer says what a variant replaces.
    """
    numbers: Numbers = {}
    text = exercise.text
    if exercise.name in VARIANTS:
        numbers, replacements = VARIANTS[exercise.name](draw)
        for old, new in replacements:
            pattern = r"\s+".join(map(re.escape, old.split()))
            text, count = re.subn(pattern, lambda _, new=new: new, text)
            if count != 1:
                raise ValueError(
                    f"exercise {exercise.number} has {old!r} {count} times"
                )
    chapter = exercise.chapter.with_suffix(".ipynb").name
    return re.sub(r"\]\(#", f"]({chapter}#", text), numbers


def question(exercise: Exercise, numbers: Numbers) -> str:
    """Return what `check` is called with."""
    more = "".join(f", {name}={value!r}" for name, value in numbers.items())
    return f'"{exercise.name}", {exercise.answer}{more}'


def stub_of(exercise: Exercise) -> str:
    """Return what stands in the answer's cell when it is handed out."""
    stub = exercise.code[: exercise.code.rindex("check(")].rstrip()
    return stub.removeprefix("from exercise_checks import check\n").strip()


def points_of(exercise: Exercise) -> int:
    return max(1, exercise.minutes // MINUTES_A_POINT)


def notebook(
    chosen: list[Exercise], draw: random.Random, name: str, hidden: bool
) -> tuple[nbformat.NotebookNode, list[Numbers]]:
    """Return the homework and the numbers of each exercise; hidden: with tests."""

    def cell(new, source: str, grade_id: str, **marks: Any) -> nbformat.NotebookNode:
        cell = new(source)
        cell.id = grade_id
        cell.metadata["nbgrader"] = {
            "grade": False, "grade_id": grade_id, "locked": True, "schema_version": 3,
            "solution": False, "task": False, **marks,
        }  # fmt: skip
        return cell

    about = INTRODUCTION.format(
        name=name and f" of {name}",
        numbers=", ".join(exercise.number for exercise in chosen),
        minutes=sum(exercise.minutes for exercise in chosen),
    )
    cells = [cell(new_markdown_cell, about, "introduction")]
    cells.append(cell(new_code_cell, ALONE.strip(), "names"))
    every = []
    for exercise in chosen:
        text, numbers = task(exercise, draw)
        every.append(numbers)
        suffix = exercise.number.replace(".", "-")
        cells.append(cell(new_markdown_cell, text, f"text-{suffix}"))
        for n, shown in enumerate(exercise.between):
            new = new_code_cell if shown.cell_type == "code" else new_markdown_cell
            cells.append(cell(new, shown.source, f"shown{'abc'[n]}-{suffix}"))
        mine = {"locked": False, "solution": True}
        cells.append(cell(new_code_cell, stub_of(exercise), f"answer-{suffix}", **mine))
        if exercise.kind == "Predict and train":
            mine |= {"grade": True, "points": 2}
            cells.append(cell(new_markdown_cell, EXPLAIN, f"why-{suffix}", **mine))
        asked, points = question(exercise, numbers), points_of(exercise)
        source = f"check({asked})"
        if hidden:
            source = HIDDEN.format(question=asked, points=points)
        marks = {"grade": True, "points": points}
        cells.append(cell(new_code_cell, source, f"check-{suffix}", **marks))
    made = new_notebook(cells=cells)
    made.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python",
    }  # fmt: skip
    return made, every


def is_optional(exercise: Exercise) -> bool:
    """Return whether an exercise belongs to what a first reading doesn't need."""
    heading = rf"^## {re.escape(exercise.section)} Going deeper$"
    return bool(re.search(heading, exercise.chapter.read_text("utf-8"), re.M))


def chosen_exercises(chapters: str, numbers: str) -> list[Exercise]:
    """Return the exercises named; raise ValueError for one that isn't there.

    An exercise has a name and a number, and can be named by either. A chapter's are
    those that it doesn't call optional.
    """
    known = by_number()
    names = {each.name: each for each in known.values()}
    by_chapter: dict[str, list[str]] = {}
    for number, exercise in known.items():
        if not is_optional(exercise):
            by_chapter.setdefault(number.partition(".")[0], []).append(number)
    if not chapters and not numbers:
        raise ValueError("name chapters or exercises, as in CHAPTERS=1,2")
    wanted = [
        names[each].number if each in names else each
        for each in re.findall(r"[^\s,;]+", numbers)
    ]
    for chapter in re.findall(r"[^\s,;]+", chapters):
        if chapter not in by_chapter:
            have = ", ".join(by_chapter)
            raise ValueError(f"chapter {chapter} has no exercises; {have} have")
        wanted += by_chapter[chapter]
    for number in wanted:
        if number not in known:
            raise ValueError(
                f"there is no exercise {number}; there are {', '.join(known)}"
            )
    return [exercise for number, exercise in known.items() if number in wanted]


def written(into: Path) -> dict[str, Any] | None:
    """Return the course in a folder, None if there is none.

    Raises ValueError if it can't be read, or others have their homework from it.
    """
    file = into / "course.json"
    if file.exists():
        try:
            return json.loads(file.read_bytes())
        except ValueError:
            raise ValueError(f"{file} can't be read; put a copy there") from None
    if (into / "release").exists():
        raise ValueError(
            f"{into} has homework, but not its course.json, which holds the seed: put "
            "the file back, or write into a new folder (NAME=another)"
        )
    return None


def name_of(exercise: dict[str, Any]) -> str:
    """Return an exercise's name; a course from before it had one knows its number."""
    return exercise.get("name") or named(exercise["number"])


def same_course(old: dict[str, Any], new: dict[str, Any], into: Path) -> None:
    """Give the course also the students of its earlier version.

    Raises ValueError where what was handed out then couldn't be graded any more.
    """
    other = f"choose NAME=another, or delete {into} if nobody has this homework yet"
    if old["seed"] != new["seed"]:
        raise ValueError(f"{into} was written with the seed {old['seed']}; {other}")
    before, now = (
        [f"{e['number']} ({name_of(e)})" for e in c["exercises"]] for c in (old, new)
    )
    if before != now:
        raise ValueError(f"{into} has the exercises {', '.join(before)}; {other}")
    for was, exercise in zip(old["exercises"], new["exercises"]):
        if ("" in was["numbers"]) != ("" in exercise["numbers"]):
            has = "one notebook for all" if "" in was["numbers"] else "STUDENTS"
            raise ValueError(f"{into} was written with {has}; {other}")
        together = was["numbers"] | exercise["numbers"]
        if together != exercise["numbers"] | was["numbers"]:
            raise ValueError(
                f"{into} has other numbers in {exercise['number']}; {other}"
            )
        exercise["numbers"] = together
    new["students"] = old.get("students", {}) | new["students"]


def write_homework(
    chosen: list[Exercise], seed: str, students: dict[str, Columns], into: Path
) -> None:
    """Write everything into a folder that is empty or has the same homework."""

    def store(made: nbformat.NotebookNode, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(made, path)

    def draw(student: str) -> random.Random:
        return random.Random(seed_of(seed, student, "numbers"))

    old = written(into)
    made = {
        student: notebook(chosen, draw(student), student, hidden=False)
        for student in students or [""]
    }
    course = {
        "seed": seed,
        "exercises": [
            {
                "name": e.name, "number": e.number, "answer": e.answer,
                "points": points_of(e),
                "numbers": {who: own[n] for who, (_, own) in made.items()},
                "trains": e.kind == "Predict and train",
            }
            for n, e in enumerate(chosen)
        ],
        "students": students,
    }  # fmt: skip
    if old:
        same_course(old, course, into)
    file = into / "course.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, json.dumps(course, indent=1, ensure_ascii=False))  # before the rest
    for student, (release, _) in made.items():
        store(release, into / "release" / student / "homework.ipynb")
    source, _ = notebook(chosen, draw(""), "", hidden=True)
    store(source, into / "nbgrader" / "source" / "homework" / "homework.ipynb")
    root = HERE.parent
    paths = [str(path) for path in (root, HERE, root / "notebooks")]
    configuration = CONFIGURATION.format(
        name="homework", paths=paths, course=str(file.resolve())
    )
    (into / "nbgrader" / "nbgrader_config.py").write_text(configuration)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapters", default="")
    parser.add_argument("--exercises", default="")
    parser.add_argument("--seed", default="")
    parser.add_argument("--students", type=Path)
    parser.add_argument("--name", default="homework")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    given.into = given.into or HERE.parent / "build" / "homework" / given.name
    try:
        chosen = chosen_exercises(given.chapters, given.exercises)
        students = {}
        if given.students:
            students = students_in(decoded(given.students.read_bytes()))
        old = written(given.into)
        seed = given.seed or (old["seed"] if old else secrets.token_hex(8))
        write_homework(chosen, seed, students, given.into)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    points = sum(map(points_of, chosen))
    minutes = sum(exercise.minutes for exercise in chosen)
    print(f"{given.into}: {len(chosen)} exercises, {minutes} minutes, {points} points")
    if students:
        names = list(students)
        print(f"{len(names)} students, from {names[0]} to {names[-1]}")
    print(f"Hand out release/, keep course.json (it holds the seed, {seed}).")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
