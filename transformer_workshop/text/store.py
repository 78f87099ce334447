"""Where are the ids of a split: in memory or, of a large corpus, on disk?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from annotated_transformer import DataError, Example, Text, encode_pairs
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import (
    atomic_folder,
    log,
    read_json,
    reported,
    write_json,
)
from transformer_workshop.text.cleaning import cleaned
from transformer_workshop.text.corpora import load_pairs, show_pairs, stream_parallel
from transformer_workshop.text.encoding import (
    pack_text,
    prepare_text,
    report_left_out,
    report_unknown,
)
from transformer_workshop.text.fingerprints import (
    changed,
    files_of,
    fingerprint_of_file,
)
from transformer_workshop.text.tables import datasets_library


def load_examples(
    config: TrainingConfig,
    split: str,
    text: Text,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> Sequence[Example]:
    """Return a split as ids: a list or, from ``config.store``, on disk (chapter 92).

    pairs: the split's, if they are read already. Reports how many were too long, and
    warns if many words in the validation split are unknown. Raises DataError if no pair
    is left.
    """
    if config.store and split == "train":
        return open_store(config, text)
    if pairs is None:
        pairs = load_pairs(config, split)
    examples, left_out = encode_pairs(pairs, text, config.max_tokens)
    report_left_out(split, left_out, len(pairs), config.max_tokens)
    if split == "valid":
        report_unknown(examples)
    return examples


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


def _store_settings(config: TrainingConfig, clean: bool) -> dict[str, Any]:
    """Return what determines a store's content, including that of the files."""
    if not (config.train_src and config.train_tgt and config.store):
        do = "Give `train_src`, `train_tgt` and `store` (or `text`)."
        raise DataError("prepare", "needs two files of text, and a folder", do)
    names = ["train_src", "train_tgt", "bpe_size", "min_freq", "max_tokens"]
    names += ["valid_src", "valid_tgt"] if clean else []
    known = {name: getattr(config, name) for name in names}
    chosen = {"clean": True} if clean else {}
    files = {n: f for n, f in files_of(config).items() if n in names}
    digests = {name: fingerprint_of_file(file) for name, file in files.items()}
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
