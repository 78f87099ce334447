"""How do chapter 6's GPT and published language models read each other's weights?

Published are, on the Hugging Face Hub, folders with config.json, model.safetensors (or
several such files and a list of them), and tokenizer.json, and for llama.cpp one GGUF
file with everything. Of the many families, a GPT can be a Qwen3 and a Llama.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from annotated_transformer import GPT, DataError, RMSNorm, optional_import
from transformer_workshop.base.files import load_state, load_tensors, read_json
from transformer_workshop.base.gguf import Gguf

# Hugging Face's names for parts of block i under model.layers.i, ours under blocks.i,
# and GGUF's under blk.i
_NAMES = {
    "self_attn.q_proj": ("self_attn.linears.0", "attn_q"),
    "self_attn.k_proj": ("self_attn.linears.1", "attn_k"),
    "self_attn.v_proj": ("self_attn.linears.2", "attn_v"),
    "self_attn.o_proj": ("self_attn.linears.3", "attn_output"),
    "self_attn.q_norm": ("self_attn.q_norm", "attn_q_norm"),
    "self_attn.k_norm": ("self_attn.k_norm", "attn_k_norm"),
    "input_layernorm": ("norm_1", "attn_norm"),
    "post_attention_layernorm": ("norm_2", "ffn_norm"),
    "mlp.gate_proj": ("feed_forward.gate", "ffn_gate"),
    "mlp.up_proj": ("feed_forward.w_1", "ffn_up"),
    "mlp.down_proj": ("feed_forward.w_2", "ffn_down"),
}
_OUTSIDE = {
    "model.embed_tokens": ("embed", "token_embd"),
    "model.norm": ("norm", "output_norm"),
    "lm_head": ("head", "output"),
}


def _names(N: int) -> dict[str, tuple[str, str]]:
    """Return the names of all tensors: Hugging Face's, then ours and GGUF's."""
    parts = dict(_OUTSIDE)
    for i in range(N):
        for theirs, (ours, gguf) in _NAMES.items():
            parts[f"model.layers.{i}.{theirs}"] = (
                f"blocks.{i}.{ours}",
                f"blk.{i}.{gguf}",
            )
    return {
        f"{theirs}.weight": (f"{ours}.weight", f"{gguf}.weight")
        for theirs, (ours, gguf) in parts.items()
    }


def renamed(model: GPT) -> dict[str, Tensor]:
    """Return a model's weights under the names of Hugging Face's classes."""
    state = model.state_dict()
    tensors = {
        theirs: state[ours]
        for theirs, (ours, _) in _names(len(model.blocks)).items()
        if ours in state
    }
    return {"lm_head.weight": state["embed.weight"]} | tensors


def config_of(model: GPT) -> dict[str, Any]:
    """Return what a Qwen3Config or a LlamaConfig has to say of a model."""
    vocab, d_model = model.embed.weight.shape
    block: Any = model.blocks[0]
    attn = block.self_attn
    groups = attn.linears[1].out_features // attn.d_k
    return {
        "vocab_size": vocab,
        "hidden_size": d_model,
        "intermediate_size": block.feed_forward.w_1.out_features,
        "num_hidden_layers": len(model.blocks),
        "num_attention_heads": groups * attn.served,
        "num_key_value_heads": groups,
        "head_dim": attn.d_k,
        "rms_norm_eps": model.norm.eps,
        "tie_word_embeddings": not isinstance(model, UntiedGPT),
        "rope_parameters": {"rope_type": "default", "rope_theta": attn.rope.base},
    }


class UntiedGPT(GPT):
    """A GPT whose generator has weights of its own, as larger models have."""

    def __init__(self, *sizes: int, **options: Any):
        super().__init__(*sizes, **options)
        vocab, d_model = self.embed.weight.shape
        self.head = nn.Linear(d_model, vocab, bias=False)

    def generator(self, x: Tensor) -> Tensor:
        """Map vectors (…, d_model) to logits (…, vocab)."""
        return self.head(x)


def load_published(path: str | Path, dtype: torch.dtype = torch.float32) -> GPT:
    """Read a Llama or a Qwen3 from a folder as on the Hub, or from a GGUF file.

    Raises DataError for what a ``GPT`` can't be: another family, scaled rotations,
    windows, biases, other activations.
    """
    path = Path(path)
    if path.is_dir() or not path.exists():
        config, tensors = _from_folder(path)
    else:
        config, tensors = _from_gguf(Gguf(path))
    tied = config.get("tie_word_embeddings", False)
    head = tensors.get("lm_head.weight")
    if tied and head is not None:  # a copy of the table, if at all
        if not torch.equal(tensors.pop("lm_head.weight"), tensors[_TABLE]):
            what = "has an lm_head of its own, although config.json says it is tied"
            raise DataError(path, what, "Say tie_word_embeddings: false there.")
    ours = _names(config["num_hidden_layers"])
    for name in tensors:
        if re.sub(r"\.\d+\.", ".0.", name) not in ours:  # in no layer
            what = f"holds {name}, which is no part of a {config['model_type']}"
            do = "Merge adapters, and undo quantization, before you save the model."
            raise DataError(path, what, do)
    h, qk_norm = config["num_attention_heads"], config["model_type"] == "qwen3"
    groups = config.get("num_key_value_heads") or h
    rope = config.get("rope_parameters") or {}
    with torch.device("meta"):  # no random weights, which would only be thrown away
        model = (GPT if tied else UntiedGPT)(
            config["vocab_size"],
            config["num_hidden_layers"],
            config["hidden_size"],
            config["intermediate_size"],
            h,
            groups,
            head_dim=config.get("head_dim") or (128 if qk_norm else None),
            base=rope.get("rope_theta") or config.get("rope_theta", 10000.0),
            qk_norm=qk_norm,
        )
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.eps = config.get("rms_norm_eps", 1e-6)
    state = {ours[n][0] if n in ours else n: t.to(dtype) for n, t in tensors.items()}
    load_state(model, state, path, assign=True)
    return model.eval()


_TABLE = "model.embed_tokens.weight"


def load_tokenizer(path: str | Path) -> Any:
    """Read the tokenizer of a published model, as ``tokenizers`` has it.

    Raises DataError where there is none, or one of another kind.
    """
    path, tokenizers = Path(path), optional_import("tokenizers")
    if path.is_file():
        return _tokenizer_of(Gguf(path))
    if not (path / "tokenizer.json").is_file():
        do = "Fetch tokenizer.json, which lies beside the weights on the Hub."
        raise DataError(path, "has no tokenizer.json", do)
    return tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))


# Folders as on the Hub


def _from_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what config.json says, and the tensors."""
    config = read_json(folder / "config.json")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    family = config.get("model_type")
    wanted = {
        "model_type": (family, ("qwen3", "llama")),
        "hidden_act": (config.get("hidden_act", "silu"), ("silu",)),
        "attention_bias": (config.get("attention_bias", False), (False,)),
        "mlp_bias": (config.get("mlp_bias", False), (False,)),
        "use_sliding_window": (config.get("use_sliding_window", False), (False,)),
        "quantization_config": (config.get("quantization_config"), (None,)),
        "rope_type": (rope.get("rope_type", rope.get("type", "default")), ("default",)),
        "rope_interleaved": (config.get("rope_interleaved", False), (False,)),
        "partial_rotary_factor": (rope.get("partial_rotary_factor", 1.0), (1.0,)),
    }
    for name, (found, possible) in wanted.items():
        if found not in possible:
            raise DataError(
                folder / "config.json",
                f"says {name}={found!r}",
                f"Chapter 6's GPT can be {' or '.join(map(repr, possible))} alone.",
            )
    listed = folder / "model.safetensors.index.json"
    if listed.exists():  # several files
        names = sorted(set(read_json(listed)["weight_map"].values()))
    else:
        names = ["model.safetensors"]
    tensors: dict[str, Tensor] = {}
    for name in names:
        if not (folder / name).exists():
            raise DataError(folder, f"has no {name}", "Fetch all files of the model.")
        tensors |= load_tensors(folder / name)
    return config, tensors


