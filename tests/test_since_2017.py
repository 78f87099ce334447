"""Chapter 6: today's parts, one stack for two languages, sampling; block 2026."""

from __future__ import annotations

import copy
import itertools
import math
import re
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_runs import (
    assert_same_run,
    program,
    refused,
    repeatable,
    small_run,
    train,
    train_until,
)

import annotated_transformer as at
from annotated_transformer import CHANGES, END, PAD, START
from transformer_workshop import runs
from transformer_workshop.runs import schedule_of

ROOT = Path(__file__).resolve().parent.parent
SUBSETS = [s for n in (0, 1, 5) for s in itertools.combinations(CHANGES, n)]
near = {"rtol": 0, "atol": 1e-9}


def spread(model: nn.Module, by: float = 0.3) -> nn.Module:
    """Move every weight: a fresh model is too undecided to tell us anything."""
    for p in model.parameters():
        p.data += by * torch.randn_like(p)
    return model.double().eval()


def some_model(changes=CHANGES, groups=0, **options):
    """Return a small model; with groups, heads share keys in all of its attentions."""
    torch.manual_seed(3)
    model = at.make_model(12, 12, 2, 16, 32, 4, **options)
    if changes or groups:
        at.modernize(model, changes, groups=groups or None)
    return spread(model)


def ragged(lengths, seed=0):
    """Return rows of ids from <s> on, with that many words, padded with 2."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, 12, (n + 1,), generator=draw) for n in lengths]
    rows = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    rows[:, 0] = START
    return rows


def some_batch():
    return at.Batch(ragged([6, 2, 4]), ragged([3, 5, 4], seed=1))


def inputs(batch):
    return batch.src, batch.tgt, batch.src_mask, batch.tgt_mask


def in_one_pass(model, batch):
    """Return log-probabilities (B, L, vocab), read as decoding reads: with all pads."""
    causal = at.subsequent_mask(batch.tgt.size(1))
    return model.generator(model(batch.src, batch.tgt, batch.src_mask, causal))


def step_by_step(model, batch):
    """Return the same from decoding with chapter 4's cache."""
    cache = at.DecoderCache(model, batch.src, batch.src_mask)
    read = [batch.tgt[:, : t + 1] for t in range(batch.tgt.size(1))]
    return torch.stack([at.decode_step(model, cache, ys) for ys in read], dim=1)


