"""How does parallel text become pairs, ids and batches, however large it is?"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import re
import stat
import tempfile
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotated_transformer import (
    UNK,
    BytePairEncoding,
    DataError,
    Example,
    Text,
    Vocabulary,
    WordTokenizer,
    encode_pairs,
)
from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.files import (
    atomic_folder,
    log,
    read_json,
    reported,
    write_atomically,
    write_json,
)
from transformer_workshop.text.spelling import tidied
from transformer_workshop.text.tables import column_of, datasets_library, stream_text

if TYPE_CHECKING:
    from transformer_workshop.base.settings import TrainingConfig


def pack_text(text: Text) -> dict[str, Any]:
    """Return the vocabularies, and the byte-pair merges if any, ready for JSON."""
    merges = None
    if isinstance(text.tokenizer_src, BytePairEncoding):  # the same on both sides
        merges = json.loads(text.tokenizer_src.to_json())
    source, target = text.vocab_src.itos, text.vocab_tgt.itos
    return {"source": source, "target": target, "merges": merges}


def _vocabulary(tokens: list[str]) -> Vocabulary:
    """Return the vocabulary that a file holds; ValueError if it isn't one."""
    if not all(isinstance(token, str) for token in tokens):
        raise ValueError("a token is no text")
    try:
        return Vocabulary(tokens)
    except DataError as error:
        raise ValueError(f"the vocabulary {error.what}") from None


def load_text(folder: str | Path) -> Text:
    """Load the vocabularies and tokenizers from a folder."""
    path = Path(folder) / "vocabulary.json"
    packed, do = read_json(path), "Restore it from a copy."
    # any error: tokenizers has no class of its own
    with reported(Exception, path, "was not written by this program ({})", do):
        source, target = (_vocabulary(packed[side]) for side in ("source", "target"))
        if packed["merges"] is None:
            return Text(source, target, WordTokenizer("de"), WordTokenizer("en"))
        bpe = BytePairEncoding.from_json(json.dumps(packed["merges"]))
        if bpe.get_itos() != source.itos:
            raise ValueError("vocabulary and merges do not belong together")
        return Text(source, target, bpe, bpe)


def read_pairs(
    src: str | Path, tgt: str | Path, blank: bool = False
) -> list[tuple[str, str]]:
    """Return the pairs that ``stream_parallel`` yields.

    Raises DataError as it does, and if the two names are the same.
    """
    if os.path.abspath(src) == os.path.abspath(tgt):
        what = "is given for both languages"
        raise DataError(src, what, "Name the translations' file or column.")
    return list(stream_parallel(src, tgt, blank))


def _is_pipe(name: str) -> bool:
    """Return whether a name is that of a pipe, such as a shell's <(command)."""
    with suppress(OSError, ValueError):  # who reads it will say why
        return stat.S_ISFIFO(os.stat(name).st_mode)
    return False


def load_pairs(config: TrainingConfig, split: str) -> list[tuple[str, str]]:
    """Return the pairs in a split: train, valid, or test.

    Files that the configuration names for the split replace those of the dataset.
    Raises DataError if there are no files, or only one of the two.
    """
    src = getattr(config, f"{split}_src", None)
    tgt = getattr(config, f"{split}_tgt", None)
    if src and tgt:
        for name in filter(_is_pipe, (src, tgt)):
            what = "is a pipe, which can be read only once"
            raise DataError(name, what, "Write its text to a file, and name that.")
        return read_pairs(src, tgt)
    if src or tgt or config.dataset == "files":
        what = "has no files" if src is tgt is None else "has one file instead of two"
        do = f"Set {split}_src and {split}_tgt (--{split}-src and --{split}-tgt)."
        raise DataError(f"{split} split", what, do)
    name, suffix = split, ""
    if config.dataset == "multi30k":
        name = {"valid": "val", "test": "test_2016_flickr"}.get(split, split)
        suffix = ".gz"
    german, english = (f"{name}.{language}{suffix}" for language in ("de", "en"))
    files = data_file(config.dataset, german), data_file(config.dataset, english)
    return read_pairs(*files)


