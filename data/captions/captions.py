"""German-English picture captions from a grammar, with gold word alignments.

    python data/captions/captions.py            writes the corpus beside this file
    python data/captions/captions.py --check    compares it, writes nothing

`grammar.txt` holds the words, who does what where, and the patterns of sentences. The
grammar is synchronous: each constituent is built in both languages at once, and a
German and an English token that share a *link* translate each other. Word order is
then free on either side, and the alignment follows from the links.

From top to bottom: reading the tables, tokens, noun phrases, scenes, sentences, corpus.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SEED = 2017
SIZES = {"train": 14_000, "valid": 500, "test": 800}
# Test sentences with a verb-noun pair, or a word order, that training never shows.
UNSEEN = {"combination": 200, "order": 200}
SEEN = 2  # each word of valid and test is in training at least this often


# ------------------------------------------------------------------ reading the tables


def read_sections(text: str) -> dict[str, list[str]]:
    """Return the lines of each `== name` section, without comments and blank lines."""
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("== "):
            lines = sections.setdefault(line[3:], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections


def read_dict(lines: list[str]) -> dict[str, str]:
    """Read `key: value` lines."""
    return dict(line.split(": ", 1) for line in lines)


def read_words(lines: list[str]) -> dict[str, str]:
    """Read `german=english` words."""
    return dict(word.split("=") for line in lines for word in line.split())


GRAMMAR = read_sections((HERE / "grammar.txt").read_text(encoding="utf-8"))
ADJECTIVES = read_words(GRAMMAR["adjectives"])
ADVERBS = read_words(GRAMMAR["adverbs"])
GROUPS = read_dict(GRAMMAR["groups"])
INDOORS, DIRECTIONS = read_dict(GRAMMAR["indoors"]), read_dict(GRAMMAR["directions"])
PLACES = {**INDOORS, **read_dict(GRAMMAR["outdoors"]), **DIRECTIONS}
ATTIRE = read_dict(GRAMMAR["attire"])
KIN = read_words(GRAMMAR["kin"])
HELD_OUT_ORDERS = frozenset(GRAMMAR["held-out orders"])
REASONS = read_dict(GRAMMAR["reasons"])
TIMES = read_dict(GRAMMAR["times"])
for _name, _line in TIMES.items():
    TIMES[_name] = re.sub(r"&(\w+)", lambda match: TIMES[match[1]], _line)


def english_plural(word: str) -> str:
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|ch|sh)$", word) else "s")


GERUNDS = {"unwrap": "unwrapping"}  # stressed on the last syllable


def english_gerund(words: str) -> str:
    """Return the -ing form of a verb and the words that follow it; of `be x`, x."""
    verb, _, rest = words.partition(" ")
    if verb == "be":
        return rest
    if verb in GERUNDS:
        return GERUNDS[verb]
    if verb.endswith("ie"):
        verb = verb[:-2] + "y"
    elif re.search(r"[^e]e$", verb):
        verb = verb[:-1]
    elif re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb):
        verb += verb[-1]
    return f"{verb}ing {rest}".strip()


@dataclass(frozen=True, eq=False)
class Noun:
    """A row of the table of nouns; its gender is m, f, n, or p for plural only."""

    lemma: str
    gender: str
    plural: str  # "" for a mass noun, "-" where only the singular is used
    weak: bool
    english: str
    english_plural: str
    plural_in_english: bool
    group: str
    adjectives: tuple[tuple[str, str], ...]  # German stem, English

    @classmethod
    def read(cls, line: str, group: str, adjectives: tuple) -> Noun:
        german, english = line.split(": ")
        lemma, _, plural = german[german.index(" ") + 1 :].partition(", ")
        meaning, _, irregular = english.rstrip("*").partition(", ")
        gender = {"der": "m", "die": "f", "das": "n", "pl": "p"}[german.split()[0]]
        only_plural = english.endswith("*") or gender == "p"
        many = meaning if only_plural else irregular or english_plural(meaning)
        return cls(
            lemma=lemma.rstrip("~"),
            gender=gender,
            plural=lemma if gender == "p" else plural,
            weak="~" in lemma,
            english=meaning,
            english_plural=many,
            plural_in_english=only_plural,
            group=group,
            adjectives=adjectives,
        )

    def german(self, case: str, plural: bool) -> str:
        """Return the form for a case (nom, acc, dat, gen)."""
        if plural:
            return self.plural + "n" * (case == "dat" and self.plural[-1] not in "ns")
        if self.weak and case != "nom":
            return self.plural
        if case == "gen" and self.gender in "mn":
            return genitive(self.lemma)
        return self.lemma


def genitive(noun: str) -> str:
    """Return the strong genitive: -es after a sibilant and for most monosyllables."""
    if noun in ("Bus", "Zeugnis"):
        return noun + "ses"
    vowels = re.findall(r"ei|ai|au|eu|äu|ie|aa|ee|oo|[aeiouyäöü]", noun.lower())
    one_syllable = len(vowels) == 1
    foreign = noun in ("Park", "Clown", "Zoo", "See", "Tee", "Schal")
    long = re.search(r"(s|ß|x|z|sch)$", noun) or one_syllable and not foreign
    return noun + ("es" if long else "s")


def read_nouns(lines: list[str]) -> dict[str, Noun]:
    nouns = {}
    for line in lines:
        if line.startswith("["):
            group, _, words = line.strip("[]").partition(":")
            pairs = [word.partition("=")[::2] for word in words.split()]
            adjectives = tuple((de, en or ADJECTIVES[de]) for de, en in pairs)
        else:
            noun = Noun.read(line, group, adjectives)
            nouns[noun.lemma.replace(" ", "_")] = noun
    return nouns


PERSONS = read_nouns(GRAMMAR["people"])
NOUNS = {**PERSONS, **read_nouns(GRAMMAR["nouns"])}


@dataclass(frozen=True, eq=False)
class Activity:
    """A row of the table of activities: a verb, and whom and what it goes with."""

    who: tuple[Noun, ...]
    particle: str  # "auf" of aufheben, "Ski" of Ski fahren
    infinitive: str  # without the particle
    third: str
    reflexive: bool
    apart: bool  # the particle stays a separate word
    english: str
    case: str  # of the object, ignoring its preposition
    preposition: str  # "auf+/for", or ""
    recipients: tuple[Noun, ...]
    what: tuple[str, ...]
    where: tuple[str, ...]  # groups of places
    notes: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Activity:
        who, german, english, what, where, notes = map(str.strip, line.split("|"))
        *sich, infinitive, third = german.split()
        particle, mark, verb = infinitive.rpartition("+" if "+" in infinitive else "_")
        words = [] if what == "-" else what.split()
        head = words.pop(0) if words and re.search(r"/|\+D|D:", words[0]) else ""
        return cls(
            who=members(who.split()),
            particle=particle,
            infinitive=verb,
            third=third,
            reflexive=bool(sich),
            apart=mark == "_",
            english=english,
            case="dat" if head == "+D" else "acc",
            preposition=head if "/" in head else "",
            recipients=members(head[2:].split(",")) if head.startswith("D:") else (),
            what=tuple(words),
            where=() if where == "-" else tuple(where.split(", ")),
            notes=() if notes == "-" else tuple(notes.split(", ")),
        )

    @cached_property
    def lemma(self) -> str:
        return (self.particle + " " * self.apart + self.infinitive).strip()

    @cached_property
    def outdoors(self) -> bool:
        """Whether it always happens outdoors."""
        return bool(self.where) and not any(group in INDOORS for group in self.where)

    @cached_property
    def adverbs(self) -> dict[str, str]:
        """The German adverbs with their translations, some of them the row's own."""
        words = [note[1:] for note in self.notes if note.startswith("@")]
        pairs = [word.partition("=")[::2] for word in words]
        return {german: english or ADVERBS[german] for german, english in pairs}

    @cached_property
    def instruments(self) -> list[str]:
        return [note for note in self.notes if "/" in note.split()[0]]

    def noted(self, key: str) -> list[str]:
        """Return what follows a word in the notes: [sun, rain] for `weil sun rain`."""
        notes = (note.split() for note in self.notes)
        return next((rest for head, *rest in notes if head == key), [])

    @cached_property
    def heads(self) -> set[str]:
        """The first word of each note; of `um:rest`, only `um`."""
        return {re.split("[ :]", note)[0] for note in self.notes}

    @cached_property
    def tags(self) -> dict[str, str]:
        """The tags of activities that go with it: `um:rest` gives {"um": "rest"}."""
        return dict(note.split(":") for note in self.notes if ":" in note)

    @cached_property
    def directed(self) -> bool:
        """Whether the object is a destination, so that it comes last in its clause."""
        return bool(re.match(r"\w+\+|aus/|zu/", self.preposition))


