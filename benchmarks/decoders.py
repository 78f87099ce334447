"""The same trained weights in the decoders that people would use instead."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import annotated_transformer as at


def as_m2m100(translator: at.Translator) -> nn.Module:
    """Our weights in transformers' pre-norm model, for its ``generate``."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    ours, config = translator.model, translator.config
    settings = M2M100Config(
        vocab_size=len(translator.vocab_tgt), d_model=config.d_model,
        encoder_layers=config.N, decoder_layers=config.N,
        encoder_attention_heads=config.h, decoder_attention_heads=config.h,
        encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
        activation_function="relu", scale_embedding=True,
        pad_token_id=at.PAD, bos_token_id=at.START, eos_token_id=at.END,
        decoder_start_token_id=at.START,
    )  # fmt: skip
    theirs = M2M100ForConditionalGeneration(settings)
    theirs.lm_head = nn.Linear(config.d_model, len(translator.vocab_tgt))
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
    """The sinusoids that a model adds, (positions, D)."""
    embedding: Any = model.tgt_embed
    return embedding[1].pe[0]


def renamed(mine: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Our weights under the names that transformers gives them."""
    norms = {"encoder": ("self_attn_layer_norm", "final_layer_norm")}
    norms["decoder"] = (
        norms["encoder"][0],
        "encoder_attn_layer_norm",
        norms["encoder"][1],
    )
    linears = ("q_proj", "k_proj", "v_proj", "out_proj")
    found = {"model.shared.weight": mine["tgt_embed.0.lut.weight"]}
    for kind in ("weight", "bias"):
        found[f"lm_head.{kind}"] = mine[f"generator.proj.{kind}"]
        for stack in ("encoder", "decoder"):
            here = f"model.{stack}."
            found[f"{here}embed_tokens.weight"] = mine["tgt_embed.0.lut.weight"]
            letter = {"weight": "a_2", "bias": "b_2"}[kind]
            found[f"{here}layer_norm.{kind}"] = mine[f"{stack}.norm.{letter}"]
            for i in range(layers):
                there, layer = f"{here}layers.{i}.", f"{stack}.layers.{i}."
                for number, name in enumerate(norms[stack]):
                    norm = mine[f"{layer}sublayer.{number}.norm.{letter}"]
                    found[f"{there}{name}.{kind}"] = norm
                for name, as_named in (
                    ("self_attn", "self_attn"),
                    ("src_attn", "encoder_attn"),
                ):
                    for number, linear in enumerate(linears):
                        key = f"{layer}{name}.linears.{number}.{kind}"
                        if key in mine:
                            found[f"{there}{as_named}.{linear}.{kind}"] = mine[key]
                for name, as_named in (("w_1", "fc1"), ("w_2", "fc2")):
                    found[f"{there}{as_named}.{kind}"] = mine[
                        f"{layer}feed_forward.{name}.{kind}"
                    ]
    return found


def as_ctranslate2(translator: at.Translator, folder: Path) -> None:
    """Write our weights in CTranslate2's specification of a Transformer."""
    from ctranslate2.specs import common_spec, transformer_spec

    model, config = translator.model, translator.config
    spec = transformer_spec.TransformerSpec.from_config(
        (config.N, config.N), config.h, pre_norm=True,
        activation=common_spec.Activation.RELU,
    )  # fmt: skip
    for stack, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        embeddings = stack.embeddings
        one = embeddings[0] if isinstance(embeddings, list) else embeddings
        one.weight = model.tgt_embed[0].lut.weight.detach().numpy()
        stack.scale_embeddings = True
        stack.position_encodings.encodings = positions(model).numpy()
        norm(stack.layer_norm, ours.norm)
        for theirs, layer in zip(stack.layer, ours.layers, strict=True):
            q, k, v, out = layer.self_attn.linears
            linear(theirs.self_attention.linear[0], q, k, v)
            linear(theirs.self_attention.linear[1], out)
            norm(theirs.self_attention.layer_norm, layer.sublayer[0].norm)
            if hasattr(layer, "src_attn"):
                q, k, v, out = layer.src_attn.linears
                linear(theirs.attention.linear[0], q)
                linear(theirs.attention.linear[1], k, v)
                linear(theirs.attention.linear[2], out)
                norm(theirs.attention.layer_norm, layer.sublayer[1].norm)
            linear(theirs.ffn.linear_0, layer.feed_forward.w_1)
            linear(theirs.ffn.linear_1, layer.feed_forward.w_2)
            norm(theirs.ffn.layer_norm, layer.sublayer[-1].norm)
    linear(spec.decoder.projection, model.generator.proj)
    words = translator.vocab_tgt.get_itos()
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.layer_norm_epsilon = 1e-6
    spec.config.decoder_start_token = words[at.START]
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def ctranslate2_of(folder: str, batches: int, threads: int) -> Any:
    """The decoder of such a folder: batches at once, and threads for each."""
    import ctranslate2

    return ctranslate2.Translator(
        folder, device="cpu", compute_type="float32",
        inter_threads=batches, intra_threads=threads,
    )  # fmt: skip


def linear(spec: Any, *parts: nn.Linear) -> None:
    """Fill a linear layer of a specification with one or more of ours."""
    spec.weight = torch.cat([part.weight for part in parts]).detach().numpy()
    spec.bias = torch.cat([part.bias for part in parts]).detach().numpy()


def norm(spec: Any, ours: at.LayerNorm) -> None:
    """Fill a layer norm of a specification with ours."""
    spec.gamma, spec.beta = ours.a_2.detach().numpy(), ours.b_2.detach().numpy()
