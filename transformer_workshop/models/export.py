"""How does an inference engine run a model?"""

from __future__ import annotations

import hashlib
import math
import random
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from annotated_transformer import (
    END,
    START,
    UNK,
    DataError,
    length_normalized,
    make_batch,
    optional_import,
)
from transformer_workshop.base.config import load_config
from transformer_workshop.base.files import (
    atomic_folder,
    read_json,
    reported,
    write_json,
)
from transformer_workshop.base.machine import choose_device, describe_environment
from transformer_workshop.models.translator import Decoded, Translator, load_threshold
from transformer_workshop.text.encoding import load_text, pack_text

_ENCODER_LAYER = {  # each part's name in the engine, and the modules that it stacks
    "self_attention/linear_0": [f"self_attn.linears.{i}" for i in (0, 1, 2)],
    "self_attention/linear_1": ["self_attn.linears.3"],
    "self_attention/layer_norm": ["sublayer.0.norm"],
    "ffn/linear_0": ["feed_forward.w_1"],
    "ffn/linear_1": ["feed_forward.w_2"],
    "ffn/layer_norm": ["sublayer.1.norm"],
}


_DECODER_LAYER = _ENCODER_LAYER | {
    "attention/linear_0": ["src_attn.linears.0"],
    "attention/linear_1": ["src_attn.linears.1", "src_attn.linears.2"],
    "attention/linear_2": ["src_attn.linears.3"],
    "attention/layer_norm": ["sublayer.1.norm"],
    "ffn/layer_norm": ["sublayer.2.norm"],
}


_MODERN = {  # what block 2026 adds; its linear_0 is the gate
    "self_attention/q_norm": ["self_attn.q_norm"],
    "self_attention/k_norm": ["self_attn.k_norm"],
    "ffn/linear_0": ["feed_forward.gate"],
    "ffn/linear_0_noact": ["feed_forward.w_1"],
}


_MODERN_CROSS = {
    "attention/q_norm": ["src_attn.q_norm"],
    "attention/k_norm": ["src_attn.k_norm"],
}


def _numbers(*parts: Tensor) -> Any:
    """Return tensors, joined along the first dimension, as a float32 NumPy array."""
    return torch.cat(parts).detach().float().cpu().numpy()


def _fill(spec: Any, *modules: nn.Module) -> None:
    """Fill in a linear layer, with one or more of ours stacked, or a norm."""
    names = ("gamma", "beta") if hasattr(spec, "gamma") else ("weight", "bias")
    parameters = zip(*(module.parameters() for module in modules), strict=True)
    for name, parts in zip(names, parameters, strict=False):  # some have no bias
        setattr(spec, name, _numbers(*parts))


def _specification(translator: Translator) -> Any:
    """Return a translator's model as CTranslate2's description of a Transformer."""
    model, config = translator.model, translator.config
    specs = optional_import("ctranslate2.specs")
    options: dict[str, Any] = {"pre_norm": config.norm_first}
    layer_of = _ENCODER_LAYER, _DECODER_LAYER
    if modern := config.block == "2026":
        swish = optional_import("ctranslate2.specs.common_spec").Activation.SWISH
        options |= {"rms_norm": True, "qk_norm": True}
        options |= {"ffn_glu": True, "activation": swish}
        options |= {"rotary_dim": 0, "rotary_interleave": False}  # 0: all of them
        layer_of = _ENCODER_LAYER | _MODERN, _DECODER_LAYER | _MODERN | _MODERN_CROSS
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(len(model.encoder.layers), config.h, **options),
        specs.TransformerDecoderSpec(len(model.decoder.layers), config.h, **options),
    )
    part_of = optional_import("ctranslate2.specs.model_spec").index_spec
    sides: tuple[tuple[Any, Any, Any, str], ...] = (
        (model.encoder, spec.encoder, model.src_embed, "embeddings_0"),
        (model.decoder, spec.decoder, model.tgt_embed, "embeddings"),
    )
    for (ours, theirs, embed, table), parts in zip(sides, layer_of, strict=True):
        words, then = embed  # positions are added to the words, or dropout follows
        part_of(theirs, table).weight = _numbers(words.lut.weight)
        if not modern:
            zeros = words.lut.weight.new_zeros(1, config.max_tokens, words.d_model)
            theirs.position_encodings.encodings = _numbers(*then(zeros))
        for i, layer in enumerate(ours.layers):
            for name, modules in parts.items():
                part = part_of(theirs, f"layer_{i}/{name}")
                _fill(part, *map(layer.get_submodule, modules))
        if config.norm_first:
            _fill(theirs.layer_norm, ours.norm)
    _fill(spec.decoder.projection, model.generator.proj)
    spec.register_source_vocabulary(translator.text.vocab_src.get_itos())
    spec.register_target_vocabulary(translator.text.vocab_tgt.get_itos())
    first: Any = model.encoder.layers[0]
    spec.config.layer_norm_epsilon = first.sublayer[0].norm.eps
    spec.config.add_source_bos = spec.config.add_source_eos = True
    spec.validate()
    return spec


