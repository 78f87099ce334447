"""Homework is written, handed in, and graded; and nobody gets points for a trick."""

import argparse
import csv
import dataclasses
import datetime
import inspect
import io
import json
import math
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections import Counter
from multiprocessing import Pipe
from pathlib import Path
from xml.etree import ElementTree

import class_list
import grade
import homework
import likeness
import nbformat
import psutil
import pytest
import questions
import sandbox
from chapters import ROOT, chapters
from exercises import by_number, exercises
from hidden import HIDDEN
from wrong_answers import how_sure, wrong_answers

from transformer_workshop.exercises.checking import (
    UNANSWERED,
    complaint_of,
    judge_of,
)

MASKS = """
def mask_from_lengths(lengths, size):
    return torch.arange(size) < lengths.view(-1, 1, 1)
"""
EXERCISES = by_number()
NAMED = {each.name: each for each in EXERCISES.values()}
WRONG = wrong_answers()


@pytest.fixture(scope="module")
def server():
    with grade.Server() as started:
        yield started


@pytest.fixture(scope="module")
def points(server):
    """Return a function that gives the points for an answer, and what is said of it."""

    def judged(number, *cells, seconds=30, answers=None, **given):
        work = grade.Submission("ann", None, {number: list(cells)}, answers or {})
        [exercise] = course_of(number, **given)["exercises"]
        return grade.points_for(server, work, exercise, "a seed/ann", seconds)

    return judged


def course_of(*numbers, **given):
    """Return a course with these exercises, with the chapters' numbers."""
    return {
        "seed": "a seed",
        "exercises": [
            {
                "number": number,
                "name": EXERCISES[number].name,
                "points": 2,
                "answer": EXERCISES[number].answer,
                "numbers": {"": given},
                "trains": EXERCISES[number].kind == "Predict and train",
            }
            for number in numbers
        ],
    }


# What is written


@pytest.mark.parametrize("name", homework.VARIANTS)
def test_a_variant_changes_the_text_and_the_check_knows(name):
    """The chapter's own answer is wrong, and what the text asks for can be read."""
    exercise = NAMED[name]
    texts = set()
    for seed in range(20):
        text, numbers = homework.task(exercise, random.Random(seed))
        texts.add(text)
        own = complaint_of(judge_of(name), WRONG[name][0], **numbers)
        assert own not in (None, UNANSWERED)
    assert len(texts) > 5


def test_a_variant_complains_when_the_chapter_has_changed(monkeypatch):
    changed = [("not in the text", "new")]
    monkeypatch.setitem(homework.VARIANTS, "shapes", lambda draw: ({}, changed))
    with pytest.raises(ValueError, match="'not in the text' 0 times"):
        homework.task(NAMED["shapes"], random.Random(0))


def test_homework_holds_stubs_checks_and_no_solution(tmp_path):
    chosen = homework.chosen_exercises("1,6", "2.9")
    homework.write_homework(chosen, "a seed", {"ann": {}, "bob": {}}, tmp_path)
    ann, bob = (
        nbformat.read(tmp_path / "release" / name / "homework.ipynb", 4)
        for name in ("ann", "bob")
    )
    for made in (ann, bob, hidden := nbformat.read(
        tmp_path / "nbgrader" / "source" / "homework" / "homework.ipynb", 4
    )):  # fmt: skip
        nbformat.validate(made)
        names = [cell.metadata.nbgrader.grade_id for cell in made.cells]
        assert len(set(names)) == len(names)
        answers = [name for name in names if name.startswith("answer-")]
        assert len(answers) == len(chosen)
    assert [c.source for c in ann.cells] != [c.source for c in bob.cells]
    released = "".join(cell.source for cell in ann.cells)
    assert "HIDDEN" not in released and "a seed" not in released
    assert sum("BEGIN HIDDEN" in cell.source for cell in hidden.cells) == len(chosen)
    assert "def faulty_attention" in released  # what 1.5 is about
    course = json.loads((tmp_path / "course.json").read_text())
    assert {e["number"] for e in course["exercises"]} == {e.number for e in chosen}


@pytest.mark.parametrize(
    "chapters, numbers, says",
    [
        ("", "", "name chapters"),
        ("9", "", "chapter 9 has no exercises; 1, 2, 3, 4, 5, 6, 7, 8 have"),
        ("", "1.99", "exercise 1.99"),
    ],
)
def test_homework_names_what_is_wrong(chapters, numbers, says):
    with pytest.raises(ValueError, match=says):
        homework.chosen_exercises(chapters, numbers)


def test_an_optional_exercise_is_chosen_by_its_number_only():
    def chosen(*named):
        return [each.number for each in homework.chosen_exercises(*named)]

    assert {"1.9", "1.10"} & set(chosen("1", "")) == {"1.9"}
    assert chosen("7", "1.9") == ["1.9", "7.1", "7.2", "7.3"]


@pytest.mark.parametrize(
    "data",
    [
        "müller\r\nLi Wei\r\n\r\n".encode("utf-8-sig"),
        "sep=;\r\nName;Matrikel\r\nmüller;7\r\n;\r\nLi\xa0 Wei;8\r\n".encode(),
        "student\tmail\r\nmüller\ta@b\r\nLi Wei\tc@d\r\n".encode("utf-16"),
        'name,of\n"müller",2\n"Li Wei",2\n'.encode("cp1252"),
        unicodedata.normalize("NFD", "müller\nLi Wei").encode(),
    ],
)
def test_a_list_of_students_is_read_as_excel_writes_it(data):
    assert [*class_list.students_in(class_list.decoded(data))] == ["müller", "Li Wei"]


@pytest.mark.parametrize(
    "text, says",
    [
        ("ann\n\nbob\nAnn\n", "line 4 .* Ann is also in line 1"),
        ("ann;1\n;2\n", "line 2 .* has no name"),
        ("Vorname,Mail\nann,a@b\n", "line 2 .* 'ann,a@b' is a row of a table"),
        ("ann\n../bob\n", "line 2 .* '../bob' can't be the name of a folder"),
        ("name\n", "no names"),
    ],
)
def test_a_list_of_students_that_cannot_be_meant_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        class_list.students_in(text)


def test_a_comma_without_a_column_is_part_of_a_name():
    names = ["हिन्दी", "O'Neil, Ann", "Müller, Anna"]
    plain = "\n".join(names)
    for text in (plain, f"Name\n{plain}"):
        assert [*class_list.students_in(text)] == names
    assert [*class_list.students_in('name\n"O\'Neil, Ann"')] == ["O'Neil, Ann"]
    assert [*class_list.students_in("name,mail\nann,a@b\n")] == ["ann"]


