"""Which architecture does a configuration describe: 2017's, or today's parts?"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from annotated_transformer import (
    Decoder,
    DecoderLayer,
    Embeddings,
    Encoder,
    EncoderDecoder,
    EncoderLayer,
    Generator,
    GroupedQueryAttention,
    LearnedPositions,
    MultiHeadedAttention,
    RMSNorm,
    SublayerConnection,
    SwiGLU,
    Vocabulary,
    for_all_heads,
    initialize,
    make_model,
    tie_weights,
)
from transformer_workshop.base.config import TrainingConfig


class NormalizedCrossAttention(MultiHeadedAttention):
    """Attend to another sequence with normalized queries and keys, without biases.

    Keys are normalized in each head, queries as whole vectors, before they are split
    into heads: what CTranslate2 4.8 computes, so that it can run the model.
    """

    def __init__(self, h: int, d_model: int, dropout: float = 0.0):
        super().__init__(h, d_model, dropout)
        linears = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.linears = nn.ModuleList(linears)
        self.q_norm, self.k_norm = RMSNorm(d_model), RMSNorm(self.d_k)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Attend from query (B, L, d_model) to key and value (B, S, d_model).

        The mask is (B, 1, S) or (B, L, S), non-zero where attention is allowed.
        """
        w_q, w_k, w_v, w_o = self.linears
        q = self.split(self.q_norm(w_q(query)))
        k, v = self.k_norm(self.split(w_k(key))), self.split(w_v(value))
        mask = for_all_heads(mask)
        x, weights = self.attention_function(q, k, v, mask, self.dropout)
        self.attn = None if weights is None else weights.detach()
        return w_o(self.join(x))


def modern_model(
    src_vocab: int,
    tgt_vocab: int,
    N: int,
    d_model: int,
    d_ff: int,
    h: int,
    dropout: float = 0.1,
) -> EncoderDecoder:
    """Return an encoder-decoder with chapter 6's parts, and with fresh weights.

    Cross-attention isn't rotated, though that would gain something (section 6.11).
    SwiGLU is two thirds as wide as ``d_ff``, which leaves the number of weights as in
    2017.
    """
    c = copy.deepcopy
    attn = GroupedQueryAttention(h, d_model, groups=h, dropout=dropout)
    cross = NormalizedCrossAttention(h, d_model, dropout)
    ff = SwiGLU(d_model, 2 * d_ff // 3, dropout)
    model = EncoderDecoder(
        Encoder(EncoderLayer(d_model, c(attn), c(ff), dropout), N),
        Decoder(DecoderLayer(d_model, c(attn), cross, c(ff), dropout), N),
        nn.Sequential(Embeddings(d_model, src_vocab), nn.Dropout(dropout)),
        nn.Sequential(Embeddings(d_model, tgt_vocab), nn.Dropout(dropout)),
        Generator(d_model, tgt_vocab),
    )
    model.generator.proj = nn.Linear(d_model, tgt_vocab, bias=False)
    kinds = SublayerConnection, Encoder, Decoder
    normed: list[Any] = [part for part in model.modules() if isinstance(part, kinds)]
    for part in normed:
        part.norm = RMSNorm(d_model)
    initialize(model)
    return model


def build_model(
    config: TrainingConfig, vocab_src: Vocabulary, vocab_tgt: Vocabulary
) -> EncoderDecoder:
    """Build the model that a configuration describes, with fresh weights."""
    c = config
    sizes: Any = len(vocab_src), len(vocab_tgt), c.N, c.d_model, c.d_ff, c.h, c.dropout
    if config.block == "2026":
        model = modern_model(*sizes)
        tie_weights(model, config.tie)
        return model
    model = make_model(*sizes, norm_first=c.norm_first, max_len=c.max_tokens)
    if config.positions == "learned":
        for embed in (model.src_embed, model.tgt_embed):
            embed[1] = LearnedPositions(
                config.d_model, config.dropout, config.max_tokens
            )
    tie_weights(model, config.tie)
    return model
