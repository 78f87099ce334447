"""How does parallel text become pairs, ids and batches, however large it is?"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
import tempfile
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from annotated_transformer import (
    UNK,
    BytePairEncoding,
    DataError,
    Example,
    Text,
    Vocabulary,
    data_file,
    encode_pairs,
    load_tokenizers,
    optional_import,
    prepare_text,
    stream_lines,
)
from transformer_workshop.files import (
    atomic_folder,
    log,
    read_json,
    reported,
    write_json,
)
from transformer_workshop.spelling import tidied

if TYPE_CHECKING:
    from transformer_workshop.settings import TrainingConfig


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
            return Text(source, target, *load_tokenizers())
        bpe = BytePairEncoding.from_json(json.dumps(packed["merges"]))
        if bpe.get_itos() != source.itos:
            raise ValueError("vocabulary and merges do not belong together")
        return Text(source, target, bpe, bpe)


_TABLES = (".tsv", ".csv", ".jsonl")


def column_of(name: str | Path) -> tuple[str, str] | None:
    """Return file and column of a name like text.csv:german; None for other names.

    Raises DataError for a table without a column.
    """
    file, _, column = str(name).rpartition(":")
    if file.removesuffix(".gz").endswith(_TABLES) or os.path.isdir(file):
        return file, column
    if str(name).removesuffix(".gz").endswith(_TABLES):
        do = f"Name the column, too: {name}:1 is the first one."
        raise DataError(name, "is a table", do)
    return None


def is_text(name: str) -> bool:
    """Return whether a file of this name exists, or a table's column: TABLE:COLUMN."""
    file = name.rpartition(":")[0]
    if file.removesuffix(".gz").endswith(_TABLES) and os.path.isfile(file):
        return True
    if os.path.exists(os.path.join(file, "state.json")) and file:  # of datasets
        return True
    return os.path.exists(name) and not os.path.isdir(name)


def _text_in(file: str, number: int, row: Any, column: str) -> str:
    """Return a row's text in a column; DataError if there is none."""
    try:
        text = [None, *row][int(column)] if isinstance(row, list) else row[column]
    except (IndexError, KeyError, TypeError, ValueError):
        text = None
    if isinstance(text, str):
        return " ".join(text.split("\n"))
    names = ", ".join(row) if isinstance(row, dict) else f"1 to {len(row)}"
    what = f"has no text in column {column!r} (columns: {names})"
    raise DataError(f"{file}, row {number}", what, "Name another as FILE:COLUMN.")


def _lines(file: str | Path) -> Iterator[str]:
    """Yield what ``stream_lines`` does; DataError if a file's lines end otherwise."""
    lines = stream_lines(file)
    begun = list(islice(lines, 2))
    if len(begun) == 1 and "\r" in begun[0].strip("\r"):
        what = "has lines that end with a carriage return alone (\\r)"
        raise DataError(file, what, "Convert it: tr '\\r' '\\n' < FILE > NEW.")
    yield from chain(begun, lines)


def stream_text(name: str | Path) -> Iterator[str]:
    """Yield the lines of a text file, or the texts in a column of a table.

    A column is FILE:COLUMN. The file is .tsv, .csv, or .jsonl, also .gz, or a folder
    that Hugging Face's datasets wrote. Columns have the names in the first row, or
    numbers from 1, which make the first row one like the others. Names may be between
    semicolons. Raises DataError as ``stream_lines`` does, and for a row without text
    in the column.
    """
    if (found := column_of(name)) is None:
        yield from _lines(name)
        return
    file, column = found
    kind = Path(file.removesuffix(".gz")).suffix
    rows: Iterable[Any]
    if kind == ".jsonl":
        rows = (_parsed(file, i, line) for i, line in enumerate(_lines(file), 1))
    elif kind in _TABLES:
        lines: Iterator[str] = (f"{line}\n" for line in _lines(file))
        tabs = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}  # quotes mean nothing
        options: dict[str, Any] = tabs if kind == ".tsv" else {}
        named = not column.isdecimal()
        if named and kind == ".csv":
            first = next(lines, "")
            if first.count(";") > first.count(","):
                options = {"delimiter": ";"}
            lines = chain([first], lines)
        rows = table = csv.reader(lines, **options)  # a field may hold several lines
        if named:
            heads = islice(table, 1)
            rows = (dict(zip(names, row)) for names in heads for row in table)
    else:
        with reported(
            Exception, file, "can't be read ({})", "Name one split's folder."
        ):
            rows = _datasets().load_from_disk(file)
    with reported(csv.Error, file, "can't be read ({})", "Close its quotation marks."):
        for number, row in enumerate(rows, 1):
            yield _text_in(file, number, row, column)