def heads(B=2, h=3, L=5, d_k=8, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(B, h, L, d_k, generator=draw, dtype=torch.double)


def scores(query, key, value, mask=None, dropout=None):
    """Stand in for chapter 1's attention; return its scores before the softmax."""
    return query @ key.mT / math.sqrt(query.size(-1)), None


# --- a simpler norm ----------------------------------------------------------


def test_rms_norm_is_torchs():
    ours, theirs = at.RMSNorm(8).double(), nn.RMSNorm(8, eps=1e-6).double()
    ours.weight.data = theirs.weight.data = heads()[0, 0, 0]
    results = []
    for norm in (ours, theirs):
        x = (3 * heads() + 1).requires_grad_()
        y = norm(x)
        y.tanh().sum().backward()
        results.append((y, x.grad, norm.weight.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
    tiny = 1e-4 * heads()  # here epsilon counts
    torch.testing.assert_close(ours(tiny), theirs(tiny))


# --- rotary positions --------------------------------------------------------


def turned(x, positions):
    """Rotate vectors (…, L, d_k) as complex numbers: each pair is one of them."""
    half = x.size(-1) // 2
    z = torch.complex(x[..., :half], x[..., half:])
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.double) / half)
    angle = torch.tensor(positions, dtype=torch.double).unsqueeze(-1) * frequency
    z = z * torch.exp(1j * angle)
    return torch.cat([z.real, z.imag], dim=-1)


@pytest.mark.parametrize("d_k, length", [(8, 5), (8, 60), (2, 60)])
def test_rotations_are_products_of_complex_numbers(d_k, length):
    x = heads(d_k=d_k)
    found = at.RotaryEmbedding(d_k, max_len=60)(x, length)
    expected = turned(x, range(length - 5, length))
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_too_many_positions_and_odd_widths_are_refused():
    rotary = at.RotaryEmbedding(4, max_len=8)
    rotary(heads(L=8, d_k=4), 8)
    with pytest.raises(ValueError, match="9 positions.*max_len=9"):
        rotary(heads(L=2, d_k=4), 9)
    with pytest.raises(ValueError, match="d_k=5 is odd"):
        at.RotaryEmbedding(5)


def test_rotary_attention_is_attention_on_rotated_vectors():
    torch.manual_seed(0)
    attn = at.ModernAttention(3, 24, 0.0, rotary=at.RotaryEmbedding(8)).double()
    x = torch.randn(2, 5, 24).double()
    q, k, v = at.MultiHeadedAttention.project(attn, x, x, x)
    q, k = (turned(each, range(5)) for each in (q, k))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    found = attn(x, x, x, at.subsequent_mask(5))
    torch.testing.assert_close(found, attn.linears[3](attn.join(expected)))


# --- SwiGLU ------------------------------------------------------------------


def test_swiglu_is_its_formula():
    ours, x = at.SwiGLU(8, 12, dropout=0.0).double(), heads()[0]
    w, v, out = ours.gate, ours.w_1, ours.w_2
    inner = F.silu(F.linear(x, w.weight, w.bias)) * F.linear(x, v.weight, v.bias)
    torch.testing.assert_close(ours(x), F.linear(inner, out.weight, out.bias))
    dropping, many = at.SwiGLU(8, 12, dropout=0.5), torch.randn(50, 8)
    assert not torch.equal(dropping(many), dropping(many))


def test_swiglu_has_as_many_weights_as_what_it_replaces():
    model = at.make_model(5, 5, 1, 128, 256, 4)
    before = at.count_parameters(model.encoder.layers[0].feed_forward)
    at.modernize(model, ["swiglu"])
    after = at.count_parameters(model.encoder.layers[0].feed_forward)
    assert after == pytest.approx(before, rel=0.01)


# --- query-key norm ----------------------------------------------------------


def test_scores_of_normalized_vectors():
    attn = at.ModernAttention(2, 16, qk_norm=True).double()
    x = torch.randn(2, 2, 5, 16).double()
    query, key, _ = at.MultiHeadedAttention.project(attn, *x, x[1])
    found, _ = scores(*attn.project(*x, x[1]))
    cosine = F.cosine_similarity(query.unsqueeze(-2), key.unsqueeze(-3), dim=-1)
    torch.testing.assert_close(found, math.sqrt(8) * cosine, rtol=1e-4, atol=1e-4)
    attn.q_norm.weight.data *= 3
    attn.k_norm.weight.data *= 5
    torch.testing.assert_close(scores(*attn.project(*x, x[1]))[0], 15 * found)


# --- grouped queries ---------------------------------------------------------


MASKS = {
    "padding": torch.tensor([[[1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0]]]).bool(),
    "causal": at.subsequent_mask(5),
    "both": at.subsequent_mask(5) & torch.tensor([5, 3])[:, None, None].gt(
        torch.arange(5)),
    "none": None,
}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@torch.no_grad()
def test_grouped_queries_are_torchs(groups, mask):
    torch.manual_seed(0)
    attn = at.ModernAttention(6, 24, 0.0, groups=groups).double()
    query, memory = torch.randn(2, 2, 5, 24).double()
    found = attn(query, memory, memory, mask)
    allowed = torch.ones(2, 5, 5).bool() if mask is None else mask.expand(2, 5, 5)
    pairs = zip(attn.linears, (query, memory, memory), strict=False)
    q, k, v = (linear(x).view(2, 5, -1, 4).transpose(1, 2) for linear, x in pairs)
    theirs = F.scaled_dot_product_attention(
        q, k, v, allowed.unsqueeze(1), enable_gqa=True
    )
    theirs = attn.linears[3](theirs.transpose(1, 2).reshape(2, 5, 24))
    torch.testing.assert_close(found, theirs, **near)

    assert attn.attn.shape == (2, 6, 5, 5) and not attn.attn[:, :, ~allowed[1]][1].any()
    torch.testing.assert_close(attn.attn.sum(-1), torch.ones(2, 6, 5).double())


@pytest.mark.parametrize("groups", [-2, 0, 3, 8])
def test_groups_that_do_not_fit_are_refused(groups):
    with pytest.raises(ValueError, match=f"h=4 heads .* {groups} equal groups"):
        at.ModernAttention(4, 16, groups=groups)


@pytest.mark.parametrize("changes", [(), CHANGES], ids=["2017", "2026"])
@torch.no_grad()
def test_grouped_queries_decode_with_a_cache(changes):
    model, batch = some_model(changes, groups=2), some_batch()
    whole = in_one_pass(model, batch)
    torch.testing.assert_close(step_by_step(model, batch), whole, **near)
    src, mask = batch.src, batch.src_mask
    found = at.beam_search(model, src, mask, 9, START, end_symbol=END, beam_size=3)
    for row, (ids, score) in enumerate(found):
        written = [*ids, END] if len(ids) < 8 else ids
        tgt = torch.tensor([[START, *written[:-1]]])
        causal = at.subsequent_mask(len(written))
        log_p = model.generator(model(src[[row]], tgt, mask[[row]], causal))[0]
        total = log_p[range(len(written)), written].sum().item()
        assert score == pytest.approx(total / ((5 + len(written)) / 6) ** 0.6)


# --- all of it at once -------------------------------------------------------


def attentions(model):
    return [m for m in model.modules() if isinstance(m, at.MultiHeadedAttention)]


def kinds(model):
    return [type(module).__name__ for module in model.modules()]


PARTS = {  # what a change brings, and what it replaces
    "rms_norm": ("RMSNorm", "LayerNorm"),
    "swiglu": ("SwiGLU", "PositionwiseFeedForward"),
    "rotary": ("RotaryEmbedding", "PositionalEncoding"),
}


@pytest.mark.parametrize("changes", SUBSETS, ids=lambda s: "+".join(s) or "none")
def test_any_choice_of_changes_trains_decodes_and_loads(changes):
    torch.manual_seed(0)
    model = at.make_model(12, 12, 2, 16, 32, 4)
    at.modernize(model, changes)
    for change, (new, old) in PARTS.items():
        assert (old in kinds(model)) == (change not in changes)
        assert new in kinds(model) or change not in changes
    norms = {type(getattr(attn, "q_norm", None)) for attn in attentions(model)}
    assert (norms == {at.RMSNorm}) == ("qk_norm" in changes)
    biases = [m.bias is None for m in model.modules() if isinstance(m, nn.Linear)]
    assert set(biases) == {"no_bias" in changes}

    batch, before = some_batch(), copy.deepcopy(model.state_dict())
    loss = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD, 0.1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    first, _ = at.run_epoch([batch], model, loss, None, None, "eval")
    at.run_epoch([batch] * 3, model, loss, optimizer, constant)
    assert at.run_epoch([batch], model, loss, None, None, "eval")[0] < first
    assert not [n for n, p in model.named_parameters() if torch.equal(p, before[n])]

    spread(model)
    with torch.no_grad():
        whole = in_one_pass(model, batch)
        torch.testing.assert_close(step_by_step(model, batch), whole, **near)

    twin = at.make_model(12, 12, 2, 16, 32, 4)
    at.modernize(twin, changes)
    twin.double().eval().load_state_dict(model.state_dict())
    assert twin(*inputs(batch)).equal(model(*inputs(batch)))


def test_an_unknown_change_is_refused_before_anything_changes():
    model = at.make_model(9, 9, 1, 8, 16, 2)
    before = kinds(model), copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=r"unknown changes: \['moe'\].*rotary"):
        at.modernize(model, ["rotary", "moe"])
    assert kinds(model) == before[0]
    assert all(torch.equal(t, before[1][n]) for n, t in model.state_dict().items())


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_tied_tables_stay_tied(tie):
    model = at.make_model(300, 300, 1, 64, 32, 2)
    at.tie_weights(model, tie)
    at.modernize(model)
    src, tgt = model.src_embed[0].lut.weight, model.tgt_embed[0].lut.weight
    assert (model.generator.proj.weight is tgt) == (tie != "none")
    assert (src is tgt) == (tie == "all")
    assert tgt.std().item() == pytest.approx(64**-0.5, rel=0.03)


