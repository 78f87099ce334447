"""More pairs from the same sentences (benchmarks/diversify.py, chapter 95)."""

import sys
from types import SimpleNamespace

from small_runs import program

from transformer_workshop.base.text_files import read_lines

diversify = program("benchmarks/diversify.py")


def translator(mark):
    """Return a translator that repeats each sentence with a mark before it."""
    return SimpleNamespace(translate=lambda lines: [mark + line for line in lines])


def test_each_sentence_stands_beside_its_own_translations():
    models = [translator("en:"), translator("EN:"), translator("en:")]
    pairs = diversify.diversified(
        ["eins", "zwei"], ["one", "two"], models, [translator("de:")]
    )
    assert pairs == [
        ("eins", "one"), ("zwei", "two"), ("eins", "en:eins"), ("zwei", "en:zwei"),
        ("eins", "EN:eins"), ("zwei", "EN:zwei"), ("de:one", "one"), ("de:two", "two"),
    ]  # fmt: skip


def test_the_files_are_written_line_by_line(tmp_path, monkeypatch):
    marks = {"there": "en:", "again": "EN:", "back": "de:"}
    monkeypatch.setattr(
        diversify, "load_translator", lambda folder, _: translator(marks[folder.name])
    )
    people = [("eins", "one"), ("zwei", "two")]
    monkeypatch.setattr(diversify, "load_pairs", lambda *_: people)
    flags = ["--there", "there", "again", "--back", "back"]
    flags += ["--into", str(tmp_path / "new")]
    monkeypatch.setattr(sys, "argv", ["diversify.py", *flags])
    assert diversify.main() == 0
    sides = [read_lines(tmp_path / "new" / f"train.{side}") for side in ("de", "en")]
    assert [len(lines) for lines in sides] == [8, 8] and sides[0][6] == "de:one"


def test_a_model_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    flags = ["--there", str(tmp_path / "none"), "--into", str(tmp_path / "new")]
    monkeypatch.setattr(sys, "argv", ["diversify.py", *flags])
    assert diversify.main() == 2
    assert "none" in capsys.readouterr().err and not (tmp_path / "new").exists()
