"""Which pairs are better left out, and which are kept for validation and test?"""

from __future__ import annotations

import functools
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from annotated_transformer import DataError
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import atomic_folder, log, write_atomically
from transformer_workshop.text.corpora import load_pairs, show_pairs

_ODD = 3  # times the usual ratio of the two lengths
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)


_QUOTES = re.compile("[\"'`´‘-‟‹›«»「-』〝-〟＂＇]")
_MARKUP = re.compile(
    r"&(?:[A-Za-z]{2,8}|#\d{1,6}|#x[\dA-Fa-f]{1,6});|</?[A-Za-z][^<>]*>"
)


def as_seen(sentence: str) -> str:
    """Return a sentence as it looks: no invisible characters, single blanks."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFC", sentence))
    return " ".join(visible.split())


def as_words(sentence: str) -> str:
    """Return a sentence's words: without case, quotes, and punctuation at its end.

    A sentence of nothing but punctuation is returned as it looks.
    """
    seen = as_seen(sentence)
    words = " ".join(_QUOTES.sub("", seen.casefold()).split())
    while words and unicodedata.category(words[-1])[0] in "PZ":
        words = words[:-1]
    return words or seen


def usual_ratio(pairs: Iterable[tuple[str, str]]) -> float:
    """Return how many characters of the source there are for one of the target."""
    lengths = [0, 0]
    for pair in pairs:
        lengths = [sum(both) for both in zip(lengths, map(len, pair))]
    return lengths[0] / max(1, lengths[1])


def with_faults(
    pairs: Iterable[tuple[str, str]], usual: float, held_out: Iterable[str] = ()
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each pair with the reason not to train on it, or "".

    Reasons are a blank side, a pair that was there before, a side that is held out, two
    equal sides, markup, and lengths in characters, 10 added to each, that differ more
    than threefold from the ``usual`` ratio. Sentences are compared as they look.
    """
    seen, known = set[int](), set(map(as_seen, held_out))
    for pair in pairs:
        src, tgt = map(as_seen, pair)
        ratio = (len(src) + 10) / (len(tgt) * usual + 10)
        if not (src and tgt):
            why = "blank"
        elif (this := hash((src, tgt))) in seen:
            why = "repeated"
        elif not known.isdisjoint((src, tgt)):
            why = "in validation"
        elif src == tgt and any(map(str.isalpha, src)):
            why = "untranslated"
        elif any(map(_MARKUP.search, pair)):
            why = "with markup"
        elif not 1 / _ODD < ratio < _ODD:
            why = "of odd length"
        else:
            why = ""
            seen.add(this)
        yield pair, why