def members(groups: list[str]) -> tuple[Noun, ...]:
    """Return the nouns of some groups, in order, each once."""
    names = [name for group in groups for name in GROUPS.get(group, group).split()]
    found = [noun for name in names for noun in NOUNS.values() if noun.group == name]
    if missing := set(names) - {noun.group for noun in found}:
        raise ValueError(f"no nouns of the group {missing}")
    return tuple(dict.fromkeys(found))


ACTIVITIES = [Activity.read(line) for line in GRAMMAR["activities"]]


class Pattern(NamedTuple):
    weight: int
    kind: str
    german: tuple[str, ...]
    english: tuple[str, ...]


def read_pattern(line: str) -> Pattern:
    weight, kind, german, english = map(str.strip, line.split("|"))
    return Pattern(int(weight), kind, tuple(german.split()), tuple(english.split()))


PATTERNS = [read_pattern(line) for line in GRAMMAR["patterns"]]
PATTERN_WEIGHTS = list(itertools.accumulate(pattern.weight for pattern in PATTERNS))


# -------------------------------------------------------------------------- tokens


class Token(NamedTuple):
    text: str
    links: frozenset[int]
    article: bool = False


class Phrase(NamedTuple):
    """The same constituent in both languages."""

    de: list[Token]
    en: list[Token]


FULL_STOP = 0
NEW_LINK = itertools.count(FULL_STOP + 1)


def word(text: str, *links: int) -> list[Token]:
    """Return the words of a text, all with the same links."""
    return [Token(part, frozenset(links)) for part in text.split()]


def join(*phrases: Phrase) -> Phrase:
    """Put phrases one after the other, in both languages."""
    de, en = zip(*phrases)
    return Phrase(list(itertools.chain(*de)), list(itertools.chain(*en)))


def pick(rng: random.Random, items, flat: float = 4.0):
    """Draw an item, the first ones more often (Zipf's law with an offset)."""
    return rng.choices(items, cum_weights=_zipf(len(items), flat))[0]


@cache
def _zipf(size: int, flat: float) -> list[float]:
    """Return the cumulative weights for `pick`."""
    weights = [1 / (rank + flat) for rank in range(1, size + 1)]
    return list(itertools.accumulate(weights))


# -------------------------------------------------------------------- noun phrases

CASES = ("nom", "acc", "dat", "gen")
GENDERS = ("m", "f", "n", "p")


def endings(table: str) -> dict[tuple[str, str], str]:
    """Read a table of (case, gender) -> ending or word; `-` stands for none."""
    rows = zip(CASES, (line.split() for line in table.strip().splitlines()))
    return {(c, g): w.strip("-") for c, row in rows for g, w in zip(GENDERS, row)}


DEFINITE = endings("""
    der die das die
    den die das die
    dem der dem den
    des der des der""")
INDEFINITE = endings("""
    -  e  -  e
    en e  -  e
    em er em en
    es er es er""")
WEAK = endings("""
    e  e  e  en
    en e  e  en
    en en en en
    en en en en""")
MIXED = endings("""
    er e  es en
    en e  es en
    en en en en
    en en en en""")
STRONG = endings("""
    er e  es e
    en e  es e
    em er em en
    en er en er""")

COUNTS = {
    "zwei": "two", "drei": "three", "einig": "some", "mehrer": "several",
    "vier": "four", "viel": "many",
}  # fmt: skip
POSSESSIVES = {"m": ("sein", "his"), "f": ("ihr", "her"), "p": ("ihr", "their")}
PRONOUNS = {"m": ("er", "he"), "f": ("sie", "she"), "p": ("sie", "they")}
DATIVE_PRONOUNS = {"m": "ihm", "f": "ihr", "p": "ihnen"}


