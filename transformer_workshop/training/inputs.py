"""What does a run read and build before its first step?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from annotated_transformer import EncoderDecoder, Example, Text
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import log
from transformer_workshop.base.machine import choose_device
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.translator import load_weights
from transformer_workshop.text.cleaning import report_on_pairs
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import load_text, text_of
from transformer_workshop.text.store import load_examples
from transformer_workshop.training.processes import is_main_process
from transformer_workshop.training.sizing import fit_subwords, fit_to_data, list_choices


@dataclass
class RunInputs:
    """All that a run reads and builds, once, before it writes anything."""

    config: TrainingConfig
    text: Text
    train: Sequence[Example]
    valid: Sequence[Example]
    device: torch.device
    starts: list[Any]  # of the run that it continues; none if it is new
    model: EncoderDecoder | None  # None: of several processes, each builds its own


def first_model(
    config: TrainingConfig, text: Text, starts: Sequence[Any]
) -> EncoderDecoder:
    """Build the model that a run begins with, the same in every process.

    A run that is continued gets its weights later, not those of ``config.init``.
    """
    torch.manual_seed(config.seed)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    if config.init and not starts:
        load_weights(model, config.init)
    return model


def read_inputs(
    config: TrainingConfig,
    starts: list[Any],
    text: Text | None = None,
    given: dict[str, Any] | None = None,
) -> RunInputs:
    """Read a run's pairs, turn them into ids, and build its model.

    starts: of the run that it continues. text: without it, that run's or a new one, and
    what is odd about the pairs is reported. given: the settings that are fixed; the
    others are chosen to fit the data. Raises DataError for what can't be trained on.
    """
    device = choose_device(config.device)
    is_new = text is None and not starts
    pairs = [] if config.store else load_pairs(config, "train")
    if given is not None and pairs and "bpe_size" not in given:
        config = replace(config, bpe_size=fit_subwords(pairs))
    if text is None:
        text = load_text(config.run_dir) if starts else text_of(config, pairs)
    train = load_examples(config, "train", text, pairs)
    if given is not None:
        config = fit_to_data(config, given, text, train)
    valid_pairs = load_pairs(config, "valid")
    model = first_model(config, text, starts)
    if is_new and is_main_process():
        if pairs and config.dataset == "files":
            report_on_pairs(pairs, valid_pairs)
        if given is not None and (choices := list_choices(config, given)):
            log(choices)
    valid = load_examples(config, "valid", text, valid_pairs)
    return RunInputs(config, text, train, valid, device, starts, model)
