"""Grade submitted notebooks: a table, and a page for each student.

    python teaching/grade.py FOLDER [--name homework] [--due 2027-01-31T23:59]
        [--students LIST] [--course build/homework/NAME/course.json]
        [--into build/grades/NAME] [--seconds 60] [--jobs N]

FOLDER holds a folder, a notebook, or a zip of each student, with a notebook somewhere
in it, as nbgrader (`submitted/`), Moodle, and Canvas collect them. Of a notebook, only
the cells of the exercises count, never an output. For each exercise they run in a
process of their own, and a process that holds the checks draws inputs, sends them
there, and judges what comes back. Half of an exercise's points are for the check that
students have, half for the hidden ones. How a file or a cell came about takes no
points; where it must, the table and the end of the output say why.

The columns of LIST come back in the table, beside those that the homework's list had.
A column `due` has the time of those students who have another one than the others.

What has been graded is kept: after an interruption, the same command goes on. It grades
anew whatever has changed, the course and the checks included. It needs Linux or macOS.
"""

import argparse
import csv
import datetime
import hashlib
import html
import io
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent / "notebooks"), str(HERE.parent)]
BUILD = HERE.parent / "build"
sys.path[:0] = [*PATHS, str(HERE.parent / "tools")]

import class_list  # noqa: E402
import likeness  # noqa: E402
import nbformat  # noqa: E402
import sandbox  # noqa: E402
import torch  # noqa: E402
from chapters import chapters, read, replace  # noqa: E402
from class_list import Columns, decoded, one_form  # noqa: E402
from exercises import FOLDER, by_name, exercises  # noqa: E402
from hidden_checks import judged  # noqa: E402
from homework import name_of, stub_of  # noqa: E402
from tqdm import tqdm  # noqa: E402

from transformer_workshop.exercises.checking import (  # noqa: E402
    UNANSWERED,
    Answer,
)
from transformer_workshop.notebooks import ALONE  # noqa: E402

LONGEST = 1000  # characters of a message
MOST = 4  # different notebooks of a student that are graded
LARGEST = 100 * 2**20  # bytes of all notebooks of a student
MEMBERS = 1000  # of an archive
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.I)  # as browsers store them
ARCHIVE = re.compile(r"\.zip$", re.I)
NUMBERED = {  # what Moodle and Canvas add to a name, by their heading for the number
    "Identifier": re.compile(r"_(\d+)_assignsubmission_.*"),
    "ID": re.compile(r"(?:_LATE)?_(\d+)_\d{3,}_.*"),  # of a file
}
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d+)? ?(\S*)")
NOTHING = "nothing handed in"
TO_READ = """\
Alike, function by function. Two people can write the same, so this proves nothing and
changes no marks: read the answers side by side, and ask.
"""
OPEN = (
    "This system has no namespaces for everyone: what students wrote can read and "
    "write your files, and use the network. If you don't trust it, stop this, and "
    "grade in a container."
)
NO_CELL = "there is no cell of this exercise in the notebook."
HEADING = re.compile(r"^ *#+[^\w\n]+Exercise (\d+\.\d+)\b", re.M | re.I)
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


class MarksLost(ValueError):
    """Marks that a new table wouldn't have; the message says whose."""


class Elsewhere(Answer):
    """A function of a student's, in the student's process."""

    def __init__(self, ask: Any, number: int):
        self.number, self.send = number, ask

    def ask(self, probe: Any, *inputs: Any) -> Any:
        return self.send((self.number, (probe.__module__, probe.__name__), inputs))


Jobs = dict[str, tuple[Any, ...]]  # what an action is given, by a name


class Server:
    """A process that has imported everything, and forks one for each exercise."""

    def __init__(self, *hidden: Path, within: Path | None = None):
        """``hidden`` are folders that nothing of a student's gets to see.

        ``within`` is the folder for the server's own, if that isn't the system's.
        """
        self.within = within
        own = [Path(sys.prefix), Path(sys.base_prefix), HERE]
        others = Path(tempfile.gettempdir())  # its sockets could be connected to
        self.hidden = [
            str(path)
            for path in map(Path.resolve, (*hidden, others))
            if not any(each.is_relative_to(path) for each in own)
        ]

    def __enter__(self) -> "Server":
        self.folder = tempfile.TemporaryDirectory(dir=self.within)
        self.address = str(Path(self.folder.name) / "socket")
        self.start()
        return self

    def start(self) -> None:
        Path(self.address).unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "sandbox.py"), self.address, *self.hidden],
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

    def each(self, act: Callable[..., Any], jobs: Jobs) -> Iterator[tuple[str, Any]]:
        """Yield what an action gives for each job, when it is done."""
        for name, given in jobs.items():
            yield name, act(self, *given)

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


