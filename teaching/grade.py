"""Grade submitted notebooks: a table, and a page for each student.

    python teaching/grade.py FOLDER [--name homework] [--due 2027-01-31T23:59]
        [--course build/homework/NAME/course.json] [--into build/grades/NAME]
        [--seconds 60]

FOLDER holds a folder for each student, with one notebook somewhere in it, as nbgrader
collects them (`submitted/`). Of a notebook, only the cells of the exercises count,
never an output. For each exercise they run in a process of their own, and this process,
which holds the checks, draws inputs, sends them there, and judges what comes back. Half
of an exercise's points are for the check that students have, half for the hidden ones.

What has been graded is kept: after an interruption, the same command goes on. It grades
anew whatever has changed, the course included. It needs Linux or macOS.
"""

import argparse
import csv
import datetime
import difflib
import hashlib
import html
import io
import itertools
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tokenize
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent / "notebooks"), str(HERE.parent)]
sys.path[:0] = [*PATHS, str(HERE.parent / "tools")]

import nbformat  # noqa: E402
import sandbox  # noqa: E402
import torch  # noqa: E402
from chapters import replace  # noqa: E402
from exercise_checks import UNANSWERED, Answer  # noqa: E402
from hidden_checks import judged  # noqa: E402
from tqdm import tqdm  # noqa: E402

ALIKE = 0.9  # answers of two students that share so much are named
LONGEST = 1000  # characters of a message
HEADING = re.compile(r"^#+ Exercise (\d+\.\d+)\b", re.M)
PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>{student}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 48rem; margin: 2rem auto; }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; }}
</style>
<h1>{student}: {points:g} of {most} points</h1>
<p>{note}</p>
<table>
<tr><th>exercise<th>points<th>what the checks say</tr>
{rows}
</table>
"""


class Stopped(AssertionError):
    """An answer that ended its process, or took too long; the message is complete."""


class Elsewhere(Answer):
    """A function of a student's, in the student's process."""

    def __init__(self, ask: Any, number: int):
        self.number, self.send = number, ask

    def ask(self, probe: Any, *inputs: Any) -> Any:
        return self.send((self.number, probe.__name__, inputs))


class Server:
    """A process that has imported everything, and forks one for each exercise."""

    def __enter__(self) -> "Server":
        self.folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self.folder.name) / "socket")
        self.start()
        return self

    def start(self) -> None:
        Path(self.address).unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "sandbox.py"), self.address],
            stdin=subprocess.PIPE,  # it ends when this process does
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(PATHS),
            },
        )
        self.process.stdout.readline()

    def connect(self) -> tuple[Connection, int]:
        """Return a connection to a new process, and its number.

        Start the server again if someone ended it.
        """
        for _ in range(2):
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(self.address)
                connection = Connection(link.detach())
                return connection, int(connection.recv_bytes(20))
            except (EOFError, OSError):
                self.process.kill()
                self.process.wait()
                self.start()
        raise RuntimeError("no process can be started for the students' code")

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


@contextmanager
def answer_from(server: Server, cells: list[str], expression: str, seconds: float):
    """Run cells in a new process; yield what the expression is in there.

    A function in it is an ``Elsewhere``. Raises Stopped if the cells or a later call
    fail or take longer than ``seconds`` in all, NotImplementedError if they are stubs.
    """
    ours, process = server.connect()
    ours.send_bytes(pickle.dumps((cells, expression)))
    end = time.monotonic() + seconds

    def reply() -> Any:
        try:
            if not ours.poll(max(0, end - time.monotonic())):
                raise Stopped(f"your answer takes longer than {seconds:g} seconds.")
            stored = io.BytesIO(ours.recv_bytes(sandbox.LARGEST))
        except (EOFError, OSError):
            raise Stopped(
                "your answer ended Python, or needed too much memory, or gave more "
                "than can be judged."
            ) from None
        try:
            said = torch.load(stored, weights_only=True)
            kind, value = next(iter(said.items()))
        except Exception:
            raise Stopped("your answer gave something that can't be read.") from None
        if kind == "stopped":
            raise Stopped(str(value))
        if kind == "unanswered":
            raise NotImplementedError
        return value

    def ask(question: tuple) -> Any:
        try:
            ours.send_bytes(pickle.dumps(question))
        except OSError:
            raise Stopped("your answer ended Python.") from None
        return reply()

    def made(told: Any) -> Any:
        if isinstance(told, tuple | list):
            return type(told)(map(made, told))
        if told is None or "value" in told:
            return told and told["value"]
        return Elsewhere(ask, told["function"])

    try:
        told = reply()
        try:
            answer = made(told)
        except Exception:
            raise Stopped("your answer gave something that can't be read.") from None
        yield answer
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        ours.close()


class Submission(NamedTuple):
    """A student's notebook: the cells of each exercise, or why it can't be read.

    ``stubs`` are those of the cells that the homework had, ``why`` what students wrote
    for a person to read.
    """

    student: str
    path: Path | None
    cells: dict[str, list[str]]
    stubs: dict[str, str] = {}
    why: dict[str, str] = {}
    fault: str = ""


def exercise_of(cell: Any) -> str | None:
    """Return the exercise whose heading or name a cell has."""
    name = str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
    if found := re.fullmatch(r"[a-z]+-(\d+)-(\d+)", name):
        return ".".join(found.groups())
    found = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
    return found and found[1]


def ours(cell: Any) -> bool:
    """Return whether a cell is the teacher's, whatever stands in it now."""
    return bool(cell.metadata.get("nbgrader", {}).get("locked"))


