"""Every exercise has a stub, a check that bites, and a solution that passes it."""

import __future__

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import nbformat
import pytest
import torch
from chapters import NOTEBOOKS, chapters, name, pair, read, sources, tags
from exercises import (
    KIND,
    WRONG,
    Exercise,
    exercises,
)
from wrong_answers import wrong_answers

import annotated_transformer
from transformer_workshop.exercises import checking
from transformer_workshop.exercises.checking import (
    ONCE,
    UNANSWERED,
    agree,
    check,
    complaint,
    complaint_of,
    judge_of,
    module,
    names,
)
from transformer_workshop.notebooks import ALONE

KINDS = {
    "Recall", "By hand", "Change and observe", "Implement", "Find the bug",
    "Predict and train",
}  # fmt: skip
STOPPED = "your answer stops"
ANSWERS = wrong_answers()


def in_order(unordered: list[Exercise]) -> list[Exercise]:
    """Sort exercises by their numbers, wherever in the chapter they stand."""
    return sorted(unordered, key=lambda e: [*map(int, e.number.split("."))])


WITH = [path for path in chapters() if exercises(path)]
ALL = [pytest.param(e, id=e.number) for path in WITH for e in exercises(path)]
PATHS = [pytest.param(path, id=name(path)) for path in WITH]


def solutions(path: Path) -> Path:
    return NOTEBOOKS / "solutions" / path.name


def printed(code: str, names: dict) -> str:
    """Run a cell with these names; return what it prints."""
    stdout = StringIO()
    flags = __future__.annotations.compiler_flag
    with redirect_stdout(stdout):
        exec(compile(code, "cell", "exec", flags), names)
    return stdout.getvalue()


def said(text: str, name: str) -> list[str]:
    """Return the verdicts on an exercise in what was printed."""
    return re.findall(rf"^Exercise {name}: (.*)$", text, re.M)


# The exercises of the chapters


@pytest.mark.parametrize("path", PATHS)
def test_exercises_are_numbered_and_name_kind_and_minutes(path):
    ordered = in_order(exercises(path))
    for number, exercise in enumerate(ordered, 1):
        assert exercise.number == f"{int(path.name[:2])}.{number}"
        assert KIND.search(exercise.text)["kind"] in KINDS


@pytest.mark.parametrize("path", PATHS)
def test_the_cells_of_exercises_are_tagged(path):
    tagged = [cell.source for cell in read(path) if "exercise" in tags(cell)]
    assert tagged == [exercise.code for exercise in exercises(path)]


@pytest.mark.parametrize("exercise", ALL)
def test_an_exercise_ends_in_its_check(exercise):
    last = exercise.code.rstrip().splitlines()[-1]
    assert last.startswith(f'check("{exercise.name}", ')
    assert exercise.name in names()


@pytest.mark.parametrize("exercise", ALL)
def test_a_stub_is_not_yet_an_answer(exercise):
    """Run a stub by itself: it prints one line; a planted bug is recognized as one."""
    text = printed(f"{ALONE}\n{exercise.code}", {})
    [verdict] = said(text, exercise.name)
    if "*Find the bug" in exercise.text:
        assert verdict == UNANSWERED or verdict.startswith("not yet: ")
        assert STOPPED not in verdict
    else:
        assert verdict == UNANSWERED


@pytest.mark.parametrize("name", names())
def test_wrong_answers_get_a_complaint_whatever_is_drawn(name):
    assert ANSWERS[name]
    for number, answer in enumerate(ANSWERS[name]):
        for seed in (0, 1):
            found = complaint_of(judge_of(name), answer, seed)
            assert found not in (None, UNANSWERED)
            assert not re.match(r"[A-Za-z]*(Error|Exception)\b", found), found
            assert number or STOPPED not in found


def test_a_wrong_scale_is_not_called_a_wrong_split():
    *_, scaled, unscaled, _ = ANSWERS["wrong_result"]
    for answer in (scaled, unscaled):
        assert "scale of their scores" in complaint("wrong_result", answer)


IMPORTED = [
    each
    for file in (annotated_transformer, checking, *map(module, names()))
    for each in vars(file).values()
    if callable(each) and getattr(each, "__module__", "") == file.__name__
]


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_nothing_that_can_be_imported_is_an_answer(name, monkeypatch):
    """Pass in what a reader finds beside the checks, and in the module."""

    def no_file(*_, **__):
        raise OSError("a check's number is no file")  # 5 may be pytest's own

    monkeypatch.setattr("builtins.open", no_file)
    for each in IMPORTED:
        assert complaint(name, each) is not None, each.__name__


