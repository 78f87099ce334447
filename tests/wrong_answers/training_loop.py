"""Wrong answers to the exercise training_loop."""

import torch.nn as nn
from torch.nn.functional import nll_loss


def loop(
    mode=True, answers="tgt_y", divide="words", clear="each", backward=True, clip="all",
    step="each", schedule="each", give="numbers",
):  # fmt: skip
    """Return what 2.10 asks for, with one or another fault."""

    def train_on(model, batches, optimizer, scheduler, max_norm):
        model.train(mode)
        losses = []
        for batch in batches:
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            ids = getattr(batch, answers).flatten()
            skip = -100 if divide == "padding" else 2
            log_p = model.generator(out).flatten(0, 1)
            loss = nll_loss(log_p, ids, ignore_index=skip, reduction="sum")
            counts = {"words": int((ids != 2).sum()), "nothing": 1}
            loss = loss / counts.get(divide, ids.numel())
            if clear == "each":
                optimizer.zero_grad()
            if backward:
                loss.backward()
            if clear == "late":
                optimizer.zero_grad()
            if clip == "all":
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            if clip == "values":
                nn.utils.clip_grad_value_(model.parameters(), max_norm)
            if step == "each":
                optimizer.step()
            if schedule == "each":
                scheduler.step()
            losses.append(loss if give == "tensors" else loss.item())
        if step == "once":
            optimizer.step()
        if schedule == "once":
            scheduler.step()
        return losses[-1] if give == "last" else None if give == "nothing" else losses

    return train_on


WRONG = [
    loop(mode=False),
    loop(give="nothing"),
    loop(give="last"),
    loop(give="tensors"),
    loop(answers="tgt"),
    loop(divide="nothing"),
    loop(divide="positions"),
    loop(divide="padding"),
    loop(clear="late"),
    loop(backward=False),
    loop(step="never"),
    loop(step="once"),
    loop(clear="never"),
    loop(schedule="never"),
    loop(schedule="once"),
    loop(clip="no"),
    loop(clip="values"),
]
