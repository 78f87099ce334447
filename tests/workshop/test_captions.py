"""The captions corpus: made by its grammar, right in its endings, honestly split.

The endings are checked by a small, separate reader of noun phrases: the cases that an
article, an adjective ending, and a noun's form allow must have one in common. It takes
from the grammar only what a dictionary says (gender, plural, weak or not).
"""

import importlib.util
import itertools
import random
import re
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


def test_check_notices_a_change(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(captions, "HERE", tmp_path)
    monkeypatch.setattr(captions, "build", lambda: corpus)
    assert captions.main([]) == 0
    assert captions.main(["--check"]) == 0
    with open(tmp_path / "valid.de", "a", encoding="utf-8") as file:
        file.write("Ein Satz zu viel.\n")
    capsys.readouterr()
    assert captions.main(["--check"]) == 1
    assert capsys.readouterr().err.split()[-1] == "valid.de"


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


# --------------------------------------------------------------------------- endings
#
# A reading is a case and a gender, p for the plural. "am dmn" is am, dm, dn.


def readings(text):
    return {word[0] + gender for word in text.split() for gender in word[1:]}


FORMS = """
    der nm df gfp, die nfp afp, das nn an, den am dp, dem dmn, des gmn, ein nmn an,
    eine nf af, einen am, einem dmn, einer df gf, eines gmn, im dmn, am dmn,
    beim dmn, vom dmn, zum dmn, zur df, ins an, sein nmn an, seine nfp afp,
    seinen am dp, seinem dmn, seiner df gfp, seines gmn, ihr nmn an, ihre nfp afp,
    ihren am dp, ihrem dmn, ihrer df gfp, ihres gmn, zwei np ap dp gp,
    drei np ap dp gp, vier np ap dp gp, einige np ap, einigen dp, einiger gp,
    mehrere np ap, mehreren dp, mehrerer gp, viele np ap, vielen dp, vieler gp
"""
ARTICLES = {
    word: " ".join(rest)
    for word, *rest in (entry.split() for entry in FORMS.split(","))
}
CONTRACTED = {"im", "am", "beim", "vom", "zum", "zur", "ins"}
DER_WORDS = {"der", "die", "das", "den", "dem", "des"} | CONTRACTED
EIN_WORD = re.compile("(ein|sein|ihr)(e|en|em|er|es)?")
# Endings of adjectives after der-words, after ein-words, and after neither.
WEAK = {"e": "nmfn afn", "en": "np am ap dmfnp gmfnp"}
MIXED = {"er": "nm", "es": "nn an", "e": "nf af", "en": "np am ap dmfnp gmfnp"}
STRONG = {"er": "nm df gfp", "es": "nn an", "e": "nfp afp", "en": "am gmn dp"}
STRONG["em"] = "dmn"
PREPOSITIONS = {
    "mit": "d", "von": "d", "bei": "d", "aus": "d", "zu": "d", "durch": "a", "in": "da",
    "an": "da", "auf": "da", "vor": "da", "hinter": "da", "neben": "da", "unter": "da",
    "über": "da",
}  # fmt: skip


def forms_of_nouns():
    """Return each form of each noun with its readings."""
    found = {"Gruppe": readings("nf af df gf")}
    for noun in captions.NOUNS.values():
        lemma, many, gender = noun.lemma.split()[0], noun.plural, noun.gender
        table = {}
        if gender == "p" or many not in ("", "-"):
            table[many] = "np ap gp" + " dp" * (many[-1] in "ns")
            if many[-1] not in "ns":
                table[many + "n"] = "dp"
        if noun.weak:
            table[lemma] = "nm"
            table[many] += " am dm gm"
        elif gender != "p":
            table[lemma] = f"{table.get(lemma, '')} n{gender} a{gender} d{gender}"
            for end in [""] if gender == "f" else ["s", "es", "ses"]:
                table[lemma + end] = f"{table.get(lemma + end, '')} g{gender}"
        for form, text in table.items():
            found.setdefault(form, set()).update(readings(text))
    return found


NOUN_FORMS = forms_of_nouns()
ADJECTIVE = re.compile(f"({'|'.join(captions.ADJECTIVES)})(e|en|er|es|em)")


ACTS = {a.infinitive.capitalize() for a in captions.ACTIVITIES}  # beim Pflanzen


def agree(article, adjectives, noun):
    """Return the readings that the words of a noun phrase have in common."""
    table = STRONG
    if article in DER_WORDS:
        table = WEAK
    elif EIN_WORD.fullmatch(article):
        table = MIXED
    any_reading = "nmfnp amfnp dmfnp gmfnp"
    possible = NOUN_FORMS[noun] & readings(ARTICLES.get(article, any_reading))
    for adjective in adjectives:
        possible &= readings(table.get(ADJECTIVE.fullmatch(adjective)[2], ""))
    return possible


def noun_phrases(words):
    """Yield each noun phrase, whether a preposition governs it, and its readings."""
    first = words[0].lower()
    plain = first in {*ARTICLES, *PREPOSITIONS}
    if ADJECTIVE.fullmatch(first):  # Junge Väter, but Jungen spielen
        plain = words[1] in NOUN_FORMS or ADJECTIVE.fullmatch(words[1])
    words = [first if plain else words[0], *words[1:]]
    for end, noun in enumerate(words):
        if noun not in NOUN_FORMS:
            continue
        start = end
        while start and ADJECTIVE.fullmatch(words[start - 1]):
            start -= 1
        article = words[start - 1] if start and words[start - 1] in ARTICLES else ""
        if article == "beim" and noun in ACTS:
            continue
        possible = agree(article, words[start:end], noun)
        if not possible and start > 1 and words[start - 2] == ",":
            possible = agree("", words[start:end], noun)  # a relative pronoun
        elif article:
            start -= 1
        before = words[start - 1] if start else ""
        if before in PREPOSITIONS:
            possible = {each for each in possible if each[0] in PREPOSITIONS[before]}
        governed = before in PREPOSITIONS or article in CONTRACTED
        yield words[start : end + 1], governed, possible


def test_reader_refuses_wrong_endings():
    for wrong in (
        "mit einen roten Ball", "mit einem rotem Ball", "Ein kleine Hund",
        "Der alter Mann", "von zwei Kinder", "durch dem Park", "eine junger Frau",
        "einen Junge", "das Tür", "am Ufer eines See", "in der Gärten", "frische Brot",
        "mit frischen Gemüse", "einige kleinen Kinder", "ihre Hut", "zur Bahnhof",
    ):  # fmt: skip
        *_, (_, _, possible) = noun_phrases(wrong.split())
        assert possible == set(), wrong


def test_noun_phrases_agree(tokens):
    phrases = 0
    for split in SPLITS:
        for line in tokens[split, "de"]:
            for words, _, possible in noun_phrases(line):
                assert possible, f"{' '.join(words)} in: {' '.join(line)}"
                phrases += 1
    assert phrases > 30_000


def test_subjects_and_objects_have_their_case_and_verbs_their_number(corpus):
    activities = captions.ACTIVITIES
    one = {activity.third for activity in activities}
    many = {activity.infinitive for activity in activities} - one
    dative = {a.lemma for a in activities if a.case == "dat"}
    governing = {*PREPOSITIONS, *CONTRACTED, "sich"}
    checked = 0
    for sentence in itertools.chain(*corpus.splits.values()):
        if not sentence.skeleton.startswith("S V "):
            continue
        phrases = noun_phrases(sentence.german)
        plain = [possible for _, governed, possible in phrases if not governed]
        assert any(reading[0] == "n" for reading in plain[0]), sentence.german
        verb = next(word for word in sentence.german if word in one | many)
        numbers = {reading[1] == "p" for reading in plain[0] if reading[0] == "n"}
        assert (verb in many) in numbers, sentence.german
        after = sentence.german[sentence.german.index(verb) + 1]
        alone = "'" not in sentence.skeleton and sentence.skeleton.startswith("S V O")
        if alone and after not in governing:
            case = "d" if sentence.verbs & dative else "a"
            assert any(reading[0] == case for reading in plain[1]), sentence.german
            checked += 1
    assert checked > 1_000


def test_english_articles_and_verbs(tokens):
    for split in SPLITS:
        for words in tokens[split, "en"]:
            for word, after in zip(words, words[1:]):
                if word.lower() in ("a", "an"):
                    assert (word.lower() == "an") == (after[0] in "aeiou"), words
                if word in ("is", "are") and words[0] != "There":
                    assert after not in ("is", "are", "a", "the", "."), words
            first = words[0].lower()
            if first in ("two", "three", "four", "several", "some", "many"):
                assert "is" not in words or "are" in words, words


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


WEATHER = "Abend Morgen Nachmittag Tag Sommertag Herbsttag Wintertag Sonnenuntergang"
WEATHER += " Wetter Sonnenschein Regen"
CARRIED = set(
    "Kleid Pullover Hemd Anzug Mantel Jacke Hut Mütze Brille Sonnenbrille Bart "
    "Rucksack Kamera".split()
)
CONNECTIVES = ", . und während weil obwohl um zu dabei von beim wird versucht versuchen"


def word_order(words):
    """Return a line's order as a reader sees it, without the generator's symbols.

    Each noun phrase becomes N; with a preposition it becomes P, or T for a time, or I
    for "mit". Connectives stand for themselves, and any other word is v.
    """
    order = []
    for text in words:
        small = text.lower()
        if text in {"Schlitten", "Ski"} and {"fährt", "fahren"} & set(words):
            order.append("v")
        elif text in NOUN_FORMS and text not in ACTS:
            preposition = article = ""
            while order and order[-1] in {"adjective", *ARTICLES} - CONTRACTED:
                article = order.pop()
            if article in {"des", "eines"} and order[-1:] in (["N"], ["P"]):
                continue  # the roof of a house, like a roof
            if order and order[-1] in {*PREPOSITIONS, *CONTRACTED}:
                preposition = order.pop()
            if preposition and order[-1:] == ["N"] and text in CARRIED:
                continue  # a woman in a coat, like a woman
            if not preposition:
                order.append("N")
            elif text in WEATHER.split():
                order.append("T")
            else:
                order.append("I" if preposition == "mit" else "P")
        elif small in {*CONNECTIVES.split(), *PREPOSITIONS, *CONTRACTED, *ARTICLES}:
            order.append(small)
        elif ADJECTIVE.fullmatch(small):
            order.append("adjective")
        else:
            order.append("v")
    return " ".join(order)


def test_unseen_orders_are_not_in_training(corpus, tokens):
    kinds = lines("test.kind")
    orders = captions.HELD_OUT_ORDERS
    for split, sentences in corpus.splits.items():
        for i, sentence in enumerate(sentences):
            unseen = split == "test" and kinds[i] == "order"
            assert (sentence.skeleton in orders) == unseen, sentence.german
    trained = {word_order(words) for words in tokens["train", "de"]}
    test = list(zip(kinds, tokens["test", "de"], strict=True))
    for kind, words in test:
        if kind == "order":
            assert word_order(words) not in trained, words
    seen = [word_order(words) in trained for kind, words in test if kind == "seen"]
    assert sum(seen) > 0.9 * len(seen)
    used = {s.skeleton for s in corpus.splits["test"]} & orders
    assert used == orders


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