def test_homework_written_again_keeps_what_was_handed_out(
    tmp_path, monkeypatch, capsys
):
    """The seed, students who left the list, and all files of others."""
    names = tmp_path / "names.csv"
    monkeypatch.setattr(homework, "by_number", lambda: EXERCISES)  # they take a second

    def make(students, *more, exercises="1.3,1.4"):
        names.write_text(students)
        words = [
            "homework.py",
            "--exercises",
            exercises,
            "--into",
            str(tmp_path / "to"),
        ]
        words += ["--students", str(names)] if students else []
        monkeypatch.setattr(sys, "argv", [*words, *more])
        return homework.main(), capsys.readouterr().err

    assert make("ann\nbob\n") == (0, "")
    course = tmp_path / "to" / "course.json"
    first = json.loads(course.read_bytes())
    ann = tmp_path / "to" / "release" / "ann" / "homework.ipynb"
    was = ann.read_bytes()
    (tmp_path / "to" / "nbgrader" / "gradebook.db").write_text("marks")
    assert make("bob\nzoe\n", exercises="1.3, 1.4")[0] == 0
    again = json.loads(course.read_bytes())
    assert again["seed"] == first["seed"] and ann.read_bytes() == was
    for old, new in zip(first["exercises"], again["exercises"]):
        assert new["numbers"].items() >= old["numbers"].items()
        assert set(new["numbers"]) == {"ann", "bob", "zoe"}
    assert (tmp_path / "to" / "nbgrader" / "gradebook.db").exists()
    for words, says in (
        (
            make("ann", "--seed", "another"),
            f"with the seed {first['seed']}; choose NAME",
        ),
        (make("ann", exercises="1.3"), "1.3 (shapes), 1.4 (masks); choose NAME"),
        (make(""), "was written with STUDENTS; choose NAME"),
    ):
        assert words[0] == 2 and says in words[1]
    assert json.loads(course.read_bytes()) == again
    course.rename(tmp_path / "safe.json")
    code, says = make("ann")
    assert code == 2 and "put the file back" in says and ann.read_bytes() == was


# What is graded

SOLUTIONS = {
    "1.4": MASKS,
    "2.2": "def perplexity(s, n):\n    return math.exp(sum(s) / sum(n))",
    "6.3": "def bytes_per_token(*size):\n    return 2 * math.prod(size)\n"
    "def tokens_that_fit(memory, batch, *size):\n"
    "    return memory // (batch * bytes_per_token(*size))",
    "1.3": "answer = ((2, 8, 4, 7), (2, 8, 4, 64), (2, 7, 512))",
}


@pytest.mark.parametrize("number", SOLUTIONS)
def test_a_right_answer_gets_all_points(points, number):
    assert points(number, SOLUTIONS[number]) == (2, "right.")


def test_classes_are_judged_where_they_run(points):
    """Hand in the published solution: a function and two classes."""
    published = exercises(ROOT / "notebooks" / "solutions" / "01_architecture.md")
    [code] = [each.code for each in published if each.number == "1.9"]
    code = code.replace('check("empty_file", ', "answer = (")
    code = f"import math\nfrom torch import nn\n\n{code}"
    assert points("1.9", code) == (2, "right.")
    half = f"{code}\nanswer = (attention, Heads, None)"
    assert points("1.9", half)[0] == 0 and "2 of 3" in points("1.9", half)[1]


def test_helpers_and_lost_checks_do_no_harm(points):
    helper = "%matplotlib inline\ndef column(x):\n    return x.view(-1, 1, 1)"
    mine = "mask_from_lengths = lambda lengths, n: torch.arange(n) < column(lengths)"
    assert points("1.4", helper, mine)[0] == 2


@pytest.mark.parametrize(
    "cells",
    [
        [MASKS + "display(mask_from_lengths(torch.tensor([1]), 3))"],
        [MASKS + "mask_from_lengths?\n?torch\nhere = !ls\n%pip install torch"],
        ["import asyncio" + MASKS + "await asyncio.sleep(0)"],
        ["%%time" + MASKS],
        ["%time size = 1" + MASKS + "x = %time size\nassert x == 1"],
        ["def mod(x, n):\n    return (x\n        % n)" + MASKS + "mod(5, 3)"],
        [">>> def mask_from_lengths(n, size):\n"
         "...     return torch.arange(size) < n.view(-1, 1, 1)"],
        [MASKS.replace("\n", "\n    ")],
        [MASKS, "mask_from_lengths(5)", "notes to myself"],
    ],
    ids=range(9),
)  # fmt: skip
def test_a_cell_that_jupyter_runs_is_run(points, cells):
    assert points("1.4", *cells) == (2, "right.")


def test_a_cell_that_stops_is_named_when_the_answer_needs_it(points):
    uses = "def mask_from_lengths(n, size):\n    return helper(n, size)"
    for cells in (["helper = 1 / 0", uses], ["helper = 1 / 0", "answer = 1"]):
        got, says = points("1.4", *cells)
        assert got == 0 and "line 1 (`helper = 1 / 0`) with ZeroDivisionError" in says
    got, says = points("1.3", "answer = None", "answer = await missing()")
    assert got == 0 and "line 1 (`answer = await missing()`) with NameError" in says


def test_a_training_in_another_cell_is_not_run(points):
    models = "answer = (['b', 'c', 'f'], Teller(0.998), Teller(0.6))"
    own = f"{inspect.getsource(how_sure.Teller)}\n{models}"
    found = points("2.9", own, "raise RuntimeError", answers={"2.9": own})
    assert found == (2, "right.")


def test_the_numbers_are_those_of_the_homework(points):
    other = SOLUTIONS["1.3"].replace("7", "9")
    assert points("1.3", SOLUTIONS["1.3"], S=9)[0] == 0
    assert points("1.3", other, S=9)[0] == 2


def test_an_answer_that_fits_only_the_check_gets_half(points):
    """Know the inputs of the check, and be wrong for others."""
    cell = (
        MASKS
        + "right = mask_from_lengths\n"
        + (
            "def mask_from_lengths(lengths, size):\n"
            "    wrong = len(lengths) not in (1, 2, 3, 60)\n"
            "    return right(lengths, size) & (not wrong)"
        )
    )
    got, says = points("1.4", cell)
    assert got == 1 and says.startswith("right for the inputs of your check, but: for")


