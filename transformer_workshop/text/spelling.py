"""What of a line that someone wrote does a model get to read?"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

from annotated_transformer import UNK, BytePairEncoding, Text, optional_import

_NO_BREAK = "\u00a0\u2007\u202f"  # blanks at which a line must not end
# What nobody sees: soft hyphens, blanks without width, marks for the direction
_UNSEEN = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
# Joiners mean something between the letters of Persian or Hindi, and in emoji, but
# not behind Latin, Greek, Cyrillic, or Armenian ones
_JOINERS = re.compile("(^|[\u0000-\u058f\u1e00-\u206f])[\u200c\u200d]+")


def tidied(line: str, target: bool = False) -> str:
    """Return a line as models read it: what looks the same is the same.

    Characters are composed (NFC), marks that nobody sees are dropped, and tabs, other
    blanks, and several of them are one blank. ``target``: a sentence to be written;
    its no-break spaces are kept.
    """
    if not line.isascii():
        line = _UNSEEN.sub("", unicodedata.normalize("NFC", line))
        line = _JOINERS.sub(r"\1", line)
    return one_line(line) if target else " ".join(line.split())


def one_line(text: str) -> str:
    """Return a text without line ends, tabs, or several blanks; no-break ones stay."""
    return re.sub(rf"[^\S{_NO_BREAK}]+", " ", text).strip(" ")


@functools.cache
def _sentencizer(language: str) -> Any:
    """Return spaCy's rules for sentence ends; abbreviations don't end one."""
    spacy = optional_import("spacy")
    try:
        rules = spacy.blank(language)
    except ImportError:  # unknown, or it needs a package of its own
        rules = spacy.blank("xx")  # for any language
    rules.add_pipe("sentencizer")
    return rules


@functools.cache
def _abbreviations(language: str) -> set[str]:
    """Return spaCy's abbreviations for a language; if it has none, those of three."""

    def of(code: str) -> set[str]:
        special_cases = _sentencizer(code).tokenizer.rules
        return {word.lower() for word in special_cases if word.endswith(".")}

    return (of(language) - of("xx")) or of("de") | of("en") | of("fr")


# A Chinese or Japanese sentence ends without a space, except before a closing bracket.
_FULL_STOP = re.compile(r"(?<=[。！？])(?![。！？」』）”])")
_OPENING = re.compile(r"\s+[¿¡„«»“‚‘(\[]*\s*$")  # with the blank before it
_LETTER = re.compile(r"[\W_]*([^\W_])")  # or digit: the first one
# Dr., Mrs.; the J. of a name; 3. and 12. in a date or a list
_NO_END = re.compile(
    r"\b([B-DF-HJ-NP-TV-Z][b-df-hj-np-tv-xz]{1,3}|[^\W\d_]|\d{1,2})\.$"
)


def split_sentences(line: str, language: str = "de") -> list[str]:
    """Split a line at its sentence ends; a blank line has no sentences.

    Ends are those of spaCy's rules for the language, and 。！？ in any. None is before
    a small letter, a digit, or the rest of a word, nor behind an abbreviation, an
    initial, or a number of two digits.
    """
    ends = {match.start() for match in _FULL_STOP.finditer(line)}
    if re.search(r"[.!?…؟।॥۔።]\S{0,9}\s+\S", line):
        for span in _sentencizer(language)(line).sents:
            # spaCy counts an opening mark among those that end the sentence before
            if blank := _OPENING.search(line, 0, span.start_char):
                ends.add(blank.start())
    sentences, begun = [], 0
    for end in sorted(ends):
        first = _LETTER.match(line, end)
        if first is None or first[1].islower() or not first[1].isalpha():
            continue
        words = line[begun:end].split()
        if words and not _abbreviates(words[-1], language):
            sentences.append(line[begun:end].strip())
            begun = end
    return [sentence for sentence in (*sentences, line[begun:].strip()) if sentence]


def _abbreviates(word: str, language: str) -> bool:
    """Return whether the period at a word's end belongs to the word."""
    if not word.endswith("."):
        return False
    word = word.lstrip("¿¡„«»“‚‘([\"'")
    return bool(_NO_END.search(word)) or word.lower() in _abbreviations(language)


_TYPED = {"ae": "ä", "oe": "ö", "ue": "ü", "Ae": "Ä", "Oe": "Ö", "Ue": "Ü", "ss": "ß"}
_WORD = r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*"  # letters and combining marks


def respell(sentence: str, text: Text, language: str = "de") -> str:
    """Return a sentence in the spelling that the model's vocabulary knows best.

    If the sentence is all capitals, or has none, words get ordinary case. In German,
    umlauts and ß that were typed as ae, oe, ue, and ss come back. Words that the
    vocabulary knows as they are stay so, but for the first one's capital, and so does a
    sentence that consists of them. (Only the case of subwords in a sentence that is all
    capitals, or has none, is open: they can be part of anything. Of two cases with as
    many subwords, the more frequent is taken, in German the capital.)
    """
    tokenizer, words = text.tokenizer_src, re.findall(_WORD, sentence)
    whole = not isinstance(tokenizer, BytePairEncoding)  # a token is a whole word
    recase = sentence.isupper() or sentence.islower()

    def cost(word: str) -> tuple[int, int, int]:
        ids = text.vocab_src(tokenizer.tokenize(word))
        rare = len(ids) > 1 and language == "de"  # most often a noun or a name
        rank = 0 if rare and word.istitle() else ids[0]  # frequent ones have low ids
        return ids.count(UNK), len(ids), rank

    def is_known(word: str) -> bool:
        unknown, tokens, _ = cost(word)
        return not unknown and (whole or tokens == 1)

    def can_be(word: str) -> bool:
        """Return whether each umlaut belongs to something that the model has seen."""
        pieces = [tokenizer.detokenize([token]) for token in tokenizer.tokenize(word)]
        odd = (len(piece) < 3 for piece in pieces if re.search("[äöüß]", piece, re.I))
        # Köffizient: K, öff, …
        cut = (b[:1] in "äöü" and len(a) < 2 for a, b in zip(pieces, pieces[1:]))
        return is_known(word) or not (whole or any(odd) or any(cut))

    def best(match: re.Match[str]) -> str:
        word = match[0]
        if is_known(word) and (whole or not recase):
            return word
        cases = {word, word.lower(), word.capitalize()} if recase else {word}
        # if several cost the same, the word as typed
        plain = min(cases, key=lambda case: (cost(case), case != word, case))
        spellings = set(cases)
        for typed, letter in _TYPED.items() if language == "de" else ():
            spellings |= {spelling.replace(typed, letter) for spelling in spellings}
        spellings = {spelling for spelling in spellings - cases if can_be(spelling)}
        if is_known(plain) or not spellings:
            return plain
        chosen = min(spellings, key=lambda spelling: (cost(spelling), spelling))
        (unknown, tokens, _), (still_unknown, fewer, _) = cost(plain), cost(chosen)
        # one subword less can be chance; a known word isn't
        saved = 1 if fewer == 1 else 2
        better = still_unknown < unknown or tokens - fewer >= saved
        return chosen if better else plain

    if recase and all(map(is_known, words)):
        return sentence
    respelled = re.sub(_WORD, best, sentence)
    if recase and (first := re.search(_WORD, respelled)):
        capital = first[0].capitalize()
        unknown, tokens, _ = cost(capital)
        as_typed = sentence.isupper() and first[0] == words[0]
        if not (as_typed or unknown) and tokens <= cost(first[0])[1]:
            respelled = respelled.replace(first[0], capital, 1)
    return respelled