class Servers:
    """Several servers, each beside a process with checks of its own."""

    mine: Server  # in such a process

    def __init__(self, count: int, *hidden: Path):
        self.count, self.hidden = count, hidden

    @staticmethod
    def begin(within: Path, *hidden: Path) -> None:
        torch.set_num_threads(1)
        mine = Server(within, *hidden, within=within)
        Servers.mine = mine.__enter__()  # it ends with this process

    @staticmethod
    def act(act: Callable[..., Any], *given: Any) -> Any:
        return act(Servers.mine, *given)

    def each(self, act: Callable[..., Any], jobs: Jobs) -> Iterator[tuple[str, Any]]:
        """Yield what an action gives for each job, when it is done."""
        with tempfile.TemporaryDirectory() as within:
            pool = ProcessPoolExecutor(
                max(1, min(self.count, len(jobs))),
                initializer=Servers.begin,
                initargs=(Path(within), *self.hidden),
            )
            names = {
                pool.submit(Servers.act, act, *given): name
                for name, given in jobs.items()
            }
            try:
                for done in as_completed(names):
                    yield names[done], done.result()
            finally:
                pool.shutdown(cancel_futures=True)


@contextmanager
def answer_from(server: Server, cells: list[str], expression: str, seconds: float):
    """Run cells in a new process; yield what the expression is in there.

    A function in it is an ``Elsewhere``. Raises Stopped if the cells or a later call
    fail or take longer than ``seconds`` in all, NotImplementedError if they are stubs.
    """
    ours, process = server.connect()
    link = socket.socket(fileno=os.dup(ours.fileno()))
    until = time.monotonic() + seconds
    # It also ends a reply that never does, and a question that nobody reads.
    end = threading.Timer(seconds, link.shutdown, [socket.SHUT_RDWR])
    end.start()

    def ask(question: tuple) -> Any:
        try:
            ours.send_bytes(pickle.dumps(question))
            stored = io.BytesIO(ours.recv_bytes(sandbox.LARGEST))
        except (EOFError, OSError):
            why = (
                "your answer ended Python, or needed too much memory, or gave more "
                "than can be judged."
            )
            if time.monotonic() >= until:
                why = f"your answer takes longer than {seconds:g} seconds."
            raise Stopped(why) from None
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

    def made(told: Any) -> Any:
        if isinstance(told, tuple | list):
            return type(told)(map(made, told))
        if told is None or "value" in told:
            return told and told["value"]
        return Elsewhere(ask, told["function"])

    try:
        told = ask((cells, expression))
        try:
            answer = made(told)
        except Exception:
            raise Stopped("your answer gave something that can't be read.") from None
        yield answer
    finally:
        for kill in (os.kill, os.killpg):
            with suppress(OSError):
                kill(process, signal.SIGKILL)
        with suppress(EOFError, OSError):  # until all that it has started has ended
            while True:
                ours.recv_bytes(sandbox.LARGEST)
        end.cancel()
        end.join()
        link.close()
        ours.close()


class Submission(NamedTuple):
    """A student's notebook: the cells of each exercise, or why it can't be read.

    ``answers`` are those in the homework's own cells, ``why`` what students wrote for a
    person to read; ``released`` says that it has cells of the homework. ``path`` is
    the file, or the archive that has it; ``unread`` says which others can't be read.
    """

    student: str
    path: Path | None
    cells: dict[str, list[str]]
    answers: dict[str, str] = {}
    why: dict[str, str] = {}
    fault: str = ""
    released: bool = False
    name: str = ""
    unread: str = ""


class File(NamedTuple):
    """A file that was handed in, or one in an archive, and its name for people."""

    path: Path
    name: str
    size: int
    read: Callable[[], bytes]


