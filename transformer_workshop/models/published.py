"""How do chapter 6's GPT and a published Qwen3 read each other's weights?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from annotated_transformer import GPT, DataError
from transformer_workshop.base.files import load_state, load_tensors, read_json

# theirs, for parts of block i under model.layers.i, and ours, under blocks.i
_NAMES = {
    "self_attn.q_proj": "self_attn.linears.0",
    "self_attn.k_proj": "self_attn.linears.1",
    "self_attn.v_proj": "self_attn.linears.2",
    "self_attn.o_proj": "self_attn.linears.3",
    "self_attn.q_norm": "self_attn.q_norm",
    "self_attn.k_norm": "self_attn.k_norm",
    "input_layernorm": "norm_1",
    "post_attention_layernorm": "norm_2",
    "mlp.gate_proj": "feed_forward.gate",
    "mlp.up_proj": "feed_forward.w_1",
    "mlp.down_proj": "feed_forward.w_2",
}


def _names(N: int) -> dict[str, str]:
    """Return the names of all tensors, theirs and ours."""
    parts = {"model.embed_tokens": "embed", "model.norm": "norm"}
    for i in range(N):
        for theirs, ours in _NAMES.items():
            parts[f"model.layers.{i}.{theirs}"] = f"blocks.{i}.{ours}"
    return {f"{theirs}.weight": f"{ours}.weight" for theirs, ours in parts.items()}


def renamed(model: GPT) -> dict[str, Tensor]:
    """Return a model's weights under the names of Qwen3ForCausalLM."""
    state = model.state_dict()
    tensors = {
        theirs: state[ours] for theirs, ours in _names(len(model.blocks)).items()
    }
    return tensors | {"lm_head.weight": state["embed.weight"]}


def config_of(model: GPT) -> dict[str, Any]:
    """Return what a Qwen3Config has to say of a model."""
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
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": attn.rope.base},
    }


def load_qwen3(folder: str | Path, dtype: torch.dtype = torch.float32) -> GPT:
    """Read a model of the Qwen3 family from the files in which it is published.

    The folder has ``config.json`` and ``model.safetensors``. Raises DataError for
    what a ``GPT`` can't be: another family, a generator of its own, scaled rotations,
    windows, biases, other norms; and for weights in more than one file.
    """
    folder = Path(folder)
    config = read_json(folder / "config.json")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    wanted = {
        "model_type": (config.get("model_type"), "qwen3"),
        "tie_word_embeddings": (config.get("tie_word_embeddings", False), True),
        "hidden_act": (config.get("hidden_act", "silu"), "silu"),
        "attention_bias": (config.get("attention_bias", False), False),
        "use_sliding_window": (config.get("use_sliding_window", False), False),
        "rms_norm_eps": (config.get("rms_norm_eps", 1e-6), 1e-6),
        "rope_type": (rope.get("rope_type", rope.get("type", "default")), "default"),
    }
    for name, (found, needed) in wanted.items():
        if found != needed:
            raise DataError(
                folder / "config.json",
                f"says {name}={found!r}",
                f"Chapter 6's GPT can read models with {needed!r} alone.",
            )
    path = folder / "model.safetensors"
    if not path.exists():
        do = "Join weights in several files, model-00001-of-…, into this one."
        raise DataError(folder, "has no model.safetensors", do)
    model = GPT(
        config["vocab_size"],
        config["num_hidden_layers"],
        config["hidden_size"],
        config["intermediate_size"],
        config["num_attention_heads"],
        config["num_key_value_heads"],
        head_dim=config.get("head_dim"),
        base=rope.get("rope_theta") or config.get("rope_theta", 10000.0),
    ).to(dtype)
    tensors = load_tensors(path)
    head = tensors.pop("lm_head.weight", None)  # tied: a copy of the table, if at all
    ours = _names(len(model.blocks))
    for name in tensors:
        if re.sub(r"\.\d+\.", ".0.", name) not in ours:  # in no layer
            what = f"holds {name}, which is no part of a {config['model_type']}"
            do = "Merge adapters, and undo quantization, before you save the model."
            raise DataError(path, what, do)
    state = {ours.get(name, name): tensor for name, tensor in tensors.items()}
    load_state(model, state, path)
    if head is not None and not torch.equal(head.to(dtype), model.embed.weight):
        what = "has an lm_head of its own, although config.json says it is tied"
        do = "Chapter 6's GPT can only read models whose lm_head is the embeddings."
        raise DataError(path, what, do)
    return model.eval()