@dataclass
class NounPhrase:
    """A noun phrase before its case is known.

    `determiner` is a, the, bare, own, season, tune, group, or a key of COUNTS.
    """

    noun: Noun
    determiner: str
    plural: bool = False
    adjectives: list[tuple[str, str]] = field(default_factory=list)
    owner: str = ""  # gender of the possessor, for `own`
    attribute: Phrase = Phrase([], [])
    attribute_nouns: list[Noun] = field(default_factory=list)
    link: int = field(default_factory=NEW_LINK.__next__)
    det_link: int = field(default_factory=NEW_LINK.__next__)

    @property
    def gender(self) -> str:
        """The gender as verbs, pronouns, and adjectives see it: p for the plural."""
        if self.determiner == "group":
            return "f"
        return "p" if self.plural else self.noun.gender

    @property
    def possessor(self) -> str:
        """The gender for "her" and "his": a girl's grandmother is "ihre Großmutter"."""
        return "f" if self.noun.lemma == "Mädchen" and not self.plural else self.gender

    @property
    def several(self) -> bool:
        return self.plural or self.determiner == "group"

    def realise(self, case: str, of: bool = False) -> Phrase:
        """Return its words in a case; with `of`, the English ones follow "of"."""
        if self.determiner == "group":
            link = next(NEW_LINK)
            members = NounPhrase(self.noun, "bare", True, self.adjectives)
            von = Phrase(word("von", link), word("of", link))
            group = NounPhrase(GROUP, "a").realise(case, of)
            return join(group, von, members.realise("dat"))
        if case == "gen" and self.determiner == "bare":  # von Äpfeln
            phrase = self.realise("dat", of)
            return join(Phrase(word("von", self.link), []), phrase)
        german, table = self.german_determiner(case)
        english = self.english_determiner()
        if of:
            english = f"of {english}"
        link = self.det_link if german and english else self.link
        definite = self.determiner in ("the", "season")
        articles = [Token(german, frozenset([link]), definite)] if german else []
        return join(
            Phrase(articles, word(english, link)),
            *(
                adjective(de + table[case, self.gender], en)
                for de, en in self.adjectives
            ),
            self.name(case),
            self.attribute,
        )

    def name(self, case: str) -> Phrase:
        """Return the noun; of a measure (Tasse Kaffee), each part has its own link."""
        german = self.noun.german(case, self.plural)
        english = self.noun.english_plural if self.plural else self.noun.english
        measure, of, content = english.partition(" of ")
        if not of:
            return Phrase(word(german, self.link), word(english, self.link))
        first, last = german.split()
        inner = next(NEW_LINK)
        de = word(first, self.link) + word(last, inner)
        return Phrase(de, word(measure + of, self.link) + word(content, inner))

    def german_determiner(self, case: str) -> tuple[str, dict]:
        """Return the determiner, and the endings of adjectives after it."""
        key = case, self.gender
        if self.determiner in ("the", "season"):
            return DEFINITE[key], WEAK
        if self.determiner == "a":
            return "ein" + INDEFINITE[key], MIXED
        if self.determiner == "own":
            return POSSESSIVES[self.owner][0] + INDEFINITE[key], MIXED
        if self.determiner in COUNTS:
            number = self.determiner in ("zwei", "drei", "vier")
            return self.determiner + STRONG[key] * (not number), STRONG
        return "", STRONG

    def english_determiner(self) -> str:
        if self.determiner == "own":
            return POSSESSIVES[self.owner][1]
        if self.determiner in ("the", "tune"):
            return "the"
        if self.determiner == "a":
            return "" if self.noun.plural_in_english else "a"
        return COUNTS.get(self.determiner, "")


GROUP = Noun("Gruppe", "f", "-", False, "group", "groups", False, "", ())


def adjective(german: str, english: str) -> Phrase:
    link = next(NEW_LINK)
    return Phrase(word(german, link), word(english, link))


def describe(rng: random.Random, noun: Noun, chance: float) -> list[tuple[str, str]]:
    """Draw no adjective, one, or one and a color."""
    if not noun.adjectives or rng.random() > chance:
        return []
    first = pick(rng, noun.adjectives)
    colours = [pair for pair in noun.adjectives if pair[0] in COLOURS]
    if first[0] in BEFORE_COLOUR and colours and rng.random() < 0.25:
        return [first, pick(rng, colours)]
    return [first]


BEFORE_COLOUR = "klein groß alt neu lang jung warm".split()
COLOURS = "braun schwarz weiß grau rot blau gelb grün".split()


def specified(
    rng: random.Random,
    spec: str,
    owner: NounPhrase | None = None,
    place: bool = False,
    described: float = 0.25,
) -> NounPhrase:
    """Build the noun phrase of `[adjective] Noun[:determiner]` (see grammar.txt).

    `owner` is the subject, to whom the thing belongs; several people have one each.
    """
    *stems, name = spec.split()
    name, _, determiner = name.partition(":")
    noun = NOUNS[name]
    plain, determiner = determiner.endswith("!"), determiner.rstrip("!")
    plural = noun.gender == "p" or determiner.endswith("+") or determiner == "pl"
    determiner = determiner.rstrip("+")
    if determiner == "pl" or not determiner and (not noun.plural or noun.gender == "p"):
        determiner = "bare"
    elif determiner == "own" and (owner is None or owner.possessor == "n"):
        determiner = "the"
    elif not determiner and owner is not None and owner.several:
        determiner, plural = "bare", True
    elif not determiner:
        determiner = "the" if rng.random() < (0.5 if place else 0.05) else "a"
    elif determiner == "a" and not place and noun.plural != "-" and rng.random() < 0.12:
        determiner = "the"
    elif determiner == "each" and owner is not None and owner.several:
        determiner, plural = "bare", True
    elif determiner in ("one", "each"):
        determiner = "a"
    pairs = [stem.partition("=")[::2] for stem in stems]
    adjectives = [(de, en or ADJECTIVES[de]) for de, en in pairs]
    if not adjectives and not plain and determiner not in ("season", "tune"):
        adjectives = describe(rng, noun, described)
    whose = "p" if owner and owner.several else owner.possessor if owner else ""
    return NounPhrase(noun, determiner, plural, adjectives, whose)


class Adverbial(NamedTuple):
    """A prepositional phrase and the nouns in it."""

    phrase: Phrase
    nouns: list[Noun]


def prepositional(
    rng: random.Random,
    spec: str,
    owner: NounPhrase | None = None,
    verb: int = -1,
    described: float | None = None,
) -> Adverbial:
    """Build `preposition/translation [adjective] Noun[:determiner][>Noun]`.

    A preposition without a translation has the same link as the verb.
    """
    head, _, rest = spec.partition(" ")
    german, english = head.split("/")
    case = "acc" if german.endswith("+") or german == "durch" else "dat"
    rest, _, whole = rest.partition(">")
    link = verb if english == "_" else next(NEW_LINK)
    meaning = "" if english == "_" else english.replace("_", " ")
    if described is None:
        described = 0.15 if owner is None else 0.25
    inner = specified(rng, rest, owner, place=owner is None, described=described)
    phrases, nouns = [inner.realise(case)], [inner.noun]
    if whole:
        other = specified(rng, whole, place=True, described=0.15)
        phrases.append(other.realise("gen", of=True))
        nouns.append(other.noun)
    front = Phrase(word(german.rstrip("+"), link), word(meaning, link))
    return Adverbial(join(front, *phrases), nouns)