def test_post_norm_stays_post_norm():
    """Expect no norm after the last layer, whose own norm is the last word."""
    model = some_model(norm_first=False)
    assert type(model.encoder.norm) is type(model.decoder.norm) is nn.Identity


def test_rotary_positions_reach_as_far_as_the_sentences():
    vocab = at.Vocabulary([*at.SPECIALS, "a", "b"])
    config = at.TrainingConfig(block="2026", N=1, d_model=4, d_ff=8, h=2, max_tokens=9)
    attn = at.build_model(config, vocab, vocab).encoder.layers[0].self_attn
    attn(*[torch.randn(1, 9, 4)] * 3)
    with pytest.raises(ValueError, match="10 positions"):
        attn(*[torch.randn(1, 10, 4)] * 3)


def functions(model):
    return [attn.attention_function for attn in attentions(model)]


# --- one stack for both languages --------------------------------------------


def sees(s_mask, t_mask, i, j, S):
    """Return whether position i of source and target, joined, may attend to j."""
    if j < S:
        return bool(s_mask[j])
    return i >= S and bool(t_mask[i - S, j - S])


@given(st.integers(1, 5), st.integers(1, 5), st.booleans(), st.integers(0, 999))
@settings(max_examples=15)
def test_the_prefix_mask_is_a_loop(S, L, one, seed):
    draw = torch.Generator().manual_seed(seed)
    src_mask = torch.randint(2, (3, 1, S), generator=draw).bool()
    tgt_mask = torch.randint(2, (1 if one else 3, L, L), generator=draw).bool()
    found = at.prefix_mask(src_mask, tgt_mask)
    expected = [
        [[sees(s[0], t, i, j, S) for j in range(S + L)] for i in range(S + L)]
        for s, t in zip(src_mask, tgt_mask.expand(3, L, L), strict=True)
    ]
    assert found.dtype == torch.bool and found.tolist() == expected