def _parsed(file: str, number: int, line: str) -> Any:
    """Return what a line of JSON holds; DataError if it holds none."""
    with reported(
        ValueError, f"{file}, line {number}", "is not JSON ({})", "Correct it."
    ):
        return json.loads(line)


def read_pairs(src: str | Path, tgt: str | Path) -> list[tuple[str, str]]:
    """Return the pairs of two text files or columns (``stream_text``), line by line.

    Raises DataError as ``read_parallel`` does, and if the two are the same.
    """
    if os.path.abspath(src) == os.path.abspath(tgt):
        what = "is given for both languages"
        raise DataError(src, what, "Name the translations' file or column.")
    return list(stream_parallel(src, tgt))


def load_pairs(config: TrainingConfig, split: str) -> list[tuple[str, str]]:
    """Return the pairs in a split: train, valid, or test.

    Files that the configuration names for the split replace those of the dataset.
    Raises DataError if there are no files, or only one of the two.
    """
    src = getattr(config, f"{split}_src", None)
    tgt = getattr(config, f"{split}_tgt", None)
    if src and tgt:
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
    pairs = load_pairs(config, split)
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
                "Perplexity looks better than it is; use subwords (--bpe-size), or "
                "more text."
            )


def report_left_out(split: str, left_out: int, pairs: int, max_tokens: int) -> None:
    """Report how many pairs were too long; raise DataError if none is left."""
    if left_out:
        limit = f"longer than max_tokens={max_tokens}"
        log(f"{split}: left out {left_out} of {pairs} pairs, {limit}")
    if left_out == pairs:
        what = "holds no pair that is short enough"
        raise DataError(f"{split} split", what, "Raise max_tokens.")


def digest_of(examples: Iterable[Example]) -> str:
    """Return a SHA-256 over the ids of all the examples, in order."""
    digest = hashlib.sha256()
    for src, tgt in examples:
        digest.update(array("i", [len(src), *src, *tgt]).tobytes())
    return digest.hexdigest()


