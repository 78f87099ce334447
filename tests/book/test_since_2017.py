"""Chapter 6: today's parts, a language model with them, sampling; block 2026."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import re
from collections import defaultdict
from contextlib import nullcontext
from fractions import Fraction
from statistics import mean

import nbformat
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from chapters import read
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from small_runs import (
    assert_same_run,
    program,
    repeatable,
    small_run,
    train,
    train_until,
)
from torch.optim.optimizer import register_optimizer_step_pre_hook

import annotated_transformer as at
from annotated_transformer import END, PAD, START
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json
from transformer_workshop.lab.statistics import compare_pairs
from transformer_workshop.models.architectures import modern_model
from transformer_workshop.models.muon import (
    Muon,
    MuonAndAdam,
    build_optimizers,
    orthogonalize,
)
from transformer_workshop.models.speed import fused_attention, optimize_for_cpu
from transformer_workshop.models.translator import load_translator, save_translator
from transformer_workshop.pictures.attention_maps import explain
from transformer_workshop.training import checkpoints
from transformer_workshop.training.loop import schedule_of, stable_rate

ROOT = project_folder()
TRANSLATORS = {"2017": at.make_model, "2026": modern_model}
near = {"rtol": 0, "atol": 1e-9}
each_translator = pytest.mark.parametrize(
    "build", TRANSLATORS.values(), ids=TRANSLATORS
)


def spread(model: nn.Module, by: float = 0.3) -> nn.Module:
    """Move every weight: a fresh model is too undecided to tell us anything."""
    for p in model.parameters():
        p.data += by * torch.randn_like(p)
    return model.double().eval()


def some_translator(build):
    torch.manual_seed(6)  # its outputs have different lengths
    return spread(build(12, 12, 2, 16, 32, 4))


def some_gpt(vocab=12, by=0.3):
    torch.manual_seed(3)
    return spread(at.GPT(vocab, 2, 16, 24, h=4, groups=2), by)


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
    memory, mask = model.encode(batch.src, batch.src_mask), batch.src_mask
    read = [batch.tgt[:, : t + 1] for t in range(batch.tgt.size(1))]
    cache = at.Cache(model.decoder, memory, mask, batch.tgt.size(1))
    steps = [at.decode_step(model, cache, ys) for ys in read]
    return torch.stack(steps, dim=1)


def heads(B=2, h=3, L=5, d_k=8, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(B, h, L, d_k, generator=draw, dtype=torch.double)


def kinds(model):
    return [type(module).__name__ for module in model.modules()]


def attentions(model):
    return [m for m in model.modules() if hasattr(m, "attention_function")]


# --- the parts ---------------------------------------------------------------


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


def test_the_norm_of_large_short_numbers_is_finite():
    x = torch.full((1, 8), 300.0, dtype=torch.float16)  # 300² is too large for it
    assert at.RMSNorm(8).half()(x).tolist() == [[1.0] * 8]


def turned(x, start=0, base=10000.0):
    """Rotate vectors (…, L, d_k) as complex numbers: each pair is one of them."""
    half = x.size(-1) // 2
    z = torch.complex(x[..., :half], x[..., half:])
    frequency = base ** (-torch.arange(half, dtype=torch.double) / half)
    position = torch.arange(start, start + x.size(-2), dtype=torch.double)
    z = z * torch.exp(1j * position.unsqueeze(-1) * frequency)
    return torch.cat([z.real, z.imag], dim=-1)


@pytest.mark.parametrize("d_k, start, base", [(8, 0, 1e4), (2, 57, 1e4), (6, 57, 5e2)])
def test_rotations_are_products_of_complex_numbers(d_k, start, base):
    x = heads(d_k=d_k)
    found, expected = at.RotaryEmbedding(d_k, base)(x, start), turned(x, start, base)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def gated(ff, x):
    """Compute a SwiGLU from its formula."""
    inner = F.silu(x @ ff.gate.weight.T) * (x @ ff.w_1.weight.T)
    return inner @ ff.w_2.weight.T


def test_swiglu_is_its_formula():
    ours, x = at.SwiGLU(8, 12).double(), heads()[0]
    torch.testing.assert_close(ours(x), gated(ours, x))
    dropping, many = at.SwiGLU(8, 12, dropout=0.5), torch.randn(50, 8)
    assert not torch.equal(dropping(many), dropping(many))


# --- grouped queries ---------------------------------------------------------


def some_attention(groups=2, h=6, d_model=36, **options):
    torch.manual_seed(0)
    return spread(at.GroupedQueryAttention(h, d_model, groups, **options))


def with_torch(attn, query, memory, mask, start=0):
    """Compute a grouped attention (B, L, d_model) with PyTorch's functions alone."""
    pairs = zip((query, memory, memory), attn.linears, strict=False)
    q, k, v = (
        (x @ w.weight.T).unflatten(-1, (-1, attn.d_k)).transpose(1, 2)
        for x, w in pairs
    )  # fmt: skip
    q = turned(F.rms_norm(q, (attn.d_k,), attn.q_norm.weight, 1e-6), start)
    k = turned(F.rms_norm(k, (attn.d_k,), attn.k_norm.weight, 1e-6), start)
    mask = None if mask is None else mask.unsqueeze(1)
    x = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return x.transpose(1, 2).flatten(-2) @ attn.linears[3].weight.T