_TOLERANCE = 1e-3  # nats by which a token's log-probability may differ


def _check_scores(translator: Translator, engine: Any) -> None:
    """Raise ValueError if the engine's log-probabilities differ from the model's."""
    model, text = translator.model, translator.text
    rng = random.Random(0)
    length = min(11, translator.config.max_tokens - 2)
    src = [rng.choices(range(UNK, len(text.vocab_src)), k=length) for _ in range(4)]
    tgt = [rng.choices(range(UNK, len(text.vocab_tgt)), k=length) for _ in range(4)]
    sides = ([[START, *row, END] for row in rows] for rows in (src, tgt))
    batch = make_batch(list(zip(*sides, strict=True)), range(4), translator.device)
    out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    ours = model.generator(out).gather(-1, batch.tgt_y.unsqueeze(-1)).squeeze(-1)
    scores = engine.score_batch(
        [text.vocab_src.tokens(row) for row in src],
        [text.vocab_tgt.tokens(row) for row in tgt],
        max_input_length=0,
    )
    theirs = torch.tensor([score.log_probs for score in scores])
    apart = (ours.cpu() - theirs).abs().max().item()
    if not apart <= _TOLERANCE:  # this refuses nan, too
        why = f"with the same weights its log-probabilities are {apart:.2g} nats off"
        raise ValueError(f"{why}: another layer, a replaced function, a hook")


QUANTIZATIONS = ("float32", "int8")


def export_to_ctranslate2(
    translator: Translator, folder: str | Path, quantization: str = "float32"
) -> None:
    """Write a translator as a folder that CTranslate2 and ``load_exported`` load.

    quantization: float32, or int8 for about a quarter of the size. Raises
    DataError if the folder exists and isn't empty or if the engine can't express
    the model, and ImportError if the package ctranslate2 is missing.
    """
    if quantization not in QUANTIZATIONS:
        do = f"Use {', '.join(QUANTIZATIONS)}."
        raise DataError(f"quantization={quantization!r}", "is unknown", do)
    optional_import("ctranslate2")
    config, threshold = translator.config, translator.threshold
    where, what = "export to CTranslate2", "it cannot express this model: {}"
    do = "Export a model that `train` made, unchanged."
    errors = AttributeError, ValueError
    with atomic_folder(Path(folder).absolute()) as path, translator.evaluating():
        with reported(errors, where, what, do):
            for kind in dict.fromkeys(("float32", quantization)):
                spec = _specification(translator)
                spec.optimize(kind)
                spec.save(str(path))
                if kind == "float32":
                    _check_scores(translator, _engine(path, torch.device("cpu")))
        write_json(path / "vocabulary.json", pack_text(translator.text))
        settings = read_json(path / "config.json")  # the engine's own
        settings |= {"config": asdict(config), "starts": [describe_environment()]}
        settings["sha256"] = _sha256(path / "model.bin")
        write_json(path / "config.json", settings)
        if threshold is not None:
            write_json(path / "confidence.json", {"threshold": threshold})