def part_of(cell: Any) -> str:
    """Return the name that the homework gave a cell, or ""."""
    metadata = cell.get("metadata") or {}
    return str((metadata.get("nbgrader") or {}).get("grade_id", ""))


def exercise_of(cell: Any) -> str | None:
    """Return the exercise whose name or (last) heading a cell has."""
    if found := re.fullmatch(r"[a-z]+-(\d+)-(\d+)", part_of(cell)):
        return ".".join(found.groups())
    found = HEADING.findall(cell.source) if cell.cell_type == "markdown" else []
    return found[-1] if found else None


def named_by(place: Path) -> tuple[str, str, str]:
    """Return the name that a folder or file begins with, and a heading and a number.

    The number is what Moodle or Canvas adds, below that heading in its lists, or "".
    """
    name = decoded(os.fsencode(place.name)).split("\\")[0]  # a folder, on Windows
    name = ARCHIVE.sub("", NOTEBOOK.sub("", name))
    for heading, added in NUMBERED.items():
        if heading == "Identifier" or place.is_file():
            if found := added.search(name):
                return name[: found.start()], heading, found[1]
    return name, "", ""


def student_of(place: Path, known: Mapping[str, Columns]) -> str:
    """Return the student whose folder, notebook, or archive this is.

    ``known`` is the list of students, if there is one.
    """
    name, heading, number = named_by(place)
    for student, columns in known.items():
        if number and class_list.number_in(columns, heading) == number:
            return student
    name = one_form(name) or place.name
    forms = [name]
    with suppress(UnicodeError):  # UTF-8 that was read as the code page of DOS
        forms.append(one_form(name.encode("cp437").decode()))
    for form in forms:
        for each in sorted(known, key=lambda each: each != form):
            if one_form(each).casefold() == form.casefold():
                return each
    return name


def is_work(path: Path) -> bool:
    """Return whether this can be a student's: a folder, a notebook, or an archive."""
    named = NOTEBOOK.search(path.name) or ARCHIVE.search(path.name)
    return seen(path) and bool(path.is_dir() or path.is_symlink() or named)


def students_in(folder: Path, known: Mapping[str, Columns]) -> dict[str, list[Path]]:
    """Return the students, and the folders or files of each."""
    places: dict[str, list[Path]] = {}
    for path in sorted(filter(is_work, folder.iterdir())):
        places.setdefault(student_of(path, known), []).append(path)
    for student, found in list(places.items()):
        if len({named_by(path)[1:] for path in found}) > 1:  # namesakes
            del places[student]
            places |= {sendable(path.name): [path] for path in found}
    return places


def shown(name: str) -> str:
    """Return a file's name with nothing that a table or a terminal couldn't take."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)


def in_words(error: Exception) -> str:
    """Return an error in a line."""
    return shown(" ".join(f"{type(error).__name__}: {error}".split())[:200])


def sendable(text: str) -> str:
    """Return a text that can be written: half an emoji can't."""
    return text.encode("utf-8", "replace").decode()


def seen(path: Path | PurePosixPath) -> bool:
    """Return whether someone has made this file, and not Jupyter or macOS."""
    return not path.name.startswith(".") and path.name != "__MACOSX"


@cache
def handed_out() -> tuple[dict[str, str], set[str]]:
    """Return the stubs by the exercises' names, and what other cells with code hold."""
    every = by_name()
    stubs = {name: same(stub_of(exercise)) for name, exercise in every.items()}
    shown = {same(cell.source) for each in every.values() for cell in each.between}
    return stubs, shown | {same(ALONE)}


