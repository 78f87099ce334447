"""Our trained weights in the decoders that people would use instead."""

from typing import Any

import torch
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.models.translator import Translator


def as_m2m100(translator: Translator) -> nn.Module:
    """Load our weights into transformers' pre-norm model, for its ``generate``."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    ours, config = translator.model, translator.config
    settings = M2M100Config(
        vocab_size=len(translator.text.vocab_tgt), d_model=config.d_model,
        encoder_layers=config.N, decoder_layers=config.N,
        encoder_attention_heads=config.h, decoder_attention_heads=config.h,
        encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
        activation_function="relu", scale_embedding=True,
        pad_token_id=at.PAD, bos_token_id=at.START, eos_token_id=at.END,
        decoder_start_token_id=at.START,
    )  # fmt: skip
    theirs = M2M100ForConditionalGeneration(settings)
    theirs.lm_head = nn.Linear(config.d_model, len(translator.text.vocab_tgt))
    state = theirs.state_dict()
    mine = ours.state_dict()
    for name, tensor in renamed(mine, config.N).items():
        assert state[name].shape == tensor.shape, name
        state[name] = tensor
    theirs.load_state_dict(state)
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    table = positions(ours)
    shifted = torch.cat([torch.zeros(at.PAD + 1, table.size(1)), table])
    for stack in (theirs.model.encoder, theirs.model.decoder):
        stack.embed_positions.weights = shifted
    return theirs.eval()


def positions(model: at.EncoderDecoder) -> Tensor:
    """Return the sinusoids that a model adds, (positions, D)."""
    embedding: Any = model.tgt_embed
    return embedding[1].pe[0]


def renamed(mine: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Return our weights under the names that transformers gives them."""
    norms = {"encoder": ("self_attn_layer_norm", "final_layer_norm")}
    norms["decoder"] = (
        norms["encoder"][0],
        "encoder_attn_layer_norm",
        norms["encoder"][1],
    )
    linears = ("q_proj", "k_proj", "v_proj", "out_proj")
    weights = {"model.shared.weight": mine["tgt_embed.0.lut.weight"]}
    for kind in ("weight", "bias"):
        weights[f"lm_head.{kind}"] = mine[f"generator.proj.{kind}"]
        for stack in ("encoder", "decoder"):
            here = f"model.{stack}."
            weights[f"{here}embed_tokens.weight"] = mine["tgt_embed.0.lut.weight"]
            letter = {"weight": "a_2", "bias": "b_2"}[kind]
            weights[f"{here}layer_norm.{kind}"] = mine[f"{stack}.norm.{letter}"]
            for i in range(layers):
                there, layer = f"{here}layers.{i}.", f"{stack}.layers.{i}."
                for number, name in enumerate(norms[stack]):
                    norm = mine[f"{layer}sublayer.{number}.norm.{letter}"]
                    weights[f"{there}{name}.{kind}"] = norm
                for name, as_named in (
                    ("self_attn", "self_attn"),
                    ("src_attn", "encoder_attn"),
                ):
                    for number, linear in enumerate(linears):
                        key = f"{layer}{name}.linears.{number}.{kind}"
                        if key in mine:
                            weights[f"{there}{as_named}.{linear}.{kind}"] = mine[key]
                for name, as_named in (("w_1", "fc1"), ("w_2", "fc2")):
                    weights[f"{there}{as_named}.{kind}"] = mine[
                        f"{layer}feed_forward.{name}.{kind}"
                    ]
    return weights


def ctranslate2_of(folder: str, batches: int, threads: int) -> Any:
    """Load an exported folder, for this many parallel batches and threads for each."""
    import ctranslate2

    return ctranslate2.Translator(
        folder, device="cpu", compute_type="float32",
        inter_threads=batches, intra_threads=threads,
    )  # fmt: skip