# -------------------------------------------------------------------------- scenes


class Unfit(Exception):
    """The constituents do not go together: choose again."""


def choose_subject(rng: random.Random, activity: Activity) -> NounPhrase:
    """Choose who does this, one person or several."""
    noun = pick(rng, activity.who, 2.0)
    style = pick(rng, ["one", "one the", "count", "bare", "group"], 0.5)
    if "pl" in activity.notes and noun.group != "couple":
        if noun.plural == "-":
            raise Unfit("one alone")
        style = pick(rng, ["count", "bare"], 0.5)
    elif "sg" in activity.notes or noun.plural == "-":
        style = pick(rng, ["one", "one the"], 0.5)
    if noun.gender == "p":
        style = pick(rng, ["many", "group"])
    if style in ("bare", "group", "many") and "many" not in activity.notes:
        style = "count"
    adjectives = describe(rng, noun, 0.3 if style.startswith("one") else 0.12)
    if style.startswith("one"):
        attribute = Adverbial(Phrase([], []), [])
        worn = ATTIRE.get("+" * activity.outdoors + noun.group)
        determiner = "the" if style == "one the" else "a"
        if worn and "plain" not in activity.notes and rng.random() < 0.15:
            # a woman in a coat, but the woman in the coat
            spec = pick(rng, worn.split(", ")).replace(":a", f":{determiner}")
            attribute = prepositional(rng, spec, described=0.7)
        return NounPhrase(noun, determiner, False, adjectives, "", *attribute)
    counts = list(COUNTS)
    determiner = {
        "count": pick(rng, counts[:-1], 0.5),
        "bare": "bare",
        "many": pick(rng, ["viel", "einig", "mehrer"]),
        "group": "group",
    }[style]
    return NounPhrase(noun, determiner, True, adjectives)


class Chooser(random.Random):
    """Draws all that the grammar leaves open, and hears what becomes of it."""

    def built(self, phrase: NounPhrase | Phrase) -> None:
        """Hear of a constituent; recognize.py compares it with a given sentence."""


class Scene:
    """Who does what where. Its constituents are built when a pattern asks for them."""

    def __init__(
        self, rng: Chooser, activity: Activity, subject: NounPhrase | None = None
    ):
        self.rng, self.activity = rng, activity
        self.subject = subject or choose_subject(rng, activity)
        rng.built(self.subject)
        self.verb, self.finite, self.to = next(NEW_LINK), next(NEW_LINK), next(NEW_LINK)
        self.object = self.choose_object()
        self.recipient = None
        if activity.recipients:
            noun = pick(rng, activity.recipients)
            owner = self.subject.possessor
            determiner = pick(rng, ["the", "a"], 1.0)
            if noun.group in ("elder", "parent"):
                determiner = "own" if owner in POSSESSIVES else "the"
            self.recipient = NounPhrase(noun, determiner, owner=owner)
        self.group = pick(rng, activity.where) if activity.where else ""
        self.reason = pick(rng, activity.noted("weil") or [""])
        # the nouns of the constituents built so far
        self.nouns = [self.subject.noun, *self.subject.attribute_nouns]
        self.built: dict[str, Phrase] = {}

    def choose_object(self) -> NounPhrase | Adverbial | None:
        activity = self.activity
        if not activity.what:
            return None
        spec = pick(self.rng, activity.what)
        if activity.preposition:
            spec = f"{activity.preposition} {spec}"
            return prepositional(self.rng, spec, self.subject, self.verb)
        described = 0.6 if "wear" in activity.notes else 0.25
        phrase = specified(self.rng, spec, self.subject, described=described)
        if phrase.plural and phrase.noun.plural == "-":
            raise Unfit("a plural that the noun lacks")
        return phrase

    @property
    def plural(self) -> bool:
        return self.subject.gender == "p"

    @property
    def plural_in_english(self) -> bool:
        """Whether the English verb is plural, as it is for "glasses", eine Brille."""
        glasses = self.subject.noun.plural_in_english and not self.subject.several
        return self.plural or glasses

    @property
    def shares_one_object(self) -> bool:
        """Whether several people do it to a single thing, "a photo"."""
        thing = self.object
        single = isinstance(thing, NounPhrase) and thing.determiner == "a"
        if (
            self.subject.noun.group == "couple"
        ):  # two people, of whom one has a backpack
            return True
        return self.subject.several and single

    def phrase(self, symbol: str) -> Phrase:
        """Return the constituent that a symbol of grammar.txt stands for."""
        if symbol not in self.built:
            self.built[symbol] = self.build(symbol[0], SYMBOL_CASES[symbol[1:]])
            self.rng.built(self.built[symbol])
        return self.built[symbol]

    def puts_in_front(self, symbol: str) -> bool:
        """Return whether English puts a place or adverb before the verb, not after."""
        if self.object is None:
            return False
        return symbol == "P" or self.phrase("M").en[0].text in EARLY_ADVERBS

    def build(self, symbol: str, case: str) -> Phrase:
        if symbol in VERB_SYMBOLS:
            return self.build_verb(symbol)
        if symbol == "S":
            return self.subject.realise(case or "nom", of=case == "gen")
        if symbol == "O":
            return self.build_object(case)
        if symbol == "D":
            self.nouns.append(self.recipient.noun)
            return self.recipient.realise("dat")
        if symbol == "W":
            link = next(NEW_LINK)
            noun = self.subject.noun
            person = noun.lemma in PERSONS and noun.group != "couple"
            english = "who" if person else "that"
            german = DEFINITE["nom", self.subject.gender]
            return Phrase(word(german, link), word(english, link))
        if symbol == "N":
            if self.subject.gender == "n" or self.subject.determiner == "group":
                raise Unfit("no natural pronoun")
            german, english = PRONOUNS[self.subject.gender]
            link = next(NEW_LINK)
            return Phrase(word(german, link), word(english, link))
        if symbol == "K":
            return self.build_reason()
        if symbol == "M":
            return self.build_adverb()
        if symbol == "I":
            specs, owner = self.activity.instruments, self.subject
        elif symbol == "P":
            specs, owner = PLACES[self.group].split(", "), None
        else:
            specs, owner = TIMES[self.weather("P" in self.built)].split(", "), None
        phrase, nouns = prepositional(self.rng, pick(self.rng, specs), owner)
        self.nouns += nouns
        return phrase

    def build_object(self, case: str) -> Phrase:
        if self.object is None:
            return Phrase([], [])
        if isinstance(self.object, Adverbial):
            self.nouns += self.object.nouns
            return self.object.phrase
        self.nouns.append(self.object.noun)
        return self.object.realise(case or self.activity.case)

    def object_pairs(self) -> list[tuple[str, str]]:
        """Return the verb with each noun of an object that has been built."""
        if not any(symbol[0] == "O" for symbol in self.built) or self.object is None:
            return []
        named = isinstance(self.object, NounPhrase)
        nouns = [self.object.noun] if named else self.object.nouns
        return [(self.activity.lemma, noun.lemma) for noun in nouns]

    def build_verb(self, symbol: str) -> Phrase:
        """Build a form of the verb; most forms are empty in German or in English."""
        verb, finite, to = self.verb, self.finite, self.to
        activity = self.activity
        particle, infinitive = activity.particle, activity.infinitive
        form = infinitive if self.plural else activity.third
        space = " " * activity.apart
        sich = word("sich" * activity.reflexive, verb)
        if symbol == "Z":
            if particle and not activity.apart:
                return Phrase(word(f"{particle}zu{infinitive}", verb, to), [])
            zu = word("zu", to)
            return Phrase(word(particle, verb) + zu + word(infinitive, verb), [])
        if symbol == "Q":
            de, en = activity.noted("pp")[0].replace("_", " ").split("/")
            return Phrase(word(de, verb), word(en, verb))
        german = {
            "V": word(form, verb, finite) + sich,
            "X": word(particle, verb),
            "R": sich,
            "F": word(particle + space + form, verb, finite),
            "A": word((particle + infinitive).capitalize(), verb),
        }.get(symbol, [])
        english = {
            "B": word("are" if self.plural_in_english else "is", finite),
            "G": word(english_gerund(activity.english), verb),
            "E": word(activity.english, verb),
            "Y": word("to", to),
        }.get(symbol, [])
        return Phrase(german, english)

    def build_adverb(self) -> Phrase:
        wrong = "allein" if self.subject.several else "gemeinsam"
        adverbs = [pair for pair in self.activity.adverbs.items() if pair[0] != wrong]
        if not adverbs:
            raise Unfit("no adverb")
        return adjective(*pick(self.rng, adverbs))

    def build_reason(self) -> Phrase:
        gender = self.subject.gender
        german, english = (side.split() for side in REASONS[self.reason].split(" = "))
        words = {}
        if self.refers:
            if gender == "n" or self.subject.determiner == "group":
                raise Unfit("no natural pronoun")
            words = {
                "H": PRONOUNS[gender],
                "Hd": (DATIVE_PRONOUNS[gender], ""),
                "U": (POSSESSIVES[gender][0] + "e", POSSESSIVES[gender][1]),
            }
        links: dict[str, int] = {}
        sides: list[list[Token]] = []
        for side, tokens in enumerate((german, english)):
            sides.append([])
            for token in tokens:
                text, number = token.split("/")
                self.nouns += [NOUNS[text]] if text in NOUNS else []
                text = (
                    words[text][side] if text in words else inflected(text, self.plural)
                )
                sides[-1] += word(text, links.setdefault(number, next(NEW_LINK)))
        return Phrase(*sides)

    @property
    def refers(self) -> bool:
        """Whether the reason refers to the subject by a pronoun."""
        return bool(re.search(r"\b[HU]", REASONS.get(self.reason, "")))

    def weather(self, placed: bool) -> str:
        """Return the row of the table of times that fits."""
        for note in ("snow", "wet", "sun"):
            if note in self.activity.notes:
                return note
        outdoors = self.group not in INDOORS if placed else self.activity.outdoors
        return "outdoors" if outdoors else "indoors"


