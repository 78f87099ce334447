"""Chapter 6's GPT and Qwen3: weights both ways (models/published.py)."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import load_tensors
from transformer_workshop.models.published import config_of, load_qwen3, renamed


def theirs_of(**options):
    """Return a Qwen3ForCausalLM with random weights, norms included."""
    sizes = {
        "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "tie_word_embeddings": True, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    }  # fmt: skip
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**(sizes | options))).eval()
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn_like(p)
    return model


def differ(one, other):
    return (one.float() - other.float()).abs().max().item()


@torch.no_grad()
def test_the_shipped_gpt_is_a_qwen3():
    weights = load_tensors(project_folder() / "models/captions-gpt/gpt.safetensors")
    ours = at.GPT(811, N=3, d_model=96, d_ff=256, h=4, groups=2).eval()
    ours.load_state_dict(weights)
    theirs = Qwen3ForCausalLM(Qwen3Config(**config_of(ours))).eval()
    theirs.load_state_dict(renamed(ours))
    ids = torch.randint(811, (2, 64))
    assert differ(ours(ids), theirs(ids).logits) < 1e-4


@pytest.mark.parametrize("dtype, near", [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
@torch.no_grad()
def test_a_published_folder_is_read(dtype, near, tmp_path):
    """Save as the Hub stores models; the widths are those of Qwen3-0.6B."""
    wide = {
        "vocab_size": 900, "hidden_size": 1024, "intermediate_size": 3072,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    }  # fmt: skip
    torch.manual_seed(0)
    theirs = theirs_of(**wide).to(dtype)
    with torch.no_grad():
        for p in theirs.parameters():
            p *= 0.2 if p.dim() > 1 else 1
    theirs.save_pretrained(tmp_path)
    ours = load_qwen3(tmp_path, dtype)
    ids = torch.randint(900, (2, 40))
    found, expected = ours(ids), theirs(ids).logits
    assert found.dtype == dtype
    assert differ(found, expected) < near * expected.float().abs().max()
    assert set(renamed(ours)) == set(theirs.state_dict())
    step = ours.empty_cache()
    pieces = [ours(piece, step) for piece in ids.split([30, 1, 9], dim=1)]
    assert differ(torch.cat(pieces, dim=1), found) < near * found.float().abs().max()


@pytest.mark.parametrize("change, says", [
    ({"model_type": "llama"}, "model_type='llama'"),
    ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_type='yarn'"),
    ({"rms_norm_eps": 1e-5}, "rms_norm_eps"),
])  # fmt: skip
def test_what_the_gpt_cannot_be_is_refused(change, says, tmp_path):
    theirs_of().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(at.DataError, match=says):
        load_qwen3(tmp_path)


@pytest.mark.parametrize("change, says", [
    (lambda t: {"lm_head.weight": t["model.embed_tokens.weight"] + 1}, "lm_head of"),
    (lambda t: {"model.layers.0.self_attn.q_proj.lora.weight": torch.ones(1)}, "q_pr"),
    (lambda t: {"lm_head.weight": t["model.embed_tokens.weight"].clone()}, None),
])  # fmt: skip
def test_weights_that_the_gpt_has_no_place_for_are_named(change, says, tmp_path):
    theirs_of().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_tensors(path)
    save_file(tensors | change(tensors), path)
    if says is None:
        load_qwen3(tmp_path)
        return
    with pytest.raises(at.DataError, match=says) as error:
        load_qwen3(tmp_path)
    assert error.value.where == str(path)


def test_missing_and_foreign_weights_are_named(tmp_path):
    theirs_of().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    deeper = json.loads(path.read_text()) | {"num_hidden_layers": 3}
    path.write_text(json.dumps(deeper))
    with pytest.raises(at.DataError, match="model.safetensors"):
        load_qwen3(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(at.DataError, match=r"no model\.safetensors"):
        load_qwen3(tmp_path)