def same(source: str) -> str:
    """Return a cell's text without what editors change."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def only_checks(source: str) -> bool:
    """Return whether a cell has no code but calls of the check."""
    lines = source.split("\n")
    return all(not line.strip() or line.startswith(("check(", "#")) for line in lines)


def submission(student: str, file: File, course: dict[str, Any]) -> Submission:
    """Read a notebook; what was handed out with the homework is nobody's answer."""
    cells: dict[str, list[str]] = {}
    answers: dict[str, str] = {}
    why: dict[str, str] = {}
    stubs, shown = handed_out()
    names = {each["number"]: name_of(each) for each in course["exercises"]}
    try:
        made = json.loads(decoded(file.read()))
        if "worksheets" in made:  # of 2014
            made = nbformat.reads(json.dumps(made), as_version=4)
        released = False
        current = ""  # what stands before the first exercise is for all of them
        for cell in nbformat.from_dict(made).cells:
            source = cell.source = sendable("".join(cell.get("source") or ""))
            current, part = exercise_of(cell) or current, part_of(cell)
            released = released or bool(part)
            if part.startswith("why-"):
                why[current] = f"{why.get(current, '')}\n\n{source}".strip()
            elif cell.cell_type == "code" or part.startswith("answer-"):
                mine = cells.setdefault(current, [])
                if same(source) == stubs.get(names.get(current)):
                    mine[:] = [source, *(each for each in mine if each != source)]
                elif same(source) not in shown and not only_checks(source):
                    mine.append(source)
                    if part.startswith("answer-"):
                        answers[current] = f"{answers.get(current, '')}\n\n{source}"
    except Exception as error:
        fault = f"{file.name} is not a notebook that can be read ({in_words(error)})"
        return Submission(student, file.path, {}, fault=fault)
    return Submission(
        student, file.path, cells, answers, why, released=released, name=file.name
    )


def files_in(place: Path) -> list[Path]:
    """Return a student's own files; a link that leads to others' is none."""
    return [
        path
        for path in (place, *sorted(place.rglob("*")))
        if path.is_file()
        and path.resolve().is_relative_to(place.resolve())
        and all(map(seen, (path, *path.relative_to(place.parent).parents)))
    ]


def members_of(archive: Path) -> list[File]:
    """Return the files in a zip, without what only macOS or Jupyter needs.

    Nothing is written to a disk, so it does no harm where their names lead. A zip of
    too many raises ValueError, and so does reading one that could be of any size.
    """

    def read(member: zipfile.ZipInfo) -> bytes:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("it is compressed in a way that Windows and macOS are not")
        with zipfile.ZipFile(archive) as opened, opened.open(member) as file:
            return file.read(LARGEST)

    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
    if len(members) > MEMBERS:
        raise ValueError(f"it has more than {MEMBERS} files")
    files = []
    for member in members:
        name = member.filename.replace("\\", "/")  # as Windows writes it
        parts = PurePosixPath(name).parts
        if not name.endswith("/") and all(seen(PurePosixPath(each)) for each in parts):
            name, size = shown(f"{archive.name}/{name}"), member.file_size
            files.append(File(archive, name, size, partial(read, member)))
    return files


def submissions(
    student: str, places: list[Path], course: dict[str, Any]
) -> list[Submission]:
    """Return a student's notebooks that differ, or one that says what is wrong."""
    files: list[File] = []
    faults: list[str] = []
    for path in (path for place in places for path in files_in(place)):
        name, size = shown("/".join(path.parts[-2:])), path.stat().st_size
        try:
            inside = members_of(path) if ARCHIVE.search(path.name) else []
        except Exception as error:
            inside = []
            faults.append(f"{name} can't be unpacked ({in_words(error)})")
        files += inside or [File(path, name, size, path.read_bytes)]
    notebooks = [file for file in files if NOTEBOOK.search(file.name)]
    if sum(file.size for file in notebooks) > LARGEST:
        most = f"{LARGEST // 2**20} MB"
        fault = f"the notebooks are larger than {most}: ask for one without outputs."
        return [Submission(student, None, {}, fault=fault)]
    found = [submission(student, file, course) for file in notebooks]
    faults += [work.fault for work in found if work.fault]
    read = [work for work in found if not work.fault]
    read = [work for work in read if work.released] or read
    differ = {json.dumps([work.cells, work.answers, work.why]): work for work in read}
    if 0 < len(differ) <= MOST:
        return [work._replace(unread="; ".join(faults)) for work in differ.values()]
    if differ:
        names = ", ".join(work.name for work in differ.values())
        fault = (
            f"{len(differ)} different notebooks are in the folder "
            f"({names[:LONGEST]}): leave the one that counts, or if they are of "
            "several students, grade this folder."
        )
    elif found:
        return found[:1]
    else:
        names = ", ".join(file.name for file in files)[:LONGEST]
        names = f"only {names}" if names else "which has no file"
        faults.append(f"no notebook is in the folder, {names}: ask for one.")
        fault = "; ".join(faults)
    return [Submission(student, None, {}, fault=fault)]