def decoder_only(dropout=0.0):
    torch.manual_seed(0)
    return spread(at.make_decoder_only(12, 2, 16, 32, 4, dropout))


def test_the_decoder_only_model_has_one_table_and_no_second_stack():
    model = at.make_decoder_only(12, 2, 16, 32, 4)
    assert model.generator.proj.weight is model.tgt_embed[0].lut.weight
    d_ff = 2 * 32 // 3
    layer = 4 * 16 * 16 + 3 * 16 * d_ff + 2 * 16 + 2 * 4
    assert at.count_parameters(model) == 12 * 16 + 2 * layer + 16


@torch.no_grad()
def test_padding_has_no_influence():
    """Compare rows of a batch with each pair alone, joined by hand."""
    model, batch = decoder_only(), some_batch()
    together = model(*inputs(batch))
    for row in range(3):
        src = batch.src[row][batch.src[row] != PAD]
        tgt = batch.tgt[row][batch.tgt[row] != PAD]
        S, L = len(src), len(tgt)
        seen = [[j < S or S <= j <= i for j in range(S + L)] for i in range(S + L)]
        x = model.tgt_embed(torch.cat([src, tgt])[None])
        alone = model.decoder(x, torch.tensor([seen]))[0, S:]
        torch.testing.assert_close(together[row, :L], alone, rtol=0, atol=1e-5)
        greedy = {"max_len": 9, "start_symbol": START, "end_symbol": END}
        mask = torch.ones(1, 1, S).bool()
        one = at.greedy_decode(model, src[None], mask, **greedy)[0].tolist()
        many = at.greedy_decode(model, batch.src, batch.src_mask, **greedy)[row]
        assert many.tolist() == one + [PAD] * (len(many) - len(one))


@torch.no_grad()
def test_the_target_sees_no_future_and_the_source_all_of_the_source():
    model, batch = decoder_only(), some_batch()
    vectors = []  # of source and target
    model.decoder.register_forward_hook(lambda *call: vectors.append(call[-1]))
    S, L = batch.src.size(1), batch.tgt.size(1)
    before = model(*inputs(batch))
    for t in range(1, L):
        changed = batch.tgt.clone()
        changed[:, t] = (changed[:, t] - 2) % 9 + 3
        after = model(batch.src, changed, batch.src_mask, at.subsequent_mask(L))
        torch.testing.assert_close(after[0, :t], before[0, :t], **near)
        assert not torch.allclose(after[0, t:], before[0, t:], atol=1e-4)
        torch.testing.assert_close(vectors[-1][0, :S], vectors[0][0, :S], **near)
    for s in range(S):
        changed = batch.src.clone()
        changed[0, s] = (changed[0, s] - 2) % 9 + 3
        model(changed, batch.tgt, batch.src_mask, batch.tgt_mask)
        moved = (vectors[-1][0] - vectors[0][0]).abs().amax(-1)
        assert (moved > 1e-6).all()