TRICKS = {
    "another check": "check = complaint = lambda *x, **y: None\n"
    "from transformer_workshop import exercises\nexercises.check = check\n"
    "from transformer_workshop.exercises import checking, masks\n"
    "masks.judge = lambda a: None\n"
    "checking.complaint_of = checking.complaint = check\n"
    "mask_from_lengths = lambda *x: None",
    "another agree": "from transformer_workshop.exercises import checking, masks\n"
    "checking.agree = masks.agree = checking.same = lambda *x, **y: True\n"
    "mask_from_lengths = lambda lengths, size: torch.zeros(len(lengths), 1, size) > 0",
    "another equality": "torch.equal = torch.allclose = torch.isclose = lambda *x, "
    "**y: torch.tensor(True)\nmask_from_lengths = lambda n, size: torch.ones(3)",
    "everything is equal": "class Any:\n"
    "    def __eq__(self, other):\n        return True\n"
    "    def __getattr__(self, name):\n        return self\n"
    "mask_from_lengths = lambda *x: Any()",
    "a tensor of its own": "class Mine(torch.Tensor):\n"
    "    @classmethod\n"
    "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
    "        return True\n"
    "mask_from_lengths = lambda *x: Mine(3)",
    "code in what is sent": "import os, pathlib\nclass Run:\n"
    "    def __reduce__(self):\n        return os.system, ('touch {there}',)\n"
    "import sandbox\nsandbox.plain = lambda x: Run()\n"
    "mask_from_lengths = lambda *x: Run()",
    "a forged reply": "import gc, io\n"
    "from multiprocessing.connection import Connection\n"
    "for each in gc.get_objects():\n"
    "    if isinstance(each, Connection):\n"
    "        for said in ({{'answer': 5}}, {{}}, [1]):\n"
    "            b = io.BytesIO(); torch.save(said, b); each.send_bytes(b.getvalue())",
    "ending the server": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "leaving": "import os\nos._exit(0)",
    "leaving later": "import os\nmask_from_lengths = lambda *x: os._exit(0)",
    "an exit": "raise SystemExit",
    "an error": "1 / 0",
    "no Python": "def (:",
    "too much memory": "mask_from_lengths = lambda *x: bytearray(2**40)",
    "too large an answer": "mask_from_lengths = lambda *x: torch.zeros(30 * 2**20)",
    "nothing": "",
    "the stub": "def mask_from_lengths(lengths, size):\n    raise NotImplementedError",
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_earns_nothing(points, name, tmp_path):
    there = tmp_path / "there"
    got, says = points("1.4", TRICKS[name].replace("{there}", str(there)))
    assert got == 0 and says
    assert not there.exists()  # nothing of a student's ran in this process


def test_an_endless_loop_ends(points):
    got, says = points("1.4", "while True:\n    pass", seconds=2)
    assert got == 0 and "longer than 2 seconds" in says
    loop = "def mask_from_lengths(lengths, size):\n    while True:\n        pass"
    assert "longer than 2 seconds" in points("1.4", loop, seconds=2)[1]


HALF = """
import gc, os, struct, time
from multiprocessing.connection import Connection
[link] = [each for each in gc.get_objects() if isinstance(each, Connection)]
os.write(link.fileno(), struct.pack("!i", 9) + b"half")
time.sleep(60)
"""


def test_half_a_reply_ends(points):
    assert "longer than 2 seconds" in points("1.4", HALF, seconds=2)[1]


# Where answers run

LEAVES = """
import os, time
for leave in (lambda: None, os.setsid, lambda: os.setpgid(0, 0)):
    if os.fork() == 0:
        leave()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "{seconds}"])
        os._exit(0)
time.sleep(0.3)
answer = True
"""


def asleep(seconds):
    """Return the processes that sleep so long."""
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if each.info["cmdline"] == ["sleep", str(seconds)]
    ]


def test_a_process_that_leaves_its_group_ends_with_the_answer(server):
    seconds = 7000 + os.getpid() % 1000
    cell = LEAVES.format(seconds=seconds)
    with grade.answer_from(server, [cell], "answer", 30) as answer:
        assert answer is True and len(asleep(seconds)) == 3
    assert asleep(seconds) == []


@pytest.mark.skipif(not sandbox.LINUX, reason="adopts no orphans")
def test_it_ends_without_namespaces_too():
    seconds = 9000 + os.getpid() % 1000
    ours, theirs = Pipe()

    def keep():
        ours.close()
        work = LEAVES.format(seconds=seconds)
        sandbox.keep(lambda _: exec(work) or True, theirs, inside=False)
        return True

    os.waitpid(sandbox.in_child(keep), 0)
    theirs.close()
    assert int(ours.recv_bytes()) > 1 and asleep(seconds) == []
    with pytest.raises(EOFError):
        ours.recv_bytes()


def test_an_answer_sees_no_files_network_or_processes_of_ours(tmp_path):
    """Where the system has namespaces; elsewhere, TEACHING says that it does."""
    private = handed(tmp_path / "private", {"course.json": b"the seed"})
    (tmp_path / "open").write_text("old")
    new, old = str(tmp_path / "new"), str(tmp_path / "open")
    writes = f"open({new!r}, 'w')", f"open({old!r}, 'w')", f"os.remove({old!r})"
    attempts = [
        f"open({str(private / 'course.json')!r})",
        "socket.socket(socket.AF_UNIX).connect({other!r})",
        "socket.create_connection(('127.0.0.1', {port}), 1)",
        "socket.create_connection(('1.1.1.1', 53), 1)",
        f"os.kill({os.getpid()}, 0)",
        "ctypes.CDLL(None).umount2(b'/run', 2) == 0 or 1 / 0",
    ]
    with (
        tempfile.TemporaryDirectory() as room,
        grade.Server(private, Path(room), within=Path(room)) as shut,
        grade.Server(within=Path(room)) as another,
        socket.create_server(("127.0.0.1", 0)) as open_,
    ):
        if not sandbox.closes(str(Path(shut.address).parent), []):
            return
        tried = "".join(
            f"\ntry:\n    {each}\n    answer.append(True)"
            "\nexcept (OSError, ZeroDivisionError):\n    answer.append(False)"
            for each in (*writes, *attempts)
        )
        tried = tried.replace("{port}", str(open_.getsockname()[1]))
        tried = tried.replace("{other!r}", repr(another.address))
        allowed = "\nopen('own', 'w').write('1')\ntempfile.NamedTemporaryFile()"
        cell = f"import ctypes, os, socket, tempfile\nanswer = []{tried}{allowed}"
        with grade.answer_from(shut, [cell], "answer", 30) as answer:
            assert answer[len(writes) :] == [False] * len(attempts)
        again = "import os\nanswer = os.path.exists('own')"
        with grade.answer_from(shut, [again], "answer", 30) as answer:
            assert answer is False
    assert {path.name for path in tmp_path.iterdir()} == {"private", "open"}
    assert (tmp_path / "open").read_text() == "old"


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_checks_reject_the_typical_wrong_answers(name):
    """At least one each; most are rejected by what is handed out."""
    assert name in NAMED
    found = [complaint_of(HIDDEN[name], answer, 5) for answer in WRONG[name]]
    assert any(says not in (None, UNANSWERED) for says in found)


@pytest.mark.parametrize(
    ("due", "last", "late"),
    [
        ("2027-01-31T23:59", "2027-01-31T23:59:00", "2027-01-31T23:59:01"),
        ("2027-01-31", "2027-01-31T23:59:59", "2027-02-01T00:00:00"),
    ],
)
def test_what_comes_at_the_due_time_is_not_late(due, last, late):
    in_time, too_late = (
        grade.when_handed_in(grade.moment(when), grade.moment(due))
        for when in (last, late)
    )
    assert in_time == f"handed in {grade.moment(last).isoformat(' ', 'minutes')}"
    assert too_late.endswith(", late")
    assert grade.when_handed_in(None, grade.moment(due)) == ""


# A course of six, from the command line


def written(folder, student, answers, note=""):
    """Hand in the homework with these answers."""
    made = nbformat.read(folder / "release" / "homework.ipynb", 4)
    for cell in made.cells:
        name = cell.metadata.nbgrader.grade_id.removeprefix("answer-")
        if (number := name.replace("-", ".")) in answers:
            cell.source = answers[number]
    own = folder / "in" / student
    own.mkdir(parents=True)
    nbformat.write(made, own / "homework.ipynb")
    if note:
        (own / "timestamp.txt").write_text(note)


