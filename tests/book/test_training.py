"""Chapter 2: batches, criterion, loop, schedule, greedy decoding."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

import annotated_transformer as at
from transformer_workshop.models.speed import LeanLabelSmoothing
from transformer_workshop.names_of_2022 import data_gen
from transformer_workshop.training.epochs import TrainState, run_epoch
from transformer_workshop.training.processes import check_gradients

PAD = 2


def tiny(dropout=0.0, N=1) -> at.EncoderDecoder:
    torch.manual_seed(0)
    return at.make_model(12, 12, N, 8, 16, 2, dropout).double()


def constant(optimizer, factor=1.0):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor)


def ragged(lengths: list[int]) -> torch.Tensor:
    rows = [
        torch.cat([torch.zeros(1).long(), torch.randint(3, 12, (n,))]) for n in lengths
    ]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def fixed_batches() -> list[at.Batch]:
    torch.manual_seed(5)
    lengths = [[3, 9], [5], [2, 2, 7], [4], [8, 3]]
    return [at.Batch(ragged(ls), ragged(ls)) for ls in lengths]


# --- batches -----------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[1], [5, 8, 1], [4, 4]])
def test_batch_shifts_by_one_and_counts_answers(lengths):
    rows = ragged(lengths)
    batch = at.Batch(rows, rows)
    assert torch.equal(batch.tgt, rows[:, :-1])
    assert torch.equal(batch.tgt_y, rows[:, 1:])
    assert batch.ntokens == sum(lengths)
    assert torch.equal(batch.src_mask, (rows != PAD).unsqueeze(1))
    allowed = batch.tgt_mask
    assert allowed.dtype == torch.bool and not allowed.triu(1).any()
    for b, n in enumerate(lengths):
        seen = allowed[b].any(0)
        assert seen.tolist() == [s <= n for s in range(rows.size(1) - 1)]


def test_a_batch_of_padding_only_is_refused():
    padding = torch.full((2, 4), PAD)
    with pytest.raises(ValueError, match="nothing but padding"):
        at.Batch(padding, padding)
    assert at.Batch(padding[:0], padding[:0]).ntokens == 0  # an empty share is allowed


# --- criterion ---------------------------------------------------------------


@pytest.mark.parametrize("size, padding", [(5, None), (5, -1), (200, 200), (2, 0)])
def test_a_padding_id_outside_the_words_is_refused(size, padding):
    with pytest.raises(ValueError, match=f"padding_idx={padding} is not the id"):
        at.LabelSmoothing(size, padding, 0.1)


@given(st.integers(4, 9), st.floats(0, 0.9), st.integers(0, 2**31))
@settings(max_examples=15)
def test_label_smoothing_is_the_divergence_from_true_dist(size, smoothing, seed):
    torch.manual_seed(seed)
    criterion = at.LabelSmoothing(size, 1, smoothing)
    x = torch.randn(6, size).double().log_softmax(-1).requires_grad_()
    target = torch.randint(size, (6,))
    loss = criterion(x, target)
    q = criterion.true_dist
    rows = [q[i, v] * (q[i, v].log() - x[i, v]) for i, v in q.nonzero().tolist()]
    assert torch.allclose(loss, sum(rows, torch.zeros(()).double()), atol=1e-9)
    (mine,) = torch.autograd.grad(loss, x, retain_graph=True)
    assert torch.allclose(mine, -q, atol=1e-6)
    counted = target != 1
    assert torch.allclose(q.sum(1), counted.double(), atol=1e-6)
    assert (q[:, 1] == 0).all()
    assert torch.allclose(
        q[counted].amax(1),
        torch.tensor(max(1 - smoothing, smoothing / (size - 2))).double(),
        atol=1e-6,
    )


@pytest.mark.parametrize("criterion", [at.LabelSmoothing, LeanLabelSmoothing])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_long_batch_of_half_precision_has_a_finite_loss(criterion, dtype):
    torch.manual_seed(0)
    x = torch.randn(8000, 50).log_softmax(-1).to(dtype)
    target = torch.randint(1, 50, (8000,))
    expected = at.LabelSmoothing(50, 0, 0.1)(x.double(), target)
    found = criterion(50, 0, 0.1)(x, target)
    assert abs(found.item() / expected.item() - 1) < 1e-4 and expected > 20000


@given(st.integers(4, 9), st.floats(0, 0.9), st.booleans(), st.integers(0, 2**31))
@example(5, 0.0, False, 0)
@settings(max_examples=20)
def test_the_lean_criterion_is_the_plain_one(size, smoothing, double, seed):
    """Compare value and gradient, as far as a float's digits go."""
    torch.manual_seed(seed)
    dtype = torch.float64 if double else torch.float32
    x = torch.randn(6, size, dtype=dtype).log_softmax(-1).requires_grad_()
    target, found = torch.randint(size, (6,)), []
    for kind in (at.LabelSmoothing, LeanLabelSmoothing):
        loss = 0.7 * kind(size, 1, smoothing)(x, target)
        found.append((loss, *torch.autograd.grad(loss, x)))
    for plain, lean in zip(*found, strict=True):
        torch.testing.assert_close(plain, lean, rtol=1e-5, atol=1e-5)