def test_one_stack_learns_what_it_is_shown():
    model, batch = at.make_decoder_only(12, 2, 32, 64, 4, dropout=0.0), some_batch()
    batch.tgt_y[batch.tgt == PAD] = PAD
    loss = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    at.run_epoch([batch] * 60, model, loss, optimizer, constant, max_norm=1.0)
    length = batch.tgt.size(1) + 1
    found = at.greedy_decode(model, batch.src, batch.src_mask, length, START)
    answers = batch.tgt_y != PAD
    assert torch.equal(found[:, 1:][answers], batch.tgt_y[answers])


# --- sampling ----------------------------------------------------------------


@given(
    weights=st.lists(st.integers(1, 1000), min_size=1, max_size=12, unique=True),
    top_k=st.none() | st.integers(1, 14),
    top_p=st.floats(0, 1),
)
@settings(max_examples=60)
def test_what_is_kept_is_the_nucleus(weights, top_k, top_p):
    total, kept, mass = sum(weights), [], Fraction(0)
    for weight in sorted(weights, reverse=True)[:top_k]:
        assume(abs(mass - Fraction(top_p)) > 1e-9)
        if kept and mass >= top_p:
            break
        kept.append(weight)
        mass += Fraction(weight, total)
    log_p = torch.tensor([weights], dtype=torch.double).div(total).log()
    found = at.restrict(log_p, top_k, top_p)
    expected = [x if w in kept else -math.inf for w, x in zip(weights, log_p[0])]
    assert found.tolist() == [[float(x) for x in expected]]


def test_each_row_is_restricted_alone():
    log_p = heads().log_softmax(-1)
    found = at.restrict(log_p, 3, 0.6)
    for index in itertools.product(range(2), range(3), range(5)):
        assert torch.equal(found[index], at.restrict(log_p[index], 3, 0.6))
        assert found[index].argmax() == log_p[index].argmax()


def test_a_share_of_one_restricts_nothing():
    """Take as many tokens as a real vocabulary has, in float32, as a model does."""
    torch.manual_seed(0)
    log_p = (3 * torch.randn(4, 8000)).log_softmax(-1)
    assert at.restrict(log_p, None, 1.0).equal(log_p)
    assert at.restrict(log_p, 8000, 1.0).equal(log_p)


def small_vocabulary():
    """Return a model of 5 tokens and one source, repeated."""
    torch.manual_seed(2)
    model = spread(at.make_model(12, 5, 2, 16, 32, 4), 0.1)
    src = ragged([5]).expand(5000, -1)
    return model, src, (src != PAD).unsqueeze(1)


def expected_pairs(model, src, mask, change):
    """Return the distribution (5, 5) of the first two tokens, in full passes."""
    table = torch.zeros(5, 5, dtype=torch.double)
    with torch.no_grad():
        for first in range(5):
            tgt = torch.tensor([[START, first]])
            out = model(src[:1], tgt, mask[:1], at.subsequent_mask(2))
            p, after = change(model.generator(out)[0].exp())
            if first == END:  # nothing follows but padding
                after = F.one_hot(torch.tensor(PAD), 5)
            table[first] = p[first] * after
    return table


def only_three_best(p):
    cold = p**2
    least = cold.topk(3).values[:, -1:]
    cold = cold * (cold >= least)
    return cold / cold.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    "settings, change",
    [({}, lambda p: p), ({"temperature": 0.5, "top_k": 3}, only_three_best)],
)
def test_samples_follow_the_models_probabilities(settings, change):
    model, src, mask = small_vocabulary()
    torch.manual_seed(1)
    found = at.sample(model, src, mask, 3, START, end_symbol=END, **settings)
    count = torch.zeros(5, 5).index_put(
        (found[:, 1], found[:, 2]), torch.tensor(1.0), accumulate=True
    )
    wanted = expected_pairs(model, src, mask, change) * len(src)
    assert not count[wanted == 0].any()
    there = wanted > 0
    distance = ((count - wanted) ** 2 / wanted)[there].sum()  # chi-squared
    freedom = int(there.sum()) - 1
    assert distance < freedom + 4 * math.sqrt(2 * freedom)
    assert freedom >= 6 and wanted[there].min() > 5


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.01}, {"top_k": 1}, {"top_p": 0.0}]
)
def test_nearly_without_chance_sampling_is_greedy(settings):
    model, batch = some_model(), some_batch()
    place = (batch.src, batch.src_mask, 12, START)
    greedy = at.greedy_decode(model, *place, end_symbol=END)
    assert torch.equal(at.sample(model, *place, end_symbol=END, **settings), greedy)