def moment(text: str) -> datetime.datetime:
    """Return a time; without a zone it is this computer's, and a day is its end."""
    try:
        when = datetime.datetime.fromisoformat(text)
        if re.fullmatch(r"[\d-]+", text):
            when = when.replace(hour=23, minute=59, second=59)
        return when.astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write it as in 2027-01-31T23:59, with a zone as "
            "in 2027-01-31T23:59+01:00"
        ) from None


def positive(text: str) -> float:
    """Return a number of seconds."""
    with suppress(ValueError):
        if 0 < (number := float(text)) < float("inf"):
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def noted(text: str) -> datetime.datetime | None:
    """Return the time in nbgrader's note; without a zone it is UTC."""
    if not (found := TIME.match(text.strip())):
        return None
    day, clock, zone = found.groups()
    with suppress(ValueError, KeyError, OSError):  # not a time, no such zone
        when = datetime.datetime.fromisoformat(f"{day}T{clock}")
        if re.match(r"[-+Z]", zone):
            return datetime.datetime.fromisoformat(f"{day}T{clock}{zone}")
        if zone in time.tzname:
            return when.astimezone()
        return when.replace(tzinfo=ZoneInfo(zone or "UTC"))
    return None


def handed_in(places: list[Path], path: Path | None) -> datetime.datetime | None:
    """Return when: as nbgrader noted it, or when the file was written.

    nbgrader's note is the uppermost; one further down could be a student's own.
    """
    if path is None:
        return None
    for folder in reversed(path.parents):
        note = folder / "timestamp.txt"
        if any(map(folder.is_relative_to, places)) and note.is_file():
            with suppress(OSError), note.open("rb") as file:
                if when := noted(decoded(file.read(100))):
                    return when.astimezone()
    with suppress(OSError):
        return datetime.datetime.fromtimestamp(int(path.stat().st_mtime)).astimezone()
    return None


def when_handed_in(
    when: datetime.datetime | None, due: datetime.datetime | None
) -> str:
    """Return the time for a student's page; what comes at the due time isn't late."""
    if when is None:
        return ""
    late = ", late" if due and when > due else ""
    return f"handed in {when.isoformat(' ', 'minutes')}{late}"


def points_for(
    server: Server,
    work: Submission,
    exercise: dict[str, Any],
    seed: str,
    seconds: float,
) -> tuple[float, str]:
    """Return the points for an exercise, and what the checks say of it."""
    number, most = exercise["number"], exercise["points"]
    numbers = exercise["numbers"].get(work.student, exercise["numbers"].get(""))
    if exercise["trains"] and number in work.answers:  # and leave the training out
        cells = [work.answers[number]]
    else:
        cells = work.cells.get(number, [])
    cells = work.cells.get("", []) + cells
    try:
        with answer_from(server, cells, exercise["answer"], seconds) as answer:
            name = exercise.get("name", number)
            public, hidden = judged(name, answer, seed, numbers)
    except NotImplementedError:
        return 0, UNANSWERED
    except Stopped as error:
        return 0, sendable(str(error)[:LONGEST])
    if hidden is None:
        return most, "right."
    hidden = sendable(hidden[:LONGEST])
    if public is None:
        return most / 2, f"right for the inputs of your check, but: {hidden}"
    return 0, sendable(public[:LONGEST])


def graded(
    server: Server,
    work: Submission,
    course: dict[str, Any],
    seconds: float,
    note: str,
) -> dict[str, Any]:
    """Return the marks for a notebook, and why form took points, if it did."""
    seed = f"{course['seed']}/{work.student}"
    marks: dict[str, Any] = {}
    form: dict[str, list[str]] = {}  # reasons, and the exercises they are for
    for exercise in course["exercises"]:
        number, known = exercise["number"], exercise["numbers"]
        points, reason = 0.0, work.fault
        if not reason and work.student not in known and "" not in known:
            reason = (
                f"no homework was written for a student called {work.student}: name "
                "the folder as in the list of students, or add the name to the list."
            )
        if not reason:
            points, says = points_for(server, work, exercise, seed, seconds)
            if not points and number not in work.cells:
                reason = NO_CELL
        if reason:
            form.setdefault(reason, []).append(number)
        marks[number] = {
            "points": points, "of": exercise["points"], "says": reason or says,
        }  # fmt: skip
    return {
        "student": work.student,
        "note": note,
        "form": "; ".join(
            f"{', '.join(numbers)}: {reason}" for reason, numbers in form.items()
        ),
        "marks": marks,
        "why": work.why,
    }


