"""The list of planted faults is whole, each can be planted, and the runner bites."""

import re
from collections import Counter
from pathlib import Path

import mutants
import pytest
from mutants import KNOWN, MUTANTS, OWN, Mutant, Stop, planted

MODULE = mutants.MODULE.read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_each_fault_can_be_planted(mutant):
    assert planted(mutant, MODULE) != MODULE


def test_a_fault_that_does_not_fit_is_named():
    for module in ("x = 2", "x = 1; x = 1"):
        with pytest.raises(Stop, match="the fault: its old text occurs [02] times"):
            planted(Mutant(OWN, "the fault", "x = 1", "x = 3", ""), module)


def test_every_known_error_is_planted_or_has_a_reason():
    rows = Counter(mutant.row for mutant in MUTANTS)
    del rows[OWN]
    assert rows.keys() == {row for row, reason in KNOWN.items() if not reason}
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS)


def test_the_tests_that_should_catch_are_there():
    for mutant in MUTANTS:
        assert mutant.tests
        for test in mutant.tests.split():
            file, name = re.fullmatch(r"(\w+\.py)::(\w+)(?:\[.*\])?", test).groups()
            text = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), test


TEST, OLD = "test_training.py::test_rate_is_equation_3", "step = max(step, 1)"


@pytest.mark.slow
def test_a_fault_is_caught_and_another_survives(monkeypatch, capsys):
    faults = [
        Mutant(OWN, "one step late", OLD, "step = max(step - 1, 1)", TEST),
        Mutant(OWN, "none", OLD, "step = max(1, step)", TEST),
    ]
    monkeypatch.setattr(mutants, "MUTANTS", faults)
    assert mutants.main([]) == 1
    *_, first, second, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["own", "one", "step", "late", TEST]
    assert second.split() == ["own", "none", "SURVIVED"]
    assert last == "1 of 2 faults caught"


@pytest.mark.slow
def test_a_module_that_does_not_start_is_not_called_caught(monkeypatch):
    broken = Mutant(OWN, "broken", OLD, "step = = 1", TEST)
    monkeypatch.setattr(mutants, "MUTANTS", [broken])
    with pytest.raises(Stop, match="broken: pytest could not run"):
        mutants.main([])


@pytest.mark.slow
def test_what_fails_without_a_fault_catches_nothing(monkeypatch):
    module = MODULE.replace(OLD, "step = max(step, 2)")
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: module)
    monkeypatch.setattr(
        mutants, "MUTANTS", [Mutant(OWN, "other", "step = max(step, 2)", "", TEST)]
    )
    with pytest.raises(Stop, match="equation_3 fails without any fault"):
        mutants.main([])
