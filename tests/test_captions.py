"""The embedded corpus: made by its grammar, right in its endings, honestly split.

The endings are checked by a small reader of noun phrases of its own: which cases an
article, an adjective ending and a noun's form allow must have one in common. It takes
from the grammar only what a dictionary gives (gender, plural, weak or not).
"""

import importlib.util
import itertools
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import spacy

FOLDER = Path(__file__).resolve().parents[1] / "data" / "captions"
SPLITS = {"train": 12_000, "valid": 500, "test": 500}


def load_program():
    spec = importlib.util.spec_from_file_location("captions", FOLDER / "captions.py")
    module = sys.modules["captions"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


captions = load_program()


def lines(name):
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def corpus():
    return captions.build()


@pytest.fixture(scope="module")
def tokens():
    """(split, side) -> the spaCy tokens of each line."""
    out = {}
    for side in ("de", "en"):
        tokenizer = spacy.blank(side).tokenizer
        for split in SPLITS:
            out[split, side] = [
                [t.text for t in tokenizer(x)] for x in lines(f"{split}.{side}")
            ]
    return out


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
    assert captions.main(["--check"]) == 1
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


def test_sizes():
    for split, size in SPLITS.items():
        counts = {len(lines(f"{split}.{kind}")) for kind in ("de", "en", "align")}
        assert len(counts) == 1 and counts.pop() >= size
    assert len(lines("test.unseen")) == len(lines("test.de"))


def test_no_sentence_occurs_twice():
    for side in ("de", "en"):
        everything = [line for split in SPLITS for line in lines(f"{split}.{side}")]
        assert len(set(everything)) == len(everything)


def test_patterns_and_words(corpus, tokens):
    shapes = Counter(sentence.skeleton for sentence in corpus.splits["train"])
    assert sum(count >= 20 for count in shapes.values()) >= 40
    assert sum("X" in shape.split() for shape in shapes) >= 10  # a verb in two halves
    for side in ("de", "en"):
        assert len({word for line in tokens["train", side] for word in line}) >= 500


def test_lengths(tokens):
    lengths = [len(line) for line in tokens["train", "en"]]
    assert 10 <= sum(lengths) / len(lengths) <= 13
    assert sum(5 <= length <= 20 for length in lengths) > 0.98 * len(lengths)


# ------------------------------------------------------------------------ alignments


def test_tokens_are_those_of_spacy(corpus, tokens):
    for split, sentences in corpus.splits.items():
        assert [s.german for s in sentences] == tokens[split, "de"]
        assert [s.english for s in sentences] == tokens[split, "en"]


def test_every_word_is_aligned(tokens, alignments):
    for split in SPLITS:
        rows = zip(tokens[split, "de"], tokens[split, "en"], alignments[split])
        for german, english, pairs in rows:
            words = [
                {i for i, t in enumerate(side) if t != ","}
                for side in (german, english)
            ]
            assert {i for i, _ in pairs} == words[0], german
            assert {j for _, j in pairs} == words[1], german
            assert pairs == sorted(set(pairs))


def translations(word, tokens, alignments):
    """What a German word is aligned with, and how often."""
    found = Counter()
    for german, english, pairs in zip(
        tokens["train", "de"], tokens["train", "en"], alignments["train"]
    ):
        for i, token in enumerate(german):
            if token == word:
                found[" ".join(english[j] for k, j in pairs if k == i)] += 1
    return found


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("Fußballfeld", {"football field"}),
        ("Bauarbeiter", {"construction worker", "construction workers"}),
        ("Gießkanne", {"watering can"}),
        (
            "im",
            {
                "in the",
                "at the",
                "on the",
                "in bed",
                "in summer",
                "in autumn",
                "in winter",
            },
        ),
        ("vor", {"in front of", "reading"}),  # the second of "liest … vor"
        ("dabei", {"busy"}),
        ("während", {"while"}),
        ("aufzuheben", {"to pick up", "To pick up"}),
        ("sammeln", {"are collecting", "collecting"}),
        ("um", {"to"}),
        (
            "Fußball",
            {
                "playing football",
                "play football",
                "is playing football",
                "are playing football",
            },
        ),
        ("wird", {"is being"}),
    ],
)
def test_known_translations(german, english, tokens, alignments):
    found = translations(german, tokens, alignments)
    assert found and set(found) <= english


def test_both_halves_of_a_verb_are_aligned_with_it(corpus, alignments):
    seen = 0
    for sentence, pairs in zip(
        corpus.splits["train"], alignments["train"], strict=True
    ):
        if sentence.verbs == {"aufheben"} and sentence.skeleton.endswith("X"):
            verb = next(
                i for i, w in enumerate(sentence.german) if w in ("hebt", "heben")
            )
            particle = len(sentence.german) - 2  # before the full stop
            first, second = (
                {sentence.english[j] for i, j in pairs if i == k}
                for k in (verb, particle)
            )
            assert second == {"picking", "up"} and first > second
            seen += 1
    assert seen > 20