def best_of(
    server: Server,
    works: list[Submission],
    course: dict[str, Any],
    seconds: float,
    notes: list[str],
) -> tuple[int, dict[str, Any]]:
    """Return which of a student's notebooks is the best, and its marks."""
    found = [
        graded(server, work, course, seconds, note) for work, note in zip(works, notes)
    ]
    best = max(range(len(found)), key=lambda each: points_of(found[each]))
    return best, found[best]


def points_of(marks: dict[str, Any]) -> float:
    """Return the points of one student."""
    return sum(each["points"] for each in marks["marks"].values())


def most_of(marks: dict[str, Any]) -> float:
    """Return how many points there are."""
    return sum(each["of"] for each in marks["marks"].values())


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
        points=points_of(marks),
        most=most_of(marks),
        note=html.escape(marks["note"]),
        rows="\n".join(rows),
    )


@cache
def published() -> dict[str, list[str]]:
    """Return the cells of the published solutions by the exercises' names."""
    cells: dict[str, list[str]] = {}
    for path in sorted((HERE.parent / "notebooks" / "solutions").glob("*.md")):
        answers = {each.number: each.name for each in exercises(path)}
        name = ""
        for cell in read(path):
            name = answers.get(exercise_of(cell) or "", name)
            if name and cell.cell_type == "code":
                cells.setdefault(name, []).append(cell.source)
    return cells


@cache
def shown_in_class() -> tuple[likeness.Runs, dict[str, list[str]]]:
    """Return the runs of words of all chapters, and what the exercises give by name."""
    cells = [cell for path in chapters() for cell in read(path)]
    runs = likeness.runs_in(cell.source for cell in cells if cell.cell_type == "code")
    given = {
        name: [
            *(cell.source for cell in each.between if cell.cell_type == "code"),
            stub_of(each),
        ]
        for name, each in by_name().items()
    }
    return runs, given


def alike(
    submissions: list[Submission], course: dict[str, Any]
) -> list[tuple[str, likeness.Group]]:
    """Return exercises, and students whose answers to them are nearly the same.

    The published solutions count as one more student's.
    """
    runs, given = shown_in_class()
    found = []
    for each in course["exercises"]:
        number, name = each["number"], name_of(each)
        cells = {work.student: work.cells.get(number, []) for work in submissions}
        cells["the published solutions"] = published().get(name, [])
        own = {
            who: likeness.own(mine, given[name], runs) for who, mine in cells.items()
        }
        found += [(number, group) for group in likeness.groups(own)]
    return found


def absent(student: str, course: dict[str, Any]) -> dict[str, Any]:
    """Return the marks of a student on the list who handed in nothing."""
    marks = {
        each["number"]: {"points": 0, "of": each["points"], "says": NOTHING}
        for each in course["exercises"]
    }
    return {"student": student, "note": NOTHING, "form": "", "marks": marks, "why": {}}


def everyone(
    course: dict[str, Any], listed: Mapping[str, Columns]
) -> dict[str, Columns]:
    """Return the students of all lists, and those for whom the homework was written."""
    own = {name: {} for each in course["exercises"] for name in each["numbers"] if name}
    return {**own, **course.get("students", {}), **listed}


def students_with_marks(file: Path) -> set[str]:
    """Return the students of a table, as it was written or saved by Excel."""
    if not file.exists():
        return set()
    text = decoded(file.read_bytes())
    heading = text.partition("\n")[0]
    between = next((sign for sign in "\t;" if sign in heading), ",")
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=between)
    given = {row.get("student") for row in rows if row.get("note") != NOTHING}
    return {student for student in given if student}