def own_package(folder):
    """Put files named like ours beside a student's notebook; nobody imports them."""
    for name in ("transformer_workshop", "exercises"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('imported')")
    for name in ("annotated_transformer", "exercise_checks", "hidden_checks", "torch"):
        (folder / f"{name}.py").write_text("raise SystemExit('imported')")
    return folder


@pytest.mark.slow
def test_six_students(tmp_path):
    """Right, half right, cheating, broken, empty, and late."""
    make = [sys.executable, ROOT / "teaching" / "homework.py", "--into", tmp_path]
    chosen = ["--exercises", "1.4,2.2,6.3", "--seed", "seven"]
    subprocess.run(make + chosen, check=True, capture_output=True)
    right = {number: SOLUTIONS[number] for number in ("1.4", "2.2", "6.3")}
    written(tmp_path, "right", right)
    written(tmp_path, "half", right | {"1.4": "mask_from_lengths = None"})
    written(tmp_path, "cheating", dict.fromkeys(right, TRICKS["another check"]))
    written(tmp_path, "late", right, "2027-02-01 12:00:00 UTC")
    written(tmp_path, "empty", {})
    (tmp_path / "in" / "broken").mkdir()
    (tmp_path / "in" / "broken" / "homework.ipynb").write_text('{"cells": [')
    command = [sys.executable, ROOT / "teaching" / "grade.py", tmp_path / "in"]
    command += ["--course", tmp_path / "course.json", "--into", tmp_path / "out"]
    command += ["--due", "2027-01-31T23:59"]
    there = own_package(tmp_path / "in" / "right")
    done = subprocess.run(
        command, cwd=there, check=True, capture_output=True, text=True
    )
    assert "6 students" in done.stdout and "No two long" in done.stdout
    with open(tmp_path / "out" / "marks.csv", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    most = float(rows["right"]["of"])
    found = {student: float(row["points"]) for student, row in rows.items()}
    assert found == {
        "right": most, "late": most, "half": most - 2,
        "cheating": 0, "broken": 0, "empty": 0,
    }  # fmt: skip
    assert "late" in rows["late"]["note"] and "late" not in rows["right"]["note"]
    page = (tmp_path / "out" / "broken.html").read_text()
    assert "not a notebook that can be read" in page
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")
    }
    (tmp_path / "out" / "half.json").unlink()  # as after an interruption
    subprocess.run(command, check=True, capture_output=True)
    after = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")
    }
    changed = {path.stem for path in after if after[path] != before[path]}
    assert changed == {"half"}


# What people hand in


def released(answer=MASKS, change=lambda cells, at: None):
    """Return 1.4 as handed out, with an answer, after a change to its cells."""
    made, _ = homework.notebook([EXERCISES["1.4"]], random.Random(0), "", hidden=False)
    at = [cell.id for cell in made.cells].index("answer-1-4")
    made.cells[at].source = answer
    change(made.cells, at)
    return nbformat.writes(made).encode("utf-8", "backslashreplace")  # as JSON has it


def copied(cell, source):
    return nbformat.from_dict({**cell, "id": "copy", "source": source})


STUB = homework.stub_of(EXERCISES["1.4"])


def made_markdown(cells, at):
    cells[at].cell_type = "markdown"
    del cells[at]["outputs"], cells[at]["execution_count"]


def copied_stub(cells, at):
    cells.insert(at + 1, copied(cells[at], STUB + "\n"))


def into_a_copy_of_the_check(cells, at):
    cells.insert(at + 1, copied(cells[at + 1], MASKS))
    cells[at].source = STUB


def above_the_check(cells, at):
    cells[at].source, cells[at + 1].source = STUB, MASKS + cells[at + 1].source


def split(cells, at):
    cells.insert(at, copied(cells[at], "def column(x):\n    return x.view(-1, 1, 1)"))
    cells[at + 1].source = MASKS.replace("lengths.view(-1, 1, 1)", "column(lengths)")


def why_as_code(cells, at):
    cells.insert(at, copied(cells[at], "Because half an emoji \ud83d is not one."))
    cells[at].metadata.nbgrader.grade_id = "why-1-4"


def without_names(cells, at):
    for cell in cells:
        cell.metadata.clear()


def other_heading(cells, at):
    cells[at - 1].source = "### Exercise 1.3\n\n ## **exercise 1.4**"
    without_names(cells, at)


def without_text(cells, at):
    del cells[:at], cells[1:]
    cells[0].metadata.clear()


CHANGES = (
    made_markdown, copied_stub, into_a_copy_of_the_check, above_the_check, split,
    why_as_code, without_names, other_heading, without_text,
)  # fmt: skip
RIGHT, EMPTY = released(), released(STUB)
A_CHAPTER = released(change=without_names).replace(b"arange", b"zeros")
FILES = {
    "mark": {"homework.ipynb": b"\xef\xbb\xbf" + RIGHT},
    "utf-16": {"homework.ipynb": RIGHT.decode().encode("utf-16")},
    "windows": {"homework.ipynb": released(MASKS + "# für").decode().encode("cp1252")},
    "bare": {"homework.ipynb": json.dumps({"nbformat": 4, "cells": [
        {"cell_type": "markdown", "source": "## Exercise 1.4", "metadata": None},
        {"cell_type": "code", "source": MASKS.splitlines(True)},
    ]}).encode()},
    "ending": {"homework.ipynb.txt": RIGHT},
    "capitals": {"HOMEWORK.IPYNB": RIGHT},
    "twice": {"homework.ipynb": RIGHT, "homework (1).ipynb": RIGHT},
    "macos": {
        "homework.ipynb": RIGHT, "._homework.ipynb": b"\0\5\x16\7",
        "__MACOSX/homework.ipynb": b"\0\5", ".ipynb_checkpoints/a.ipynb": EMPTY,
    },
    "chapters": {"homework.ipynb": RIGHT, "01_architecture.ipynb": A_CHAPTER},
    "broken, too": {"homework.ipynb": RIGHT, "old.ipynb": b'{"cells": ['},
    unicodedata.normalize("NFD", "decomposed ü"): {"homework.ipynb": RIGHT},
    "read with DOS ü".encode().decode("cp437"): {"homework.ipynb": RIGHT},
    b"latin-1 \xfc".decode("utf-8", "surrogateescape"): {"homework.ipynb": RIGHT},
    "Other Case": {"homework.ipynb": RIGHT},
    "Ann Lee_1234_assignsubmission_file": {"homework.ipynb": RIGHT},
    "Ann Lee_1234_assignsubmission_onlinetext": {"onlinetext.html": b"Here it is."},
    ".": {
        "loose.ipynb": RIGHT, "backslash\\homework.ipynb": RIGHT,
        "__MACOSX/ann/homework.ipynb": b"", ".DS_Store": b"",
    },
}  # fmt: skip
STUDENTS = [
    *list(FILES)[:10], "decomposed ü", "read with DOS ü", "latin-1 ü", "other case",
    "ann lee", "loose", "backslash",
]  # fmt: skip