def test_rows_end_and_are_filled_up():
    model, src, mask = small_vocabulary()
    runs = []
    for training in (True, False):
        model.train(training)
        torch.manual_seed(0)
        drawn = at.sample(model, src[:60], mask[:60], 12, 0, end_symbol=END, pad=4)
        runs.append(drawn.tolist())
        assert model.training == training and torch.is_grad_enabled()
    assert runs[0] == runs[1]
    lengths = set()
    for first, *row in runs[0]:
        assert first == START
        end = row.index(END) if END in row else len(row)
        assert set(row[end + 1 :]) <= {4}
        lengths.add(end)
    assert len(lengths) > 3 and max(lengths) <= 11
    model.generator.proj.bias.data[END] = 1e4
    ended = at.sample(model, src[:2], mask[:2], 12, START, end_symbol=END)
    assert ended.tolist() == [[START, END]] * 2


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_that_is_not_positive_is_refused(temperature):
    model, src, mask = small_vocabulary()
    src, mask = src[:1], mask[:1]
    with pytest.raises(ValueError, match=f"temperature={temperature}"):
        at.sample(model, src, mask, 3, 0, end_symbol=END, temperature=temperature)


# --- a schedule that waits ---------------------------------------------------


@given(st.integers(1, 50), st.integers(51, 300), st.floats(0.01, 1) | st.none())
@settings(max_examples=30)
def test_the_rate_stays_at_its_peak_until_the_last_share(warmup, total, share):
    """Without a share, it falls from its peak to zero, as if that were 1."""
    given = () if share is None else (share,)
    falling = max(min((share or 1) * total, total + 1 - warmup), 1)
    for step in range(1, total + 2):
        rate = at.linear_rate(step, 2.0, warmup, total, *given)
        expected = min(step / warmup, (total + 1 - step) / falling, 1)
        assert rate == pytest.approx(2.0 * expected)


def test_the_share_reaches_the_optimizer():
    config = at.TrainingConfig(base_lr=0.5, warmup=2, decay=0.4)
    optimizer, scheduler = at.build_optimizer(nn.Linear(1, 1), schedule_of(config, 10))
    used = []
    for _ in range(10):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    rising, falling = [0.25, 0.5], [0.5, 0.375, 0.25, 0.125]
    assert used == pytest.approx([*rising, *[0.5] * 4, *falling])


# --- block 2026 in a run -----------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a configuration of block 2026 and its text, and the run's folder."""
    tiny = small_run(tmp_path_factory.mktemp("2026"), block="2026", decay=0.5)
    return tiny, train(tiny)


def test_a_run_of_2026_is_saved_loaded_and_explained(finished, tmp_path):
    (config, _), folder = finished
    translator = at.load_translator(folder, "cpu")
    assert "RotaryEmbedding" in kinds(translator.model)
    assert translator.config == config
    sentences = ["Ein Hund läuft.", "Zwei Hunde schlafen heute."]
    said = translator.translate(sentences, 2)
    plain = at.load_translator(folder, "cpu", optimize=False)
    assert plain.translate(sentences, 2) == said
    at.save_translator(tmp_path / "copy", translator)
    assert at.load_translator(tmp_path / "copy", "cpu").translate(sentences, 2) == said
    for each in at.explain(translator, sentences[0]).recordings:
        sums = each.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_a_run_of_2026_is_resumed(finished, tmp_path, monkeypatch):
    (config, _), folder = finished
    again = small_run(tmp_path, **vars(config) | {"run_dir": str(tmp_path / "again")})
    train_until(again, monkeypatch, ((runs, "save_tensors"), 6))
    broken_off = repeatable(tmp_path / "again")
    assert 0 < len(broken_off) < len(repeatable(folder))
    assert_same_run(train(again), folder)


def test_a_run_of_2026_in_bfloat16_learns(tmp_path):
    tiny = small_run(tmp_path, block="2026", precision="bfloat16", epochs=2)
    first, last = (record["valid_nll"] for record in repeatable(train(tiny)))
    assert last < first