def test_lean_criterion_stores_nothing_of_its_own_size_for_backward():
    N, V = 50, 400
    log_p = torch.randn(N, V).log_softmax(-1).requires_grad_()
    saved = []
    store = torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor
    )
    with store:
        LeanLabelSmoothing(V, 0, 0.1)(log_p, torch.randint(V, (N,)))
    own = [t.numel() for t in saved if t.data_ptr() != log_p.data_ptr()]
    assert max(own) <= 2 * N


def test_criterion_of_another_size_is_refused():
    with pytest.raises(ValueError, match="of 7 words for a criterion of size 8"):
        at.LabelSmoothing(8, 0, 0.1)(torch.zeros(2, 7), torch.zeros(2).long())


def test_padding_gets_no_gradient_and_more_of_it_changes_nothing():
    torch.manual_seed(3)
    src, tgt = ragged([3, 6, 1]), ragged([5, 2, 4])
    losses, gradients = [], []
    for more in (0, 3):
        model = tiny(N=2)
        filled = [F.pad(ids, (0, more), value=PAD) for ids in (src, tgt)]
        batch = at.Batch(*filled)
        memory = model.encode(batch.src, batch.src_mask)
        out = model.decode(memory, batch.src_mask, batch.tgt, batch.tgt_mask)
        memory.retain_grad()
        out.retain_grad()
        compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD, 0.1))
        _, node = compute(out, batch.tgt_y, batch.ntokens)
        node.backward()
        reached = [x.grad.abs().sum(-1) > 0 for x in (memory, out)]
        assert torch.equal(reached[0], batch.src != PAD)
        assert torch.equal(reached[1], batch.tgt_y != PAD)
        for embedding in (model.src_embed, model.tgt_embed):
            assert not embedding[0].lut.weight.grad[PAD].any()  # exactly zero
        losses.append(node.item())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert math.isclose(*losses, rel_tol=1e-9)
    assert torch.allclose(*gradients, atol=1e-12)


# --- the loop ----------------------------------------------------------------


def weights_after(batches, accum_iter, make=torch.optim.SGD, stale=None, **options):
    model = tiny()
    if stale is not None:
        for p in model.parameters():
            p.grad = torch.full_like(p, stale)
    optimizer = make(model.parameters(), lr=0.1)
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD, 0.1))
    result = run_epoch(
        batches, model, compute, optimizer, constant(optimizer),
        accum_iter=accum_iter, **options,
    )  # fmt: skip
    return torch.cat([p.detach().flatten() for p in model.parameters()]), *result


def joined(batches):
    def column(read):
        rows = [row[row != PAD] for b in batches for row in read(b)]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)

    src = column(lambda b: b.src)
    tgt = column(lambda b: torch.cat([b.tgt[:, :1], b.tgt_y], dim=1))
    return at.Batch(src, tgt)