def test_every_check_and_every_wrong_answer_belongs_to_an_exercise():
    written = {path.stem for path in WRONG.glob("*.py")} - {"__init__"}
    assert set(names()) == written == {param.values[0].name for param in ALL}


def test_an_exercise_is_found_by_the_number_that_it_once_had():
    """Numbers move; in homework and in a reader's copy they stand as they were."""
    assert ONCE["1.4"] == "masks" and ONCE["7.3"] == "reward" and len(ONCE) == 47
    assert set(ONCE.values()) <= set(names())
    verdict = "Exercise 1.4: not answered yet."
    own = "from exercise_checks import check\ncheck('1.4', None)"
    assert printed(own, {}).strip() == verdict


# The solutions


@pytest.mark.parametrize("path", PATHS)
def test_solutions_have_the_same_exercises(path):
    source = solutions(path)
    assert source in sources()
    ours, theirs = exercises(source), in_order(exercises(path))
    assert [(e.number, e.title) for e in ours] == [(e.number, e.title) for e in theirs]
    assert not any({"export", "exercise"} & set(tags(cell)) for cell in read(source))


def outputs_of(path: Path) -> str:
    """Return the text that the cells of an executed notebook show."""
    cells = nbformat.read(pair(path), 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.parametrize("path", PATHS)
def test_the_solutions_are_right(path):
    """Read what they say; that they say so today, nbval proves."""
    text = outputs_of(solutions(path))
    for exercise in exercises(path):
        assert said(text, exercise.name) == ["right."]


@pytest.mark.parametrize("path", PATHS)
def test_no_chapter_stores_an_answer(path):
    """Check that stubs are committed, so that nobody reads a solution by accident."""
    assert not re.search(r"^Exercise .*: right\.$", outputs_of(path), re.M)


# The machinery


@pytest.fixture
def own(monkeypatch):
    """Have one exercise only: a function that returns twice its argument."""

    def twice(answer):
        assert answer(3) == 6, f"for 3 it gives\n{answer(3)}, not 6."
        if answer(0.5) != 1:
            raise AssertionError

    monkeypatch.setattr(checking, "names", lambda: ["twice"])
    monkeypatch.setattr(checking, "judge_of", lambda name: twice)


def raises(error):
    def answer(x):
        raise error

    return answer


@pytest.mark.parametrize(
    "answer, verdict",
    [
        (lambda x: 2 * x, "right."),
        (None, "not answered yet."),
        (..., "not answered yet."),
        (raises(NotImplementedError), "not answered yet."),
        (lambda x: x, "not yet: for 3 it gives 3, not 6."),
        (lambda x: 6, "not yet: your answer stops .*AssertionError"),
        (7, "not yet: your answer stops .*TypeError: 'int' object is not callable"),
        (raises(KeyError("a b")), r"not yet: your answer stops at its line \d+ "),
    ],
)
def test_check_says_one_line_and_never_stops(own, capsys, answer, verdict):
    check("twice", answer)
    line = capsys.readouterr().out
    assert re.match(f"Exercise twice: {verdict}", line), line
    assert line.count("\n") == 1


def test_unknown_name(own, capsys):
    check("thrice", 3)
    assert "no exercise of this name; there are twice." in capsys.readouterr().out


def test_a_check_leaves_the_random_numbers_alone(own):
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    drawn = []
    complaint("twice", lambda x: drawn.append(torch.rand(1).item()))
    complaint("twice", lambda x: drawn.append(torch.rand(1).item()))
    assert drawn[:2] == drawn[2:]  # two calls in each, and the same ones
    assert torch.equal(torch.rand(2), expected)


EXPECTED = torch.tensor([[1.0, 2.0]])


def test_agree_accepts_rounding():
    agree(EXPECTED + 1e-7, EXPECTED, "for x", "look.")


@pytest.mark.parametrize(
    "found, message",
    [
        ([[1.0, 2.0]], "for x a tensor is needed, not list. Hint: look."),
        (torch.ones(2), "for x your shape is (2,); it should be (1, 2). Hint: look."),
        (EXPECTED.long(), "for x your type is torch.int64; it should be"),
        (EXPECTED + torch.tensor([0, 1]), "value at [0, 1] is 3.0; it should be 2.0."),
        (EXPECTED * torch.nan, "value at [0, 0] is nan; it should be 1.0."),
    ],
)
def test_agree_names_the_first_difference(found, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        agree(found, EXPECTED, "for x", "look.")
