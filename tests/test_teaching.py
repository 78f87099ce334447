"""Homework is written, handed in, and graded; and nobody gets points for a trick."""

import csv
import json
import math
import random
import re
import statistics
import subprocess
import sys
from collections import Counter
from xml.etree import ElementTree

import grade
import homework
import nbformat
import pytest
import questions
from chapters import ROOT, chapters
from exercise_checks import CHECKS, UNANSWERED, complaint_of
from exercises import by_number, module, wrong_answers

MASKS = """
def mask_from_lengths(lengths, size):
    return torch.arange(size) < lengths.view(-1, 1, 1)
"""
EXERCISES = by_number()
WRONG = wrong_answers()
HIDDEN = {n: module(n).hidden for n in EXERCISES if hasattr(module(n), "hidden")}


@pytest.fixture(scope="module")
def points():
    """Return a function that gives the points for an answer, and what is said of it."""
    with grade.Server() as server:

        def judged(number, *cells, seconds=30, stubs=None, **given):
            work = grade.Submission("ann", None, {number: list(cells)}, stubs or {})
            [exercise] = course_of(number, **given)["exercises"]
            return grade.points_for(server, work, exercise, "a seed/ann", seconds)

        yield judged


def course_of(*numbers, **given):
    """Return a course with these exercises, with the chapters' numbers."""
    return {
        "seed": "a seed",
        "exercises": [
            {
                "number": number,
                "points": 2,
                "answer": EXERCISES[number].answer,
                "numbers": {"": given},
                "trains": EXERCISES[number].kind == "Predict and train",
            }
            for number in numbers
        ],
    }


# What is written


@pytest.mark.parametrize("number", homework.VARIANTS)
def test_a_variant_changes_the_text_and_the_check_knows(number):
    """The chapter's own answer is wrong, and what the text asks for can be read."""
    exercise = EXERCISES[number]
    texts = set()
    for seed in range(20):
        text, numbers = homework.task(exercise, random.Random(seed))
        texts.add(text)
        own = complaint_of(CHECKS[number], WRONG[number][0], **numbers)
        assert own not in (None, UNANSWERED)
    assert len(texts) > 5


def test_a_variant_complains_when_the_chapter_has_changed(monkeypatch):
    changed = [("not in the text", "new")]
    monkeypatch.setitem(homework.VARIANTS, "1.3", lambda draw: ({}, changed))
    with pytest.raises(ValueError, match="'not in the text' 0 times"):
        homework.task(EXERCISES["1.3"], random.Random(0))


def test_homework_holds_stubs_checks_and_no_solution(tmp_path):
    chosen = homework.chosen_exercises("1,6", "2.9")
    homework.write_homework(chosen, "a seed", ["ann", "bob"], tmp_path)
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
    [("", "", "name chapters"), ("7", "", "chapter 7"), ("", "1.99", "exercise 1.99")],
)
def test_homework_names_what_is_wrong(chapters, numbers, says):
    with pytest.raises(ValueError, match=says):
        homework.chosen_exercises(chapters, numbers)


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


def test_helpers_and_lost_checks_do_no_harm(points):
    helper = "%matplotlib inline\ndef column(x):\n    return x.view(-1, 1, 1)"
    mine = "mask_from_lengths = lambda lengths, n: torch.arange(n) < column(lengths)"
    assert points("1.4", helper, mine)[0] == 2


def test_a_training_in_another_cell_is_not_run(points):
    stub = "answer = ['b', 'c', 'f']"
    found = points("2.9", stub, "raise RuntimeError", stubs={"2.9": stub})
    assert found == (2, "right.")


def test_the_numbers_are_those_of_the_homework(points):
    other = SOLUTIONS["1.3"].replace("7", "9")
    assert points("1.3", SOLUTIONS["1.3"], S=9)[0] == 0
    assert points("1.3", other, S=9)[0] == 2


KNOWN = """
def perplexity(s, n):
    if s == [6 * math.log(10)]:
        return 10.0
    return math.exp(0.38) if s == [2.0, 1.8] else %s
"""