def handed(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_the_form_of_a_file_changes_nothing(tmp_path):
    for student, files in FILES.items():
        handed(tmp_path / student, files)
    found = grade.students_in(tmp_path, dict.fromkeys(STUDENTS, {}))
    assert sorted(found) == sorted(STUDENTS)
    for student, places in found.items():
        [work] = grade.submissions(student, places, course_of("1.4"))
        [cell] = work.cells["1.4"]
        assert not work.fault and cell.removesuffix("# für") == MASKS


def test_the_form_of_a_cell_takes_no_points(tmp_path, server):
    for change in CHANGES:
        files = {"homework.ipynb": released(change=change)}
        handed(tmp_path / "in" / change.__name__, files)
    handed(tmp_path / "in" / "two", {"a.ipynb": EMPTY, "a (1).ipynb": RIGHT})
    course = course_of("1.4")
    marks = grade.grade(server, tmp_path / "in", course, tmp_path / "out")
    found = {each["student"]: (grade.points_of(each), each["form"]) for each in marks}
    names = [*(change.__name__ for change in CHANGES), "two"]
    assert found == dict.fromkeys(names, (2, ""))
    [note] = [each["note"] for each in marks if each["student"] == "two"]
    assert note.endswith("in a (1).ipynb, the best of 2 notebooks")


def test_what_takes_points_for_its_form_is_listed(tmp_path, server):
    """One student's files never stop the others' grading."""
    course = course_of("1.4", "2.2")
    course["exercises"][0]["numbers"] = dict.fromkeys("abcdef", {})
    files = {
        "a": {"homework.ipynb": RIGHT},
        "b": {"homework.zip": b"PK"},
        "c": {f"{n}.ipynb": released(f"answer = {n}") for n in range(5)},
        "d": {},
        "f": {b"\xfc\n.ipynb".decode("utf-8", "surrogateescape"): b"{"},
        "nobody": {"homework.ipynb": RIGHT},
    }
    for student, each in files.items():
        handed(tmp_path / "in" / student, each)
    (tmp_path / "in" / "d").mkdir()
    (tmp_path / "in" / "d" / "homework.ipynb").symlink_to(tmp_path / "nothing")
    (tmp_path / "in" / "e").symlink_to(tmp_path / "nothing")
    marks = grade.grade(server, tmp_path / "in", course, tmp_path / "out")
    form = {each["student"]: each["form"] for each in marks}
    assert [grade.points_of(each) for each in marks] == [2, 0, 0, 0, 0, 0, 0]
    assert form["a"] == f"2.2: {grade.NO_CELL}"
    assert "homework.zip can't be unpacked (BadZipFile" in form["b"]
    assert "5 different notebooks are in the folder (c/0.ipynb" in form["c"]
    assert "no notebook is in the folder, which has no file" in form["d"]
    assert "no notebook is in the folder" in form["e"]
    assert "f/??.ipynb is not a notebook that can be read" in form["f"]
    assert "1.4: no homework was written for a student called nobody" in form["nobody"]
    with open(tmp_path / "out" / "marks.csv", newline="", encoding="utf-8") as file:
        notes = {row["student"]: row["note"] for row in csv.DictReader(file)}
    assert all(notes[student].endswith(form[student]) for student in form)


def zipped(how=zipfile.ZIP_DEFLATED, /, **files):
    """Return a zip; "/" of a name can be a backslash, as some programs write it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_zips_of_windows_and_macos_are_opened(tmp_path):
    macos = {
        "homework/homework.ipynb": RIGHT,
        "__MACOSX/homework/._homework.ipynb": b"\0",
    }
    windows = {"work\\": b"", "work\\homework.ipynb": RIGHT}
    escaping = {"../../homework.ipynb": EMPTY, "homework.ipynb": RIGHT}
    handed(tmp_path / "ann", {"homework.zip": zipped(**macos)})
    handed(tmp_path / "bob", {"Homework.ZIP": zipped(**windows)})
    handed(tmp_path / "eve", {"homework.zip": zipped(**escaping)})
    handed(tmp_path, {"zoe.zip": zipped(**macos)})
    places = grade.students_in(tmp_path, {})
    assert [*places] == ["ann", "bob", "eve", "zoe"]
    for student, found in places.items():
        [work] = grade.submissions(student, found, course_of("1.4"))
        assert work.cells["1.4"] == [MASKS] and not work.fault


def test_a_zip_that_is_too_large_or_has_no_notebook_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "LARGEST", 10**6)
    monkeypatch.setattr(grade, "MEMBERS", 10)
    for files, says in (
        ({"homework.ipynb": bytes(10**6 + 1)}, "notebooks are larger than 0 MB"),
        ({f"{n}.ipynb": b"" for n in range(11)}, "it has more than 10 files"),
        ({"../homework.ipynb": RIGHT}, "only ann/homework.zip: ask for one"),
        ({"homework.py": b""}, "only homework.zip/homework.py: ask for one"),
    ):
        handed(tmp_path / "ann", {"homework.zip": zipped(**files)})
        [work] = grade.submissions("ann", [tmp_path / "ann"], course_of("1.4"))
        assert says in work.fault


def test_a_zip_that_unpacks_all_at_once_is_not(tmp_path):
    data = zipped(zipfile.ZIP_BZIP2, **{"homework.ipynb": RIGHT})
    handed(tmp_path / "ann", {"homework.zip": data, "old.ipynb": RIGHT})
    [work] = grade.submissions("ann", [tmp_path / "ann"], course_of("1.4"))
    assert work.name == "ann/old.ipynb" and not work.fault
    assert "homework.zip/homework.ipynb is not a notebook that can be" in work.unread


def test_a_link_to_the_files_of_others_is_not_followed(tmp_path):
    handed(tmp_path / "ann", {"homework.ipynb": RIGHT, "homework.zip": b"PK"})
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "homework.ipynb").symlink_to(tmp_path / "ann/homework.ipynb")
    (tmp_path / "bob" / "homework.zip").symlink_to(tmp_path / "ann/homework.zip")
    (tmp_path / "cem").symlink_to(tmp_path / "ann")  # a teacher's own
    bob, cem = (
        grade.submissions(who, [tmp_path / who], course_of("1.4"))[0]
        for who in ("bob", "cem")
    )
    assert not bob.cells and "has no file" in bob.fault and cem.cells["1.4"] == [MASKS]


WORKSHEET = (
    "Identifier,Full name,Email address,Grade,Last modified (grade),due\n"
    "Participant 12,Ann Lee,ann@x,-,-,\n"
    "Participant 7,Bob Ray,bob@x,,-,2027-02-03T12:00+00:00\n"
)
GRADEBOOK = (
    "Student,ID,SIS Login ID,Section,Homework One (5)\n"
    ",,,,Manual Posting\n"
    "    Points Possible,,,,2\n"
    '"Lee, Ann",345,ann,A,\n'
    '"Student, Test",9,,A,\n'
)


def test_a_table_keeps_its_columns():
    found = class_list.students_in(WORKSHEET)
    assert found["Ann Lee"]["Email address"] == "ann@x" and len(found) == 2
    assert "Full name" not in class_list.other_columns(found)
    assert class_list.students_in("First name;Surname;ID number\nAnn;Lee;7") == {
        "Ann Lee": {"First name": "Ann", "Surname": "Lee", "ID number": "7"}
    }
    assert [*class_list.students_in(GRADEBOOK)] == ["Lee, Ann"]


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_columns_come_back_for_moodle_and_everyone_has_a_date_and_a_page(
    tmp_path, server
):
    """Ann is late; Bob, an hour later, isn't; Cem isn't on the list."""
    for name, hour in (("Ann Lee_12", 10), ("Participant 7_7", 11), ("Cem_8", 11)):
        folder = tmp_path / "in" / f"{name}_assignsubmission_file"
        note = f"2027-02-03 {hour}:00:00 UTC"
        handed(folder, {"homework.ipynb": RIGHT, "timestamp.txt": note.encode()})
    given = {"due": grade.moment("2027-02-03T09:00Z"), "listed": {
        **class_list.students_in(WORKSHEET), "Dan Nil": {"Email address": "dan@x"},
    }}  # fmt: skip
    grade.grade(server, tmp_path / "in", course_of("1.4"), tmp_path / "out", **given)
    ann, bob, cem, dan = rows_of(tmp_path / "out" / "marks.csv")
    assert ann["Email address"] == "ann@x" and ann["points"] == "2"
    assert ann["note"].endswith(", late") and ", late" not in bob["note"]
    assert ", due 2027-02-03" in bob["note"] and not cem["Email address"]
    assert dan["Email address"] == "dan@x" and dan["note"] == grade.NOTHING
    assert grade.NOTHING in (tmp_path / "out" / "Dan Nil.html").read_text()
    found = rows_of(tmp_path / "out" / "moodle.csv")
    grades = [(row["Identifier"], row["Grade"]) for row in found]
    numbered = ("Participant 12", "Participant 7", "Participant 8")
    assert grades == [(number, "2") for number in numbered]
    again = rows_of(tmp_path / "out" / "marks.csv")
    given["listed"]["Bob Ray"]["due"] = "soon"
    with pytest.raises(ValueError, match="Bob Ray: 'soon' is not a time"):
        grade.grade(
            server, tmp_path / "in", course_of("1.4"), tmp_path / "out", **given
        )
    assert rows_of(tmp_path / "out" / "marks.csv") == again


def test_points_go_into_the_column_that_canvas_has(tmp_path, server):
    files = {"leeann_LATE_345_67890_homework.ipynb": RIGHT}
    handed(tmp_path / "in", files)
    listed = class_list.students_in(GRADEBOOK)
    given = {"listed": listed, "name": "Homework one"}
    grade.grade(server, tmp_path / "in", course_of("1.4"), tmp_path / "out", **given)
    most, ann = rows_of(tmp_path / "out" / "canvas.csv")
    assert [*ann] == ["Student", "ID", "SIS Login ID", "Section", "Homework One (5)"]
    assert (
        most["Student"].strip() == "Points Possible" and most["Homework One (5)"] == "2"
    )
    assert (ann["Student"], ann["ID"], ann["Homework One (5)"]) == (
        "Lee, Ann",
        "345",
        "2",
    )
    assert not (tmp_path / "out" / "moodle.csv").exists()  # 345 isn't Moodle's


def test_a_number_is_looked_for_where_its_system_writes_it(tmp_path):
    """Moodle's number of Ann's is the ID that Canvas, or a school, gave Bob."""
    listed = {"Ann Lee": {"ID": "7"}, "Bob Ray": {"ID": "12"}}
    handed(tmp_path / "Ann Lee_12_assignsubmission_file", {"homework.ipynb": RIGHT})
    handed(tmp_path, {"raybob_12_34567_homework.ipynb": RIGHT})
    assert sorted(grade.students_in(tmp_path, listed)) == ["Ann Lee", "Bob Ray"]


def test_what_moodle_numbered_needs_no_list():
    points = [class_list.Points("Ann Lee", 1.5, {}, "12")]
    assert class_list.for_moodle("one", points).splitlines()[1] == (
        "Participant 12,Ann Lee,1.5,-"
    )
    points = [class_list.Points("Ann", 1.5, {"Email address": "a@x", "group": "2"})]
    points.append(class_list.Points("nobody Moodle knows", 1, {}))
    assert class_list.for_moodle("one", points) == "Email address,one\na@x,1.5\n"
    assert class_list.for_moodle("one", [class_list.Points("Ann", 1, {})]) is None
    assert class_list.for_canvas("one", 2, points) is None


CHECKS = "exercise_checks import"  # what homework from before had


def test_homework_is_graded_after_numbers_have_moved(tmp_path, server, monkeypatch):
    """In the book, 1.4 is another exercise now; an old course has no names."""
    moved = [
        dataclasses.replace(each, number=f"1.{n}")
        for n, each in enumerate(NAMED.values())
    ]
    monkeypatch.setattr(grade, "by_name", lambda: {each.name: each for each in moved})
    grade.handed_out.cache_clear()
    text = released().decode()
    old = text.replace("transformer_workshop.exercises import", CHECKS)
    old = old.replace('check(\\"masks\\"', 'check(\\"1.4\\"')
    assert old.count("exercise_checks") == 1 and 'check(\\"1.4' in old
    handed(tmp_path / "in" / "new", {"homework.ipynb": text.encode()})
    handed(tmp_path / "in" / "old", {"homework.ipynb": old.encode()})
    named = course_of("1.4")
    named["exercises"][0]["name"] = "masks"
    for course in (course_of("1.4"), named):
        marks = grade.grade(server, tmp_path / "in", course, tmp_path / "out")
        assert [grade.points_of(each) for each in marks] == [2, 2]
    grade.handed_out.cache_clear()


def test_what_is_graded_again(tmp_path, server, monkeypatch):
    """A mark is kept until the notebook, or a check, is another one."""
    handed(tmp_path / "in" / "ann", {"homework.ipynb": RIGHT})
    (tmp_path / "checks").mkdir()
    check = tmp_path / "checks" / "1.4.py"
    check.write_text("first")
    monkeypatch.setattr(grade, "FOLDER", check.parent)
    run = grade.graded
    graded = []
    monkeypatch.setattr(grade, "graded", lambda *a: graded.append(a) or run(*a))
    for text, times in (("first", 1), ("first", 1), ("second", 2)):
        check.write_text(text)
        grade.grade(server, tmp_path / "in", course_of("1.4"), tmp_path / "out")
        assert len(graded) == times


@pytest.mark.slow
def test_who_handed_in_nothing_has_a_row_and_nobody_loses_one(
    tmp_path, monkeypatch, capsys
):
    course = course_of("1.4")
    course["exercises"][0]["numbers"] = dict.fromkeys(["ann", "bob", "zoe"], {})
    (tmp_path / "course.json").write_text(json.dumps(course))
    handed(tmp_path / "all" / "bob", {"homework.ipynb": EMPTY})
    handed(tmp_path / "late" / "ann", {"homework.ipynb": RIGHT})
    table = tmp_path / "out" / "marks.csv"

    def graded(folder):
        options = ["--course", tmp_path / "course.json", "--into", tmp_path / "out"]
        words = ["grade.py", tmp_path / folder, *options]
        monkeypatch.setattr("sys.argv", list(map(str, words)))
        return grade.main(), capsys.readouterr()

    def absent():
        rows = csv.DictReader(table.read_text().splitlines())
        return {row["student"]: row["note"] == grade.NOTHING for row in rows}

    status, said = graded("all")
    assert status == 0 and "\nnothing handed in: ann, zoe\n" in said.out
    assert absent() == {"ann": True, "bob": False, "zoe": True}
    for sign in ",;":  # as it was written, and as Excel saves it
        table.write_text(was := table.read_text().replace(",", sign))
        status, said = graded("late")
        assert status == 2 and table.read_text() == was
        assert f"{tmp_path / 'late'} has nothing of bob, whose marks" in said.err
    table.rename(tmp_path / "first.csv")
    assert graded("late")[0] == 0
    assert absent() == {"ann": False, "bob": True, "zoe": True}


@pytest.mark.parametrize(
    "options, says",
    [
        (["--seconds", "nan"], "'nan' is not a number above 0"),
        (["--seconds", "-1"], "'-1' is not a number above 0"),
        (["--course", "none.json"], "is not the course.json that `make homework`"),
        (["--course", "damaged.json"], "is not the course.json that `make homework`"),
        (["--course", "another.json"], "is not the course.json that `make homework`"),
    ],
)
def test_a_wrong_call_is_answered_in_words(
    tmp_path, monkeypatch, capsys, options, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.json").write_text("{")
    (tmp_path / "another.json").write_text("[]")
    monkeypatch.setattr("sys.argv", ["grade.py", ".", *options])
    try:
        assert grade.main() == 2
    except SystemExit as stopped:  # argparse
        assert stopped.code == 2
    assert says in capsys.readouterr().err


def test_namesakes_are_two(tmp_path):
    for number in (12, 13):
        (tmp_path / f"Li Wei_{number}_assignsubmission_file").mkdir()
    assert len(grade.students_in(tmp_path, {})) == 2


@pytest.fixture
def zone(monkeypatch):
    """Return a function that moves this computer."""

    def move(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "note, iso",
    [
        ("2027-02-01 01:00:00.0 UTC", "2027-01-31T20:00:00-05:00"),
        ("2027-02-01 01:00:00", "2027-01-31T20:00:00-05:00"),
        ("\ufeff2027-02-01T01:00+01:00\r\n", "2027-01-31T19:00:00-05:00"),
        ("2027-02-01 01:00:00.5 +0100", "2027-01-31T19:00:00-05:00"),
        ("2027-02-01 01:00:00 Europe/Berlin", "2027-01-31T19:00:00-05:00"),
        ("2027-02-01 01:00:00 EST", "2027-02-01T01:00:00-05:00"),
    ],
)
def test_times_carry_their_zone(tmp_path, zone, note, iso):
    zone("America/New_York")
    (tmp_path / "timestamp.txt").write_text(note, encoding="utf-8")
    path = tmp_path / "homework.ipynb"
    assert grade.handed_in([tmp_path], path).isoformat() == iso


def test_a_note_of_the_time_below_that_of_nbgrader_is_a_students_own(tmp_path):
    handed(tmp_path / "ann" / "homework", {
        "timestamp.txt": b"2027-02-01 12:00:00 UTC",
        "own/timestamp.txt": b"2027-01-01 12:00:00 UTC",
    })  # fmt: skip
    (tmp_path / "timestamp.txt").write_text("2026-01-01 12:00:00 UTC")
    path = tmp_path / "ann" / "homework" / "own" / "homework.ipynb"
    when = grade.handed_in([tmp_path / "ann"], path)
    assert when == datetime.datetime(2027, 2, 1, 12, tzinfo=datetime.UTC)


def test_a_day_ends_at_its_end_and_a_strange_time_is_refused(zone):
    zone("Europe/Berlin")
    assert grade.moment("2027-01-31").isoformat() == "2027-01-31T23:59:59+01:00"
    assert grade.moment("2027-07-31T23:59").isoformat() == "2027-07-31T23:59:00+02:00"
    assert grade.moment("2027-01-31T23:59Z").isoformat() == "2027-02-01T00:59:00+01:00"
    with pytest.raises(
        argparse.ArgumentTypeError, match="'31.1.' is not a time; write"
    ):
        grade.moment("31.1.")


def test_a_note_of_the_time_that_is_none_does_no_harm(tmp_path):
    path = tmp_path / "homework.ipynb"
    path.write_text("")
    written = grade.handed_in([tmp_path], path)
    assert written.tzinfo
    for note in (
        b"\xff yesterday",
        b"2027-02-01 12:00:00 Nowhere",
        b"2027-99-01 12:00",
    ):
        (tmp_path / "timestamp.txt").write_bytes(note)
        assert grade.handed_in([tmp_path], path) == written
    (tmp_path / "timestamp.txt").write_text("2027-02-01 12:00:00 UTC")
    noon = datetime.datetime(2027, 2, 1, 12, tzinfo=datetime.UTC)
    assert grade.handed_in([tmp_path], path) == noon


# Who wrote alike


def alike(number, **cells):
    works = [
        grade.Submission(who, None, {number: [*mine]}) for who, mine in cells.items()
    ]
    return [group for _, group in grade.alike(works, course_of(number))]


def solved(number):
    """Return all cells of a published solution."""
    return grade.published()[EXERCISES[number].name]


@pytest.mark.slow
@pytest.mark.parametrize("number", ["1.5", "1.10", "5.6", "6.7", "6.8"])
def test_a_published_solution_handed_in_whole_is_named(number):
    [group] = alike(number, ann=solved(number))
    assert group.people == ["ann", "the published solutions"] and group.share == 1


@pytest.mark.slow
def test_other_names_are_no_other_answer():
    """Those who wrote alike are one group; another answer isn't in it."""
    other = "def bleu_by_hand(ours, theirs):\n" + "".join(
        f"    x{i} = [len(line) + {i} for line in ours if line]\n" for i in range(9)
    )
    renamed = [
        re.sub(r"\b(counts?|total|found|line)\b", "it", c) for c in solved("3.4")
    ]
    [group] = alike("3.4", ann=solved("3.4"), bob=renamed, zoe=[other])
    assert group.people == ["ann", "bob", "the published solutions"]
    assert "bleu_by_hand" in group.functions


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [n for n, each in EXERCISES.items() if each.kind == "Find the bug"]
)
def test_a_repair_is_nobodys_in_particular(number):
    [answer] = [
        c for c in solved(number) if c.rstrip().endswith(")") and "\ncheck(" in c
    ]
    assert alike(number, ann=[answer], bob=[answer]) == []


