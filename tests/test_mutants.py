"""The list of planted faults is whole, each can be planted, and the runner bites."""

import ast
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import mutants
import pytest
from mutants import FAULTS, MUTANTS, ROWS, Mutant, Stop, planted

TEXTS = mutants.texts()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_each_fault_can_be_planted(mutant):
    spoiled = planted(mutant, TEXTS)
    [changed] = [text for name, text in spoiled.items() if text != TEXTS[name]]
    ast.parse(changed)


CODE = '''\
class A:
    @property
    def b(self):
        """Return x = 1."""
        if   self.c:  # x = 1
            x = 1; y = "2"
        return x
'''


def test_a_fault_is_planted_in_one_definition_however_it_is_written():
    changes = [("A.b", "x = 1\ny = '2'", "for x in 'ab':\n    pass")]
    found = planted(Mutant("own", "the fault", [], changes), {"a.py": CODE})["a.py"]
    expected = """\
class A:
    @property
    def b(self):
        if self.c:
            for x in 'ab':
                pass
        return x
"""
    assert found == expected


@pytest.mark.parametrize(
    "place, old, message",
    [
        ("A.b", "x = 2", "in A.b: `x = 2` occurs 0 times in\n@property"),
        ("A.b", "x", "in A.b: `x` occurs 2 times in\n@property"),
        ("A.c", "x = 1", "0 definitions are called A.c"),
    ],
)
def test_a_fault_that_does_not_fit_is_named(place, old, message):
    with pytest.raises(Stop, match=f"the fault: {re.escape(message)}"):
        planted(Mutant("own", "the fault", [], [(place, old, "")]), {"a.py": CODE})


def test_every_known_error_is_planted_or_has_a_reason():
    planted_rows = {mutant.row for mutant in MUTANTS}
    assert planted_rows == {row for row, reason in ROWS.items() if not reason}
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS)
    assert FAULTS.count(" => ") + FAULTS.count(" =>\n") == 1 + sum(
        len(mutant.changes) for mutant in MUTANTS
    )  # none was lost in reading; one explains the format
    assert all(mutant.changes for mutant in MUTANTS)


def test_the_tests_that_should_catch_are_there():
    for mutant in MUTANTS:
        assert mutant.tests
        for test in mutant.tests:
            file, name = re.fullmatch(r"(\w+\.py)::(\w+)(?:\[.*\])?", test).groups()
            text = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), test


TEST = "test_training.py::test_rate_is_equation_3"


def in_rate(fault: str, new: str) -> Mutant:
    return Mutant("own", fault, [TEST], [("rate", "step = max(step, 1)", new)])


@pytest.mark.slow
def test_only_a_test_that_fails_catches_a_fault():
    """Run the test on the code as it is, a fault, no fault, and no Python."""
    late, none, broken = (
        in_rate(what, f"step = {new}")
        for what, new in (
            ("late", "max(step - 1, 1)"),
            ("none", "max(1, step)"),
            ("broken", "= 1"),
        )
    )
    with ProcessPoolExecutor(2, mutants.FORKSERVER, max_tasks_per_child=1) as pool:
        late, none, broken = (
            pool.submit(mutants.failure, each.fault, planted(each, TEXTS), [TEST])
            for each in (late, none, broken)
        )
        assert late.result() == TEST
        assert none.result() == ""
        with pytest.raises(Stop, match="broken: pytest could not run"):
            broken.result()


@pytest.fixture
def failures(monkeypatch) -> dict[str, str]:
    """Return what fails with each fault of two, to be filled in instead of tested."""
    found: dict[str, str] = {}
    monkeypatch.setattr(mutants, "MUTANTS", [in_rate("one", "0"), in_rate("two", "0")])
    monkeypatch.setattr(
        mutants, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1)
    )
    monkeypatch.setattr(mutants, "failure", lambda what, *_: found.get(what, ""))
    return found


def test_a_fault_that_survives_is_named(failures, capsys):
    failures["one"] = TEST
    assert mutants.main([]) == 1
    *_, one, two, last = capsys.readouterr().out.splitlines()
    assert one.split() == ["own", "one", TEST] and two.split() == [
        "own",
        "two",
        "SURVIVED",
    ]
    assert last == "1 of 2 faults caught"
    assert mutants.main(["one"]) == 0


def test_what_fails_without_a_fault_catches_nothing(failures):
    failures["no fault"] = TEST
    with pytest.raises(Stop, match="equation_3 fails without any fault"):
        mutants.main([])
    with pytest.raises(Stop, match="no fault is called three"):
        mutants.main(["three"])
