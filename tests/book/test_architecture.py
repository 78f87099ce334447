"""Chapter 1: parity with PyTorch's own layers, and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import annotated_transformer as at
from transformer_workshop.models.speed import fused_attention

WIDTH, HEADS, FF = 16, 4, 32


# --- copying our weights into PyTorch's layers -------------------------------


def attention_weights(ours: at.MultiHeadedAttention, name: str) -> dict:
    q, k, v, out = ours.linears
    return {
        f"{name}.in_proj_weight": torch.cat([q.weight, k.weight, v.weight]),
        f"{name}.in_proj_bias": torch.cat([q.bias, k.bias, v.bias]),
        f"{name}.out_proj.weight": out.weight,
        f"{name}.out_proj.bias": out.bias,
    }


def layer_weights(ours: nn.Module) -> dict:
    """Return the state of an nn.Transformer{En,De}coderLayer equal to our layer."""
    weights = attention_weights(ours.self_attn, "self_attn")
    if hasattr(ours, "src_attn"):
        weights |= attention_weights(ours.src_attn, "multihead_attn")
    for theirs, name in (("linear1", "w_1"), ("linear2", "w_2")):
        linear = getattr(ours.feed_forward, name)
        weights |= {f"{theirs}.weight": linear.weight, f"{theirs}.bias": linear.bias}
    for i, sublayer in enumerate(ours.sublayer, start=1):
        weights[f"norm{i}.weight"] = sublayer.norm.a_2
        weights[f"norm{i}.bias"] = sublayer.norm.b_2
    return weights


def our_model(norm_first: bool, **more) -> at.EncoderDecoder:
    torch.manual_seed(0)
    sizes = (11, 13, 2, WIDTH, FF, HEADS)
    model = at.make_model(*sizes, 0.0, norm_first=norm_first, **more)
    for p in model.parameters():  # so that norms and biases matter in the comparison
        p.data += 0.1 * torch.randn_like(p)
    return model.double()


def ragged(vocab: int, lengths: list[int]) -> torch.Tensor:
    rows = [torch.randint(3, vocab, (n,)) for n in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=2)


@pytest.mark.parametrize("width", [4, 512])
def test_layer_norm_divides_by_n_with_epsilon_under_the_root(width):
    x = 1e-3 * torch.randn(7, width, dtype=torch.float64)
    centered = x - x.mean(-1, keepdim=True)
    by_hand = centered / ((centered**2).mean(-1, keepdim=True) + 1e-6).sqrt()
    assert torch.allclose(at.LayerNorm(width).double()(x), by_hand, atol=1e-12)


def test_multi_head_attention_is_torchs():
    ours = our_model(True).encoder.layers[0].self_attn
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    state = attention_weights(ours, "x")
    theirs.load_state_dict({k[2:]: v for k, v in state.items()})
    q, m = torch.randn(2, 5, WIDTH).double(), torch.randn(2, 7, WIDTH).double()
    mask = torch.rand(2, 1, 7) > 0.3
    mask[..., 0] = True
    out = ours(q, m, m, mask)
    expected, weights = theirs(
        q, m, m, key_padding_mask=~mask.squeeze(1), average_attn_weights=False
    )
    assert torch.allclose(out, expected, atol=1e-10)
    assert torch.allclose(ours.attn, weights, atol=1e-10)


def torch_model(ours: at.EncoderDecoder, norm_first: bool) -> nn.Transformer:
    settings = dict(batch_first=True, norm_first=norm_first, layer_norm_eps=1e-6)
    layers = (
        nn.TransformerEncoderLayer(WIDTH, HEADS, FF, 0.0, **settings),
        nn.TransformerDecoderLayer(WIDTH, HEADS, FF, 0.0, **settings),
    )
    encoder = nn.TransformerEncoder(layers[0], 2, enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(layers[1], 2)
    custom = dict(custom_encoder=encoder, custom_decoder=decoder)
    theirs = nn.Transformer(WIDTH, HEADS, **custom, batch_first=True).double()
    for mine, other in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for ours_layer, theirs_layer in zip(mine.layers, other.layers, strict=True):
            theirs_layer.load_state_dict(layer_weights(ours_layer))
        if norm_first:  # post-norm has normalized already
            other.norm = nn.LayerNorm(WIDTH, eps=1e-6).double()
            other.norm.load_state_dict({"weight": mine.norm.a_2, "bias": mine.norm.b_2})
    return theirs


@pytest.mark.parametrize("norm_first", [True, False])
def test_whole_model_is_torchs(norm_first):
    """Compare the outputs, and the gradients of all weights of both stacks."""
    ours = our_model(norm_first)
    theirs = torch_model(ours, norm_first)
    src, tgt = ragged(11, [3, 7, 5]), ragged(13, [6, 4, 5])
    out = ours(src, tgt, (src != 2).unsqueeze(1), at.Batch.make_std_mask(tgt, 2))
    expected = theirs(
        ours.src_embed(src),
        ours.tgt_embed(tgt),
        tgt_mask=~at.subsequent_mask(6)[0],
        src_key_padding_mask=src == 2,
        tgt_key_padding_mask=tgt == 2,
        memory_key_padding_mask=src == 2,
    )
    real = (tgt != 2).unsqueeze(-1)
    assert torch.allclose(out * real, expected * real, atol=1e-10)
    direction = torch.randn_like(out) * real
    (out * direction).sum().backward()
    (expected * direction).sum().backward()
    for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for ours_layer, theirs_layer in zip(mine.layers, other.layers, strict=True):
            for p in ours_layer.parameters():
                p.data = p.grad  # for layer_weights to arrange them
            arranged = layer_weights(ours_layer)
            for name, p in theirs_layer.named_parameters():
                assert torch.allclose(arranged[name], p.grad, atol=1e-9), name


# --- attention and masks -----------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_attention_rows_are_distributions_over_allowed_keys(T, S, seed):
    torch.manual_seed(seed)
    q, k, v = torch.randn(2, T, 8), torch.randn(2, S, 8), torch.randn(2, S, 8)
    mask = torch.rand(2, T, S) > 0.5
    out, weights = at.attention(q, k, v, mask)
    assert torch.allclose(weights.sum(-1), mask.any(-1).float(), atol=1e-6)
    assert (weights[~mask] == 0).all()
    reference = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert torch.allclose(out, reference, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("function", [at.attention, fused_attention])
@pytest.mark.parametrize("training", [False, True])  # two ways of computing it
def test_masks_of_any_type_mean_the_same(dtype, function, training):
    torch.manual_seed(0)
    mha = at.MultiHeadedAttention(2, 8, 0.0).train(training)
    mha.attention_function = function
    x = torch.randn(2, 4, 8)
    mask = torch.tensor([[[1, 1, 0, 0]], [[1, 0, 1, 1]]])
    expected = mha(x, x, x, mask.bool())
    out = mha(x, x, x, mask.to(dtype))
    assert torch.allclose(out, expected, atol=1e-6)
    assert not torch.allclose(out, mha(x, x, x), atol=1e-3)
    given, boolean = (function(x, x, x, m)[0] for m in (mask.to(dtype), mask.bool()))
    assert torch.allclose(given, boolean, atol=1e-6)  # also called by itself


@pytest.mark.parametrize("function", [at.attention, fused_attention])
@pytest.mark.parametrize("training", [False, True])
def test_a_row_that_may_attend_to_nothing_yields_zeros(function, training):
    mha = at.MultiHeadedAttention(2, 8, 0.3).train(training)
    mha.attention_function = function
    x = torch.randn(1, 3, 8, requires_grad=True)
    mask = torch.zeros(1, 1, 3, dtype=torch.bool)
    out = mha(x, x, x, mask)
    assert mha.attn is None or (mha.attn == 0).all()
    assert torch.allclose(out, mha.linears[3].bias.expand_as(out))
    out.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masked_attention_in_half_precision_is_finite(dtype):
    q = torch.randn(1, 3, 8, dtype=dtype)
    out, weights = at.attention(q, q, q, at.subsequent_mask(3))
    assert out.isfinite().all() and (weights[0, 0, 1:] == 0).all()


ADDED = torch.zeros(1, 3, 3).masked_fill(~at.subsequent_mask(3), -math.inf)


@pytest.mark.parametrize(
    "mask, says",
    [
        (ADDED, "pass mask == 0"),
        (torch.zeros(1, 1, 3), "pass mask == 0"),
        (torch.ones(3, 3), r"the mask is \(3, 3\); it must be"),
        (torch.ones(1, 1, 3, 3), r"the mask is \(1, 1, 3, 3\); it must be"),
    ],
)
def test_a_mask_of_another_kind_is_refused_wherever_it_comes_in(mask, says):
    """Take one to be added to the scores: as one of ours, it hides the wrong words."""
    x = torch.randn(1, 3, WIDTH)
    with pytest.raises(ValueError, match=says):
        at.MultiHeadedAttention(HEADS, WIDTH)(x, x, x, mask)
    with pytest.raises(ValueError, match=says):
        our_model(True).encode(torch.tensor([[3, 4, 5]]), mask)
    allowed = at.for_all_heads(ADDED == 0)
    assert torch.equal(allowed[:, 0], at.subsequent_mask(3))


def test_kept_weights_are_detached_and_from_before_dropout():
    model = our_model(True).train()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.5
    src = torch.randint(3, 11, (2, 5))
    model.encode(src, torch.ones(2, 1, 5, dtype=torch.bool))
    kept = model.encoder.layers[0].self_attn.attn
    assert kept.shape == (2, HEADS, 5, 5) and not kept.requires_grad
    assert torch.allclose(kept.sum(-1), torch.ones(2, HEADS, 5).double())


def test_the_function_in_use_can_be_exchanged():
    mha = at.MultiHeadedAttention(2, 8, 0.0)
    x, mask = torch.randn(3, 4, 8), torch.ones(3, 1, 4)
    asked = []

    def first_key(query, key, value, mask=None, dropout=None):
        asked.append((query.shape, mask.shape, dropout))
        return value[:, :, :1].expand_as(query), None

    mha(x, x, x, mask)
    assert mha.attention_function is at.attention and mha.attn is not None
    mha.attention_function = first_key
    heads = mha.split(mha.linears[2](x))[:, :, :1].expand(3, 2, 4, 4)
    assert torch.equal(mha(x, x, x, mask), mha.linears[3](mha.join(heads)))
    assert mha.attn is None
    assert asked == [((3, 2, 4, 4), (3, 1, 1, 4), mha.dropout)]


def test_plain_attention_comes_and_goes():
    model = our_model(True)
    layer, other = (model.encoder.layers[i].self_attn for i in (0, 1))
    layer.attention_function = fused_attention
    src, mask = torch.randint(3, 11, (2, 5)), torch.ones(2, 1, 5, dtype=torch.bool)
    with at.plain_attention(model):
        with at.plain_attention(model):
            model.encode(src, mask)
        inside = layer.attn
        model.encode(src, mask)
        assert layer.attn is not inside and layer.attn.equal(inside)
    with pytest.raises(RuntimeError), at.plain_attention(model):
        raise RuntimeError
    assert layer.attention_function is fused_attention
    assert other.attention_function is at.attention
    model.encode(src, mask)
    assert layer.attn is None and other.attn is not None


@pytest.mark.parametrize("size", ["src_vocab", "tgt_vocab", "N", "d_ff", "max_len"])
@pytest.mark.parametrize("number", [0, -1, 2.0])
def test_a_size_that_no_model_has_is_refused(size, number):
    sizes = {"src_vocab": 9, "tgt_vocab": 9, "N": 1, "d_model": 8, "d_ff": 8, "h": 2}
    with pytest.raises(ValueError, match=f"{size}={number} must be 1 or more"):
        at.make_model(**(sizes | {size: number}))
    numpy = {name: np.int64(number) for name, number in sizes.items()}
    ours, theirs = at.make_model(**sizes), at.make_model(**numpy)
    assert at.count_parameters(ours) == at.count_parameters(theirs)


def test_dropout_argument_reaches_every_part():
    def places(p):
        model = at.make_model(9, 9, 1, 8, 8, 2, p)
        return [m.p for m in model.modules() if isinstance(m, nn.Dropout)]

    assert set(places(0.0)) == {0.0} and set(places(0.37)) == {0.37}
    src = torch.randint(3, 9, (2, 4))
    mask = torch.ones(2, 1, 4)
    still = at.make_model(9, 9, 2, 8, 8, 2, 0.0).train()
    assert torch.equal(still.encode(src, mask), still.encode(src, mask))
    for name in ("self_attn", "feed_forward"):  # and each place acts alone
        layer = at.make_model(9, 9, 1, 8, 8, 2, 0.0).train().encoder.layers[0]
        getattr(layer, name).dropout.p = 0.5
        x = torch.randn(2, 40, 8)
        assert not torch.equal(layer(x, None), layer(x, None)), name


# --- the whole model ---------------------------------------------------------


@pytest.mark.parametrize("norm_first", [True, False])
def test_later_words_do_not_change_earlier_outputs(norm_first):
    model = our_model(norm_first).eval()
    src, tgt = torch.randint(3, 11, (1, 5)), torch.randint(3, 13, (1, 7))
    before = model(src, tgt, torch.ones(1, 1, 5), at.subsequent_mask(7))
    for t in range(1, 7):
        other = tgt.clone()
        other[0, t:] = (tgt[0, t:] - 2) % 10 + 3  # another word at each place
        after = model(src, other, torch.ones(1, 1, 5), at.subsequent_mask(7))
        assert torch.allclose(before[:, :t], after[:, :t], atol=1e-10)
        assert not torch.allclose(before[:, t], after[:, t], atol=1e-4)


@pytest.mark.parametrize("lengths", [[3], [1, 6], [4, 2, 6, 2]])
def test_padding_and_neighbors_change_nothing(lengths):
    model = our_model(True).eval()

    def run(src, tgt):
        mask = at.Batch.make_std_mask(tgt, 2)
        return model(src, tgt, (src != 2).unsqueeze(1), mask)

    src, tgt = ragged(11, lengths), ragged(13, [n + 1 for n in lengths])
    together = run(F.pad(src, (0, 3), value=2), tgt)
    for i, n in enumerate(lengths):
        alone = run(src[i : i + 1, :n], tgt[i : i + 1, : n + 1])
        assert torch.allclose(together[i, : n + 1], alone[0], atol=1e-10)


def test_tying_shares_one_table():
    sizes = {}
    for tie in ("none", "target", "all"):
        model = at.make_model(12, 12, 1, 8, 8, 2)
        at.tie_weights(model, tie)
        src, tgt = model.src_embed[0].lut.weight, model.tgt_embed[0].lut.weight
        assert (model.generator.proj.weight is tgt) == (tie != "none")
        assert (src is tgt) == (tie == "all")
        sizes[tie] = at.count_parameters(model)
    assert sizes["none"] - sizes["target"] == sizes["target"] - sizes["all"] == 12 * 8


@pytest.mark.parametrize(
    "tie, words", [("both", "tie='both' is neither"), ("all", "one joint vocabulary")]
)
def test_tables_that_cannot_be_shared_are_refused(tie, words):
    with pytest.raises(ValueError, match=words):
        at.tie_weights(at.make_model(11, 13, 1, 8, 8, 2), tie)


def test_four_projections_start_apart():
    mha = at.MultiHeadedAttention(2, 8)
    x = torch.randn(1, 5, 8)
    w_q, w_k, _, _ = mha.linears
    scores = w_q(x) @ w_k(x).mT
    assert not torch.allclose(scores, scores.mT, atol=1e-2)  # equal ones: symmetric
    assert len({linear.weight.sum().item() for linear in mha.linears}) == 4


def test_an_id_outside_the_vocabulary_is_named():
    model = at.make_model(11, 11, 1, 16, 32, 2)
    with pytest.raises(IndexError, match="ids 3 to 11 in a table of 11 words"):
        model.encode(torch.tensor([[3, 11]]), None)


@pytest.mark.parametrize("vocab, tie", [(500, "none"), (5000, "none"), (500, "all")])
def test_embeddings_start_at_unit_scale_whatever_the_vocabulary(vocab, tie):
    model = at.make_model(vocab, vocab, 1, 64, 8, 2)
    at.tie_weights(model, tie)
    spread = model.tgt_embed[0](torch.arange(vocab)).std().item()
    assert abs(spread - 1) < 0.02


def test_positions_follow_the_formula():
    pe = at.PositionalEncoding(12, 0.0, max_len=300).pe[0]
    for pos in (0, 1, 17, 299):
        for i in range(6):
            angle = pos / 10000 ** (2 * i / 12)
            assert abs(pe[pos, 2 * i].item() - math.sin(angle)) < 1e-4
            assert abs(pe[pos, 2 * i + 1].item() - math.cos(angle)) < 1e-4


@pytest.mark.parametrize("kind", [at.PositionalEncoding, at.LearnedPositions])
def test_the_first_position_comes_first(kind):
    layer = kind(8, 0.0, max_len=10)
    x = torch.randn(2, 9, 8)
    added = layer(x) - x
    assert torch.allclose(layer(x[:, :4]), (x + added)[:, :4])
    assert torch.allclose(added[0], added[1], atol=1e-6)
    assert not torch.allclose(added[0, 0], added[0, 1], atol=1e-2)


# --- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(d_model=10, h=4), "d_model=10 cannot be cut into h=4"),
        (dict(d_model=9, h=3), "d_model=9 is odd"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments, words):
    settings = dict(N=1, d_model=8, d_ff=8, h=2) | arguments
    with pytest.raises(ValueError, match=words):
        at.make_model(11, 13, **settings)


@pytest.mark.parametrize("kind", [at.PositionalEncoding, at.LearnedPositions])
def test_one_position_too_many_is_refused(kind):
    positions = kind(8, 0.0, max_len=6)
    positions(torch.ones(1, 6, 8))
    with pytest.raises(ValueError, match="7 positions is longer than the 6.*max_len=7"):
        positions(torch.ones(1, 7, 8))


def test_an_older_checkpoint_fits():
    """Check that the names of the weights are those of the 2022 text."""
    names = at.make_model(9, 9, 1, 8, 8, 2).state_dict().keys()
    assert {
        "encoder.layers.0.self_attn.linears.3.weight",
        "encoder.layers.0.feed_forward.w_1.bias",
        "encoder.layers.0.sublayer.1.norm.a_2",
        "encoder.norm.b_2",
        "decoder.layers.0.src_attn.linears.0.weight",
        "src_embed.0.lut.weight",
        "generator.proj.bias",
    } <= set(names)