@pytest.mark.slow
def test_four_lines_are_nobodys_in_particular():
    four = """
def attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
    return torch.matmul(p_attn, value), p_attn
"""
    assert alike("1.9", ann=[four], bob=[four]) == []


def test_right_answers_are_not_alike():
    """Numbers that are right, calls of the check, and what is no Python."""
    cell = "answer = " + repr([*range(99)]) + "\nx = answer\ncheck('shapes', answer)"
    same = likeness.own([cell, "nothing at all", "def f(:", 9999 * "-"], [], set())
    assert likeness.groups({"ann": same, "bob": same}) == []


def test_a_function_that_is_written_twice_counts_once():
    cell = "def f(x):\n" + 4 * "    x = torch.cat([x, x])\n"
    once, twice = (likeness.own(n * [cell], [], set()) for n in (1, 2))
    assert 40 < len(dict(once)["f"]) < likeness.ENOUGH
    assert likeness.groups({"ann": twice, "bob": once, "cem": twice}) == []


@pytest.mark.slow
def test_nbgrader_releases_and_grades_it(tmp_path):
    pytest.importorskip("nbgrader", reason="`make site` installs it")
    chosen = homework.chosen_exercises("", "1.4,2.2,2.9")
    homework.write_homework(chosen, "a seed", {}, tmp_path)
    course = tmp_path / "nbgrader"

    def nbgrader(*words):
        program = [sys.executable, "-m", "nbgrader", *words]
        subprocess.run(program, cwd=course, check=True, capture_output=True)

    nbgrader("generate_assignment", "homework", "--create")
    released = course / "release" / "homework" / "homework.ipynb"
    assert "HIDDEN" not in released.read_text() and "earned" not in released.read_text()
    made = nbformat.read(released, 4)
    for cell in made.cells:
        if cell.metadata.nbgrader.grade_id == "answer-1-4":
            cell.source = MASKS
    for student, notebook in (("ann", made), ("bob", nbformat.read(released, 4))):
        (course / "submitted" / student / "homework").mkdir(parents=True)
        nbformat.write(
            notebook, course / "submitted" / student / "homework" / "homework.ipynb"
        )
    own_package(course / "submitted" / "ann" / "homework")
    nbgrader("autograde", "homework")
    nbgrader("export")
    with open(course / "grades.csv", newline="") as file:
        scores = {
            row["student_id"]: float(row["score"]) for row in csv.DictReader(file)
        }
    assert scores == {"ann": homework.points_of(EXERCISES["1.4"]), "bob": 0}