# GGUF files


def _from_gguf(file: Gguf) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what the header says in words of config.json, and the tensors."""
    family = file.facts.get("general.architecture")
    if family != "llama" or f"{family}.rope.scaling.type" in file.facts:
        what = f"holds a model of the family {family!r}, or with scaled rotations"
        raise DataError(file.path, what, "From GGUF, only a plain llama can be read.")
    facts = {k.removeprefix("llama."): v for k, v in file.facts.items()}
    h, groups = facts["attention.head_count"], facts["attention.head_count_kv"]
    names = _names(facts["block_count"])
    tensors = {
        theirs: file.tensor(gguf)
        for theirs, (_, gguf) in names.items()
        if gguf in file.places
    }
    for name, tensor in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = h if name.endswith("q_proj.weight") else groups
            tensors[name] = in_halves(tensor, heads)
    config = {
        "model_type": family,
        "vocab_size": len(tensors[_TABLE]),
        "num_hidden_layers": facts["block_count"],
        "hidden_size": facts["embedding_length"],
        "intermediate_size": facts["feed_forward_length"],
        "num_attention_heads": h,
        "num_key_value_heads": groups,
        "head_dim": facts.get("attention.key_length"),
        "rope_theta": facts.get("rope.freq_base", 10000.0),
        "rms_norm_eps": facts["attention.layer_norm_rms_epsilon"],
        "tie_word_embeddings": "lm_head.weight" not in tensors,
    }
    return config, tensors


def in_halves(weight: Tensor, heads: int) -> Tensor:
    """Return a projection whose pairs of coordinates are half a head apart.

    In ``weight`` (heads * d_k, d_model), neighbors form a pair (section 6.16).
    """
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _tokenizer_of(file: Gguf) -> Any:
    """Return the byte-pair encoding that a GGUF file holds."""
    tokenizers = optional_import("tokenizers")
    from tokenizers import decoders, models, pre_tokenizers

    prefix = "tokenizer.ggml."
    facts = {k.removeprefix(prefix): v for k, v in file.facts.items()}
    kind = facts.get("model"), facts.get("pre")
    if kind != ("gpt2", "smollm"):
        what = f"has a tokenizer of the kind {kind}"
        raise DataError(file.path, what, "From GGUF, only SmolLM's can be read.")
    ids = {token: i for i, token in enumerate(facts["tokens"])}
    merges = [tuple(pair.split(" ")) for pair in facts["merges"]]
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    control = 3  # the kind of <|im_start|> and its like
    tokenizer.add_special_tokens([
        tokenizers.AddedToken(token, special=True)
        for token, kind in zip(facts["tokens"], facts["token_type"], strict=True)
        if kind == control
    ])  # fmt: skip
    return tokenizer