VERB_SYMBOLS = "VXRFZAQBGYE"
EARLY_ADVERBS = "carefully attentively quickly slowly proudly patiently happily".split()
SYMBOL_CASES = {"": "", "a": "acc", "d": "dat", "g": "gen", "n": "nom"}


def inflected(text: str, plural: bool) -> str:
    """Return the singular or plural of `ist~sind`."""
    return text.split("~")[-1 if plural else 0]


# ----------------------------------------------------------------------- sentences


@dataclass
class Sentence:
    """A pair of sentences and what is known about it."""

    german: list[str]
    english: list[str]
    alignment: list[tuple[int, int]]
    skeleton: str  # German symbols in their order, without the empty ones
    verbs: set[str]
    nouns: set[str]
    objects: set[tuple[str, str]]  # verbs with the nouns of their objects
    plain: bool  # whether no object has a preposition

    def line(self, side: str) -> str:
        if side == "align":
            return " ".join(f"{i}-{j}" for i, j in self.alignment)
        words = self.german if side == "de" else self.english
        return re.sub(r" ([.,])", r"\1", " ".join(words))

    def lines(self) -> list[str]:
        """Return both sides, labeled with their languages."""
        return [f"{side} {self.line(side)}" for side in ("de", "en")]

    def shows(self, pair: tuple[str, str]) -> bool:
        """Return whether a verb and a noun occur in it, however they are related."""
        return pair[0] in self.verbs and pair[1] in self.nouns


CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("bei", "dem"): "beim",
    ("von", "dem"): "vom", ("zu", "dem"): "zum", ("zu", "der"): "zur",
    ("in", "das"): "ins", ("an", "das"): "ans",
}  # fmt: skip


def contract(tokens: list[Token]) -> list[Token]:
    """Contract "in dem" to "im" and the like, keeping the links of both."""
    out: list[Token] = []
    for token in tokens:
        pair = (out[-1].text, token.text) if out and token.article else None
        if pair in CONTRACTIONS:
            out[-1] = Token(CONTRACTIONS[pair], out[-1].links | token.links)
        else:
            out.append(token)
    return out


PREPOSITIONS = {
    name: name for name in "an auf aus bei durch hinter in mit neben".split()
}
PREPOSITIONS |= {name: name for name in "über unter von vor".split()}
PREPOSITIONS |= {short: pair[0] for pair, short in CONTRACTIONS.items()}
QUALITY = re.compile(f"({'|'.join(ADJECTIVES)}|durstig|hungrig)(e|en|er|es|em)?")


