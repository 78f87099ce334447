"""Which settings does a run have, and which values are allowed?

All the settings of a run are its configuration, a TrainingConfig.
Importing it imports neither PyTorch nor the textbook, so that ``--help`` is quick.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


def _setting(default: Any, about: str, *allowed: Any, may_change: bool = False) -> Any:
    """Return a field with its help text in its metadata.

    allowed: all the texts, or the lowest and the highest number. may_change: a run
    may resume with another value.
    """
    about_it = {"about": about, "allowed": allowed, "may_change": may_change}
    return field(default=default, metadata=about_it)


_free = functools.partial(_setting, may_change=True)


@dataclass
class TrainingConfig:
    """All the settings that a run depends on; saved in its folder.

    Raises DataError for a value that its field doesn't allow.
    """

    # the text
    dataset: str = _setting(
        "captions",
        "what to train on; files: the four below",
        "captions",
        "multi30k",
        "files",
    )
    train_src: str | None = _setting(
        None, "your own training sentences: a file with one a line, or TABLE:COLUMN"
    )
    train_tgt: str | None = _setting(None, "their translations, line by line")
    valid_src: str | None = _setting(None, "validation sentences, for choices only")
    valid_tgt: str | None = _setting(None, "their translations")
    store: str | None = _setting(None, "folder of a corpus written by `prepare`")
    source_language: str | None = _free(
        None, "code of the source language, such as fr: for its sentence ends"
    )
    by_sentence: bool | None = _free(
        None, "translate sentence by sentence; if not said: all but own text"
    )
    respell: bool | None = _free(
        None, "mend capitals, and ae for ä, first; if not said: all but own text"
    )
    bpe_size: int = _setting(0, "size of the subword vocabulary; 0: words", 0, 10**6)
    min_freq: int = _setting(2, "how often a word must occur to get an id", 1, 10**6)
    max_tokens: int = _setting(128, "longest sentence, with <s> and </s>", 3, 10**5)
    longest: int = _free(
        0, "tokens of the longest source to rely on; 0: unknown", 0, 10**6
    )
    # the model
    N: int = _setting(2, "layers in the encoder, and in the decoder", 1, 1000)
    d_model: int = _setting(128, "width of the vectors between layers", 1, 2**16)
    d_ff: int = _setting(256, "inner width of the feed-forward network", 1, 2**18)
    h: int = _setting(4, "attention heads", 1, 2**10)
    dropout: float = _setting(0.1, "share of values set to zero in training", 0, 0.99)
    norm_first: bool = _setting(True, "normalize before a sub-layer, not after it")
    positions: str = _setting(
        "sinusoidal", "encoding of positions", "sinusoidal", "learned"
    )
    tie: str = _setting("none", "tables that share weights", "none", "target", "all")
    block: str = _setting("2017", "a layer's parts; 2026: chapter 6's", "2017", "2026")
    init: str | None = _setting(
        None, "folder of a model whose text, sizes, and weights to begin with"
    )
    # learning
    batch_tokens: int = _setting(
        1500, "positions per batch, counted on the longer side", 1, 10**8
    )
    accum_iter: int = _setting(1, "batches that make up one step", 1, 10**5)
    epochs: int = _setting(6, "passes over the training pairs", 1, 10**6)
    optimizer: str = _setting(
        "adam", "muon: Muon for a layer's matrices, Adam for the rest", "adam", "muon"
    )
    schedule: str = _setting(
        "linear",
        "course of the rate; inverse_sqrt: the paper's",
        "linear",
        "inverse_sqrt",
    )
    base_lr: float = _setting(
        3e-3, "linear: peak of the rate; inverse_sqrt: its factor", 0, 1000
    )
    warmup: int = _setting(100, "steps until the peak", 1, 10**7)
    decay: float = _setting(
        1.0, "linear: the rate falls in this last share of the run", 1e-6, 1
    )
    smoothing: float = _setting(0.1, "label smoothing", 0, 0.99)
    max_norm: float | None = _setting(1.0, "longest gradient of a step", 1e-6, 1e6)
    seed: int = _setting(0, "of weights, order of batches, dropout", 0, 2**32 - 1)
    # the run
    run_dir: str = _free("runs/captions", "folder for metrics and checkpoints")
    threads: int = _setting(1, "CPU threads", 1, 1024)
    precision: str = _setting(
        "float32", "of matmuls; auto: bfloat16 if fast", "float32", "bfloat16", "auto"
    )
    device: str = _free("auto", "cuda, mps, or cpu; auto: the first one available")
    distributed: bool = _free(False, "train in several processes (chapter 92)")
    save_seconds: float = _free(
        45.0, "seconds between saves; about what a killed run loses", 0, 10**6
    )
    patience: int = _free(
        0, "epochs without gain until it stops, with the best; 0: never", 0, 10**6
    )
    keep: int = _free(5, "how many of the newest checkpoints to keep", 1, 10**6)
    average: int = _free(5, "how many of them to average at the end", 1, 10**6)
    # translating
    beam_size: int = _free(5, "hypotheses per sentence; 1: greedy", 1, 1000)
    length_penalty: float = _free(
        1.0, "exponent of the length in a hypothesis's score", -10, 10
    )

    def __post_init__(self) -> None:
        kinds = typing.get_type_hints(type(self))
        for setting in dataclasses.fields(self):
            value, allowed = getattr(self, setting.name), setting.metadata["allowed"]
            if fault := _fault_of(value, kinds[setting.name], allowed):
                raise _error(f"{setting.name}={value!r:.40}", *fault)
        if not re.fullmatch("[a-z]{2,3}", self.source_language or "xx"):
            where = f"source_language={self.source_language!r:.40}"
            do = "Give one such as en, for English, or none."
            raise _error(where, "is no language code", do)
        if self.d_model % self.h:
            what = f"does not divide d_model={self.d_model} into equal heads"
            raise _error(f"h={self.h}", what, "Change one of the two.")
        if self.block == "2026" and not (
            self.norm_first and self.positions == "sinusoidal"
        ):
            what = "comes with pre-norm and rotary positions"
            raise _error("block='2026'", what, "Leave norm_first and positions as is.")

    @classmethod
    def of(cls, config: TrainingConfig | dict[str, Any] | str) -> TrainingConfig:
        """Convert a preset's name or 2022's dict; return a TrainingConfig as is."""
        if isinstance(config, dict):
            return cls(**from_2022(config))
        if isinstance(config, str):
            if config not in CONFIGS:
                do = f"Use {', '.join(CONFIGS)}."
                raise _error(f"config={config!r}", "is unknown", do)
            return CONFIGS[config]
        return config


def _fault_of(value: Any, kind: Any, allowed: tuple) -> tuple[str, str] | None:
    """Return what is wrong with a setting and what to do about it, or None."""
    kinds = typing.get_args(kind) or (kind,)  # str | None: both
    fits = isinstance(value, (*kinds, int) if float in kinds else kinds)
    if not fits or (isinstance(value, bool) and bool not in kinds):
        words = " or ".join(k.__name__ for k in kinds).replace("NoneType", "null")
        return f"is not of type {words}", "Correct it."
    if isinstance(value, str):
        if allowed and value not in allowed:
            return "is unknown", f"Use {', '.join(allowed)}."
        if "\0" in value:
            return "can't be read or written: it has a zero byte", "Correct it."
    elif allowed and value is not None and not allowed[0] <= value <= allowed[1]:
        low, high = allowed
        return "is out of its limits", f"Use {low:g} to {high:,.10g}."
    return None


def _error(where: object, what: str, do: str) -> Exception:
    """Return a DataError, the textbook's; only now is PyTorch imported."""
    from annotated_transformer import DataError

    return DataError(where, what, do)


