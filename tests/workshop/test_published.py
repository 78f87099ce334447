"""Chapter 6's GPT and published models: weights both ways (models/published.py)."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import load_tensors
from transformer_workshop.base.gguf import Gguf
from transformer_workshop.models.published import (
    UntiedGPT,
    config_of,
    load_published,
    load_tokenizer,
    renamed,
)

SIZES = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}  # fmt: skip
FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}


def theirs_of(family="qwen3", **options):
    """Return one of their models with random weights, norms included."""
    config, model_class = FAMILIES[family]
    torch.manual_seed(0)
    model = model_class(config(**(SIZES | options))).eval()
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn_like(p)
    return model


def differ(one, other):
    return (one.float() - other.float()).abs().max().item()


def edit(path, **change):
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


@pytest.mark.parametrize("dtype, near", [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
@torch.no_grad()
def test_a_published_folder_is_read(dtype, near, tmp_path):
    """Save as the Hub stores models; the widths are those of Qwen3-0.6B."""
    wide = {
        "vocab_size": 900, "hidden_size": 1024, "intermediate_size": 3072,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    }  # fmt: skip
    theirs = theirs_of(**wide).to(dtype)
    with torch.no_grad():
        for p in theirs.parameters():
            p *= 0.2 if p.dim() > 1 else 1
    theirs.save_pretrained(tmp_path)
    ours = load_published(tmp_path, dtype)
    ids = torch.randint(900, (2, 40))
    found, expected = ours(ids), theirs(ids).logits
    assert found.dtype == dtype
    assert differ(found, expected) < near * expected.float().abs().max()
    assert set(renamed(ours)) == set(theirs.state_dict())
    step = ours.empty_cache()
    pieces = [ours(piece, step) for piece in ids.split([30, 1, 9], dim=1)]
    assert differ(torch.cat(pieces, dim=1), found) < near * found.float().abs().max()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_both_families_tied_or_not(family, tied, tmp_path):
    theirs = theirs_of(family, tie_word_embeddings=tied)
    theirs.save_pretrained(tmp_path)
    ours = load_published(tmp_path)
    ids = torch.randint(50, (2, 20))
    assert differ(ours(ids), theirs(ids).logits) < 1e-4
    assert isinstance(ours, UntiedGPT) != tied
    config, model_class = FAMILIES[family]
    back = model_class(config(**config_of(ours))).eval()
    back.load_state_dict(renamed(ours))
    assert differ(back(ids).logits, theirs(ids).logits) < 1e-4


@torch.no_grad()
def test_what_a_config_may_leave_out(tmp_path):
    theirs = theirs_of("llama", head_dim=8, num_key_value_heads=4, rms_norm_eps=1e-6)
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for name in ("head_dim", "num_key_value_heads", "rms_norm_eps", "rope_parameters"):
        config.pop(name, None)
    path.write_text(json.dumps(config | {"rope_theta": 1e6}))  # as before version 5
    ids = torch.randint(50, (2, 20))
    assert differ(load_published(tmp_path)(ids), theirs(ids).logits) < 1e-4


@torch.no_grad()
def test_weights_in_several_files(tmp_path):
    theirs = theirs_of("llama")
    theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    ids = torch.randint(50, (2, 20))
    assert differ(load_published(tmp_path)(ids), theirs(ids).logits) < 1e-4
    min(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(at.DataError, match="has no model-00001-of"):
        load_published(tmp_path)


@pytest.mark.parametrize("change, says", [
    ({"model_type": "gpt2"}, "model_type='gpt2'"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_type='yarn'"),
    ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "='linear'"),
    ({"attention_bias": True}, "attention_bias=True"),
    ({"mlp_bias": True}, "mlp_bias=True"),
    ({"use_sliding_window": True}, "use_sliding_window"),
    ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
    ({"rope_interleaved": True}, "rope_interleaved"),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"num_hidden_layers": 3}, "weights of another model"),
])  # fmt: skip
def test_what_the_gpt_cannot_be_is_refused(change, says, tmp_path):
    theirs_of("llama").save_pretrained(tmp_path)
    edit(tmp_path / "config.json", **change)
    with pytest.raises(at.DataError, match=says):
        load_published(tmp_path)


@pytest.mark.parametrize("change, says", [
    (lambda t: {"lm_head.weight": t["model.embed_tokens.weight"] + 1}, "lm_head of"),
    (lambda t: {"model.layers.0.self_attn.q_proj.lora.weight": torch.ones(1)}, "q_pr"),
    (lambda t: {"model.layers.0.self_attn.q_proj.bias": torch.ones(64)}, "q_proj.bias"),
    (lambda t: {"lm_head.weight": t["model.embed_tokens.weight"].clone()}, None),
])  # fmt: skip
def test_weights_that_the_gpt_has_no_place_for_are_named(change, says, tmp_path):
    theirs_of().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_tensors(path)
    save_file(tensors | change(tensors), path)
    if says is None:
        load_published(tmp_path)
        return
    with pytest.raises(at.DataError, match=says) as error:
        load_published(tmp_path)
    assert error.value.where == str(tmp_path)


def test_missing_files_are_named(tmp_path):
    theirs_of().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(at.DataError, match=r"no model\.safetensors"):
        load_published(tmp_path)
    with pytest.raises(at.DataError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(at.DataError, match=r"config\.json"):
        load_published(tmp_path / "elsewhere")


# GGUF


def packed(weights, kind):
    """Pack a matrix as llama.cpp does; return bytes, and what they mean."""
    if kind == 0:
        return weights.astype(np.float32).tobytes(), weights
    block = weights.reshape(-1, 32)
    if kind == 8:
        scale = (np.abs(block).max(1, keepdims=True) / 127).astype(np.float16)
        whole = np.round(block / scale.astype(np.float32)).astype(np.int8)
        data = np.concatenate([scale.view(np.uint8), whole.view(np.uint8)], axis=1)
        meant = scale.astype(np.float32) * whole
    else:
        least = block.min(1, keepdims=True).astype(np.float16)
        step = ((block.max(1, keepdims=True) - least) / 15).astype(np.float16)
        wide = step.astype(np.float32), least.astype(np.float32)
        fours = np.clip(np.round((block - wide[1]) / wide[0]), 0, 15).astype(np.uint8)
        both = fours[:, :16] | fours[:, 16:] << 4
        data = np.concatenate([step.view(np.uint8), least.view(np.uint8), both], axis=1)
        meant = wide[0] * fours + wide[1]
    return data.tobytes(), meant.reshape(weights.shape).astype(np.float32)


def text(string):
    data = string.encode()
    return struct.pack("<Q", len(data)) + data


def fact(name, value):
    """Return a fact as bytes: a text, a whole number, another, or a list of texts."""
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return text(name) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    kind, data = (8, map(text, value))
    if value and isinstance(value[0], int):
        kind, data = 5, (struct.pack("<i", number) for number in value)
    start = struct.pack("<IIQ", 9, kind, len(value))
    return text(name) + start + b"".join(data)


def in_neighbors(weight, heads):
    """Undo what a reader has to do: put the pairs of each head side by side."""
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def write_gguf(path, theirs, **facts):
    """Write one of their Llamas as llama.cpp stores it; give it what is stored."""
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "model.layers": "blk",
    }  # fmt: skip
    c, heads, data = theirs.config, b"", b""
    state = theirs.state_dict()
    state.pop("lm_head.weight")
    for name, weight in state.items():
        kind = 0 if weight.dim() == 1 else 8 if "embed" in name else 3
        h = {"q_proj": c.num_attention_heads, "k_proj": c.num_key_value_heads}
        h = next((h[each] for each in h if each in name), None)
        raw, meant = packed((in_neighbors(weight, h) if h else weight).numpy(), kind)
        meant = torch.from_numpy(meant)
        weight.copy_(meant if not h else meant.unflatten(0, (h, -1, 2)).transpose(
            1, 2).flatten(0, 2))  # fmt: skip
        for a, b in names.items():
            name = name.replace(a, b)
        shape = weight.shape[::-1]
        heads += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape,
                                          kind, len(data))  # fmt: skip
        data += raw + b"\0" * (-len(raw) % 32)
    facts = {
        "general.architecture": "llama",
        "llama.block_count": c.num_hidden_layers,
        "llama.embedding_length": c.hidden_size,
        "llama.feed_forward_length": c.intermediate_size,
        "llama.attention.head_count": c.num_attention_heads,
        "llama.attention.head_count_kv": c.num_key_value_heads,
        "llama.rope.freq_base": 1e6,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    } | facts
    count = struct.pack("<4sIQQ", b"GGUF", 3, len(state), len(facts))
    start = count + b"".join(fact(*each) for each in facts.items()) + heads
    path.write_bytes(start + b"\0" * (-len(start) % 32) + data)


@torch.no_grad()
def test_a_gguf_file_is_read(tmp_path):
    theirs = theirs_of("llama", hidden_size=64, intermediate_size=96)
    write_gguf(tmp_path / "a.gguf", theirs)
    ours = load_published(tmp_path / "a.gguf")
    ids = torch.randint(50, (2, 20))
    assert differ(ours(ids), theirs(ids).logits) < 1e-4
    with pytest.raises(at.DataError, match="tokenizer of the kind"):
        load_tokenizer(tmp_path / "a.gguf")


@torch.no_grad()
def test_a_gguf_file_that_cannot_be_read_says_why(tmp_path):
    path = tmp_path / "a.gguf"
    theirs = theirs_of("llama", hidden_size=64, intermediate_size=96)
    for facts, says in (
        ({"general.architecture": "qwen2"}, "'qwen2'"),
        ({"llama.rope.scaling.type": "yarn"}, "scaled rotations"),
    ):
        write_gguf(path, theirs, **facts)
        with pytest.raises(at.DataError, match=says):
            load_published(path)
    whole = path.read_bytes()
    for data, says in (
        (b"PK\3\4", "not a GGUF"),
        (whole[:200], "damaged"),
        (whole[:4] + b"\1" + whole[5:], "version 1"),  # its lengths have 4 bytes
        (whole[:4] + b"\7" + whole[5:], "version 7"),
        (whole[:-3000], "ends too early"),
    ):
        path.write_bytes(data)
        with pytest.raises(at.DataError, match=says):
            file = Gguf(path)
            [file.tensor(name) for name in file.places]
    path.write_bytes(whole[:4] + b"\2" + whole[5:])  # two and three differ in nothing
    assert Gguf(path).places


def test_the_tokenizer_of_a_gguf_file_is_the_originals(tmp_path):
    """Compare with transformers' own way of building one from the same facts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    original = Tokenizer(models.BPE())
    original.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])  # fmt: skip
    original.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    lines = (project_folder() / "data/captions/train.en").read_text().splitlines()
    original.train_from_iterator(lines[:2000], trainer)
    model = json.loads(original.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    facts = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
    }  # fmt: skip
    theirs = theirs_of("llama", vocab_size=len(tokens), hidden_size=64,
                       intermediate_size=96)  # fmt: skip
    write_gguf(tmp_path / "a.gguf", theirs, **facts)
    ours = load_tokenizer(tmp_path / "a.gguf")
    for line in ("A man is giving 12345 dogs a bone.", "naïve 🐕\n\n  x = 1",
                 "<|im_start|>user\nHi<|im_end|>"):  # fmt: skip
        ids = ours.encode(line).ids
        assert ids == original.encode(line).ids
        assert ours.decode(ids, skip_special_tokens=False) == line
    original.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path).encode("A man").ids == ours.encode("A man").ids