@pytest.mark.parametrize("max_norm", [None, 0.05])
def test_the_loop_of_the_chapter_is_the_loop_of_2022(max_norm):
    expected, loss, _ = weights_after(fixed_batches(), 1, max_norm=max_norm)
    model = tiny().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD, 0.1))
    steps = optimizer, constant(optimizer)
    clip = () if max_norm is None else (max_norm,)
    mean = at.train_epoch(iter(fixed_batches()), model, compute, *steps, *clip)
    found = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(found, expected) and math.isclose(mean, loss)
    assert not model.training  # as it was


def test_no_batches_are_refused():
    model = tiny()
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD))
    for measure in (at.mean_loss, run_epoch):
        steps = (None, None) if measure is run_epoch else ()
        with pytest.raises(ValueError, match="there are no batches"):
            measure(iter([]), model, compute, *steps)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("max_norm", [None, 0.05])
def test_accumulation_is_one_large_batch(make, max_norm):
    """Use unequal lengths, and a last window shorter than the others."""
    pieces = fixed_batches()
    small, loss, state = weights_after(pieces, 3, make, max_norm=max_norm)
    large = [joined(pieces[:3]), joined(pieces[3:])]
    expected, expected_loss, _ = weights_after(large, 1, make, max_norm=max_norm)
    assert (small - expected).abs().max() < 1e-8
    assert abs(loss - expected_loss) < 1e-8
    assert (state.step, state.accum_step, state.samples) == (5, 2, 9)
    assert state.tokens == sum(b.ntokens for b in pieces)


def test_the_callback_gets_the_state_after_each_update():
    """Hand a state over, which counts on from one epoch to the next."""
    seen, state = [], TrainState()
    for _ in range(2):
        *_, returned = weights_after(
            fixed_batches(), 2, train_state=state,
            callback=lambda s: seen.append((s.accum_step, s.step)),
        )  # fmt: skip
    assert returned is state
    assert seen == [(1, 2), (2, 4), (3, 5), (4, 7), (5, 9), (6, 10)]


@pytest.mark.parametrize("max_norm", [None, 0.05])
@pytest.mark.parametrize("stale", [1e6, math.nan])
def test_gradients_left_in_a_model_do_not_influence_an_epoch(stale, max_norm):
    used, *_ = weights_after(fixed_batches(), 2, stale=stale, max_norm=max_norm)
    fresh, *_ = weights_after(fixed_batches(), 2, max_norm=max_norm)
    assert torch.equal(used, fresh)


def test_schedule_moves_with_the_optimizer():
    model = tiny()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: at.rate(step + 1, 8, 1.0, 4)
    )
    used = []
    optimizer.register_step_post_hook(
        lambda opt, *_: used.append(opt.param_groups[0]["lr"])
    )
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD))
    run_epoch(fixed_batches(), model, compute, optimizer, scheduler, accum_iter=2)
    assert used == [at.rate(step, 8, 1.0, 4) for step in (1, 2, 3)]


def test_clipping_bounds_the_step():
    free, *_ = weights_after(fixed_batches()[:1], 1)
    clipped, *_ = weights_after(fixed_batches()[:1], 1, max_norm=0.01)
    start = torch.cat([p.detach().flatten() for p in tiny().parameters()])
    assert (clipped - start).norm() <= 0.1 * 0.01 * 1.001 < (free - start).norm()


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode='test' is neither"):
        run_epoch([], tiny(), None, None, None, mode="test")


def test_an_update_of_no_batches_is_refused():
    with pytest.raises(ValueError, match="accum_iter=0: an update needs 1 batch"):
        run_epoch([], None, None, None, None, accum_iter=0)


def test_evaluation_changes_nothing_and_reports_nll():
    model = tiny(dropout=0.5).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD))
    runs = [
        run_epoch(fixed_batches(), model, compute, None, None, mode="eval")
        for _ in range(2)
    ]
    assert runs[0][0] == runs[1][0]  # dropout is off
    assert model.training and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    state = runs[0][1]
    model.eval()
    nll = 0.0
    for b in fixed_batches():
        log_p = model.generator(model(b.src, b.tgt, b.src_mask, b.tgt_mask))
        right = log_p.gather(2, b.tgt_y.unsqueeze(2)).squeeze(2)
        nll -= right[b.tgt_y != PAD].sum().item()
    assert math.isclose(runs[0][0], nll / state.tokens)