MAY_CHANGE = {
    each.name
    for each in dataclasses.fields(TrainingConfig)
    if each.metadata["may_change"]
}


_PAPER = TrainingConfig(
    dataset="multi30k",
    run_dir="runs/base",
    bpe_size=37000,
    tie="all",
    batch_tokens=25000,
    N=6,
    d_model=512,
    d_ff=2048,
    h=8,
    epochs=20,
    schedule="inverse_sqrt",
    base_lr=1.0,
    warmup=4000,
    max_norm=None,
    beam_size=4,
    length_penalty=0.6,
)


_SMALL = TrainingConfig(
    dataset="multi30k",
    run_dir="runs/multi30k-small",
    bpe_size=8000,
    tie="all",
    N=3,
    d_model=256,
    d_ff=512,
    h=8,
    dropout=0.25,
    epochs=24,
    base_lr=1.5e-3,
    warmup=400,
    threads=2,
    precision="auto",
    length_penalty=1.4,
)


_TINY = TrainingConfig(
    d_model=96,
    d_ff=192,
    dropout=0.0,
    batch_tokens=1000,
    epochs=2,
    base_lr=4e-3,
    warmup=50,
    average=1,
)


CONFIGS = {
    "tiny": _TINY,
    "small": _SMALL,
    "2026": dataclasses.replace(
        _SMALL,
        run_dir="runs/multi30k-2026",
        block="2026",
        optimizer="muon",
        base_lr=8e-3,
        dropout=0.2,
        decay=0.6,
        epochs=12,
        average=2,
        length_penalty=1.0,
    ),
    "base": _PAPER,
    "big": dataclasses.replace(
        _PAPER, run_dir="runs/big", d_model=1024, d_ff=4096, h=16, dropout=0.3
    ),
}


