"""the four moves of training, in order; what the loss divides by; clipping"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.exercises.checking import (
    is_number,
    kind,
    near,
    small_model,
    uneven_rows,
)

LOOSE, TIGHT = 1e6, 0.1  # a gradient that passes, and one that is clipped


def trained(answer, model, batches, max_norm: float) -> tuple[Any, dict, list, list]:
    """Return an answer's losses, the weights, and what can be seen on the way.

    That is the modes in which the model read, and the rates at which it was updated.
    """
    model = copy.deepcopy(model).eval()
    modes: list[bool] = []
    model.encoder.register_forward_pre_hook(lambda *_: modes.append(model.training))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    rates: list[float] = []
    optimizer.register_step_post_hook(
        lambda *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    losses = answer(model, batches, optimizer, scheduler, max_norm)
    if isinstance(losses, list | tuple):
        losses = (
            [each.item() if numeric(each) else each for each in losses],
            [kind(each) for each in losses],
        )
    return losses, {k: p.detach() for k, p in model.named_parameters()}, modes, rates


def numeric(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1


def gradient(model: nn.Module, batch: at.Batch, divisor: float) -> list[Tensor]:
    """Return the gradient of a batch's loss by weights, divided by a number."""
    out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    log_p = model.generator(out).flatten(0, 1)
    loss = at.LabelSmoothing(12, 2)(log_p, batch.tgt_y.flatten()) / divisor
    return list(torch.autograd.grad(loss, list(model.parameters())))


def judge(answer):
    rows = uneven_rows()
    batches = [at.Batch(at.padded(two, 2), at.padded(two, 2)) for two in rows]
    first, model = batches[0], small_model(dropout=0.0)
    before = {k: p.detach().clone() for k, p in model.named_parameters()}

    def change(count: int, max_norm: float = LOOSE):
        losses, after, *seen = answer.ask(trained, model, batches[:count], max_norm)
        return losses, {k: before[k] - after[k] for k in before}, *seen

    losses, moved, modes, _ = change(1)
    given = f"for a batch of {first.ntokens} answers"
    assert isinstance(losses, tuple) and len(losses[0]) == 1, (
        f"{given} a list of one loss is needed. Hint: return the losses."
        if isinstance(losses, tuple)
        else f"{given} a list of losses is needed, not {kind(losses)}."
    )
    [loss], [type_of_loss] = losses
    assert type_of_loss != "Tensor", (
        "the loss in the list is a tensor, which keeps everything alive that it was "
        "computed from. Hint: `.item()` returns the number."
    )
    assert is_number(loss), f"a loss is a number, not {type_of_loss}."
    assert modes and all(modes), (
        "the model read the batch in evaluation mode, without dropout. Hint: step 1."
    )

    with torch.no_grad():
        out = model(first.src, first.tgt, first.src_mask, first.tgt_mask)
        log_p = model.generator(out)

    def nll(ids: Tensor, counted: Tensor) -> Tensor:
        return -log_p.gather(-1, ids.unsqueeze(-1)).squeeze(-1)[counted]

    real = first.tgt_y != 2
    right = nll(first.tgt_y, real)
    wrong = {
        "this is the loss of the words that the decoder has just read. Hint: step 2; "
        "which row of the batch has the answers?": nll(first.tgt, first.tgt != 2),
        "padding was counted as an answer. Hint: step 2; `batch.ntokens` counts the "
        "real ones.": nll(first.tgt_y, real | True),
    }
    assert not near(loss, right.sum().item()), (
        f"{given} the loss is their sum, {loss:.4f}. Hint: step 2 asks for the mean."
    )
    assert not near(loss, right.sum().item() / real.numel()), (
        f"{given} the sum was divided by {real.numel()} positions, padding and all. "
        "Hint: `batch.ntokens`."
    )
    for hint, terms in wrong.items():
        assert near(loss, right.mean().item()) or not near(loss, terms.mean().item()), (
            f"{given} {hint}"
        )
    assert near(loss, right.mean().item()), (
        f"{given} the first loss is {right.mean():.4f}, not {loss:.4f}. Hint: steps 1 "
        "and 2; the generator returns log-probabilities."
    )

    def flat(parts) -> Tensor:
        return torch.cat([part.flatten() for part in parts])

    way, full = flat(moved.values()), flat(gradient(model, first, first.ntokens))
    assert way.abs().max() > 0, (
        "after a batch the weights are what they were. Hint: steps 3 and 4; `backward` "
        "only computes gradients."
    )
    size = (way @ full / (full @ full)).item()
    assert torch.allclose(way, 0.5 * full, rtol=1e-3, atol=1e-7), (
        f"after one batch the weights have moved {2 * size:.4g} times as far as the "
        "gradient of its mean loss asks. Hint: in what order do the moves of steps 3 "
        "and 4 come, and what was differentiated?"
    )

    losses, _, _, rates = change(3)
    assert len(losses[0]) == 3, (
        f"for three batches there are {len(losses[0])} losses. Hint: one for each."
    )
    assert len(rates) == 3, (
        f"for three batches the optimizer took {len(rates)} steps. Hint: step 4 "
        "belongs to each batch."
    )
    assert rates != [0.5] * 3, (
        "the learning rate is the same at each update. Hint: who tells the scheduler?"
    )
    assert rates == [0.5, 0.25, 0.125], (
        f"the rates of three updates are {rates}; they should be 0.5, 0.25, 0.125. "
        "Hint: the scheduler takes its step once for each batch, after the optimizer."
    )
    expected = copy.deepcopy(model)
    for rate, batch in zip(rates, batches):
        parts = gradient(expected, batch, batch.ntokens)
        with torch.no_grad():
            for parameter, part in zip(expected.parameters(), parts):
                parameter -= rate * part
    _, moved, *_ = change(3)
    ours = flat(before.values()) - flat(moved.values())
    theirs = flat(expected.parameters())
    assert torch.allclose(ours, theirs.detach(), rtol=1e-3, atol=1e-6), (
        "after one batch the weights are right, and after three they aren't. Hint: "
        "step 3; what does `backward` do with the gradients that are there already?"
    )

    _, moved, *_ = change(1, TIGHT)
    length = 2 * flat(moved.values()).norm().item()
    assert not near(length, full.norm().item()), (
        f"with max_norm={TIGHT} a gradient of length {full.norm():.2f} has passed. "
        "Hint: step 3; `nn.utils.clip_grad_norm_`, between `backward` and the step."
    )
    assert abs(length / TIGHT - 1) < 1e-3, (
        f"with max_norm={TIGHT} the gradient that the optimizer saw has length "
        f"{length:.4g}. Hint: clip the norm of all weights together."
    )