def submission(folder: Path) -> Submission:
    """Read the one notebook in a student's folder."""
    found = sorted(
        path
        for path in folder.rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    )
    if len(found) != 1:
        fault = f"{len(found)} notebooks are in the folder, not one"
        return Submission(folder.name, None, {}, fault=fault)
    try:
        notebook = nbformat.read(found[0], as_version=4)
        cells: dict[str, list[str]] = {}
        stubs, why = {}, {}
        current = ""  # what stands before the first exercise is for all of them
        for cell in notebook.cells:
            current = exercise_of(cell) or current
            part = str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            if part.startswith("why-"):
                why[current] = cell.source
            elif part.startswith("answer-"):
                stubs[current] = cell.source
            if cell.cell_type == "code" and not ours(cell):
                cells.setdefault(current, []).append(cell.source)
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        fault = f"{found[0].name} is not a notebook that can be read ({words})"
        return Submission(folder.name, found[0], {}, fault=fault)
    return Submission(folder.name, found[0], cells, stubs, why)


def handed_in(folder: Path, path: Path | None) -> datetime.datetime | None:
    """Return when: as nbgrader noted it, or when the file was written."""
    for note in folder.rglob("timestamp.txt"):
        with suppress(ValueError):  # of nbgrader's form, or not its own
            words = note.read_text(errors="replace").split()
            return datetime.datetime.fromisoformat("T".join(words[:2])[:19])
    return path and datetime.datetime.fromtimestamp(int(path.stat().st_mtime))


def points_for(
    server: Server,
    work: Submission,
    exercise: dict[str, Any],
    seed: str,
    seconds: float,
) -> tuple[float, str]:
    """Return the points for an exercise, and what the checks say of it."""
    number, most = exercise["number"], exercise["points"]
    cells = work.cells.get(number)
    if work.student not in exercise["numbers"] and "" not in exercise["numbers"]:
        return 0, f"no homework was written for a student called {work.student}."
    numbers = exercise["numbers"].get(work.student, exercise["numbers"].get(""))
    if cells is None:
        return 0, "there is no cell of this exercise in the notebook."
    if exercise["trains"] and number in work.stubs:  # and leave the training out
        cells = [work.stubs[number]]
    cells = work.cells.get("", []) + cells
    try:
        with answer_from(server, cells, exercise["answer"], seconds) as answer:
            public, hidden = judged(number, answer, seed, numbers)
    except NotImplementedError:
        return 0, UNANSWERED
    except Stopped as error:
        return 0, str(error)[:LONGEST]
    if hidden is None:
        return most, "right."
    if public is None:
        return most / 2, f"right for the inputs of your check, but: {hidden[:LONGEST]}"
    return 0, public[:LONGEST]


def graded(
    server: Server,
    work: Submission,
    course: dict[str, Any],
    seconds: float,
    note: str,
) -> dict[str, Any]:
    """Return the marks of one student."""
    seed = f"{course['seed']}/{work.student}"
    marks = {}
    for exercise in course["exercises"]:
        points, says = 0.0, work.fault
        if not work.fault:
            points, says = points_for(server, work, exercise, seed, seconds)
        marks[exercise["number"]] = {
            "points": points, "of": exercise["points"], "says": says,
        }  # fmt: skip
    return {"student": work.student, "note": note, "marks": marks, "why": work.why}


def page(marks: dict[str, Any]) -> str:
    """Return the page that a student gets."""
    rows = [
        f"<tr><td>{number}<td>{each['points']:g} of {each['of']}"
        f"<td>{html.escape(each['says'])}</tr>"
        for number, each in marks["marks"].items()
    ]
    rows += [
        f"<tr><td>{number}, why<td>to be read<td>{html.escape(text)}</tr>"
        for number, text in marks["why"].items()
    ]
    return PAGE.format(
        student=html.escape(marks["student"]),
        points=sum(each["points"] for each in marks["marks"].values()),
        most=sum(each["of"] for each in marks["marks"].values()),
        note=html.escape(marks["note"]),
        rows="\n".join(rows),
    )