def show_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the first two training pairs, a line each, as one wants to see them."""
    lines = (f"  {src} → {tgt}" for src, tgt in islice(pairs, 2))
    return "\n".join(["The training pairs begin:", *lines])


def word_vocabularies(
    pairs: Iterable[tuple[str, str]],
    spacy_de: WordTokenizer,
    spacy_en: WordTokenizer,
    min_freq: int = 2,
) -> tuple[Vocabulary, Vocabulary]:
    """Return source and target vocabulary of pairs, which are read only once."""
    german, english = Counter[str](), Counter[str]()
    for src, tgt in pairs:
        german.update(spacy_de.tokenize(src))
        english.update(spacy_en.tokenize(tgt))
    return Vocabulary.build(german, min_freq), Vocabulary.build(english, min_freq)


def prepare_text(
    pairs: Iterable[tuple[str, str]], bpe_size: int = 0, min_freq: int = 2
) -> Text:
    """Build the vocabularies and tokenizers, from training pairs alone.

    By words for German and English, or, with ``bpe_size``, by subwords that
    both sides share, for any pair of languages.
    """
    if bpe_size:
        sentences = (sentence for src, tgt in pairs for sentence in (src, tgt))
        bpe = BytePairEncoding.train(sentences, bpe_size)
        vocab = Vocabulary(bpe.get_itos())
        return Text(vocab, vocab, bpe, bpe)
    words = WordTokenizer("de"), WordTokenizer("en")
    return Text(*word_vocabularies(pairs, *words, min_freq), *words)


def text_of(config: TrainingConfig, pairs: Iterable[tuple[str, str]] = ()) -> Text:
    """Return a new run's text: that of its store or ``init``, or learned from pairs."""
    if known := config.store or config.init:
        return load_text(known)
    return prepare_text(pairs, config.bpe_size, config.min_freq)


def load_examples(config: TrainingConfig, split: str, text: Text) -> Sequence[Example]:
    """Return a split as ids: a list or, from ``config.store``, on disk (chapter 92).

    Reports how many pairs were too long, and warns if many words in the validation
    split are unknown. Raises DataError if no pair is left.
    """
    if config.store and split == "train":
        return open_store(config, text)
    return encode_split(config, split, load_pairs(config, split), text)


def encode_split(
    config: TrainingConfig, split: str, pairs: Sequence[tuple[str, str]], text: Text
) -> list[Example]:
    """Return a split's pairs as ids, with the reports of ``load_examples``."""
    examples, left_out = encode_pairs(pairs, text, config.max_tokens)
    report_left_out(split, left_out, len(pairs), config.max_tokens)
    if split == "valid":
        _report_unknown(examples)
    return examples


_MANY_UNKNOWN = 0.02  # share of a side's tokens


def _report_unknown(examples: Sequence[Example]) -> None:
    """Warn if many tokens in the validation split are unknown."""
    for side, rows in zip(("source", "target"), zip(*examples), strict=True):
        tokens = sum(len(ids) - 2 for ids in rows)
        share = sum(ids.count(UNK) for ids in rows) / tokens
        if share > _MANY_UNKNOWN:
            log(
                f"valid: {share:.1%} of the {side} tokens are unknown words (<unk>). "
                "Perplexity looks better than it is; use subwords (bpe_size), or "
                "more text."
            )


def report_left_out(split: str, left_out: int, pairs: int, max_tokens: int) -> None:
    """Report how many pairs were too long; raise DataError if none is left."""
    if left_out:
        reason = f"longer than max_tokens={max_tokens}"
        log(f"{split}: left out {left_out} of {pairs} pairs, {reason}")
    if left_out == pairs:
        what = "holds no pair that is short enough"
        raise DataError(f"{split} split", what, "Raise max_tokens.")