PADDING = torch.tensor([[[1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0]]]).bool()
CAUSAL = at.subsequent_mask(5)
MASKS = {"padding": PADDING, "causal": CAUSAL, "both": PADDING & CAUSAL, "none": None}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("groups, head_dim", [(1, None), (2, 10), (3, 4), (6, None)])
@torch.no_grad()
def test_grouped_queries_are_torchs(groups, head_dim, mask):
    attn = some_attention(groups, head_dim=head_dim)
    query, memory = torch.randn(2, 2, 5, 36).double()
    found = attn(query, memory, memory, mask)
    expected = with_torch(attn, query, memory, mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert attn.attn.shape == (2, 6, 5, 5)
    torch.testing.assert_close(attn.attn.sum(-1), torch.ones(2, 6, 5).double())


@pytest.mark.parametrize("groups", [-2, 0, 3, 8])
def test_widths_that_do_not_fit_are_refused(groups):
    with pytest.raises(ValueError, match="d_k=5 is odd"):
        at.RotaryEmbedding(5)
    with pytest.raises(ValueError, match=f"h=4 heads .* {groups} equal groups"):
        at.GroupedQueryAttention(4, 16, groups)


each_function = pytest.mark.parametrize("function", [at.attention, fused_attention])


@each_function
@torch.no_grad()
def test_a_query_that_sees_nothing_gets_zeros(function):
    attn, x = some_attention(), torch.randn(2, 5, 36).double()
    attn.attention_function = function
    mask = CAUSAL.repeat(2, 1, 1)
    mask[0, 4] = mask[1, 3] = False
    blind = ~mask.any(-1)
    found = attn(x, x, x, mask)
    assert not found[blind].any() and found[~blind].any(-1).all()
    cache = {}
    attn(*[x[:, :2]] * 3, mask[:, :2, :2], cache)
    later = attn(*[x[:, 2:]] * 3, mask[:, 2:], cache)
    torch.testing.assert_close(later, found[:, 2:], **near)
    assert not later[blind[:, 2:]].any()


# --- a language model --------------------------------------------------------


def block_with_torch(block, x, mask):
    u = F.rms_norm(x, x.shape[-1:], block.norm_1.weight, 1e-6)
    x = x + with_torch(block.self_attn, u, u, mask)
    u = F.rms_norm(x, x.shape[-1:], block.norm_2.weight, 1e-6)
    return x + gated(block.feed_forward, u)


@torch.no_grad()
def test_the_model_is_its_blocks_between_one_table():
    model, ids = some_gpt(), ragged([6, 6, 6])
    table = model.embed.weight
    x = table[ids]
    for block in model.blocks:
        expected = block_with_torch(block, x, at.subsequent_mask(7))
        x = block(x, at.subsequent_mask(7))
        torch.testing.assert_close(x, expected, rtol=0, atol=1e-4)
    logits = F.rms_norm(x, (16,), model.norm.weight, 1e-6) @ table.T
    torch.testing.assert_close(model(ids), logits)
    layer = 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24 + 2 * 16 + 2 * 4
    assert at.count_parameters(model) == 12 * 16 + 2 * layer + 16


@torch.no_grad()
def test_no_position_sees_the_future():
    model, ids = some_gpt(), ragged([8, 8])
    for t in range(1, 9):
        changed = ids.clone()
        changed[:, t] = (changed[:, t] - 2) % 9 + 3
        same = torch.isclose(model(changed), model(ids), **near).all(-1)
        assert same[:, :t].all() and not same[:, t:].any()


@each_function
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
@settings(max_examples=12)
def test_read_in_pieces_is_read_at_once(function, pieces):
    model, ids = some_gpt(), ragged([sum(pieces) - 1] * 3)
    whole = model(ids)
    for block in model.blocks:
        block.self_attn.attention_function = function
    cache = model.empty_cache()
    found = torch.cat([model(piece, cache) for piece in ids.split(pieces, 1)], dim=1)
    torch.testing.assert_close(found, whole, **near)


@torch.no_grad()
def test_heads_and_cells_can_be_cut_in_a_gpt():
    """Expect one output for all of a head's rows, and no weight in hidden cells."""
    model, ids = some_gpt(), ragged([6, 6])
    module, whole = model.blocks[1].self_attn, model(ids)
    hidden = torch.ones(7, 7).tril(-1).triu(-1).bool()
    with at.plain_attention(model):
        at.knock_out(module, hidden)
        assert not torch.isclose(model(ids), whole, **near).all(-1)[:, 1:].any()
        assert not module.attn[..., hidden].any()
    with at.plain_attention(model):
        at.ablate(module, 2, torch.ones(2, 7, dtype=torch.bool))
        model(ids)
        x, _ = module.attention_function(*torch.randn(3, 2, 4, 7, 4).double())
        assert torch.equal(x[:, 2], x[:1, 2, :1].expand(2, 7, 4))
    torch.testing.assert_close(model(ids), whole)


def test_a_large_gradient_is_clipped_to_a_norm_of_1():
    stream, norms = torch.arange(6).repeat(40), []
    model = at.GPT(6, 1, 16, 32, h=2, groups=1)
    with torch.no_grad():
        model.embed.weight *= 100  # of the table that writes, too

    def note(*_):
        gradients = [p.grad.flatten() for p in model.parameters()]
        norms.append(torch.cat(gradients).norm().item())

    hook = register_optimizer_step_pre_hook(note)
    list(at.train_gpt(model, stream, 5, rows=8, length=12))
    hook.remove()
    assert norms == pytest.approx([1.0] * 5, rel=1e-3)


def test_training_learns_what_repeats_and_repeats_itself():
    stream, losses = torch.arange(6).repeat(40), []
    for seed in (0, 0, 1):
        torch.manual_seed(0)
        model = at.GPT(6, 1, 16, 32, h=2, groups=1)
        torch.manual_seed(len(losses))
        before = torch.get_rng_state()
        steps = at.train_gpt(model, stream, 60, rows=8, length=12, peak=0.02, seed=seed)
        losses.append(list(steps))
        assert torch.get_rng_state().equal(before)
    assert [step for step, _ in losses[0]] == list(range(1, 61))
    assert abs(losses[0][0][1] - math.log(6)) < 0.2 and losses[0][-1][1] < 0.1
    assert losses[0] == losses[1] != losses[2]
    found = at.generate(model, stream[None, :4], 15, -1, top_k=1)
    assert torch.equal(found[0], stream[:15])


def test_training_takes_the_steps_of_a_loop_written_out():
    """Expect each update's rate, gradients clipped at 1, and targets one id ahead."""
    torch.manual_seed(0)
    ours = at.GPT(6, 1, 16, 32, h=2, groups=1)
    with torch.no_grad():
        ours.embed.weight *= 20  # so that gradients are large
    theirs = copy.deepcopy(ours)
    stream, draw = torch.randint(6, (200,)), torch.Generator().manual_seed(3)
    adam, norms = torch.optim.AdamW(theirs.parameters()), []
    steps = at.train_gpt(ours, stream, 5, rows=4, length=7, peak=0.02, seed=3)
    for step, loss in steps:
        window = at.random_windows(stream, 4, 7, draw)
        adam.param_groups[0]["lr"] = 0.02 * step / 30  # of a warm-up of 30 updates
        adam.zero_grad()
        log_p = theirs(window[:, :-1]).log_softmax(-1)
        plain = -log_p.gather(-1, window[:, 1:, None]).mean()
        plain.backward()
        gradients = [weight.grad for weight in theirs.parameters()]
        norms.append(sum(g.square().sum() for g in gradients).sqrt().item())
        for gradient in gradients:
            gradient *= min(1, 1 / norms[-1])
        adam.step()
        assert loss == pytest.approx(plain.item(), rel=1e-5)
    assert max(norms) > 1
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


# --- sampling ----------------------------------------------------------------


@given(
    weights=st.lists(st.integers(1, 1000), min_size=1, max_size=12, unique=True),
    top_k=st.none() | st.integers(1, 14),
    top_p=st.floats(0, 1, exclude_min=True),
)
@settings(max_examples=60)
def test_what_is_kept_is_the_nucleus_of_the_best(weights, top_k, top_p):
    best, kept, mass = sorted(weights, reverse=True)[:top_k], [], Fraction(0)
    for weight in best:
        assume(abs(mass - Fraction(top_p)) > 1e-9)
        if kept and mass >= top_p:
            break
        kept.append(weight)
        mass += Fraction(weight, sum(best))
    log_p = torch.tensor([weights], dtype=torch.double).div(sum(weights)).log()
    found = at.restrict(log_p, top_k, top_p)
    expected = [x if w in kept else -math.inf for w, x in zip(weights, log_p[0])]
    assert found.tolist() == [[float(x) for x in expected]]


def test_the_best_are_rescaled_before_the_nucleus_is_cut():
    """As in Hugging Face's code: .50, .25, .15 are .556, .278, .167 of the best 3."""
    log_p = torch.tensor([0.15, 0.5, 0.03, 0.25, 0.07]).log()
    for top_k, kept in ((None, 3), (3, 2)):
        assert at.restrict(log_p, top_k, 0.8).isfinite().sum() == kept


def test_each_row_is_restricted_alone():
    log_p = heads().log_softmax(-1)
    before = log_p.clone()
    found = at.restrict(log_p, 3, 0.6)
    assert torch.equal(log_p, before)
    for index in itertools.product(range(2), range(3), range(5)):
        assert torch.equal(found[index], at.restrict(log_p[index], 3, 0.6))
        assert found[index].argmax() == log_p[index].argmax()


def test_a_share_of_one_restricts_nothing():
    """Take as many tokens as a real vocabulary has, in float32, as a model does."""
    log_p = (3 * heads(4, 1, 1, 8000).float()).log_softmax(-1)
    for top_k in (None, 8000):
        assert at.restrict(log_p, top_k, 1.0).equal(log_p)


def test_a_share_of_zero_keeps_the_best():
    assert at.draw_token(torch.tensor([[1.0, 3.0, 2.0]]), top_p=0.0) == 1


@pytest.mark.parametrize("dials", [
    {"temperature": 0.0}, {"temperature": -1.0}, {"top_k": 0}, {"top_k": -1},
    {"top_p": -0.1}, {"top_p": 1.1},
])  # fmt: skip
def test_dials_that_leave_nothing_to_draw_are_refused(dials):
    [(name, value)] = dials.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        at.draw_token(torch.zeros(1, 3), **dials)


def gpt_of_five():
    model, prompt = some_gpt(5, 0.2), torch.tensor([[3, 0, 4]])

    def draw(rows, length, **dials):
        arguments = prompt.expand(rows, -1), length + 3, END
        return at.generate(model, *arguments, **dials)[:, 3:]

    def p(*ids):
        return model(torch.tensor([[3, 0, 4, *ids]]))[0, -1].softmax(-1)

    return model, draw, p, END


def only_three_best(p):
    cold = p**2
    cold = cold * (cold >= cold.topk(3).values[-1])
    return cold / cold.sum()


@pytest.mark.parametrize(
    "dials, change",
    [({}, lambda p: p), ({"temperature": 0.5, "top_k": 3}, only_three_best)],
)
@torch.no_grad()
def test_samples_follow_the_models_probabilities(dials, change):
    _, draw, p, fill = gpt_of_five()
    found = draw(5000, 2, draw=torch.Generator().manual_seed(1), **dials)
    count = torch.zeros(5, 5).index_put(
        tuple(found.T), torch.tensor(1.0), accumulate=True
    )
    wanted = torch.stack([
        change(p())[word] * (F.one_hot(torch.tensor(fill), 5) if word == END
                             else change(p(word)))
        for word in range(5)
    ]) * 5000  # fmt: skip
    there = wanted > 0
    assert not count[~there].any()
    distance = ((count - wanted) ** 2 / wanted)[there].sum()  # chi-squared
    freedom = int(there.sum()) - 1
    assert distance < freedom + 4 * math.sqrt(2 * freedom)
    assert freedom >= 6 and wanted[there].min() > 5


def test_rows_end_and_are_filled_up():
    model, draw, _, fill = gpt_of_five()
    results = []
    for training in (True, False):
        model.train(training)
        torch.manual_seed(0)
        results.append(draw(60, 11).tolist())
        assert model.training == training and torch.is_grad_enabled()
    assert results[0] == results[1]
    ends = [row.index(END) if END in row else len(row) for row in results[0]]
    for row, end in zip(results[0], ends):
        assert set(row[end + 1 :]) <= {fill}
    assert len(set(ends)) > 3 and len(results[0][0]) <= 11


def test_a_generator_makes_a_sample_repeatable():
    _, draw, _, _ = gpt_of_five()
    before = torch.get_rng_state()
    first, second, third = (
        draw(50, 6, draw=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert first.equal(second) and not first.equal(third)
    assert torch.get_rng_state().equal(before)


@torch.no_grad()
def test_without_chance_the_most_probable_follows():
    model, prompts = some_gpt(), ragged([2] * 8)
    rows = prompts.tolist()
    for row in rows * 9:
        row.append(int(model(torch.tensor([row]))[0, -1].argmax()))
    written = [row[3:] for row in rows]
    end = next(w for w in range(12) if 0 < sum(w in row for row in written) < 8)
    expected = [
        row[:3] + [end if end in row[3:t] else row[t] for t in range(3, 12)]
        for row in rows
    ]  # fmt: skip
    assert at.generate(model, prompts, 12, end, top_k=1).tolist() == expected
    short = at.generate(model, prompts[:1], 12, rows[0][3], top_k=1)
    assert short.tolist() == [rows[0][:4]]


def test_the_dials_of_the_chapter_are_the_best_that_were_tried():
    """Compare, for each dial, how many new and possible sentences its settings give."""
    runs = read_json(ROOT / "results" / "gpt.json")["runs"]
    found: dict[str, float] = {}
    for row in (row for run in runs for row in run["dials"]):
        found[row["dial"]] = found.get(row["dial"], 0) + row["possible, new, distinct"]
    for kind, best in (("temperature", "0.5"), ("top-k", "5"), ("top-p", "0.5")):
        tried = [dial for dial in found if dial.startswith(kind)]
        assert len(tried) > 2
        assert max(tried, key=found.__getitem__) == f"{kind} {best}"


# --- a translator with today's parts -----------------------------------------


def most_probable(model, src, max_len):
    """Return what greedy decoding writes for one source, from whole passes."""
    ids, mask = [START], torch.ones(1, 1, len(src))
    while len(ids) < max_len and ids[-1] != END:
        causal = at.subsequent_mask(len(ids))
        out = model(src[None], torch.tensor([ids]), mask, causal)
        ids.append(int(model.generator(out[0, -1]).argmax()))
    return ids[1:-1] if ids[-1] == END else ids[1:]


def words(ids):
    """Return the words of rows of ids, without start, end, and what fills up."""
    return [row[1 : row.index(END) if END in row else None] for row in ids.tolist()]


DECODERS = {
    "greedy_decode": lambda *given: words(at.greedy_decode(*given, end_symbol=END)),
    "beam_search": lambda *given: [
        ids for ids, _ in at.beam_search(*given, end_symbol=END, beam_size=1)
    ],
}


@each_translator
@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@torch.no_grad()
def test_each_way_to_decode_combines_with_each_translator(decode, build):
    model, src = some_translator(build), ragged([6, 2, 4, 1, 5])
    sources = (row[row != PAD] for row in src)
    expected = [most_probable(model, row, 12) for row in sources]
    assert decode(model, src, (src != PAD).unsqueeze(1), 12, START) == expected
    assert len({len(ids) for ids in expected}) > 1


def test_a_modern_model_is_as_large_and_does_not_rotate_the_source():
    modern, classic = (
        build(9, 9, 2, 128, 256, 4, 0.3) for build in (modern_model, at.make_model)
    )
    for layer in modern.decoder.layers:
        assert "RotaryEmbedding" in kinds(layer.self_attn)
        assert "RotaryEmbedding" not in kinds(layer.src_attn)
    assert {m.p for m in modern.modules() if isinstance(m, nn.Dropout)} == {0.3}
    weights = at.count_parameters(classic)
    assert at.count_parameters(modern) == pytest.approx(weights, rel=0.02)


def test_fresh_weights_depend_on_the_seed_alone():
    states = []
    for between in (12, 20):
        torch.manual_seed(0)
        model = modern_model(12, 12, 2, 16, 32, 4)
        states.append(model.state_dict())
        spread(modern_model(between, between, 1, 32, 64, 2))
        places = [p.data_ptr() for p in model.parameters()]
        assert len(places) == len(set(places))
    assert all(map(torch.equal, *(state.values() for state in states)))


@each_translator
@torch.no_grad()
def test_ways_to_attend_combine_and_come_off_again(build):
    """Compare a cache, fused, recording, and both, with the plain model."""
    plain, batch = some_translator(build), some_batch()
    by_steps, expected = step_by_step(plain, batch), in_one_pass(plain, batch)
    torch.testing.assert_close(by_steps, expected, **near)
    model = copy.deepcopy(plain)
    optimize_for_cpu(model)
    for recording in (False, True, False):
        with at.plain_attention(model) if recording else nullcontext():
            cached = step_by_step(model, batch)
            torch.testing.assert_close(cached, expected, **near)
            torch.testing.assert_close(in_one_pass(model, batch), expected, **near)
        for ours, theirs in zip(attentions(model), attentions(plain), strict=True):
            assert ours.attention_function is fused_attention
            assert ours.attn is None or recording
            if recording:
                torch.testing.assert_close(ours.attn, theirs.attn, **near)


# --- a schedule that waits ---------------------------------------------------


@given(st.integers(1, 50), st.integers(51, 300), st.floats(0.01, 1))
@settings(max_examples=30)
def test_the_rate_stays_at_its_peak_until_the_last_share(warmup, total, share):
    """If the last share is the whole run, it falls at once, as in chapter 2."""
    falling = max(min(share * total, total + 1 - warmup), 1)
    for step in range(1, total + 2):
        rate = stable_rate(step, 2.0, warmup, total, share)
        expected = min(step / warmup, (total + 1 - step) / falling, 1)
        assert rate == pytest.approx(2.0 * expected)
        falls_at_once = stable_rate(step, 2.0, warmup, total, 1.0)
        assert at.linear_rate(step, 2.0, warmup, total) == falls_at_once


def test_the_share_reaches_the_optimizer():
    config = TrainingConfig(base_lr=0.5, warmup=2, decay=0.4)
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
    own = {"block": "2026", "optimizer": "muon", "decay": 0.5}
    tiny = small_run(tmp_path_factory.mktemp("2026"), **own)
    return tiny, train(tiny)


def test_a_run_of_2026_is_saved_loaded_and_explained(finished, tmp_path):
    (config, _), folder = finished
    translator = load_translator(folder, "cpu")
    assert "RotaryEmbedding" in kinds(translator.model)
    assert translator.config == config
    sentences = ["Ein Hund läuft.", "Zwei Hunde schlafen heute."]
    said = translator.translate(sentences, 2)
    plain = load_translator(folder, "cpu", optimize=False)
    assert plain.translate(sentences, 2) == said
    save_translator(tmp_path / "copy", translator)
    assert load_translator(tmp_path / "copy", "cpu").translate(sentences, 2) == said
    for each in explain(translator, sentences[0]).recordings:
        sums = each.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_a_run_of_2026_is_resumed(finished, tmp_path, monkeypatch):
    (config, _), folder = finished
    again = small_run(tmp_path, **vars(config) | {"run_dir": str(tmp_path / "again")})
    train_until(again, monkeypatch, ((checkpoints, "save_tensors"), 6))
    broken_off = repeatable(tmp_path / "again")
    assert 0 < len(broken_off) < len(repeatable(folder))
    assert_same_run(train(again), folder)


def test_a_run_of_2026_in_bfloat16_learns(tmp_path):
    tiny = small_run(tmp_path, block="2026", precision="bfloat16", epochs=2)
    first, last = (record["valid_nll"] for record in repeatable(train(tiny)))
    assert last < first


@pytest.mark.parametrize("change", [{"norm_first": False}, {"positions": "learned"}])
def test_block_2026_refuses_what_it_has_no_place_for(change):
    with pytest.raises(at.DataError, match="block='2026'.*pre-norm and rotary"):
        TrainingConfig(block="2026", **change)
    TrainingConfig(**change)


# --- Muon --------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="an older PyTorch")
def test_muon_is_torchs_within_its_rounding():
    """PyTorch's multiplies in bfloat16, ours in the precision of the weights."""
    torch.manual_seed(0)
    for shape in [(8, 24), (24, 8), (16, 16)]:
        start = torch.randn(shape)
        ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        settings = {"weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}
        both = Muon([ours], lr=0.1), torch.optim.Muon([theirs], lr=0.1, **settings)
        for _ in range(3):
            ours.grad = torch.randn(shape)
            theirs.grad = ours.grad.clone()
            for optimizer in both:
                optimizer.step()
        moved = (ours - start).norm()
        assert (ours - theirs).norm() < 0.02 * moved and moved > 0.1


def test_orthogonalizing_keeps_directions_and_evens_out_lengths():
    torch.manual_seed(0)
    x = torch.randn(12, 30) * torch.logspace(-1, 1, 12).unsqueeze(1)
    u, sizes, v = torch.linalg.svd(x, full_matrices=False)
    middle = u.T @ orthogonalize(x) @ v.T
    torch.testing.assert_close(middle, middle.diag().diag(), rtol=0, atol=1e-4)
    assert sizes[0] / sizes[-1] > 50
    assert 0.6 < middle.diag().min() < middle.diag().max() < 1.3


def test_muon_takes_the_matrices_of_the_layers_and_adam_the_rest():
    torch.manual_seed(0)
    model = modern_model(12, 12, 1, 16, 24, 2)
    both = MuonAndAdam(model, lr=1.0)
    muon, adam = ([id(p) for p in group["params"]] for group in both.param_groups)
    named = {id(p): name for name, p in model.named_parameters()}
    assert sorted(muon + adam) == sorted(named) and len(muon) == 7 + 11
    assert all("layers" in named[i] and "norm" not in named[i] for i in muon)
    rest = {named[i] for i in adam if "norm" not in named[i]}
    tables = {"src_embed.0.lut.weight", "tgt_embed.0.lut.weight"}
    assert rest == tables | {"generator.proj.weight"}


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))]
)
def test_a_copy_of_both_optimizers_goes_on_alike(again):
    def update(model, optimizer):
        def loss():
            optimizer.zero_grad()
            total = sum(p.square().sum() for p in model.parameters())
            total.backward()
            return total

        return optimizer.step(loss).item()

    torch.manual_seed(0)
    model = modern_model(12, 12, 1, 16, 24, 2)
    both = MuonAndAdam(model, lr=0.1)
    extra = nn.Parameter(torch.ones(3))
    both.add_param_group({"params": [extra], "lr": 0.2})
    model.extra = extra
    before = [p.clone() for p in model.parameters()]
    first = update(model, both)
    assert all(not torch.equal(p, b) for p, b in zip(model.parameters(), before))
    assert torch.allclose(extra, torch.tensor(0.8), atol=1e-4)  # Adam's first step
    copied, optimizer = again((model, both))
    assert update(model, both) == update(copied, optimizer) < first
    for p, q in zip(model.parameters(), copied.parameters(), strict=True):
        assert torch.equal(p, q) and p is not q