def repeats_a_preposition(german: list[str]) -> bool:
    """Return whether a clause has two phrases with the same preposition.

    The last word of a clause doesn't count, as it may be a particle: "hebt ... auf".
    """
    clause: list[str] = []
    for text in german:
        if text in {",", ".", "und", "während"}:
            used = [PREPOSITIONS[w] for w in clause[:-1] if w in PREPOSITIONS]
            if len(set(used)) < len(used):
                return True
            clause = []
        else:
            clause.append(text)
    return False


def repeats_a_quality(german: list[str]) -> bool:
    """Return whether an adjective is repeated: "a tired man rests as he is tired"."""
    stems = [match[1] for text in german if (match := QUALITY.fullmatch(text.lower()))]
    stems += ["sonnig"] * ("Sonne" in german)
    return len(set(stems)) < len(stems)


def a_or_an(tokens: list[Token]) -> list[Token]:
    out = list(tokens)
    for i, (token, after) in enumerate(zip(tokens, tokens[1:])):
        if token.text == "a" and after.text[0] in "aeiou":
            out[i] = token._replace(text="an")
    return out


def capitalise(tokens: list[Token]) -> list[str]:
    texts = [token.text for token in tokens]
    return [texts[0][0].upper() + texts[0][1:], *texts[1:]]


def realise(pattern: Pattern, scenes: list[Scene]) -> Sentence:
    """Build the sentence of a pattern with its scenes."""
    links: dict[str, int] = {}

    def tokens(order: tuple[str, ...], german: bool) -> list[Token]:
        out: list[Token] = []
        for item in order:
            if "^" in item:
                symbol = item.strip("^")
                if item.startswith("^") == scenes[0].puts_in_front(symbol):
                    out += scenes[0].phrase(symbol).en
                    out += [Token(",", frozenset())] * (item == "^P")
                continue
            text, _, link = item.partition("/")
            scene = scenes[item.endswith("'")]
            if text in ".,":
                out.append(Token(text, frozenset([FULL_STOP] if text == "." else [])))
            elif link:
                name = link.rstrip("'")
                own = {"f": scene.finite, "g": scene.verb, "t": scene.to}
                if scene.recipient:
                    own["d"] = scene.recipient.det_link
                number = own.get(name) or links.setdefault(name, next(NEW_LINK))
                out += word(inflected(text, scenes[0].plural), number)
            else:
                phrase = scene.phrase(item.rstrip("'"))
                part = phrase.de if german else phrase.en
                if part and german:
                    skeleton.append(item)
                out += part
            if link and german:
                skeleton.append(text.split("~")[0])
        return out

    for scene, mark in zip(scenes, ("Y", "Y'")):
        if mark not in pattern.english:  # no `to`, so that zu goes with the verb
            scene.to = scene.verb
    skeleton: list[str] = []
    german = contract(tokens(pattern.german, True))
    english = a_or_an(tokens(pattern.english, False))
    nouns = [noun.lemma for scene in scenes for noun in scene.nouns]
    nouns += [scene.activity.particle for scene in scenes if scene.activity.apart]
    if scenes[1:] and scenes[1].subject in (scenes[0].subject, scenes[0].object):
        for noun in [scenes[1].subject.noun, *scenes[1].subject.attribute_nouns]:
            nouns.remove(noun.lemma)
    for noun, other in itertools.combinations(nouns, 2):
        shorter, longer = sorted((noun.lower(), other.lower()), key=len)
        if longer.endswith(shorter):
            raise Unfit("a noun twice, or a tree under an apple tree")
    texts = [token.text for token in german]
    if repeats_a_preposition(texts):
        raise Unfit("the same preposition twice")
    if repeats_a_quality(texts):
        raise Unfit("the same quality twice")
    alignment = [
        (i, j)
        for i, token in enumerate(german)
        for j, translation in enumerate(english)
        if token.links & translation.links
    ]
    return Sentence(
        german=capitalise(german),
        english=capitalise(english),
        alignment=alignment,
        skeleton=" ".join(skeleton),
        verbs={scene.activity.lemma for scene in scenes},
        nouns={part for noun in nouns for part in noun.split()},
        objects={pair for scene in scenes for pair in scene.object_pairs()},
        plain=not any(isinstance(scene.object, Adverbial) for scene in scenes),
    )


# Kinds of patterns whose first activity has the note of the same name; notes that no
# other kind may use; and kinds with a second scene, with the same subject or another.
NOTED = {"try", "pp", "posture", "there", "wet", "weil", "um", "bei", "watch", "give"}
NOTED |= {"to"}
SPECIAL = {"there", "watch", "wear", "give", "to", "um"}
SAME_SUBJECT = {"both", "wear", "um", "bei", "while"}
OTHER_SUBJECT = {"two", "kin", "what", "watch"}
TRAVELERS = {"tourist", "hiker"}
HOME = {"kitchen", "living", "sofa", "floor", "bed", "window", "wall", "table"}
PARENTS = {"man", "woman", "parent", "farmer", "neighbor"}
WET_AND_SUNNY = [{"sun"}, {"wet"}]
POSTURES = {"sitzen": "sit", "stehen": "stand", "liegen": "lie"}
NEEDS_PLACE = {"posture", "place", "still"}
RESTING = {"posture", "still", "lie"}
ACTIVITIES_AT = {name: [a for a in ACTIVITIES if name in a.where] for name in PLACES}


def suits(kind: str, activity: Activity) -> bool:
    """Return whether the activity can be the first one in patterns of a kind."""
    notes = activity.heads
    if notes & SPECIAL - {kind} or kind in NOTED - notes:
        return False
    direct = bool(activity.what) and not activity.preposition and activity.case == "acc"
    if kind == "doing":
        return direct and bool(notes & {"midst", "beim"})
    if kind == "midst":
        return direct and "midst" in notes
    if kind in ("two", "kin"):  # it lasts, in a place where others may be
        lasting = not notes & {"solo", "wild", "still"}
        return lasting and not set(activity.where) & set(DIRECTIONS)
    if kind == "wet":  # only people defy the rain, and not with umbrellas
        return "weil" not in notes and activity.who[0].lemma in PERSONS
    return {
        "beim": "beim" in notes,
        "both": "posture" in notes,
        "while": "bei" in notes,
        "pp": direct,
        "wear": not notes & {"snow", "plain"},
    }.get(kind, True)