def digest_of(examples: Iterable[Example]) -> str:
    """Return a SHA-256 over the ids of all the examples, in order."""
    digest = hashlib.sha256()
    for src, tgt in examples:
        digest.update(array("i", [len(src), *src, *tgt]).tobytes())
    return digest.hexdigest()


_HALF = re.compile("[\ud800-\udfff]")  # of a character, as JSON can write it


@functools.cache
def _say_once(message: str) -> None:
    """Write a message to standard error, however often the same text is read."""
    log(message)


def stream_parallel(
    src_file: str | Path, tgt_file: str | Path, blank: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two text files or columns (``stream_text``), line by line.

    Each sentence is ``tidied``, as what is translated later. Pairs with a blank side
    are left out, and their numbers said; ``blank``: yield them, too. Raises DataError
    if a file can't be read or holds no sentence, and if the two differ in length.
    """
    files, number, left_out = (src_file, tgt_file), 0, list[int]()
    row_or_line = "row" if any(map(column_of, files)) else "line"
    for number, (src, tgt) in enumerate(zip_longest(*map(stream_text, files)), 1):
        if src is None or tgt is None:
            break
        src, tgt = tidied(src), tidied(tgt, target=True)
        for file, line in zip(files, (src, tgt), strict=True):
            if half := _HALF.search(line):
                what = f"holds half a character ({half[0]!r})"
                raise DataError(f"{file}, {row_or_line} {number}", what, "Correct it.")
        if blank or (src.strip() and tgt.strip()):
            yield src, tgt
        else:
            left_out.append(number)
    else:
        if len(left_out) < number:
            if left_out:
                which = ", ".join(map(str, left_out[:5]))
                which += ", …" if len(left_out) > 5 else ""
                _say_once(
                    f"{src_file}, {tgt_file}: left out {len(left_out)} of {number} "
                    f"pairs, of which a side is blank ({row_or_line} {which})"
                )
            return
    counts = [sum(1 for _ in stream_text(file)) for file in files]
    if 0 in counts:
        file = files[counts.index(0)]
        raise DataError(file, "is empty", "Give a file with sentences.")
    if len(left_out) == number:
        what = f"hold no pair: in each {row_or_line}, one side is blank"
        raise DataError(f"{src_file}, {tgt_file}", what, "Give files with sentences.")
    what = f"have {counts[0]} and {counts[1]} {row_or_line}s, so they are not aligned"
    raise DataError(f"{src_file}, {tgt_file}", what, f"Find the missing {row_or_line}.")


class _StoredPairs(Sequence):
    """A sequence of pairs, of text or of ids, that stay on disk until needed."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        row = self.dataset[index]
        return row["src"], row["tgt"]

    def __iter__(self) -> Iterator[Any]:
        for rows in self.dataset.iter(batch_size=1000):  # much faster than one by one
            yield from zip(rows["src"], rows["tgt"], strict=True)


def _encode_rows(rows: dict[str, list[str]], text: Text, max_tokens: int) -> dict:
    """Return two columns of text as ids, without the pairs that are too long."""
    pairs = zip(rows["src"], rows["tgt"], strict=True)
    examples, _ = encode_pairs(pairs, text, max_tokens)
    return {"src": [src for src, _ in examples], "tgt": [tgt for _, tgt in examples]}


_LEARN_FROM = 1_000_000  # the most pairs to learn a vocabulary from


_ODD = 3  # times the usual ratio of the two lengths
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)
_MARKUP = re.compile(
    r"&(?:[A-Za-z]{2,8}|#\d{1,6}|#x[\dA-Fa-f]{1,6});|</?[A-Za-z][^<>]*>"
)