@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_an_infinite_gradient_stops_before_any_weight_is_touched(max_norm):
    """Spoil the gradient of the second update, whose loss is an ordinary number."""
    model = tiny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, PAD, 0.1))
    good = []

    def spoil(state):
        good.extend(p.detach().clone() for p in model.parameters())
        model.generator.proj.bias.register_hook(lambda gradient: gradient / 0)

    state = TrainState()
    check_gradients(optimizer, state)
    with pytest.raises(FloatingPointError, match="gradient's norm is .* at update 2;"):
        run_epoch(fixed_batches(), model, compute, optimizer, constant(optimizer),
                     train_state=state, max_norm=max_norm, callback=spoil)  # fmt: skip
    assert all(map(torch.equal, good, model.parameters()))


def test_log_mode_prints_lines(capsys):
    batches = 16 * fixed_batches()
    weights_after(batches, 1, mode="train+log")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["40", "80"]


# --- schedule ----------------------------------------------------------------


def test_rate_is_equation_3():
    for step in (1, 2, 3999, 4000, 4001, 100000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert math.isclose(at.rate(step, 512, 1.0, 4000), expected)
    assert at.rate(0, 512, 1.0, 4000) == at.rate(1, 512, 1.0, 4000)
    assert math.isclose(at.rate(1, 512, 1.0, 4000), 1.747e-7, rel_tol=1e-3)


# --- greedy decoding ---------------------------------------------------------


def test_greedy_decoding_stops_row_by_row_and_equals_one_by_one():
    model = tiny(dropout=0.3, N=2).train()
    for p in model.parameters():  # sharp enough to say different things
        p.data *= 2
    torch.manual_seed(1)
    src = ragged([3, 6, 1, 5, 7, 2])
    mask = (src != PAD).unsqueeze(1)
    free = at.greedy_decode(model, src, mask, 12, 0)

    def lengths(end):  # where each row would stop
        return {(row[1:].tolist() + [end]).index(end) for row in free}

    end = max(range(12), key=lambda symbol: len(lengths(symbol)))
    assert len(lengths(end)) > 2
    together = at.greedy_decode(model, src, mask, 12, 0, end_symbol=end)
    assert model.training
    for i in range(len(src)):
        n = int((src[i] != PAD).sum())
        alone = at.greedy_decode(
            model, src[i : i + 1, :n], mask[i : i + 1, :, :n], 12, 0, end_symbol=end
        )[0].tolist()
        assert together[i].tolist() == alone + [PAD] * (together.size(1) - len(alone))
        assert alone == free[i, : len(alone)].tolist()
        assert end not in alone[1:-1] and (alone[-1] == end or len(alone) == 12)


def test_greedy_decoding_takes_the_likeliest_word():
    model, src = tiny().eval(), ragged([5])
    mask = torch.ones(1, 1, src.size(1))
    out = at.greedy_decode(model, src, mask, 6, 0)
    log_p = model.generator(model(src, out[:, :-1], mask, at.subsequent_mask(5)))
    assert torch.equal(log_p.argmax(-1), out[:, 1:])


def test_the_search_ends_when_every_row_has_ended():
    src = ragged([4]).repeat(2, 1)  # equal rows end together
    mask = torch.ones(2, 1, src.size(1))
    free = at.greedy_decode(tiny(), src, mask, 9, 0)
    assert free.shape == (2, 9)  # without an end symbol, as long as it may be
    out = at.greedy_decode(tiny(), src, mask, 9, 0, end_symbol=free[0, 1].item())
    assert torch.equal(out, free[:, :2])


# --- learning ----------------------------------------------------------------


def test_copy_data_starts_with_1_and_never_pads():
    for batch in data_gen(11, 30, 3):
        assert batch.src.shape == (30, 10)
        assert (batch.src[:, 0] == 1).all() and (batch.src != 0).all()
        assert torch.equal(batch.src[:, 1:], batch.tgt_y)
        assert batch.src_mask.all()