def cleaned(
    pairs: Callable[[], Iterable[tuple[str, str]]],
    held_out: Iterable[str] = (),
    split: str = "train",
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that have no fault; report how many were left out.

    ``pairs`` is called twice. Raises DataError if none is left.
    """
    left_out, kept = Counter[str](), 0
    for pair, why in with_faults(pairs(), usual_ratio(pairs()), held_out):
        if why:
            left_out[why] += 1
        else:
            kept += 1
            yield pair
    counts = ", ".join(f"{count} {why}" for why, count in left_out.items())
    if not kept:
        raise DataError("`clean`", f"leaves no pair ({counts})", "Look at the files.")
    log(f"{split}: left out {counts or 'no pair'}")


def split_pairs(
    pairs: Sequence[tuple[str, str]], seed: int = 0
) -> dict[str, list[tuple[str, str]]]:
    """Draw validation and test pairs, up to 1,000 each; the others are for training.

    Pairs that share a sentence, or its words (``as_words``), stay together. Raises
    DataError if then there are none to draw.
    """
    parent, first = list(range(len(pairs))), dict[tuple[int, str], int]()

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    for i, pair in enumerate(pairs):
        for side in enumerate(map(as_words, pair)):
            parent[root(i)] = root(first.setdefault(side, i))
    members = defaultdict[int, list[int]](list)
    for i in range(len(pairs)):
        members[root(i)].append(i)
    parts: dict[str, list[int]] = {"valid": [], "test": [], "train": []}
    size = min(1000, len(pairs) // 10)
    for rows in random.Random(seed).sample(list(members.values()), len(members)):
        fits = (n for n in ("valid", "test") if len(parts[n]) + len(rows) <= size)
        parts[next(fits, "train")] += rows
    if not all(parts.values()):
        what = f"are too few, or too much alike, to keep some of {len(pairs)} apart"
        raise DataError("the pairs", what, "Find more, or use `clean`.")
    return {name: [pairs[i] for i in sorted(rows)] for name, rows in parts.items()}


def write_splits(config: TrainingConfig, folder: Path, clean: bool = False) -> None:
    """Write a configuration's pairs as text to a folder, none of them in two splits.

    Splits are train and valid or, if only training files are named, also test
    (``split_pairs``). clean: without the pairs that ``cleaned`` leaves out.
    """
    named = [s for s in ("valid", "train") if getattr(config, f"{s}_src")]
    if not named:
        what, do = "needs two files of text", "Give `train_src` and `train_tgt`."
        raise DataError("prepare", what, do)
    parts: dict[str, list[tuple[str, str]]] = {}
    with atomic_folder(folder.absolute()) as temporary:
        for split in named:
            pairs_in_files = functools.partial(load_pairs, config, split)
            held_out = {
                sentence for pair in parts.get("valid", ()) for sentence in pair
            }
            if clean:
                parts[split] = list(cleaned(pairs_in_files, held_out, split))
            else:
                judged = with_faults(pairs_in_files(), 1, held_out)
                parts[split] = [p for p, why in judged if why != "in validation"]
        if named == ["train"]:
            parts = split_pairs(parts["train"], config.seed)
        elif "train" in parts:
            report_shared(parts["train"], parts["valid"])
        for split, pairs in parts.items():
            for side, lines in zip(("src", "tgt"), zip(*pairs)):
                text = "".join(f"{line}\n" for line in lines)
                write_atomically(temporary / f"{split}.{side}", text.encode())
    counts = ", ".join(f"{split} {len(pairs)}" for split, pairs in parts.items())
    log(f"{folder}: {counts} pairs, in files such as {next(iter(parts))}.src and .tgt.")


_SAMPLE = 2000  # pairs to compare the two languages in
_MANY = 0.02  # share of the training pairs with a fault


def report_on_pairs(
    train: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]]
) -> None:
    """Say how the training pairs begin, and what is odd about the validation pairs."""
    log(show_pairs(train))
    if _are_swapped(train[:_SAMPLE], valid[:_SAMPLE]):
        log("valid: its two languages look swapped; compare with the training pairs")
    usual = usual_ratio(train)
    faults = Counter(why for _, why in with_faults(train, usual))
    many = [why for why in sorted(faults) if why and faults[why] > _MANY * len(train)]
    if many:
        counts = ", ".join(f"{faults[why]} {why}" for why in many)
        log(
            f"train: of {len(train)} pairs, {counts}: `prepare --clean` leaves them out"
        )
    if faults := Counter(why for _, why in with_faults(valid, usual) if why):
        counts = ", ".join(f"{count} {why}" for why, count in faults.items())
        log(
            f"valid: of {len(valid)} pairs, {counts}: `prepare --clean --text FOLDER` "
            "writes the files without them"
        )
    report_shared(train, valid)


def report_shared(
    train: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]]
) -> None:
    """Say how many validation pairs a model knows from training, in whole or in part.

    Sentences are the same if their words are (``as_words``).
    """
    known = [set(map(as_words, side)) for side in zip(*train)]
    known_pairs = {tuple(map(as_words, pair)) for pair in train}
    words = [tuple(map(as_words, pair)) for pair in valid]
    copies = sum(pair in known_pairs for pair in words)
    halves = sum(pair[0] in known[0] or pair[1] in known[1] for pair in words) - copies
    told = {
        "are training pairs, too": copies,
        "share a sentence with a training pair": halves,
    }
    if said := [f"{count} {what}" for what, count in told.items() if count]:
        log(
            f"valid: of {len(valid)} pairs, {', and '.join(said)} (apart from case, "
            "quotes, and punctuation at the end): their scores say little about other "
            "text. `prepare --text FOLDER` keeps pairs apart if it gets training files "
            "only."
        )


def _are_swapped(
    train: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]]
) -> bool:
    """Return whether each side of valid looks more like the other side of train.

    Counted are the letter triples of a side that occur in the training text.
    """

    def triples(sentences: Iterable[str]) -> Iterator[str]:
        return (s[i : i + 3] for s in sentences for i in range(len(s) - 2))

    src, tgt = (set(triples(side)) for side in zip(*train))
    straight = crossed = 0
    for side, own, other in zip(zip(*valid), (src, tgt), (tgt, src)):
        side_triples = list(triples(side))
        straight += sum(triple in own for triple in side_triples)
        crossed += sum(triple in other for triple in side_triples)
    return crossed > straight