def test_export_refuses_block_2026_in_one_line(finished, tmp_path, capfd):
    _, folder = finished
    engine = tmp_path / "engine"
    argv = ["--to", "ctranslate2", "--model", str(folder), "--out", str(engine)]
    assert "block 2026" in refused(capfd, "export", *argv)
    assert not engine.exists()


def test_the_table_of_the_chapter_was_measured():
    page = (ROOT / "notebooks" / "06_since_2017.md").read_text("utf-8")
    stored = at.read_json(ROOT / "results" / "since_2017.json")["trainings"]
    assert all(len(row["nats"]) == 3 for row in stored)
    rows = {row["name"]: row for row in stored if "interval" in row}
    number = r"([+−]\d+\.\d)"
    line = rf"^\| ([^|]+) \| [^|]* \| {number} \({number} to {number}\)"
    found = {
        name.replace("–", "-"): said for name, *said in re.findall(line, page, re.M)
    }
    assert set(found) == set(rows)
    for name, said in found.items():
        measured = [rows[name]["difference"], *rows[name]["interval"]]
        assert said == [f"{x:+.1f}".replace("-", "−") for x in measured], name


def test_the_intervals_take_students_t_and_the_pooled_spread(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = program("benchmarks/since_2017.py")
    table = {4: 2.776, 10: 2.228, 24: 2.064}  # of any statistics book
    for freedom, t in table.items():
        assert benchmark.students_t(freedom) == pytest.approx(t, rel=0.003)
    stored = at.read_json(ROOT / "results" / "since_2017.json")["trainings"]
    nats = {row["name"]: torch.tensor(row["nats"]) for row in stored}
    for row in stored:
        if "interval" in row:
            length = row["updates"]
            same = [
                nats[other["name"]] for other in stored
                if other["updates"] == length and "10 x" not in other["name"]
            ]  # fmt: skip
            runs = torch.stack(same)  # (variants, seeds)
            count, seeds = runs.shape
            sd = runs.var(dim=1).mean().sqrt()
            half = table[count * (seeds - 1)] * sd * math.sqrt(2 / seeds)
            mean = (nats[row["name"]] - nats[row["against"]]).mean()
            expected = [float(mean - half), float(mean + half)]
            assert row["interval"] == pytest.approx(expected, abs=0.02), row["name"]


# --- what chapters and workshop do to attention, in pairs --------------------


BUILT = {"2017": {"changes": ()}, "2026": {"groups": 2}}
WAYS = ("fused", "recording", "silencing", "cache")


@contextmanager
def in_way(way, model):
    """Change how a model attends, or what, inside the block."""
    if way == "recording":
        with at.plain_attention(model):
            yield
    elif way == "silencing":
        parts = [at.head_output_weight(attn, 1) for attn in attentions(model)]
        with at.zeroed(*parts):
            yield
    else:
        yield


@pytest.mark.parametrize("pair", list(itertools.combinations(WAYS, 2)), ids="+".join)
@pytest.mark.parametrize("built", BUILT)
@torch.no_grad()
def test_ways_to_attend_combine_and_come_off_again(built, pair):
    """Compare each pair with the plain model, in which it may only be silencing."""
    plain, batch = some_model(**BUILT[built]), some_batch()
    model = copy.deepcopy(plain)
    if "fused" in pair:
        at.optimize_for_cpu(model)
    before = copy.deepcopy(model.state_dict()), functions(model)
    with ExitStack() as stack:
        for way in pair:
            stack.enter_context(in_way(way, model))
        if "silencing" in pair:
            stack.enter_context(in_way("silencing", plain))
        expected = plain.generator(plain(*inputs(batch)))
        whole = model.generator(model(*inputs(batch)))
        torch.testing.assert_close(whole, expected, **near)
        for ours, theirs in zip(attentions(model), attentions(plain), strict=True):
            if "recording" in pair or "fused" not in pair:
                torch.testing.assert_close(ours.attn, theirs.attn, **near)
            else:
                assert ours.attn is None
        if "cache" in pair:
            found, expected = step_by_step(model, batch), in_one_pass(plain, batch)
            torch.testing.assert_close(found, expected, **near)
    assert functions(model) == before[1]
    assert all(map(torch.equal, model.state_dict().values(), before[0].values()))
