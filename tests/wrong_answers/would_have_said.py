"""Wrong answers to the exercise would_have_said."""

import torch

import annotated_transformer as at


def judging(
    end=True,
    mean=False,
    off=True,
    shift=True,
    number=True,
    restore=True,
    seen=False,
    symbols=True,
    causal=True,
):
    """Return what 4.4 asks for, with a choice of faults."""

    def log_probability(model, src, src_mask, ids, start, end_symbol):
        before = model.training
        if off:
            model.eval()
        if seen:
            src_mask = torch.ones_like(src_mask)
        if not symbols:
            start, end_symbol = 0, 1
        read = [start, *ids] if shift else [*ids, end_symbol]
        asked = torch.tensor([*ids, end_symbol])
        tgt = torch.tensor([read])
        tgt_mask = at.subsequent_mask(len(read)) if causal else None
        out = model(src, tgt, src_mask, tgt_mask)
        each = model.generator(out)[0].gather(1, asked.unsqueeze(1)).squeeze(1)
        each = each if end else each[:-1]
        model.train(before if restore else False)
        total = each.mean() if mean else each.sum()
        return total.item() if number else total

    return log_probability


WRONG = [
    judging(end=False),
    judging(mean=True),
    judging(off=False),
    judging(shift=False),
    judging(number=False),
    judging(restore=False),
    judging(seen=True),
    judging(symbols=False),
    judging(causal=False),
]