def supplies(activity: Activity, pattern: Pattern) -> bool:
    """Return whether the activity has the constituents that the pattern asks for."""
    order, kind = pattern.german, pattern.kind
    if "P" in order and not activity.where:
        return False
    if "P" not in order and activity.heads & NEEDS_PLACE and kind != "posture":
        return False
    if "I" in order and not activity.instruments:
        return False
    if "M" in order:
        translated = activity.preposition.partition("/")[2] not in ("", "_")
        if not activity.adverbs or translated != (kind == "prep"):
            return False
    if order[:4] == ("S", "V", "P", "M") or kind == "wear" and "O" not in order:
        return bool(activity.what) == ("O" in order)
    return True


CANDIDATES = {
    pattern: [a for a in ACTIVITIES if suits(pattern.kind, a) and supplies(a, pattern)]
    for pattern in PATTERNS
}


def ends_where_it_leads(order: tuple[str, ...], scene: Scene) -> bool:
    """Return whether a destination, if any, comes last among object and adverbials."""
    middle = [symbol for symbol in order if symbol in "OPMTID"]
    if not scene.object and "O" in middle:
        middle.remove("O")
    directed = {"P": scene.group in DIRECTIONS, "O": scene.activity.directed}
    leading = [symbol for symbol in middle if directed.get(symbol)]
    return not leading or leading == middle[-1:] and order[0] not in leading


def objections(pattern: Pattern, scene: Scene) -> list[str]:
    """Return what speaks against a first scene in a pattern."""
    kind, order, subject = pattern.kind, pattern.german, scene.subject
    relative = "W" in order or "W'" in order
    attribute = bool(subject.attribute.de)
    rules = {
        "a direction in the middle": not ends_where_it_leads(order, scene),
        "a passive of several": kind == "pp"
        and (scene.object.plural or scene.object.determiner == "bare"),
        "by the man, of whom nothing was said": kind == "pp"
        and subject.determiner not in ("a", "zwei"),
        "an object far from its verb's particle": order[-4:] == ("O", "P", "X", ".")
        and scene.activity.particle
        and scene.object is not None,
        "an instrument far from the verb that plays it": "O P" in " ".join(order)
        and getattr(scene.object, "determiner", "") == "tune",
        "while a man, he": order[0] == "während/1"
        and kind == "while"
        and subject.determiner != "the",
        "a tourist at home": subject.noun.group in TRAVELERS and scene.group in HOME,
        "a portrait of several": order[0] == "Porträt/1"
        and (subject.several or subject.determiner == "the"),
        "the picture shows the woman who": relative
        and "Sa" in order
        and subject.determiner == "the",
        "an old woman's child": kind == "kin" and ("alt", "old") in subject.adjectives,
        "a pronoun before its noun": order[0] == "weil/1" and scene.refers,
        "there is the": kind == "there" and subject.determiner == "the",
        "a relative clause of a group": relative and subject.determiner == "group",
        "a relative clause after an attribute": relative and attribute,
        "clothes against the weather": attribute
        and ("T" in order or kind == "wet" or "snow" in scene.activity.heads),
        "bringing a couple soup": kind == "give"
        and scene.recipient.noun.english == "couple",
        "somebody's own child, of several": kind == "kin"
        and (
            subject.several
            or subject.gender == "n"
            or subject.noun.group not in PARENTS
        ),
        "two cameras for one photo": "I" in order and scene.shares_one_object,
    }
    return [why for why, broken in rules.items() if broken]


def accompanies(activity: Activity, pattern: Pattern, first: Scene) -> bool:
    """Return whether an activity can be the second one, after the first scene."""
    kind, notes, others = pattern.kind, activity.heads, first.activity.heads
    if notes & SPECIAL - {kind} or activity.recipients:
        return False
    if activity.infinitive == first.activity.infinitive:  # such as buying and shopping
        return False
    if ("snow" in notes) != ("snow" in others):
        return False
    if "T" in pattern.german and notes & {"sun", "wet"}:
        return False
    if kind in OTHER_SUBJECT:
        alone = not notes & (NEEDS_PLACE | {"sg"})
        if kind == "kin" and "pl" in notes:
            return False
        if kind in ("two", "kin"):
            weather = [row & {"sun", "wet"} for row in (notes, others)]
            return alone and not notes & {"solo", "wild"} and weather != WET_AND_SUNNY
        if kind == "watch":
            return "show" in notes
        fitting = bool(notes & RESTING) if "P'" in pattern.german else alone
        return fitting and does(first.object, activity)
    if first.subject.noun not in activity.who:
        return False
    if first.subject.several and "sg" in notes:
        return False
    if kind == "both":
        dressed = "plain" in notes and first.subject.attribute.de
        return POSTURES[first.activity.infinitive] in notes and not dressed
    if kind == "wear":
        return "wear" in notes and (first.activity.outdoors or "outdoors" not in notes)
    together = not first.group or first.group in activity.where
    return first.activity.tags["bei" if kind == "while" else kind] in notes and together


def does(thing: NounPhrase | Adverbial | None, activity: Activity) -> bool:
    """Return whether the object of a scene can be the subject of an activity."""
    if not isinstance(thing, NounPhrase) or activity.what:
        return False
    return thing.noun in activity.who and thing.determiner in ("a", "the", "bare")


def second_scene(rng: Chooser, pattern: Pattern, first: Scene) -> Scene:
    """Make a scene that goes with the first one in the way the pattern's kind asks."""
    kind = pattern.kind
    shared = kind in OTHER_SUBJECT | {"both"}  # the place is that of the first scene
    rows = ACTIVITIES_AT.get(first.group, []) if shared else ACTIVITIES
    candidates = [a for a in rows if accompanies(a, pattern, first)]
    if not candidates:
        raise Unfit("no second scene")
    activity = pick(rng, candidates, 10.0)
    subjects = {"what": first.object, "two": None, "watch": None}
    if kind == "kin":
        doers = {noun.group for noun in activity.who}
        names = [name for name, group in KIN.items() if group in doers]
        if not names:
            raise Unfit("nobody of the family does this")
        owner = first.subject.gender
        subjects["kin"] = NounPhrase(NOUNS[pick(rng, names)], "own", owner=owner)
    scene = Scene(rng, activity, subjects.get(kind, first.subject))
    if shared:
        scene.group = first.group
    same_group = scene.subject.noun.group == first.subject.noun.group
    if scene.subject.noun.group in TRAVELERS and scene.group in HOME:
        raise Unfit("a tourist at home")
    if kind in ("two", "watch") and same_group:
        raise Unfit("the same people twice")
    if kind == "wear" and scene.object.determiner == "the":
        raise Unfit("a person who is wearing the coat")
    if kind in ("watch", "bei"):
        scene.object = None
    if kind == "both" and "W'" in pattern.german and scene.object is None:
        raise Unfit("who is sleeping is lying")
    if kind == "watch":
        scene.subject.attribute = Phrase([], [])
    return scene


