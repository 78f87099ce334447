"""Bad input of each kind that fuzz.py draws, twice; `make fuzz` does more."""

import random

import fuzz
import pytest


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    fuzz.make_templates(folder)
    return folder


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_bad_input_is_refused_in_a_line_and_nothing_is_lost(kind, templates):
    for number in range(2):
        wrong, line, case = fuzz.try_kind(kind, number, templates)
        assert not wrong, (line, case)


def test_a_command_that_is_no_error_and_a_lost_file_are_noticed(templates, tmp_path):
    """Check that the judge is not blind."""
    place = fuzz.Place(tmp_path, templates, random.Random(0))
    case = place.translate(place.copied("model"), [])
    assert "status 0" in fuzz.complaint(case, fuzz.run_here, tmp_path)[0]
    case = place.translate(tmp_path / "nowhere", ["a word that is not said"])
    assert "does not name" in fuzz.complaint(case, fuzz.run_here, tmp_path)[0]

    def losing(case):
        (tmp_path / "model" / "config.json").unlink()
        return fuzz.run_here(case)

    case = place.translate(tmp_path / "nowhere", [])
    assert "is gone" in fuzz.complaint(case, losing, tmp_path)[0]