def words_of(source: str) -> list[str]:
    """Return a cell's tokens without comments, and with one name for all names."""
    kept = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                kept.append(token.string if token.string in KEPT else "name")
            elif token.type in (tokenize.OP, tokenize.NUMBER):
                kept.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        return source.split()
    return kept


KEPT = {"def", "for", "if", "else", "while", "return", "in", "not", "lambda", "with"}


def published() -> Submission:
    """Return the published solutions as if someone had handed them in."""
    cells = {}
    for path in sorted((HERE.parent / "notebooks" / "solutions").glob("*.ipynb")):
        current = ""
        for cell in nbformat.read(path, as_version=4).cells:
            current = exercise_of(cell) or current
            if cell.cell_type == "code":
                cells.setdefault(current, []).append(cell.source)
    return Submission("the published solutions", None, cells)


def alike(
    submissions: list[Submission], course: dict[str, Any]
) -> list[tuple[str, str, str, float]]:
    """Return pairs of students whose answers to an exercise are nearly the same.

    The published solutions count as one more student's. Short answers are left out,
    since there are few ways to write them.
    """
    found = []
    submissions = [*submissions, published()]
    for exercise in course["exercises"]:
        number = exercise["number"]
        said = {w.student: words_of("\n".join(w.cells.get(number, ()))) for w in
                submissions}  # fmt: skip
        long = {student: words for student, words in said.items() if len(words) > 60}
        for (one, a), (other, b) in itertools.combinations(long.items(), 2):
            share = difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
            if share >= ALIKE:
                found.append((number, one, other, share))
    return found


def table(all_marks: list[dict[str, Any]], course: dict[str, Any]) -> str:
    """Return the marks of all students as CSV."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    numbers = [exercise["number"] for exercise in course["exercises"]]
    most = sum(exercise["points"] for exercise in course["exercises"])
    rows.writerow(["student", *numbers, "points", "of", "note"])
    for marks in all_marks:
        points = [marks["marks"][number]["points"] for number in numbers]
        total = sum(points)
        rows.writerow([marks["student"], *points, total, most, marks["note"]])
    return out.getvalue()


def grade(
    server: Server,
    folder: Path,
    course: dict[str, Any],
    into: Path,
    seconds: float = 60,
    due: datetime.datetime | None = None,
) -> list[dict[str, Any]]:
    """Grade all folders in ``folder``; write a page each, and the table."""
    into.mkdir(parents=True, exist_ok=True)
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    submissions = [submission(each) for each in folders]
    all_marks = []
    bar = tqdm(submissions, unit=" students", disable=None)
    for place, work in zip(folders, bar):
        when = handed_in(place, work.path)
        late = due and when and when > due
        note = f"handed in {when:%Y-%m-%d %H:%M}" if when else ""
        note += ", late" if late else ""
        raw = work.path.read_bytes() if work.path else b""
        of = json.dumps([course, seconds, note, work.fault]).encode() + raw
        digest = hashlib.sha256(of).hexdigest()
        kept = into / f"{work.student}.json"
        if kept.exists() and (old := json.loads(kept.read_text()))["of"] == digest:
            marks = old["marks"]
        else:
            marks = graded(server, work, course, seconds, note)
            replace(kept, json.dumps({"of": digest, "marks": marks}, indent=1))
        replace(into / f"{work.student}.html", page(marks))
        all_marks.append(marks)
    replace(into / "marks.csv", table(all_marks, course))
    pairs = alike(submissions, course)
    lines = [f"{n}: {a} and {b}, {share:.0%} alike\n" for n, a, b, share in pairs]
    replace(into / "alike.txt", "".join(lines) or "No two long answers are alike.\n")
    return all_marks


def main() -> int:
    root = HERE.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="homework", help="of the homework")
    parser.add_argument("--course", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--due", type=datetime.datetime.fromisoformat)
    parser.add_argument("--seconds", type=float, default=60, help="for each exercise")
    given = parser.parse_args()
    build = root / "build"
    given.course = given.course or build / "homework" / given.name / "course.json"
    given.into = given.into or build / "grades" / given.name
    for path, what in ((given.folder, "folder"), (given.course, "course")):
        if not path.exists():
            print(f"error: {path}: there is no such {what}", file=sys.stderr)
            return 2
    torch.set_num_threads(1)
    start = time.monotonic()
    course = json.loads(given.course.read_text(encoding="utf-8"))
    with Server() as server:
        marks = grade(
            server, given.folder, course, given.into, given.seconds, given.due
        )
    minutes = (time.monotonic() - start) / 60
    print(f"{len(marks)} students in {minutes:.1f} minutes: {given.into / 'marks.csv'}")
    print((given.into / "alike.txt").read_text(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
