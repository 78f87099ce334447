"""Wrong answers to the exercise faulty_validation."""

import torch


def validation(
    answers="tgt_y",
    mean_of_means=False,
    restore=True,
    graph=False,
    frozen=False,
    padding=False,
    quiet=True,
):
    """Return a validation with none, one, or more of the faults planted in 2.8."""

    def validation_nll(model, batches, compute):
        before, nll, words, means = model.training, 0.0, 0, []
        if quiet:
            model.eval()
        with torch.set_grad_enabled(graph):
            for batch in batches:
                out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
                total, _ = compute(out, getattr(batch, answers), batch.ntokens)
                size = batch.tgt_y.numel() if padding else batch.ntokens
                nll, words = nll + total, words + size
                means.append(total / batch.ntokens)
        if restore:
            model.train(True if restore == "always" else before)
        if frozen:
            model.requires_grad_(False)
        return sum(means) / len(means) if mean_of_means else nll / words

    return validation_nll


WRONG = [
    validation("tgt", mean_of_means=True, restore=False, graph=True),  # as planted
    validation(mean_of_means=True),
    validation(restore=False),
    validation(restore="always"),
    validation(graph=True),
    validation(frozen=True),
    validation(padding=True),
    validation(quiet=False),
]