@pytest.mark.parametrize("shape", [(4,), (4, 3, 3, 3)])
def test_muon_refuses_what_is_no_matrix(shape):
    with pytest.raises(ValueError, match=r"Muon updates matrices; leave \(4,"):
        Muon([nn.Parameter(torch.ones(shape))], 0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_draws_nothing_outside_top_k(dtype):
    logits = torch.zeros(64, 50000, dtype=dtype)
    logits[:, 7] = 12.0
    draw = torch.Generator().manual_seed(0)
    for _ in range(12):
        assert (at.draw_token(logits, top_k=1, draw=draw) == 7).all()
    assert at.draw_token(logits[0], top_k=1, draw=draw) == 7


def test_prompts_with_padding_are_refused_and_empty_sizes():
    gpt = at.GPT(9, 1, 8, 8, 2, 2)
    padded = torch.tensor([[at.END, 5, 6], [at.PAD, at.END, 5]])
    with pytest.raises(ValueError, match="PAD as a word"):
        at.generate(gpt, padded, 8, at.END)
    assert at.generate(gpt, padded, 8, end=7).size(1) <= 8  # PAD is a word of others
    with pytest.raises(ValueError, match="max_len=0"):
        at.generate(gpt, padded[:1], 0, at.END)
    with pytest.raises(ValueError, match="vocab=0"):
        at.GPT(0, 1, 8, 8, 2, 2)
    with pytest.raises(ValueError, match="rows=0"):
        at.random_windows(torch.arange(99), 0, 8, draw=torch.Generator())


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_the_first_update_has_the_schedules_first_rate(kind):
    model = modern_model(12, 12, 1, 16, 24, 2)
    optimizer, scheduler = build_optimizers(model, lambda step: step / 10, kind)
    for rate in (0.1, 0.2):
        assert {group["lr"] for group in optimizer.param_groups} == {rate}
        optimizer.step()
        scheduler.step()


# --- the benchmark -----------------------------------------------------------


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield program("benchmarks/since_2017.py")


@pytest.mark.parametrize("name", TRANSLATORS)
def test_none_and_all_of_the_parts_are_the_two_blocks(benchmark, name):
    """Compare in training, so that dropout has to be in the same places."""
    c, is_new = benchmark.REFERENCE, name == "2026"
    ours = benchmark.build(12, 12, benchmark.PARTS if is_new else (), is_new)
    sizes = 12, 12, c.N, c.d_model, c.d_ff, c.h, c.dropout
    theirs = TRANSLATORS[name](*sizes)
    at.tie_weights(theirs, "all")
    spread(ours, 0.1)
    theirs.double().load_state_dict(ours.state_dict())
    outputs = []
    for model in (ours, theirs):
        torch.manual_seed(0)
        outputs.append(model.train()(*inputs(some_batch())))
    torch.testing.assert_close(*outputs, **near)


def test_each_variant_has_its_parts(benchmark):
    assert len(benchmark.VARIANTS) == 17
    for build, _ in benchmark.VARIANTS.values():
        model = build(12, 12)
        attn, found = model.decoder.layers[0].self_attn, kinds(model)
        has = "LayerNorm" not in found, attn.linears[0].bias is None
        has += "PositionalEncoding" not in found, isinstance(attn.q_norm, at.RMSNorm)
        has += ("SwiGLU" in found,)
        assert has == tuple(p in build.keywords["parts"] for p in benchmark.PARTS)


def test_rotated_cross_attention_goes_by_the_distance(benchmark):
    layer = benchmark.rotated_everywhere(12, 12).decoder.layers[0].src_attn
    q, k = torch.randn(2, 1, 4, 1, layer.d_k).expand(2, 1, 4, 6, layer.d_k)
    _, weights = layer.attention_function(q, k, k, None, None)
    odds = weights.log().diff(dim=-1)  # of neighboring keys, for each query
    same = odds[..., 1:, 1:], odds[..., :-1, :-1]
    torch.testing.assert_close(*same, rtol=0, atol=1e-5)
    assert odds.std(dim=-1).min() > 1e-3
    plain = benchmark.build(12, 12, benchmark.PARTS).decoder.layers[0].src_attn
    assert plain.attention_function is at.attention


def test_the_older_gpt_reads_in_pieces_what_it_reads_at_once():
    older = program("benchmarks/gpt.py").OlderGPT(9, N=2, d_model=12, h=3)
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    cache = older.empty_cache()
    found = torch.cat([older(piece, cache) for piece in ids.split([3, 1, 2], 1)], 1)
    torch.testing.assert_close(found, older(ids))
    alone = older(ids[:, 3:4])  # the same token at another position
    assert not torch.allclose(found[:, 3], alone[:, 0])


# --- the two parts of section 6.12 -------------------------------------------


@pytest.fixture(scope="module")
def parts():
    return program("benchmarks/experts_and_gate.py")


@pytest.fixture(scope="module")
def typed():
    """Return what the chapter's cells define."""
    names = dict(vars(at))
    for cell in read(ROOT / "notebooks/06_since_2017.md"):
        if cell.source.startswith(("class Experts(", "class GatedAttention(")):
            exec(cell.source, names)
    return names


def test_the_parts_that_are_typed_are_those_that_were_measured(parts, typed):
    x, mask = torch.randn(2, 3, 5, 16), at.subsequent_mask(5)
    for name, sizes, inputs in (
        ("Experts", (16, 8, 6, 2), lambda u: (u,)),
        ("GatedAttention", (4, 16, 2), lambda u: (u, u, u, mask)),
    ):
        one, two = (space[name](*sizes) for space in (typed, vars(parts)))
        two.load_state_dict(one.state_dict())
        for u in x:  # in training, so that biases move
            assert torch.equal(one(*inputs(u)), two(*inputs(u)))
        for key, value in one.state_dict().items():
            assert torch.equal(value, two.state_dict()[key])


@torch.no_grad()
def test_experts_are_the_average_of_those_with_the_best_scores(parts):
    """Compute every expert for each token, one token at a time."""
    torch.manual_seed(0)
    experts, x = parts.Experts(16, 8, n=6, k=2).double(), heads(d_k=16)[0]
    experts.bias += torch.linspace(0.3, -0.3, 6)
    experts.eval()
    shares = torch.zeros(6)
    expected = torch.zeros_like(x)
    for b, t in itertools.product(range(3), range(5)):
        score = torch.sigmoid(experts.router.weight @ x[b, t])
        best = sorted(range(6), key=lambda i: score[i] + experts.bias[i])[-2:]
        shares[best] += 1 / (2 * 15)
        total = sum(score[i] for i in best)
        for i in best:
            expected[b, t] += score[i] / total * experts.experts[i](x[b, t])
    torch.testing.assert_close(experts(x), expected, **near)
    torch.testing.assert_close(experts.load, shares.double(), rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_bias_evens_out_the_load_in_training_alone(parts):
    torch.manual_seed(0)
    experts, x = parts.Experts(16, 8, n=4, k=1), torch.randn(8, 64, 16) + 0.5
    experts.eval()(x)
    assert not experts.bias.any() and experts.load.max() > 0.35
    for _ in range(100):
        experts.train()(x)
    assert experts.load.max() < 0.3
    fixed = parts.Experts(16, 8, n=4, k=1, step=0.0)
    fixed(x)
    assert not fixed.bias.any()


@torch.no_grad()
def test_a_gate_multiplies_what_the_heads_return(parts):
    torch.manual_seed(0)
    gated, x = spread(parts.GatedAttention(6, 36, 2)), torch.randn(2, 5, 36).double()
    plain = at.GroupedQueryAttention(6, 36, 2).double()
    weights = gated.state_dict()
    weights["linears.3.weight"] = weights.pop("w_o.weight")
    gate = weights.pop("gate.weight")
    plain.load_state_dict({**weights, "linears.3.weight": torch.eye(36).double()})
    found = plain(x, x, x, CAUSAL) * torch.sigmoid(x @ gate.T)
    expected = found @ weights["linears.3.weight"].T
    torch.testing.assert_close(gated(x, x, x, CAUSAL), expected, **near)
    gated.gate.weight.data.zero_()  # open by a half
    half = gated(x, x, x, CAUSAL)
    plain.load_state_dict(weights)
    torch.testing.assert_close(half, plain(x, x, x, CAUSAL) / 2, **near)


def test_controls_have_the_sizes_that_they_are_to_have(parts):
    sizes = {
        name: at.count_parameters(build(100))
        for group in (parts.MIXTURES, parts.GATES)
        for name, build in group.items()
    }
    router = 2 * 64 * 8
    assert sizes["experts"] == sizes["dense, all weights"] + router
    assert sizes["experts, no balance"] == sizes["experts"]
    assert sizes["gate"] == sizes["blind gate"] == sizes["dense"] + 2 * 64 * 64
    assert abs(sizes["wider"] - sizes["gate"]) < 0.02 * (sizes["gate"] - sizes["dense"])
    one, two = (at.count_parameters(at.SwiGLU(64, width)) for width in (128, 64))
    assert one == parts.CHOSEN * two  # as much work for a token


def test_what_the_chapter_says_of_experts_and_gates():
    found = read_json(ROOT / "results/experts_and_gate.json")["comparisons"]
    losses = found[0]["losses"] | found[1]["losses"]

    def gain(one, other):
        pairs = zip(losses[other], losses[one], strict=True)
        mean = compare_pairs([x - y for x, y in pairs], comparisons=4)
        return mean.difference, mean.half

    for one, other, said in (
        ("gate", "dense", 0.07), ("gate", "blind gate", 0.04),
        ("halved", "dense", 0.05), ("blind gate", "dense", 0.03),
    ):  # fmt: skip
        difference, half = gain(one, other)
        assert round(difference, 2) == said and difference > half, (one, other)
    difference, half = gain("gate", "wider")
    assert difference > half
    difference, half = gain("gate", "an eighth")  # "as well as the gate"
    assert abs(difference) < half
    for one, other in ("gate", "halved"), ("gate, an eighth", "an eighth"):
        assert [round(x, 2) for x in gain(one, other)] == [0.02, 0.02]
    rates = {row["variant"]: row["rate"] for each in found for row in each["rows"]}
    assert {name for name, rate in rates.items() if rate != 0.024} == {
        "experts", "experts, no balance"
    }  # fmt: skip
    assert rates["experts"] == rates["experts, no balance"] == 0.012
    difference, half = gain("dense", "experts")  # "a little worse"
    assert half < difference < 0.05
    assert [round(x, 2) for x in gain("dense, all weights", "dense")] == [0.02, 0.02]
    difference, half = gain("experts", "experts, no balance")
    assert difference < half
    busiest = {row["variant"]: row.get("busiest expert") for row in found[0]["rows"]}
    assert 1 / 8 < busiest["experts"] < 0.15 < 0.25 < busiest["experts, no balance"]


def test_little_is_left_of_side_by_side_once_embeddings_are_larger():
    found = read_json(ROOT / "results/side_by_side.json")["comparisons"][:3]
    at_first, left, *others = (
        row for each in found for row in each["rows"] if "difference" in row
    )
    assert round(left["difference"], 2) == -0.03 and left["to"] < 0
    assert 15 < at_first["difference"] / left["difference"] < 25  # "a twentieth"
    assert all(row["difference"] < 0.8 * at_first["difference"] for row in others)


def test_the_table_of_parts_says_what_was_measured():
    """What each part gains alone, and among the others, with intervals."""
    text = (ROOT / "notebooks/06_since_2017.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| \*\*(.+?)\*\* \| .+? \| (.+?) \| (.+?) \|$", text, re.M)
    compared = read_json(ROOT / "results/since_2017.json")["comparisons"]
    fast = ", fast embeddings"
    added, left_out = (
        compared[f"added{fast}"], compared["left out, embeddings at 0.024"]
    )  # fmt: skip
    assert [row[1:] for row in said[3:]] == [("–", "–")] * 3  # which weren't measured
    del said[3:]
    assert len(said) == len(added)
    left_out.sort(key=lambda row: row["difference"])  # the better rate first
    for part, alone, among in said:
        name = part.replace("–", "-")
        with_it = next(row for row in added if row["of"] == f"{name}{fast}")
        without = next(row for row in left_out if row["of"].startswith(f"but {name},"))
        for word, row, sign in ((alone, with_it, -1), (among, without, 1)):
            assert word == f"{sign * row['difference']:.1f} ± {row['half']:.1f}"
    norm = compared["added"][0]
    assert norm["of"] == "RMSNorm"
    harm = f"cost the old block {norm['difference']:.1f} ± {norm['half']:.1f}"
    assert harm in " ".join(text.split())


def test_what_the_table_and_the_parts_bring_in_either_order():
    text = " ".join((ROOT / "notebooks/06_since_2017.md").read_text("utf-8").split())
    nats = read_json(ROOT / "results/since_2017.json")["nats"]
    start, table, parts, both = (
        mean(nats[way])
        for way in (
            "2017", "2017, fast embeddings", "block and rate",
            "block, embeddings at 0.024",
        )
    )  # fmt: skip
    says = f"brings {start - table:.1f} nats before the five parts, and "
    assert says + f"{parts - both:.1f} after them" in text
    assert start - table > table - both
    assert abs((start - parts) - (parts - both)) < 1  # "about as much"


def test_sinusoids_do_harm_with_a_slow_table_only():
    found = read_json(ROOT / "results/since_2017.json")["comparisons"]
    beside, small = found["positions, fast embeddings"]
    assert beside["difference"] < beside["half"]  # "they do no harm"
    assert beside["difference"] + beside["half"] < 0.3
    assert small["difference"] > small["half"]  # "worse than whole"
    [rotated] = found["cross-attention"]
    text = " ".join((ROOT / "notebooks/06_since_2017.md").read_text("utf-8").split())
    gain = f"brings another {-rotated['difference']:.1f} ± {rotated['half']:.1f}"
    assert gain in text


def test_what_the_chapter_says_of_counts():
    """At temperature 0.5 and 1, beside the three GPTs, and of captions unread."""
    cells = nbformat.read(ROOT / "notebooks/06_since_2017.ipynb", 4).cells
    starts = "draw, training = ", "from math import log"
    shown = [cell.outputs[0].text for cell in cells if cell.source.startswith(starts)]
    possible, new, more, newer, could = map(int, re.findall(r"(\d+)%", shown[0]))
    gpt = defaultdict(list)
    for run in read_json(ROOT / "results/gpt.json")["runs"]:
        for row in run["dials"]:
            gpt[row["dial"]].append((row["possible"], row["possible, new, distinct"]))
    of_gpts = [mean(column) for column in zip(*gpt["temperature 0.5"], strict=True)]
    assert abs(possible - of_gpts[0]) < 5  # "as many"
    text = " ".join((ROOT / "notebooks/06_since_2017.md").read_text("utf-8").split())
    assert f"in the mean of many draws, where the GPT has {of_gpts[1]:.0f}" in text
    assert new < min(found for _, found in gpt["temperature 0.5"])
    assert all(more > a and newer > b for a, b in gpt["temperature 1.0"])
    assert round(7 * (100 - could) / 100) == 6  # "six of seven"
    *counts, whole = map(float, re.findall(r"(\S+) per caption", shown[1]))
    assert 2 < min(counts) - whole < 3  # "more than two nats"


def test_counts_with_a_fallback_give_probabilities():
    names = dict(vars(at)) | {"captions": ["2 3 2 3", "2 3 4"], "vocab": range(6)}
    names["with_ends"] = lambda line: [1, *map(int, line.split()), 1]
    for cell in read(ROOT / "notebooks/06_since_2017.md"):
        if "def four_before" in cell.source:
            exec(cell.source.partition("def with_ends")[0], names)
        if "def probability" in cell.source:
            exec(cell.source.partition("def of_gpt")[0], names)
    for before in (), (5,), (3,), (1, 2, 3), (4, 2, 3):
        total = sum(names["probability"](before, token) for token in range(6))
        assert total == pytest.approx(1)
    # After 2 3: once each 2, 1, and 4; after 3: the same; of nine tokens, once 4.
    after_none = (1 + 4 / 6) / (9 + 4)
    after_one = (1 + 3 * after_none) / 6
    expected = (1 + 3 * after_one) / 6
    assert names["probability"]((2, 3), 4) == pytest.approx(expected)


def test_in_the_gpt_the_blocks_cannot_be_told_apart():
    found = {"2017": defaultdict(list), "today": defaultdict(list)}
    for run in read_json(ROOT / "results/gpt.json")["blocks"]:
        found[run["block"]][run["rate"]].append(run["validation loss"])
    best = {block: min(runs.values(), key=mean) for block, runs in found.items()}
    for runs in found.values():  # the best rate is an inner one
        rates = sorted(runs)
        assert min(runs, key=lambda rate: mean(runs[rate])) in rates[1:-1]
    assert {name: round(mean(runs), 2) for name, runs in best.items()} == {
        "2017": 1.43,
        "today": 1.42,
    }
    differences = [a - b for a, b in zip(best["2017"], best["today"], strict=True)]
    low, high = ttest_1samp(differences, 0).confidence_interval()
    assert low < 0 < high