class Scale(NamedTuple):
    """Settings for a text of one's own, of up to ``pairs`` pairs."""

    pairs: float
    bpe_size: int  # fewer if there are less than 20 characters for each
    N: int
    d_model: int
    d_ff: int
    h: int
    dropout: float
    batch_tokens: int
    base_lr: float
    threads: int
    updates: int  # of the whole run; they set the epochs and the warm-up


SCALES = (
    Scale(1_000, 500, 2, 96, 192, 4, 0.1, 500, 3e-3, 1, 1_000),
    Scale(10_000, 2000, 2, 128, 256, 4, 0.2, 1000, 3e-3, 1, 2_000),
    Scale(100_000, 8000, 3, 256, 512, 8, 0.25, 1500, 1.5e-3, 2, 8_000),
    # not measured by us: twice the depth, then the paper's base model
    Scale(1_000_000, 16000, 6, 256, 1024, 8, 0.1, 4000, 1e-3, 2, 40_000),
    Scale(float("inf"), 32000, 6, 512, 2048, 8, 0.1, 25000, 7e-4, 2, 100_000),
)


SIZES = "N d_model d_ff h norm_first positions tie block bpe_size max_tokens".split()
SEARCH = "beam_size length_penalty source_language by_sentence respell".split()
FILES = {"store", "train_src", "train_tgt", "valid_src", "valid_tgt"}


def scale_for(pairs: int) -> Scale:
    """Return the row of SCALES for so many training pairs."""
    return next(scale for scale in SCALES if pairs <= scale.pairs)


def choose_config(preset: str | None = None, **given: Any) -> TrainingConfig:
    """Return a preset, changed by the given settings, as the command `train` does.

    Files or a store of one's own make the data set "files". Without a preset, it is
    tiny for the captions, else small; for a text of one's own, the command goes on to
    ``fit_to_data`` then. The run's folder is named after data set and preset.
    """
    if given.keys() & FILES:
        given.setdefault("dataset", "files")
    toy = given.get("dataset", "captions") == "captions"
    name = preset or ("tiny" if toy else "small")
    config = TrainingConfig.of(name)
    folder, sizes = f"runs/{given.get('dataset', config.dataset)}", {}
    if preset or given.get("dataset") != "files":
        folder += f"-{name}"
    elif "d_model" in given:
        sizes = {"h": 1}  # until fit_to_data chooses it
    elif isinstance(heads := given.get("h"), int):
        sizes = {"d_model": max(1, heads)}  # likewise
    return dataclasses.replace(config, **{"run_dir": folder} | sizes | given)


def read_config_file(folder: Path) -> dict[str, Any]:
    """Return a run's config.json: "config", and "starts", a record of each start."""
    from transformer_workshop.base.files import read_json

    path = folder / "config.json"
    match settings := read_json(path):
        case {"config": dict(), "starts": list()}:
            if settings["config"].get("r_drop") == 0:  # of older versions
                del settings["config"]["r_drop"]
            return settings
    raise _error(path, "was not written by this program", "Choose another folder.")


def load_config(folder: str | Path) -> TrainingConfig:
    """Load the configuration from the folder of a run or a translator."""
    from annotated_transformer import DataError

    fields = read_config_file(Path(folder))["config"]
    try:
        return TrainingConfig(**fields)
    except (TypeError, DataError) as error:
        what = f"holds what this version can't use ({error})"
        do = "Use the version that wrote it."
        raise DataError(Path(folder) / "config.json", what, do) from error


def from_2022(config: dict[str, Any]) -> dict[str, Any]:
    """Return today's fields for the post's dictionary; its model was the paper's base.

    Raises DataError if an entry is missing or has the wrong type.
    """
    kinds: dict[str, Any] = dict.fromkeys(
        ["batch_size", "num_epochs", "accum_iter", "max_padding", "warmup"], int
    ) | {"distributed": bool, "base_lr": (int, float), "file_prefix": str}
    for name, kind in kinds.items():
        if not isinstance(config.get(name), kind):
            what = f"is {config[name]!r}" if name in config else "is missing"
            raise _error(f"config[{name!r}]", what, "See the post's dictionary.")
    same = {n: config[n] for n in ("accum_iter", "base_lr", "warmup", "distributed")}
    paper = {n: getattr(_PAPER, n) for n in ("N", "d_model", "d_ff", "h", "schedule")}
    return {
        **same,
        **paper,
        "epochs": config["num_epochs"],
        "max_tokens": config["max_padding"],
        "batch_tokens": config["batch_size"] * config["max_padding"],
        "run_dir": "runs/" + config["file_prefix"].strip("_"),
    }