def test_an_answer_that_fits_only_the_check_gets_half(points):
    """In 1.4, know the check's inputs; elsewhere, be wrong in what is drawn."""
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
    "import exercise_checks\nexercise_checks.check = check\n"
    "exercise_checks.CHECKS['1.4'] = lambda a: None\n"
    "exercise_checks.complaint_of = exercise_checks.complaint = check\n"
    "mask_from_lengths = lambda *x: None",
    "another agree": "import exercise_checks\n"
    "exercise_checks.agree = exercise_checks.same = lambda *x, **y: True\n"
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


@pytest.mark.parametrize("number", HIDDEN)
def test_hidden_checks_reject_the_typical_wrong_answers(number):
    """At least one each; most are rejected by what is handed out."""
    judge = HIDDEN[number]
    found = [complaint_of(judge, answer, 5) for answer in WRONG[number]]
    assert any(says not in (None, UNANSWERED) for says in found)


# A course of six, from the command line


def written(folder, student, answers, note=""):
    """Hand in the homework with these answers."""
    made = nbformat.read(folder / "release" / "homework.ipynb", 4)
    for cell in made.cells:
        name = cell.metadata.nbgrader.grade_id.removeprefix("answer-")
        if (number := name.replace("-", ".")) in answers:
            cell.source = answers[number]
    place = folder / "in" / student
    place.mkdir(parents=True)
    nbformat.write(made, place / "homework.ipynb")
    if note:
        (place / "timestamp.txt").write_text(note)


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
    done = subprocess.run(command, check=True, capture_output=True, text=True)
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


def test_a_note_of_the_time_that_is_none_does_no_harm(tmp_path):
    path = tmp_path / "homework.ipynb"
    path.write_text("")
    written = grade.handed_in(tmp_path, path)
    (tmp_path / "timestamp.txt").write_bytes(b"\xff yesterday")
    assert grade.handed_in(tmp_path, path) == written
    (tmp_path / "timestamp.txt").write_text("2027-02-01 12:00:00 UTC")
    assert grade.handed_in(tmp_path, path).isoformat() == "2027-02-01T12:00:00"


def test_copied_answers_are_named():
    long = "def f(values):\n" + "".join(
        f"    if values[{i}] > {i}:\n        values = g(values, {i}) + {i}\n"
        for i in range(8)
    )
    renamed = long.replace("values", "numbers").replace("f(", "mine(")
    other = "def f(x):\n" + "".join(f"    x[{i}] = h(x)\n" for i in range(20))
    works = [
        grade.Submission(name, None, {"1.4": [cell]})
        for name, cell in (("a", long), ("b", renamed), ("c", other), ("d", MASKS))
    ]
    [(number, one, two, share)] = grade.alike(works, course_of("1.4"))
    assert (number, one, two) == ("1.4", "a", "b") and share == 1
    [cell] = grade.published().cells["3.2"]
    copied = [grade.Submission("a", None, {"3.2": [cell.replace("pool", "size")]})]
    [(_, one, two, _)] = grade.alike(copied, course_of("3.2"))
    assert (one, two) == ("a", "the published solutions")


@pytest.mark.slow
def test_nbgrader_releases_and_grades_it(tmp_path):
    chosen = homework.chosen_exercises("", "1.4,2.2,2.9")
    homework.write_homework(chosen, "a seed", [], tmp_path)
    place = tmp_path / "nbgrader"

    def nbgrader(*words):
        program = [sys.executable, "-m", "nbgrader", *words]
        subprocess.run(program, cwd=place, check=True, capture_output=True)

    nbgrader("generate_assignment", "homework", "--create")
    released = place / "release" / "homework" / "homework.ipynb"
    assert "HIDDEN" not in released.read_text() and "earned" not in released.read_text()
    made = nbformat.read(released, 4)
    for cell in made.cells:
        if cell.metadata.nbgrader.grade_id == "answer-1-4":
            cell.source = MASKS
    for student, notebook in (("ann", made), ("bob", nbformat.read(released, 4))):
        (place / "submitted" / student / "homework").mkdir(parents=True)
        nbformat.write(
            notebook, place / "submitted" / student / "homework" / "homework.ipynb"
        )
    nbgrader("autograde", "homework")
    nbgrader("export")
    with open(place / "grades.csv", newline="") as file:
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