def table(
    all_marks: list[dict[str, Any]],
    course: dict[str, Any],
    listed: Mapping[str, Columns],
) -> str:
    """Return the marks of all students as CSV, with the columns of the list."""
    numbers = [exercise["number"] for exercise in course["exercises"]]
    ours = ["points", "of", "note"]
    taken = {"student", *numbers, *ours}
    theirs = [at for at in class_list.other_columns(listed) if at not in taken]
    rows = [
        {
            **listed.get(marks["student"], {}),
            **{number: marks["marks"][number]["points"] for number in numbers},
            "student": marks["student"],
            "points": points_of(marks),
            "of": most_of(marks),
            "note": "; ".join(filter(None, (marks["note"], marks["form"]))),
        }
        for marks in all_marks
    ]
    return class_list.as_csv(["student", *theirs, *numbers, *ours], rows)


def dues(listed: Mapping[str, Columns]) -> dict[str, datetime.datetime]:
    """Return until when those students have time who have a time of their own.

    Raises ValueError for one that is no time.
    """
    found = {}
    for student, columns in listed.items():
        if text := class_list.value_of(columns, "due"):
            try:
                found[student] = moment(text)
            except argparse.ArgumentTypeError as error:
                raise ValueError(f"the list of students, {student}: {error}") from None
    return found


def notes_on(
    works: list[Submission],
    places: list[Path],
    due: datetime.datetime | None,
    own: datetime.datetime | None,
) -> list[str]:
    """Return what a student's page says of each notebook beside its points.

    ``own`` is a student's own time, instead of that for all.
    """
    notes = []
    for work in works:
        when = when_handed_in(handed_in(places, work.path), own or due)
        until = f"due {own.isoformat(' ', 'minutes')}" if own else ""
        best = f"in {work.name.split('/')[-1]}, the best of {len(works)} notebooks"
        parts = when, until, best if len(works) > 1 else "", work.unread
        notes.append(", ".join(filter(None, parts)))
    return notes


def grade(
    servers: Server | Servers,
    folder: Path,
    course: dict[str, Any],
    into: Path,
    seconds: float = 60,
    due: datetime.datetime | None = None,
    listed: Mapping[str, Columns] | None = None,
    name: str = "homework",
) -> list[dict[str, Any]]:
    """Grade all students in ``folder``; write a page each, and the tables.

    ``listed`` are the columns of a list of students, beside those of the course's. The
    table also names who is on a list and handed in nothing. Raises MarksLost if
    students who aren't in ``folder`` would lose the marks that they have in it, and
    ValueError for a due time that is none.
    """
    into.mkdir(parents=True, exist_ok=True)
    listed = everyone(course, listed or {})
    places = students_in(folder, listed)
    own = dues(listed)
    file = into / "marks.csv"
    gone = students_with_marks(file) - places.keys()
    if lost := sorted(gone & listed.keys() if listed else gone):
        raise MarksLost(
            f"{folder} has nothing of {', '.join(lost)}, whose marks are in {file}: "
            "put the folders of all students into one, and grade that; or give the "
            "table another name, and a new one is written"
        )
    jobs: Jobs = {}
    for student, found in places.items():
        works = submissions(student, found, course)
        notes = notes_on(works, found, due, own.get(student))
        jobs[student] = works, course, seconds, notes
    done = kept_or_graded(servers, jobs, into)
    all_marks = [done[student][1] for student in sorted(places)]
    others = [absent(student, course) for student in listed.keys() - places.keys()]
    rows = sorted(all_marks + others, key=lambda marks: marks["student"])
    for marks in rows:
        replace(into / f"{marks['student']}.html", page(marks))
    replace(file, table(rows, course, listed))
    for system, text in for_systems(all_marks, listed, places, name).items():
        replace(into / system, text)
    every = [jobs[student][0][done[student][0]] for student in sorted(places)]
    lines = [f"{number}: {group}\n" for number, group in alike(every, course)]
    said = "".join([TO_READ, *lines]) if lines else "No two long answers are alike.\n"
    replace(into / "alike.txt", said)
    return all_marks


