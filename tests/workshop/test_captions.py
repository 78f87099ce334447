"""The captions corpus: made by its grammar, byte for byte, and honestly split."""

import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
import spacy

FOLDER = Path(__file__).resolve().parents[2] / "data" / "captions"
SPLITS = {"train": 14_000, "valid": 500, "test": 800}
pytestmark = pytest.mark.slow  # the corpus takes long to make, and never changes


def load_program(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


captions = load_program("captions")
recognize = load_program("recognize")  # which imports the former


def lines(name):
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def corpus():
    return captions.build()


@pytest.fixture(scope="module")
def tokens():
    """Return (split, side) -> the spaCy tokens of each line."""
    tokenizers = {side: spacy.blank(side).tokenizer for side in ("de", "en")}
    return {
        (split, side): [[t.text for t in cut(x)] for x in lines(f"{split}.{side}")]
        for side, cut in tokenizers.items()
        for split in SPLITS
    }


@pytest.fixture(scope="module")
def alignments():
    return {
        split: [
            [tuple(map(int, pair.split("-"))) for pair in line.split()]
            for line in lines(f"{split}.align")
        ]
        for split in SPLITS
    }


# ------------------------------------------------------------------------ the files


def test_program_makes_the_files_byte_for_byte(corpus):
    made = captions.files(corpus)
    assert len(made) == 10
    for name, text in made.items():
        assert (FOLDER / name).read_bytes() == text.encode(), name


def test_readme_tells_the_numbers(corpus):
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert captions.summary(corpus) in readme
    assert f"{len(corpus.held_out)} verb–noun pairs" in readme


def test_sizes_and_no_sentence_twice():
    for side in ("de", "en"):
        everything = [lines(f"{split}.{side}") for split in SPLITS]
        assert [len(each) for each in everything] == list(SPLITS.values())
        assert len(set().union(*everything)) == sum(SPLITS.values())
    kinds = Counter(lines("test.kind"))
    assert kinds == {"seen": 400, "combination": 200, "order": 200}


# ------------------------------------------------------------------------ alignments


def test_tokens_are_those_of_spacy(corpus, tokens):
    for split, sentences in corpus.splits.items():
        assert [s.german for s in sentences] == tokens[split, "de"]
        assert [s.english for s in sentences] == tokens[split, "en"]


def test_every_word_is_aligned(tokens, alignments):
    for split in SPLITS:
        pairs = alignments[split]
        assert pairs == [sorted(set(each)) for each in pairs]
        for side, number in (("de", 0), ("en", 1)):
            for words, links in zip(tokens[split, side], pairs, strict=True):
                aligned = {link[number] for link in links}
                assert aligned == {i for i, t in enumerate(words) if t != ","}, words


# ------------------------------------------------- what training does not show


def forms(verb, noun):
    """Return the words that may stand for a verb and a noun, from the tables alone."""
    rows = [a for a in captions.ACTIVITIES if a.lemma == verb]
    halves = {(a.particle, form) for a in rows for form in (a.infinitive, a.third)}
    notes = [note.split("/")[0].split() for a in rows for note in a.notes]
    whole = {words[1] for words in notes if words[0] == "pp"}
    whole |= {word for p, f in halves for word in (p + f, (p + f).capitalize())}
    whole |= {f"{p}zu{f}" for p, f in halves if p}
    stems = {a.infinitive for a in rows}
    others = {a.particle for a in captions.ACTIVITIES if a.infinitive in stems}
    others.remove(rows[0].particle)
    entry = next(n for n in captions.NOUNS.values() if n.lemma == noun)
    nouns = {noun + end for end in ("", "s", "es", "n")}
    if entry.plural not in ("", "-"):
        nouns |= {entry.plural, entry.plural + "n"}
    return whole, halves, others, nouns


def shows(words, *sought):
    """Return whether a line, or one side of its "und", has the verb and the noun."""
    cuts = [i for i, word in enumerate(words) if word == "und"]
    sides = [side for cut in cuts for side in (words[: cut + 1], words[cut:])]
    return any(shows_together(part, *sought) for part in (words, *sides))


def shows_together(words, whole, halves, others, nouns):
    """Return whether words have a form of the verb and one of the noun anywhere."""
    ends = {word for word, after in zip(words, words[1:]) if after in {".", ",", "und"}}
    apart = any(part in ends and form in words for part, form in halves if part)
    together = whole & set(words) and not ends & others  # "kaufen … ein" is another
    return bool(nouns & set(words)) and bool(apart or together)


def test_unseen_pairs_are_not_in_training(corpus, tokens):
    kinds = lines("test.kind")
    with_word = {}
    for words in tokens["train", "de"]:
        for word in set(words):
            with_word.setdefault(word, []).append(words)
    used = {pair for s in corpus.splits["test"] for pair in s.objects & corpus.held_out}
    assert len(used) >= 30
    for pair in used:
        *_, nouns = sought = forms(*pair)
        found = [words for noun in nouns for words in with_word.get(noun, [])]
        assert found, f"{pair}: the noun is never seen"
        assert not any(shows(words, *sought) for words in found), pair
    for kind, sentence in zip(kinds, corpus.splits["test"], strict=True):
        held = sentence.objects & corpus.held_out
        assert (kind == "combination") == bool(held)
        for pair in held:  # the sentence does show it
            assert shows(sentence.german, *forms(*pair)), sentence.german


def test_unseen_orders_are_not_in_training(corpus):
    kinds = lines("test.kind")
    for split, sentences in corpus.splits.items():
        for i, sentence in enumerate(sentences):
            unseen = split == "test" and kinds[i] == "order"
            held_out = sentence.skeleton in captions.HELD_OUT_ORDERS
            assert held_out == unseen, sentence.german


def lowered(tokens):
    """Return lines as tuples of words in lower case."""
    return [tuple(word.lower() for word in words) for words in tokens]


def without_one(line):
    """Return the places of a line, each with the line without the word there."""
    return {(i, line[:i] + line[i + 1 :]) for i in range(len(line))}


@pytest.mark.parametrize("side", ["de", "en"])
def test_no_test_sentence_is_one_word_from_a_training_sentence(tokens, side):
    train = set(lowered(tokens["train", side]))
    gaps = set().union(*map(without_one, train))
    shorter = {line for _, line in gaps}
    for line in lowered(tokens["valid", side] + tokens["test", side]):
        own = without_one(line)
        assert not own & gaps, line  # another word
        assert line not in shorter and not {rest for _, rest in own} & train, line


def test_words_of_valid_and_test_are_in_training(tokens):
    for side in ("de", "en"):
        counts = Counter(word for line in tokens["train", side] for word in line)
        for split in ("valid", "test"):
            rare = {w for line in tokens[split, side] for w in line if counts[w] < 2}
            assert not rare


# ------------------------------------------------- could the grammar have said it?


@pytest.mark.parametrize("split", SPLITS)
def test_grammar_could_have_said_its_captions(split):
    for line in random.Random(1).sample(lines(f"{split}.en"), 60):
        assert recognize.could_say(line), line


def test_grammar_could_have_said_new_captions():
    rng = captions.Chooser(1)
    made = 0
    while made < 100:
        try:
            line = captions.compose(rng).line("en")
        except captions.Unfit:
            continue
        made += 1
        assert recognize.parse(line).line("en") == line


def shuffle(words, rng):
    return rng.sample(words, len(words))


def swap_neighbors(words, rng):
    i = rng.randrange(len(words) - 1)
    return [*words[:i], words[i + 1], words[i], *words[i + 2 :]]


def replace_one(words, rng):
    """Replace a word with one of another caption."""
    i = rng.randrange(len(words))
    others = rng.choice(lines("train.en")).lower().strip(".").split()
    return [*words[:i], rng.choice(others), *words[i + 1 :]]


@pytest.mark.parametrize("damage", [shuffle, swap_neighbors, replace_one])
def test_grammar_could_hardly_have_said_damaged_captions(damage):
    """Allow for a few that are captions again, as with "a boy" instead of "a girl"."""
    rng = random.Random(1)
    accepted = []
    for line in rng.sample(lines("test.en"), 100):
        words = line[:-1].split()
        damaged = " ".join(damage([words[0].lower(), *words[1:]], rng)) + "."
        damaged = damaged[0].upper() + damaged[1:]
        if damaged != line and recognize.could_say(damaged):
            accepted.append(damaged)
    assert len(accepted) <= 5, accepted


@pytest.mark.parametrize(
    "line",
    [
        "",
        ".",
        "a man is reading a book.",
        "A man is reading a book",
        "A man is reading a book .",
        "A man is reading a book.\n",
        "A man is  reading a book.",
        "A man is reading an book.",
        "A man are reading a book.",
        "A man is reading a tensor.",
        "A man is reading a cake.",
        "A man is reading a book while a man.",
    ],
)
def test_grammar_could_not_have_said(line):
    assert recognize.could_say("A man is reading a book.")
    assert not recognize.could_say(line)


def test_recognizer_counts_lines_and_lists_ten_others(tmp_path, capsys):
    path = tmp_path / "said.en"
    said = ["A man is reading a book."] * 2 + ["A book is reading a man."] * 12
    path.write_text("\n".join(said), encoding="utf-8")
    assert recognize.main([str(path)]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"{path}: 2 of 14 lines"
    assert others == ["    not: A book is reading a man."] * 10