def as_seen(sentence: str) -> str:
    """Return a sentence as it looks: no invisible characters, single blanks."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFC", sentence))
    return " ".join(visible.split())


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

    Pairs that share a sentence, as it looks, stay together. Raises DataError if then
    there are none to draw.
    """
    parent, first = list(range(len(pairs))), dict[tuple[int, str], int]()

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    for i, pair in enumerate(pairs):
        for side in enumerate(map(as_seen, pair)):
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
        for split, pairs in parts.items():
            for side, lines in zip(("src", "tgt"), zip(*pairs)):
                text = "".join(f"{line}\n" for line in lines)
                write_atomically(temporary / f"{split}.{side}", text.encode())
    counts = ", ".join(f"{split} {len(pairs)}" for split, pairs in parts.items())
    log(f"{folder}: {counts} pairs, in files such as {next(iter(parts))}.src and .tgt.")


def _write_examples(
    folder: Path, config: TrainingConfig, workers: int, clean: bool
) -> tuple[int, Text]:
    """Write the ids of the training pairs; return how many pairs, and their text."""
    files, datasets = (str(config.train_src), str(config.train_tgt)), datasets_library()
    ids = datasets.List(datasets.Value("int32"))
    errors = OSError, RuntimeError, datasets.exceptions.DatasetsError
    what = "could not be prepared ({})"
    do = "Make room on the disk, or use fewer `workers`."

    def pairs_in_files() -> Iterator[tuple[str, str]]:
        return stream_parallel(*files, blank=clean)

    def rows() -> Iterator[dict[str, str]]:
        valid = load_pairs(config, "valid") if clean and config.valid_src else []
        held_out = {sentence for pair in valid for sentence in pair}
        some = cleaned(pairs_in_files, held_out) if clean else pairs_in_files()
        return ({"src": src, "tgt": tgt} for src, tgt in some)

    with (
        reported(errors, ", ".join(files), what, do),
        tempfile.TemporaryDirectory(dir=folder) as cache,
    ):
        pairs = datasets.Dataset.from_generator(rows, None, cache, fingerprint="text")
        every, workers = -(-len(pairs) // _LEARN_FROM), min(workers, len(pairs))
        some = _StoredPairs(pairs.select(range(0, len(pairs), every)))
        log(show_pairs(some))
        text = prepare_text(some, config.bpe_size, config.min_freq)
        examples = pairs.map(
            _encode_rows, batched=True, num_proc=workers if workers > 1 else None,
            features=datasets.Features(src=ids, tgt=ids), new_fingerprint="ids",
            fn_kwargs={"text": text, "max_tokens": config.max_tokens},
        )  # fmt: skip
        left_out = len(pairs) - len(examples)
        report_left_out("train", left_out, len(pairs), config.max_tokens)
        examples.save_to_disk(folder)
    return len(examples), text


def _digest_of_file(name: str) -> str:
    """Return a SHA-256 of what a file holds, or of the files in a folder."""
    file = Path(name)
    digest, do = hashlib.sha256(), "Check its name and place."
    with reported(OSError, file, "can't be read ({})", do):
        files = [f for f in sorted(file.rglob("*")) if f.is_file()]
        for path in files if file.is_dir() else [file]:
            with open(path, "rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


_MADE_FROM = "train_src", "train_tgt", "valid_src", "valid_tgt"


def _files_of(config: TrainingConfig) -> dict[str, str]:
    """Return the files of text that a configuration names, without columns."""
    named = {name: getattr(config, name) for name in _MADE_FROM}
    return {n: (column_of(file) or [file])[0] for n, file in named.items() if file}


def digests_of(config: TrainingConfig) -> dict[str, str]:
    """Return the SHA-256 of each file of text, and of the store, that is there."""
    files = _files_of(config)
    if config.store:
        files["store"] = str(Path(config.store, "store.json"))
    there = {n: f for n, f in files.items() if os.path.isfile(f) or os.path.isdir(f)}
    return {name: _digest_of_file(file) for name, file in there.items()}


def changed(there: dict[str, str], config: TrainingConfig) -> str:
    """Return which of a configuration's files aren't what they were, or ""."""
    now = digests_of(config)
    names = [name for name in there if now.get(name, there[name]) != there[name]]
    return ", ".join(f"{name} ({getattr(config, name)})" for name in names)


def _store_settings(config: TrainingConfig, clean: bool) -> dict[str, Any]:
    """Return what determines a store's content, including that of the files."""
    if not (config.train_src and config.train_tgt and config.store):
        do = "Give `train_src`, `train_tgt` and `store` (or `text`)."
        raise DataError("prepare", "needs two files of text, and a folder", do)
    names = ["train_src", "train_tgt", "bpe_size", "min_freq", "max_tokens"]
    names += ["valid_src", "valid_tgt"] if clean else []
    known = {name: getattr(config, name) for name in names}
    chosen = {"clean": True} if clean else {}
    files = {n: f for n, f in _files_of(config).items() if n in names}
    digests = {name: _digest_of_file(file) for name, file in files.items()}
    return {**known, **chosen, "sha256": digests}


def _described_store(folder: Path) -> dict[str, Any]:
    """Return a store's store.json; DataError if missing or of another version."""
    if not (folder / "store.json").exists():
        raise DataError(folder, "holds no prepared corpus", "Write it with `prepare`.")
    known = read_json(folder / "store.json")
    if not isinstance(known, dict) or known.get("format") != "arrow":
        what = "was not prepared by this version"
        raise DataError(folder, what, "Delete it and prepare it again.")
    return known


def prepare_store(config: TrainingConfig, workers: int = 1, clean: bool = False) -> int:
    """Write a configuration's training pairs into its store; return their number.

    clean: without those that ``cleaned`` leaves out. Raises DataError if the text
    can't be used or the folder is already taken.
    """
    settings, folder = _store_settings(config, clean), Path(str(config.store))
    if (folder / "store.json").exists():
        known = _described_store(folder)
        if known["settings"] != settings:
            before = known["settings"].get("sha256", {})
            files = changed(before, config) if before else ""
            what = "was made from other text, or by other settings"
            what += f": the text of {files} has changed" if files else ""
            raise DataError(folder, what, "Choose another `store`, or delete this one.")
        log(f"{folder}: is prepared already.")
        return known["pairs"]
    with atomic_folder(folder.absolute()) as path:
        count, text = _write_examples(path, config, workers, clean)
        write_json(path / "vocabulary.json", pack_text(text))
        about = {"format": "arrow", "pairs": count, "settings": settings}
        write_json(path / "store.json", about)
    log(f"{folder}: {count} pairs.")
    return count


def open_store(config: TrainingConfig, text: Text) -> Sequence[Example]:
    """Map a configuration's store; DataError if it was not made for this text."""
    folder = Path(str(config.store))
    known = _described_store(folder)
    there = known["settings"] | {"vocabulary": read_json(folder / "vocabulary.json")}
    for name, wanted in (
        ("vocabulary", pack_text(text)),
        ("max_tokens", config.max_tokens),
        ("train_src", config.train_src),
        ("train_tgt", config.train_tgt),
    ):
        if wanted is not None and there[name] != wanted:
            what = f"was made with another {name} than this run's"
            raise DataError(folder, what, "Prepare one for it: `prepare`.")
    made_from = known["settings"].get("sha256", {})
    made_from = {name: made_from[name] for name in made_from if name[:5] == "train"}
    if files := changed(made_from, config):
        what = f"was made from another text: {files} has changed since"
        raise DataError(folder, what, "Delete it and prepare it again.")
    do = "Delete it and prepare it again."
    # any error: datasets and Arrow have classes of their own
    with reported(Exception, folder, "is damaged ({})", do):
        dataset = datasets_library().load_from_disk(str(folder))
        if len(dataset) != known["pairs"]:
            raise ValueError(f"{len(dataset)} of {known['pairs']} pairs")
    return _StoredPairs(dataset)
