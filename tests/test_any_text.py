"""Any text at all: cut and joined again, translated or refused, line by line."""

import os
import unicodedata

import fuzz
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import annotated_transformer as at

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
        at.write_json(folder / name / "confidence.json", {"threshold": 0.0})
    return folder


def translated(model, lines):
    """Run `translate` on some lines; return its status, notes, and lines."""
    data = "".join(f"{line}\n" for line in lines).encode()
    case = fuzz.Case(["translate", f"--model={model}", "--beam-size=1"], [], data)
    status, said, out = fuzz.run_here(case)
    return status, said.splitlines(), out.decode().split("\n")[:-1]


def check_lines(model, lines):
    """Expect one line out for each line in; an empty one is blank or has a note."""
    status, notes, out = translated(model, lines)
    assert len(out) == len(lines)
    refused = [note for note in notes if note.endswith("Left empty.")]
    assert status == (1 if refused else 0)
    assert all(note in refused or ": unknown words: " in note for note in notes)
    for number, (line, text) in enumerate(zip(lines, out, strict=True), 1):
        said = [note for note in refused if note.startswith(f"input, line {number}:")]
        assert len(said) <= 1
        if said or not line.strip():
            assert text == ""
        assert len(text.splitlines()) <= 1


@pytest.mark.parametrize("model", ["model", "words"])
def test_odd_lines_come_out_one_for_one(templates, model):
    check_lines(templates / model, ODD)
    check_lines(templates / model, ODD[::-1] * 3)


LINES = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])),
    max_size=20,
)


@given(lines=LINES)
@example(lines=["\r", "a\r", "\r\r"])
@settings(max_examples=20)
def test_any_lines_come_out_one_for_one(templates, lines):
    check_lines(templates / "model", lines)


@given(lines=LINES)
@settings(max_examples=6)
def test_any_lines_of_words_come_out_one_for_one(templates, lines):
    check_lines(templates / "words", lines)


def test_unknown_words_are_named_with_their_line(templates):
    lines = ["Ein Hund.", "Ein Zebra läuft durch Köln."]
    status, notes, out = translated(templates / "words", lines)
    assert status == 0 and len(out) == 2
    assert notes == ["input, line 2: unknown words: 'Zebra', 'Köln'"]
    assert translated(templates / "model", lines)[1] == []  # subwords know all words


def test_nothing_is_normalised(templates):
    one, two = (unicodedata.normalize(form, "schläft") for form in ("NFC", "NFD"))
    assert one != two
    for sentence in ("{}", "Ein Hund {}."):
        lines = [sentence.format(word) for word in (one, two)]
        notes = translated(templates / "words", lines)[1]
        assert notes == [f"input, line 2: unknown words: '{two}'"]


def real_sentences():
    """Return every sentence of the training splits that are here."""
    names = ["captions"] + ["multi30k"] * bool(
        os.environ.get("ANNOTATED_TRANSFORMER_DATA")
    )
    pairs = [p for x in names for p in at.load_pairs(at.TrainingConfig(x), "train")]
    return [sentence for pair in pairs for sentence in pair]


@pytest.fixture(scope="module")
def bpe():
    return at.BytePairEncoding.train(real_sentences()[:4000], 1000)


def test_every_real_sentence_comes_back_from_its_subwords(bpe):
    sentences = real_sentences()
    wrong = [s for s in sentences if bpe.detokenize(bpe.tokenize(s)) != s]
    assert not wrong[:3] and len(sentences) > 20000


SENTENCES = st.sampled_from(real_sentences()[::997])


@given(SENTENCES, st.text(max_size=8), st.integers(0, 99), st.booleans())
@settings(max_examples=300)
def test_real_sentences_with_anything_in_them_come_back(bpe, sentence, odd, n, upper):
    text = sentence[:n] + odd + sentence[n:]
    text = text.upper() if upper else text
    tokens = bpe.tokenize(text)
    assert bpe.detokenize(tokens) == text and "<unk>" not in tokens
