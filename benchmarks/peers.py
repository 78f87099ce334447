"""What people would use instead, all with the same sizes and dropout sites."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig

WIDTH_2022 = 72  # to which the post pads every row
ROWS_2022 = 32  # sentences in one of its batches
ACCUM_2022 = 10  # batches per step of its optimizer


class LayerNorm2022(nn.Module):
    """The post's layer norm: deviation with N - 1, epsilon outside the root."""

    def __init__(self, features: int, eps: float = 1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return self.a_2 * centered / (x.std(-1, keepdim=True) + self.eps) + self.b_2


def attention_2022(query, key, value, mask=None, dropout=None):
    """Compute the post's attention; return weights after dropout, with their graph."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


class LabelSmoothing2022(nn.Module):
    """The post's criterion: it writes out the whole smoothed target, and copies it."""

    def __init__(self, size: int, smoothing: float):
        super().__init__()
        self.size, self.smoothing = size, smoothing

    def forward(self, log_p: Tensor, target: Tensor) -> Tensor:
        dense = log_p.data.clone().fill_(self.smoothing / (self.size - 2))
        dense.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        dense[:, at.PAD] = 0
        dense.index_fill_(0, (target == at.PAD).nonzero().flatten(), 0.0)
        return F.kl_div(log_p, dense.clone().detach(), reduction="sum")


def model_of_2022(config: TrainingConfig, words: int) -> at.EncoderDecoder:
    """Build our model with the post's layer norm and attention in place of ours."""
    model = at.make_model(
        words, words, config.N, config.d_model, config.d_ff, config.h, config.dropout
    )
    at.tie_weights(model, config.tie)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, at.LayerNorm):
                setattr(module, name, LayerNorm2022(config.d_model))
            elif isinstance(child, at.MultiHeadedAttention):
                child.attention_function = attention_2022
    return model


def way_of_2022(
    config: TrainingConfig, words: int, examples: Sequence
) -> tuple[nn.Module, Callable[[], int]]:
    """Return the post's model and training step: rows in order, all padded alike."""
    model = model_of_2022(config, words)
    criterion = LabelSmoothing2022(words, config.smoothing)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    batches = []
    for start in range(0, len(examples) - ROWS_2022, ROWS_2022):
        rows = examples[start : start + ROWS_2022]
        sides = [at.padded([row[side] for row in rows]) for side in (0, 1)]
        src, tgt = (F.pad(x, (0, WIDTH_2022 - x.size(1)), value=at.PAD) for x in sides)
        batches.append(at.Batch(src, tgt))
    numbered = enumerate(itertools.cycle(batches))

    def step() -> int:
        number, batch = next(numbered)
        out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        log_p = model.generator(out).flatten(0, 1)
        loss = criterion(log_p, batch.tgt_y.flatten()) / batch.ntokens
        loss.backward()
        if number % ACCUM_2022 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        loss.item()
        return batch.ntokens

    model.train()
    return model, step


class TorchTransformer(nn.Module):
    """nn.Transformer with our embeddings, positions, and tied output around it."""

    def __init__(self, config: TrainingConfig, words: int):
        super().__init__()
        d_model = config.d_model
        self.embed = at.Embeddings(d_model, words)
        self.position = at.PositionalEncoding(d_model, config.dropout)
        self.core = nn.Transformer(
            d_model, config.h, config.N, config.N, config.d_ff, config.dropout,
            batch_first=True, norm_first=config.norm_first,
        )  # fmt: skip
        self.out = nn.Linear(d_model, words)
        self.out.weight = self.embed.lut.weight

    def forward(self, batch: at.Batch) -> Tensor:
        src, tgt = (self.position(self.embed(x)) for x in (batch.src, batch.tgt))
        padding = batch.src == at.PAD
        later = ~at.subsequent_mask(tgt.size(1))[0]
        hidden = self.core(
            src, tgt, tgt_mask=later, src_key_padding_mask=padding,
            memory_key_padding_mask=padding, tgt_is_causal=True,
        )  # fmt: skip
        return self.out(hidden)


class Marian(nn.Module):
    """MarianMTModel of transformers."""

    def __init__(self, config: TrainingConfig, words: int):
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        share = config.dropout
        settings = MarianConfig(
            vocab_size=words, d_model=config.d_model, max_position_embeddings=256,
            encoder_layers=config.N, decoder_layers=config.N,
            encoder_attention_heads=config.h, decoder_attention_heads=config.h,
            encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
            dropout=share, attention_dropout=share, activation_dropout=share,
            activation_function="relu", scale_embedding=True, use_cache=False,
            share_encoder_decoder_embeddings=True, tie_word_embeddings=True,
            pad_token_id=at.PAD, eos_token_id=at.END, decoder_start_token_id=at.START,
            forced_eos_token_id=None,
        )  # fmt: skip
        self.core = MarianMTModel(settings)

    def forward(self, batch: at.Batch) -> Tensor:
        mask = (batch.src != at.PAD).long()
        return self.core(batch.src, mask, decoder_input_ids=batch.tgt).logits


def by_logits(
    model: nn.Module, batches: Sequence[at.Batch], smoothing: float
) -> Callable[[], int]:
    """Return a training step for a model that gives logits, as its users write it."""
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    stream = itertools.cycle(batches)

    def step() -> int:
        batch = next(stream)
        loss = F.cross_entropy(
            model(batch).flatten(0, 1), batch.tgt_y.flatten(),
            ignore_index=at.PAD, label_smoothing=smoothing,
        )  # fmt: skip
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        return batch.ntokens

    model.train()
    return step
