"""Bad input of each kind that fuzz.py draws, twice; `make fuzz` does more."""

import os

import fuzz
import pytest

CASES = int(os.environ.get("CASES", "2"))  # of each kind


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    fuzz.make_templates(folder)
    return folder


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_bad_input_is_refused_in_a_line_and_nothing_is_lost(kind, templates):
    for number in range(CASES):
        wrong, line, case = fuzz.try_kind(kind, number, templates)
        assert not wrong, (line, case)