def compose(rng: Chooser) -> Sentence:
    """Compose a sentence; raise Unfit if the choices do not go together."""
    pattern = rng.choices(PATTERNS, cum_weights=PATTERN_WEIGHTS)[0]
    scenes = [Scene(rng, pick(rng, CANDIDATES[pattern], 80.0))]
    for why in objections(pattern, *scenes):
        raise Unfit(why)
    if pattern.kind in SAME_SUBJECT | OTHER_SUBJECT:
        scenes.append(second_scene(rng, pattern, *scenes))
    return realise(pattern, scenes)


# -------------------------------------------------------------------------- corpus


def held_out_pairs(rng: random.Random) -> set[tuple[str, str]]:
    """Draw verb-noun pairs that training never shows together, though it shows each.

    The first one or two objects in a row of the table, the usual ones, always stay.
    """
    rows = [
        [(activity.lemma, NOUNS[spec.split(":")[0]].lemma) for spec in activity.what]
        for activity in ACTIVITIES
    ]
    verbs_of: dict[str, set[str]] = {}
    for verb, noun in itertools.chain(*rows):
        verbs_of.setdefault(noun, set()).add(verb)
    pairs = set()
    for row in rows:
        for verb, noun in rng.sample(row[2:], max(0, min(len(row) - 2, len(row) // 3))):
            if len(verbs_of[noun]) > 1:  # training keeps the noun with another verb
                verbs_of[noun].discard(verb)
                pairs.add((verb, noun))
    return pairs


class Neighbors:
    """Sentences, indexed to find others that are one word away from them.

    Two sentences are one word away from each other if one of them has an additional
    word, or another word in one place.
    """

    def __init__(self) -> None:
        self.whole: set[tuple[str, ...]] = set()
        self.gaps: set[tuple[tuple[str, ...], int]] = set()
        self.shorter: set[tuple[str, ...]] = set()

    def add(self, words: list[str]) -> None:
        line = tuple(word.lower() for word in words)
        self.whole.add(line)
        for i in range(len(line)):
            rest = line[:i] + line[i + 1 :]
            self.gaps.add((rest, i))
            self.shorter.add(rest)

    def near(self, words: list[str]) -> bool:
        """Return whether a sentence is at most one word away from one of these."""
        line = tuple(word.lower() for word in words)
        rests = [(line[:i] + line[i + 1 :], i) for i in range(len(line))]
        return line in self.shorter or any(
            rest in self.whole or (rest, i) in self.gaps for rest, i in rests
        )


@dataclass
class Corpus:
    splits: dict[str, list[Sentence]]
    held_out: set[tuple[str, str]]
    kinds: list[str]  # of each test sentence: seen, combination or order


def build() -> Corpus:
    """Build the whole corpus, always the same."""
    rng = Chooser(SEED)
    held_out = held_out_pairs(rng)
    known: set[str] = set()  # no sentence twice, on either side
    counts: Counter[str] = Counter()  # words of the training sentences
    training = {"de": Neighbors(), "en": Neighbors()}

    def fits(sentence: Sentence, split: str, kind: str) -> bool:
        """Return whether the split may have the sentence as one of a kind."""
        pair = bool(sentence.objects & held_out)
        pair_shown = any(sentence.shows(pair) for pair in held_out)
        order = sentence.skeleton in HELD_OUT_ORDERS
        if kind == "combination" and (not pair or order):
            return False
        if kind != "combination" and pair_shown or (kind == "order") != order:
            return False
        if kind == "order" and not sentence.plain:
            return False  # "wait for a bus" looks like a verb with a place
        if any(line in known for line in sentence.lines()):
            return False
        if split == "train":
            return True
        sides = {"de": sentence.german, "en": sentence.english}
        words = [f"{side} {word}" for side, text in sides.items() for word in text]
        if any(counts[word] < SEEN for word in words):
            return False
        return not any(training[side].near(text) for side, text in sides.items())

    def draw(split: str, kind: str) -> Sentence:
        """Draw a sentence that the split may have, by rejection."""
        while True:
            try:
                sentence = compose(rng)
            except Unfit:
                continue
            if not fits(sentence, split, kind):
                continue
            known.update(sentence.lines())
            if split == "train":
                for side, text in (("de", sentence.german), ("en", sentence.english)):
                    training[side].add(text)
                    counts.update(f"{side} {word}" for word in text)
            return sentence

    splits = {}
    for split, size in SIZES.items():
        kinds = ["seen"] * size
        if split == "test":
            rare = [kind for kind, number in UNSEEN.items() for _ in range(number)]
            kinds[: len(rare)] = rare
            rng.shuffle(kinds)
        splits[split] = [draw(split, kind) for kind in kinds]
    return Corpus(splits, held_out, kinds)


def files(corpus: Corpus) -> dict[str, str]:
    """Return the name and text of each file."""
    out = {}
    for split, sentences in corpus.splits.items():
        for side in ("de", "en", "align"):
            out[f"{split}.{side}"] = "".join(s.line(side) + "\n" for s in sentences)
    out["test.kind"] = "".join(f"{kind}\n" for kind in corpus.kinds)
    return out


def summary(corpus: Corpus) -> str:
    """Format the corpus's figures as a table."""
    rows = [f"{'':6}  pairs  de words  types  mean  en words  types  mean  patterns"]
    for split, sentences in corpus.splits.items():
        row = f"{split:6} {len(sentences):6}"
        for side in ("german", "english"):
            words = [word for sentence in sentences for word in getattr(sentence, side)]
            mean = len(words) / len(sentences)
            row += f" {len(words):9} {len(set(words)):6} {mean:5.1f}"
        rows.append(f"{row} {len({sentence.skeleton for sentence in sentences}):9}")
    return "\n".join(rows)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the captions and count them.")
    parser.add_argument("--check", action="store_true", help="compare; write nothing")
    check = parser.parse_args(argv).check
    corpus = build()
    differing = []
    for name, text in files(corpus).items():
        path = HERE / name
        if not check:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif not path.exists() or path.read_bytes() != text.encode():
            differing.append(name)
    if differing:
        print("not what the grammar generates:", *differing, file=sys.stderr)
    else:
        print(summary(corpus))
    return bool(differing)


if __name__ == "__main__":
    raise SystemExit(main())
