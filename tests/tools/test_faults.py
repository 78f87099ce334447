"""Each fault of faults.txt still fits the code, and names tests that there are."""

import mutants
from chapters import ROOT


def test_each_fault_fits_and_its_tests_exist():
    texts = {p.name: p.read_text("utf-8") for p in (ROOT / "tests").glob("*/test_*.py")}
    for fault, tests, changes in mutants.listed():
        mutants.planted(changes)
        for file, _, name in (test.partition("::") for test in tests):
            assert f"def {name.partition('[')[0]}" in texts.get(file, ""), fault
