"""Any text at all: cut and joined again, translated or refused, line by line."""

import unicodedata

import fuzz
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import write_json
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.spelling import one_line, tidied

ODD = [
    "",
    "   ",
    "\u3000\u2003",
    "\u200b",  # not a blank, although nothing is seen
    "👩‍🚒🏽 löscht 🔥🔥🔥",
    "هل هذه قطة؟",
    "שלום עולם, ein Hund",
    "漢字とかな mixed with Ελληνικά and кириллица",
    "e\u0301 und é",
    "a\u2028b\u2029c\x85d\x0be\x0cf",  # what other programs take for line ends
    "\x00\x01\x1b[31m",
    "</s> <s> <blank> <unk>",
    "ein " * 15,
    "ein " * 99,
    "x" * 3000,
    "ﷺ" * 20,
    "Z̷a̷l̷g̷o̷" + "\u0336" * 30,
    "\ufeffein Hund",
    "\u202eein Hund\u202c",
]


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Make a model of subwords and one of words, which take 40 tokens."""
    folder = tmp_path_factory.mktemp("templates")
    fuzz.make_templates(folder)
    for name in ("model", "words"):
        write_json(folder / name / "confidence.json", {"threshold": 0.0})
    return folder


def translated(model, lines):
    """Run `translate` on some lines; return its status, notes, and lines."""
    data = "".join(f"{line}\n" for line in lines).encode()
    case = fuzz.Case(["translate", f"--model={model}", "--beam-size=1"], [], data)
    status, said, out = fuzz.run_here(case)
    # a model that was hardly trained repeats itself
    notes = [note for note in said.splitlines() if "don't rely on" not in note]
    return status, notes, out.decode().split("\n")[:-1]


def check_lines(model, lines):
    """Expect one line out for each line in; an empty one is blank or has a note."""
    status, notes, out = translated(model, lines)
    assert len(out) == len(lines)
    refused = [note for note in notes if note.endswith("Left empty.")]
    assert status == (1 if refused else 0)
    known = "unknown words", "rely on this translation"
    others = [note for note in notes if note not in refused]
    assert [note for note in others if not any(k in note for k in known)] == []
    for number, (line, text) in enumerate(zip(lines, out, strict=True), 1):
        said = [note for note in refused if note.startswith(f"input, line {number}:")]
        assert len(said) <= 1
        if said or not line.strip():
            assert text == ""
        assert len(text.splitlines()) <= 1


@pytest.mark.parametrize("model", ["model", "words"])
def test_odd_lines_come_out_one_for_one(templates, model):
    check_lines(templates / model, ODD + ODD[::-1])


LINES = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])),
    max_size=20,
)


@given(lines=LINES, model=st.sampled_from(["model", "words"]))
@example(lines=["\r", "a\r", "\r\r"], model="model")
@settings(max_examples=10)
def test_any_lines_come_out_one_for_one(templates, lines, model):
    check_lines(templates / model, lines)


def test_unknown_words_are_named_with_their_line(templates):
    lines = ["Ein Hund.", "Ein Zebra läuft durch Köln."]
    status, notes, out = translated(templates / "words", lines)
    assert status == 0 and len(out) == 2
    assert notes == ["input, line 2: unknown words: 'Zebra', 'Köln'"]
    assert translated(templates / "model", lines)[1] == []  # subwords know all words


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (unicodedata.normalize("NFD", "schläft"), "schläft"),
        ("Auf\u200clage", "Auflage"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # two parts of a Persian word
        ("👩\u200d🚒", "👩\u200d🚒"),
        ("\u202eDona\u00addampf\u200b\ufeff\u202c", "Donadampf"),
        ("ein\tHund \u00a0 läuft\r", "ein Hund läuft"),
        ("\u3000犬\u3000が", "犬 が"),
        (" \u200b\t", ""),
    ],
)
def test_what_looks_the_same_is_read_as_the_same(typed, read):
    assert tidied(typed) == tidied(read) == read


def test_no_break_spaces_are_kept_in_what_is_written():
    line = "Il\ta 5\u00a0km\u202f!\u2028 Oui"
    kept = "Il a 5\u00a0km\u202f! Oui"
    assert tidied(line, target=True) == one_line(line) == one_line(kept) == kept
    assert tidied(line) == "Il a 5 km ! Oui"


def test_both_ways_to_write_a_letter_are_one_word(templates):
    forms = [
        unicodedata.normalize(form, "Ein Hund schläft.") for form in ("NFC", "NFD")
    ]
    _, notes, (one, two) = translated(templates / "words", forms)
    assert notes == [] and one == two


@pytest.mark.parametrize(
    "name", ["captions", pytest.param("multi30k", marks=pytest.mark.multi30k)]
)
def test_real_sentences_come_back_from_their_subwords(name):
    pairs = load_pairs(TrainingConfig(name), "train")
    sentences = [sentence for pair in pairs[::4] for sentence in pair]
    bpe = at.BytePairEncoding.train(sentences[:2000], 1000)
    assert len(sentences) > 5000
    assert [s for s in sentences if bpe.detokenize(bpe.tokenize(s)) != s] == []