def stream_parallel(
    src_file: str | Path, tgt_file: str | Path, blank: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ``read_pairs`` one at a time, with the same errors.

    Each sentence is ``tidied``, as what is translated later. blank: yield pairs with a
    blank side, too.
    """
    files, number = (src_file, tgt_file), 0
    for number, (src, tgt) in enumerate(zip_longest(*map(stream_text, files)), 1):
        if src is None or tgt is None:
            break
        src, tgt = tidied(src), tidied(tgt, target=True)
        for file, line in zip(files, (src, tgt), strict=True):
            if not (blank or line.strip()):
                place, do = "line", "Remove this line from both files."
                if column_of(file):
                    place, do = "row", "Remove this row."
                raise DataError(f"{file}, {place} {number}", "is blank", do)
        yield src, tgt
    else:
        if number:
            return
    counts = [sum(1 for _ in stream_text(file)) for file in files]
    if 0 in counts:
        file = files[counts.index(0)]
        raise DataError(file, "is empty", "Give a file with sentences.")
    what = f"have {counts[0]} and {counts[1]} lines, so they are not aligned"
    raise DataError(f"{src_file}, {tgt_file}", what, "Find the missing line.")


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


def _datasets() -> ModuleType:
    """Import Hugging Face's datasets; show its progress bars only in a terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about progress bars for notebooks
        datasets = optional_import("datasets")
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _encode_rows(rows: dict[str, list[str]], text: Text, max_tokens: int) -> dict:
    """Return two columns of text as ids, without the pairs that are too long."""
    pairs = zip(rows["src"], rows["tgt"], strict=True)
    examples, _ = encode_pairs(pairs, text, max_tokens)
    return {"src": [src for src, _ in examples], "tgt": [tgt for _, tgt in examples]}


_LEARN_FROM = 1_000_000  # the most pairs to learn a vocabulary from


_ODD = 3  # times the usual ratio of the two lengths


def cleaned(
    config: TrainingConfig, pairs: Callable[[], Iterator[tuple[str, str]]]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that one wants to train on; report how many were left out.

    Left out are pairs with a blank side, pairs that were there before, pairs of which
    one side is in the validation files, and pairs whose lengths in characters, 10 added
    to each, differ more than threefold from the usual ratio. ``pairs`` is read twice.
    Raises DataError if none is left.
    """
    lengths = [0, 0]
    for pair in pairs():
        lengths = [sum(both) for both in zip(lengths, map(len, pair))]
    usual, seen = lengths[0] / max(1, lengths[1]), set[int]()
    valid = load_pairs(config, "valid") if config.valid_src else []
    held_out = {sentence for pair in valid for sentence in pair}
    left_out, kept = Counter[str](), 0
    for pair in pairs():
        src, tgt = map(len, pair)
        ratio = (src + 10) / (tgt * usual + 10)
        if not all(map(str.strip, pair)):
            left_out["blank"] += 1
        elif (known := hash(pair)) in seen:
            left_out["repeated"] += 1
        elif not held_out.isdisjoint(pair):
            left_out["in validation"] += 1
        elif not 1 / _ODD < ratio < _ODD:
            left_out["of odd length"] += 1
        else:
            kept += 1
            seen.add(known)
            yield pair
    counts = ", ".join(f"{count} {why}" for why, count in left_out.items())
    if not kept:
        raise DataError("--clean", f"leaves no pair ({counts})", "Look at the files.")
    log(f"train: left out {counts or 'no pair'}")


def _write_examples(
    folder: Path, config: TrainingConfig, workers: int, clean: bool
) -> tuple[int, Text]:
    """Write the ids of the training pairs; return how many pairs, and their text."""
    files, datasets = (str(config.train_src), str(config.train_tgt)), _datasets()
    ids = datasets.List(datasets.Value("int32"))
    errors = OSError, RuntimeError, datasets.exceptions.DatasetsError
    what = "could not be prepared ({})"
    do = "Make room on the disk, or use fewer --workers."

    def pairs_in_files() -> Iterator[tuple[str, str]]:
        return stream_parallel(*files, blank=clean)

    def rows() -> Iterator[dict[str, str]]:
        some = cleaned(config, pairs_in_files) if clean else pairs_in_files()
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


def _store_settings(config: TrainingConfig, clean: bool) -> dict[str, Any]:
    """Return what determines a store's content, including the sizes of the files."""
    if not (config.train_src and config.train_tgt and config.store):
        do = "Give --train-src, --train-tgt and --store."
        raise DataError("prepare", "needs two files of text, and a folder", do)
    sizes, do = [], "Check its name and place."
    for file in (config.train_src, config.train_tgt):
        with reported(OSError, file, "can't be read ({})", do):
            sizes.append(os.path.getsize((column_of(file) or [file])[0]))
    names = ["train_src", "train_tgt", "bpe_size", "min_freq", "max_tokens"]
    chosen = {"clean": True} if clean else {}
    names += ["valid_src", "valid_tgt"] if clean else []
    known = {name: getattr(config, name) for name in names}
    return {**known, **chosen, "bytes": sizes}


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
            what = "was made from other text, or by other settings"
            raise DataError(folder, what, "Choose another --store, or delete this one.")
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
    do = "Delete it and prepare it again."
    # any error: datasets and Arrow have classes of their own
    with reported(Exception, folder, "is damaged ({})", do):
        dataset = _datasets().load_from_disk(str(folder))
        if len(dataset) != known["pairs"]:
            raise ValueError(f"{len(dataset)} of {known['pairs']} pairs")
    return _StoredPairs(dataset)
