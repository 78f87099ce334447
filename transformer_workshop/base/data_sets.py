"""Where are the files of a data set?

In the folder that the environment variable ANNOTATED_TRANSFORMER_DATA names, then in
data/ of the repository. Multi30k's are downloaded if neither has them. Each must have
the checksum that we know, because a different file would give a different score.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from annotated_transformer import DataError, optional_import

_MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
)
_MULTI30K_SUMS = """
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  test_2016_flickr.en.gz
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  train.en.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  val.en.gz
"""
_MULTI30K_SHA256 = dict(line.split()[::-1] for line in _MULTI30K_SUMS.split("\n")[1:-1])


def project_folder() -> Path:
    """Return the folder that contains the workshop, data/, models/, and results/."""
    return Path(__file__).resolve().parents[2]


def _data_folders() -> list[Path]:
    """Return the local folders in which to look for data sets, in order."""
    named = os.environ.get("ANNOTATED_TRANSFORMER_DATA")
    ours = project_folder() / "data"
    return [Path(named).expanduser().resolve(), ours] if named else [ours]


def data_file(dataset: str, name: str) -> Path:
    """Return the path of a file in a data set; download Multi30k's if missing.

    Raises DataError if it can't be found or differs from the published file.
    """
    published = _MULTI30K_SHA256.get(name) if dataset == "multi30k" else None
    folders = [folder / dataset for folder in _data_folders()]
    for path in (folder / name for folder in folders):
        if path.is_file():
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if published not in (None, found):
                what = f"is not the published file (SHA-256 {found[:12]}…)"
                raise DataError(path, what, "Delete it to have it downloaded again.")
            return path
    if published:
        return _fetch_multi30k(name)
    what = "is in none of " + ", ".join(map(str, folders))
    do = "Name the folder above it in ANNOTATED_TRANSFORMER_DATA, or use a clone."
    raise DataError(f"{dataset}/{name}", what, do)


def _fetch_multi30k(name: str) -> Path:
    """Download a file of Multi30k into the user's cache unless it is there already."""
    pooch = optional_import("pooch")
    store = pooch.create(
        path=pooch.os_cache("annotated_transformer") / "multi30k",
        base_url=_MULTI30K_URL,
        registry={name: f"sha256:{_MULTI30K_SHA256[name]}"},
        retry_if_failed=2,
    )
    try:
        return Path(store.fetch(name))
    except ValueError as error:
        what = "what arrived is not the published file (wrong SHA-256)"
        raise DataError(_MULTI30K_URL + name, what, "Try later.") from error
    except OSError as error:
        what = f"can't be fetched ({type(error).__name__})"
        do = (
            f"Put the file into {store.path}, or into multi30k/ in the folder "
            "that ANNOTATED_TRANSFORMER_DATA names."
        )
        raise DataError(_MULTI30K_URL + name, what, do) from error