# --------------------------------------------------------------------- unseen pairs


def forms(verb, noun):
    """The words that may stand for a verb and for a noun, from the tables alone."""
    rows = [a for a in captions.ACTIVITIES if a.lemma == verb]
    halves = {(a.particle, form) for a in rows for form in (a.infinitive, a.third)}
    notes = [note.split("/")[0].split() for a in rows for note in a.notes]
    whole = {words[1] for words in notes if words[0] == "pp"}
    whole |= {word for p, f in halves for word in (p + f, (p + f).capitalize())}
    whole |= {f"{p}zu{f}" for p, f in halves if p}
    stems = {a.infinitive for a in rows}
    others = {a.particle for a in captions.ACTIVITIES if a.infinitive in stems} - {
        rows[0].particle
    }
    entry = next(n for n in captions.NOUNS.values() if n.lemma == noun)
    nouns = {noun + end for end in ("", "s", "es", "n")}
    if entry.plural not in ("", "-"):
        nouns |= {entry.plural, entry.plural + "n"}
    return whole, halves, others, nouns


def shows(words, *sought):
    """Whether a line, or one side of its "und", has the verb and the noun."""
    cuts = [i for i, word in enumerate(words) if word == "und"]
    sides = [side for cut in cuts for side in (words[: cut + 1], words[cut:])]
    return any(shows_together(part, *sought) for part in (words, *sides))


def shows_together(words, whole, halves, others, nouns):
    """Whether some words have a form of the verb and one of the noun, anywhere."""
    ends = {word for word, after in zip(words, words[1:]) if after in {".", ",", "und"}}
    apart = any(
        particle in ends and form in words for particle, form in halves if particle
    )
    together = (
        whole & set(words) and not ends & others
    )  # "kaufen … ein" is another verb
    return bool(nouns & set(words)) and bool(apart or together)


def test_unseen_pairs_are_not_in_training(corpus, tokens):
    flags = lines("test.unseen")
    assert Counter(flags) == {"1": 100, "0": 400}
    train = tokens["train", "de"]
    used = {pair for s in corpus.splits["test"] for pair in s.objects & corpus.held_out}
    assert len(used) >= 30
    for pair in used:
        whole, halves, others, nouns = forms(*pair)
        assert not any(shows(words, whole, halves, others, nouns) for words in train), (
            pair
        )
        assert any(nouns & set(words) for words in train), (
            f"{pair}: the noun is never seen"
        )
    for flag, sentence in zip(flags, corpus.splits["test"], strict=True):
        held = sentence.objects & corpus.held_out
        assert (flag == "1") == bool(held)
        for pair in held:  # the sentence does show it
            assert shows(sentence.german, *forms(*pair)), sentence.german


def test_words_of_valid_and_test_are_in_training(tokens):
    for side in ("de", "en"):
        counts = Counter(word for line in tokens["train", side] for word in line)
        for split in ("valid", "test"):
            rare = {w for line in tokens[split, side] for w in line if counts[w] < 2}
            assert not rare


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
    """Each form of each noun with its readings."""
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
    """The readings that the words of a noun phrase have in common."""
    table = (
        WEAK
        if article in DER_WORDS
        else MIXED
        if EIN_WORD.fullmatch(article)
        else STRONG
    )
    possible = NOUN_FORMS[noun] & readings(
        ARTICLES.get(article, "nmfnp amfnp dmfnp gmfnp")
    )
    for adjective in adjectives:
        possible &= readings(table.get(ADJECTIVE.fullmatch(adjective)[2], ""))
    return possible


def noun_phrases(words):
    """Of each noun phrase: its words, whether a preposition rules it, its readings."""
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
            possible = {
                reading for reading in possible if reading[0] in PREPOSITIONS[before]
            }
        yield (
            words[start : end + 1],
            before in PREPOSITIONS or article in CONTRACTED,
            possible,
        )


@pytest.mark.parametrize(
    "wrong",
    [
        "mit einen roten Ball", "mit einem rotem Ball", "Ein kleine Hund",
        "Der alter Mann", "von zwei Kinder", "durch dem Park", "eine junger Frau",
        "einen Junge", "das Tür", "am Ufer eines See", "in der Gärten", "frische Brot",
        "mit frischen Gemüse", "vor den kleinem Haus", "einige kleinen Kinder",
        "die kleine Kinder", "ihre Hut", "des Mann", "zwei Mann", "zur Bahnhof",
    ],
)  # fmt: skip
def test_reader_refuses_wrong_endings(wrong):
    assert [possible for _, _, possible in noun_phrases(wrong.split())][-1] == set()


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
        plain = [
            possible
            for _, governed, possible in noun_phrases(sentence.german)
            if not governed
        ]
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
            if (
                first in ("two", "three", "four", "several", "some", "many")
                and "is" in words
            ):
                assert "are" in words, words