# Questions

FOUND = questions.questions(questions.SOURCE.read_text(encoding="utf-8"))


def test_questions_belong_to_sections_and_none_is_asked_twice():
    text = "".join(path.read_text(encoding="utf-8") for path in chapters())
    sections = set(re.findall(r"(?m)^## (\d+\.\d+) ", text))
    assert len(FOUND) >= 60 and {each.section for each in FOUND} <= sections
    assert len({each.text for each in FOUND}) == len(FOUND)
    for each in FOUND:
        assert len({option.text for option in each.options}) == len(each.options)


@pytest.mark.parametrize(
    "marks, why", [("xx", "Why."), ("  ", "Why."), ("x ", "")], ids=str
)
def test_a_question_without_exactly_one_right_option_is_refused(marks, why):
    options = "".join(f"- [{mark}] option\n  {why}\n" for mark in marks)
    with pytest.raises(ValueError, match="question '1.1 Title'"):
        questions.questions(f"## 1.1 Title\n\nAsked?\n\n{options}")


def test_moodle_and_canvas_get_every_question_with_its_reasons():
    text = questions.gift(FOUND)
    assert text.count("\n  =") == len(FOUND)
    assert not re.search(r"(?<!\\)[{}]", re.sub(r" \{\n|\n\}\n", "", text))
    root = ElementTree.fromstring(questions.qti(FOUND))
    space = {"q": "http://www.imsglobal.org/xsd/ims_qtiasiv1p2"}
    items = root.findall(".//q:item", space)
    for item, each in zip(items, FOUND, strict=True):
        said = [part.text for part in item.findall(".//q:mattext", space)]
        options = [option.text for option in each.options]
        reasons = [option.why for option in each.options]
        assert said == [each.text, *options, *reasons]
        [right] = [
            case.find(".//q:varequal", space).text
            for case in item.findall(".//q:respcondition", space)
            if case.find("q:setvar", space) is not None
        ]
        label = item.find(f".//q:response_label[@ident='{right}']", space)
        assert label.find(".//q:mattext", space).text in {
            option.text for option in each.options if option.right
        }