def is_exported(folder: str | Path) -> bool:
    """Return whether a folder holds a model for the engine rather than for PyTorch."""
    ours = Path(folder) / "model.safetensors"
    return (Path(folder) / "model.bin").exists() and not ours.exists()


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _engine(folder: Path, device: torch.device) -> Any:
    """Load a folder into CTranslate2, with a worker for each of PyTorch's threads."""
    threads = torch.get_num_threads()
    try:
        return optional_import("ctranslate2").Translator(
            str(folder), device=device.type, device_index=device.index or 0,
            inter_threads=threads, intra_threads=1,
        )  # fmt: skip
    finally:
        torch.set_num_threads(threads)  # the engine changed it in OpenMP


@dataclass
class ExportedTranslator(Translator):
    """A translator whose ``model`` is a ctranslate2.Translator."""

    model: Any

    @property
    def device(self) -> torch.device:
        """Where the engine computes."""
        return torch.device(self.model.device)

    def evaluating(self) -> AbstractContextManager:
        """Return a context that does nothing: an engine can't train."""
        return nullcontext()

    def decode_batch(
        self, rows: list[list[int]], beam_size: int, length_penalty: float
    ) -> list[Decoded]:
        """Do what ``decode`` does with all rows at once.

        Scores the hypotheses with chapter 4's length penalty.
        """
        number = 1 if beam_size == 1 else 2 * beam_size
        longest = max(self.limit(row) for row in rows) - 1
        results = self.model.translate_batch(
            [self.text.vocab_src.tokens(row[1:-1]) for row in rows],
            beam_size=beam_size, num_hypotheses=number, patience=number / beam_size,
            return_scores=True, length_penalty=0.0, max_input_length=0,
            min_decoding_length=0, max_decoding_length=longest,
        )  # fmt: skip

        def rated(value: float, tokens: list[str]) -> tuple[float, float, list[str]]:
            length = min(len(tokens) + 1, longest)  # the end, too, if it was not cut
            rating = length_normalized(value, length, length_penalty)
            return rating, value / length, tokens

        decoded = []
        for result in results:
            hypotheses = map(rated, result.scores, result.hypotheses)
            _, mean, tokens = max(hypotheses, key=lambda hypothesis: hypothesis[0])
            decoded.append((self.text.vocab_tgt(tokens), math.exp(mean)))
        for i, row in enumerate(rows):  # the engine has one limit for a batch
            if len(decoded[i][0]) >= self.limit(row) - 1 < longest:
                decoded[i] = self.decode_batch([row], beam_size, length_penalty)[0]
        return decoded


def load_exported(folder: str | Path, device: str = "auto") -> ExportedTranslator:
    """Load a translator from a folder that ``export_to_ctranslate2`` wrote.

    Raises DataError if the folder is damaged or CTranslate2 does not support the
    device, and ImportError if the package ctranslate2 is missing.
    """
    folder, chosen = Path(folder), choose_device(device)
    if chosen.type == "mps":
        if device != "auto":
            what = "is unknown to CTranslate2"
            raise DataError(f"device {device}", what, "Use cpu.")
        chosen = torch.device("cpu")
    optional_import("ctranslate2")
    config, text = load_config(folder), load_text(folder)
    known = read_json(folder / "config.json").get("sha256")
    errors, file = (OSError, RuntimeError, ValueError), folder / "model.bin"
    with reported(errors, file, "can't be loaded ({})", "Export the model again."):
        if _sha256(file) != known:
            raise ValueError("wrong SHA-256")
        engine = _engine(folder, chosen)
    return ExportedTranslator(engine, text, config, load_threshold(folder))