def kept_or_graded(
    servers: Server | Servers, jobs: Jobs, into: Path
) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return what ``best_of`` gives for each student, from ``into`` if nothing changed.

    A job is what it is given. Each result is written when it is there.
    """
    files = [*sorted(FOLDER.glob("*.py")), *sorted(HERE.glob("hidden*.py"))]
    checks = [path.read_text("utf-8") for path in files]
    digests: dict[str, str] = {}
    done: dict[str, tuple[int, dict[str, Any]]] = {}
    for student, (works, course, seconds, notes) in jobs.items():
        read = [[w.cells, w.answers, w.why, w.fault] for w in works]
        asked = [course["seed"], course["exercises"]]
        of = json.dumps([asked, checks, seconds, notes, read]).encode()
        digests[student] = hashlib.sha256(of).hexdigest()
        kept = into / f"{student}.json"
        old = json.loads(kept.read_text()) if kept.exists() else {}
        if old.get("of") == digests[student]:
            done[student] = old["best"], old["marks"]
    left = {student: job for student, job in jobs.items() if student not in done}
    with tqdm(total=len(left), unit=" students", disable=None) as bar:
        for student, (best, marks) in servers.each(best_of, left):
            done[student] = best, marks
            stored = {"of": digests[student], "best": best, "marks": marks}
            replace(into / f"{student}.json", json.dumps(stored, indent=1))
            bar.update()
    return done


def for_systems(
    all_marks: list[dict[str, Any]],
    listed: Mapping[str, Columns],
    places: Mapping[str, list[Path]],
    name: str,
) -> dict[str, str]:
    """Return the files that Moodle and Canvas read, if the list or files are theirs."""
    points = []
    for marks in all_marks:
        student = marks["student"]
        columns = listed.get(student, {})
        named = dict(named_by(place)[1:] for place in places[student])
        number = class_list.number_in({**named, **columns}, "Identifier")
        points.append(class_list.Points(student, points_of(marks), columns, number))
    most = most_of(all_marks[0]) if all_marks else 0
    files = {
        "moodle.csv": class_list.for_moodle(name, points),
        "canvas.csv": class_list.for_canvas(name, most, points),
    }
    return {file: text for file, text in files.items() if text}


def cores() -> int:
    """Return how many processors this process may use."""
    with suppress(AttributeError):  # macOS has no affinity
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="homework", help="of the homework")
    parser.add_argument("--course", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--due", type=moment)
    parser.add_argument("--students", type=Path, help="a list with more columns")
    parser.add_argument(
        "--jobs", type=int, default=cores(), help="students graded at the same time"
    )
    parser.add_argument(
        "--seconds", type=positive, default=60, help="for each exercise"
    )
    given = parser.parse_args()
    given.course = given.course or BUILD / "homework" / given.name / "course.json"
    given.into = given.into or BUILD / "grades" / given.name
    return given


def main() -> int:
    given = arguments()

    def wrong(why: str) -> int:
        print(f"error: {why}", file=sys.stderr)
        return 2

    if not given.folder.is_dir():
        return wrong(
            f"{given.folder} is not a folder; name one (unpacked) with a folder for "
            "each student"
        )
    try:
        course = json.loads(given.course.read_bytes())
        course["seed"], course["exercises"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        return wrong(
            f"{given.course} is not the course.json that `make homework` wrote "
            f"({error}); name that by --course"
        )
    start = time.monotonic()
    hidden = given.folder, given.into, given.course.parent, BUILD
    with tempfile.TemporaryDirectory() as room:
        if not sandbox.closes(room, Server(*hidden).hidden):
            print(OPEN, flush=True)
    try:
        listed = {}
        if given.students:
            listed = class_list.students_in(decoded(given.students.read_bytes()))
        marks = grade(
            Servers(max(1, given.jobs), *hidden),
            given.folder,
            course,
            given.into,
            given.seconds,
            given.due,
            listed,
            given.name,
        )
    except (ValueError, OSError) as error:  # MarksLost is one
        return wrong(str(error))
    others = [
        shown(path.name)
        for path in sorted(filter(seen, given.folder.iterdir()))
        if not is_work(path)
    ]
    if others:
        print(f"left out, no folders, notebooks, or zips: {', '.join(others)}")
    if not marks:
        return wrong(
            f"{given.folder} has no folder of a student; name the one that has them"
        )
    minutes = (time.monotonic() - start) / 60
    print(f"{len(marks)} students in {minutes:.1f} minutes: {given.into / 'marks.csv'}")
    for each in marks:
        if each["form"]:
            print(f"look at {each['student']}: {each['form']}")
    known = everyone(course, listed)
    if missing := known.keys() - {each["student"] for each in marks}:
        print(f"{NOTHING}: {', '.join(sorted(missing))}")
    print((given.into / "alike.txt").read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