def test_an_exam_and_its_key_agree():
    sheet, key = questions.exam(FOUND, "a seed")
    assert (sheet, key) == questions.exam(FOUND, "a seed")
    assert sheet != questions.exam(FOUND, "another")[0]
    right = {(each.text, o.text) for each in FOUND for o in each.options if o.right}
    for number, letter in re.findall(r"(?m)^(\d+)\. \*\*([a-d])\*\*", key):
        asked = sheet.partition(f"**{number}.** ")[2]
        option = re.search(rf"(?m)^- {letter}\) (.*)$", asked)[1]
        assert (asked.partition("\n")[0], option) in right


# The sample projects


def test_the_sample_project_says_what_was_measured():
    text = (ROOT / "teaching" / "sample_project.md").read_text(encoding="utf-8")
    stored = json.loads((ROOT / "results" / "sample_project.json").read_text("utf-8"))
    rows = {
        name: [float(x) for x in re.findall(r"\d\.\d{3}", line)]
        for name, line in re.findall(r"(?m)^\| (four heads|one head) (.*)$", text)[:2]
    }
    names = {"four heads": "h=4", "one head": "h=1"}
    for name, row in rows.items():
        assert row == list(stored["by_rate"][names[name]].values())
    nll = {h: stored["seeds"][h] for h in ("h=4", "h=1")}
    by = statistics.mean(nll["h=1"]) - statistics.mean(nll["h=4"])
    pooled = statistics.mean(map(statistics.variance, nll.values()))
    half = 2.776 * math.sqrt(pooled * 2 / 3)  # Student's t, 4 degrees of freedom
    assert f"{by:.3f} ± {half:.3f}" in text
    assert f"from {by - half:.3f} to {by + half:.3f}" in text
    for h, name in (("h=4", "four heads"), ("h=1", "one head")):
        bleu = [f"{statistics.mean(x):.1f}" for x in stored["bleu"][h].values()]
        seeds = ", ".join(f"{x:.3f}" for x in nll[h])
        mean = f"{statistics.mean(nll[h]):.3f}"
        assert f"| {name} | {seeds} | {mean} | {' | '.join(bleu)} |" in text
    means = [[statistics.mean(x) for x in stored["bleu"][h].values()] for h in nll]
    lost = " | ".join(f"{a - b:.1f}" for a, b in zip(*means))
    assert f"± {half:.3f} | {lost} |" in text
    exact = stored["word for word, of 500"]
    assert f"one head gets {exact['h=1']} word" in text
    assert f"for word and four heads {exact['h=4']}." in text
    shown = re.findall(
        r"(?m)^\| .+ \| .+ \| (=|.+) \|$", text.split("**Ten mistakes")[1]
    )
    right = [found == reference for reference, _, found in stored["mistakes"]]
    assert [cell == "=" for cell in shown[1:11]] == right
    points = re.findall(r"(?m)^\| (\d) of (\d) \|", text)
    assert f"**{sum(int(got) for got, _ in points)} of 20.**" in text
    assert sum(int(of) for _, of in points) == 20


def test_the_second_sample_project_says_what_was_measured():
    text = (ROOT / "teaching" / "sample_project_b.md").read_text(encoding="utf-8")
    name = ROOT / "results" / "sample_project_b.json"
    stored = json.loads(name.read_text(encoding="utf-8"))

    def signed(number):
        return f"{number:+.1f}".replace("-", "−")

    def with_interval(found):
        return "{:.1f} ({:.1f} to {:.1f})".format(found["bleu"], *found["interval"])

    for size, found in stored["vocabulary"].items():
        invented = found["sentences with an invented word"]
        row = f"| {int(size):,} | {invented} | {with_interval(found)} | "
        if against := found.get("against 2000"):
            low, high = map(signed, against["interval"])
            row += f"{signed(against['difference'])} ({low} to {high}) "
        assert row + "|" in text
    for part, title in (("test", "PostgreSQL"), ("new", "Git")):
        found = stored["test"][part]
        row = [title, with_interval(found["translator"])]
        row += [with_interval(found["nearest"]), f"{found['difference']:.1f}"]
        low, high = found["its interval"]
        assert f"| {' | '.join(row)} ({low:.1f} to {high:.1f}) |" in text
    kinds = Counter(each["kind"] for each in stored["twenty"])
    names = {
        "right": "right",
        "lost": "something is lost",
        "invented": "a word is invented",
        "wrong word": "a wrong word",
    }
    for kind, name in names.items():
        line = re.search(rf"(?m)^\| {name} \| (\d+) \| (.+) \| (.+) \|$", text)
        assert int(line[1]) == kinds[kind]
        assert any(
            (each["spanish"], each["output"], each["kind"])
            == (*line.groups()[1:], kind)
            for each in stored["twenty"]
        )
    quoted = stored["quoted"]
    assert f"*{quoted['spanish'][:-1]}* became *{quoted['output']}*" in text
    for spanish, output in stored["own"]:
        assert f"| {spanish} | {output} |" in text
