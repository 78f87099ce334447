"""How do two files, or a data set, become pairs of sentences?"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path

from annotated_transformer import DataError
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.files import log_once
from transformer_workshop.text.spelling import tidied
from transformer_workshop.text.tables import column_of, stream_text
from transformer_workshop.text.units import refuse_unaligned


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


_HALF = re.compile("[\ud800-\udfff]")  # of a character, as JSON can write it


def stream_parallel(
    src_file: str | Path, tgt_file: str | Path, blank: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two text files or columns (``stream_text``), line by line.

    Each sentence is ``tidied``, as what is translated later. Pairs with a blank side
    are left out, and their numbers said; ``blank``: yield them, too. Raises DataError
    if a file can't be read or holds no sentence, and if the two differ in length, or
    are subtitles of other times or catalogs of other messages.
    """
    files, number, left_out = (src_file, tgt_file), 0, list[int]()
    one, two = (column_of(file) or (str(file), "") for file in files)
    row_or_line = "row" if one[1] or two[1] else "line"
    refuse_unaligned(one, two)
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
                log_once(
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
