"""the divisor of a window; when gradients are set to zero"""

import torch
from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import near, small_model, uneven_rows


def gradients(answer, model, compute, batches):
    """Return what the answer leaves in .grad, and whether it left a model in training.

    Before, the model is in training mode, and something is in .grad.
    """
    model.train()
    modes: list[bool] = []
    hook = model.register_forward_pre_hook(lambda *_: modes.append(model.training))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    answer(model, compute, batches)
    hook.remove()
    trained = all(modes) and model.training
    return {name: p.grad for name, p in model.named_parameters()}, trained


def judge(answer):
    model = small_model()
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, 0))
    rows = uneven_rows()
    batches = [at.Batch(at.padded(two, 0), at.padded(two, 0), pad=0) for two in rows]

    def of_one_batch(rows):
        ids = at.padded([row for two in rows for row in two], pad=0)
        model.zero_grad()
        batch = at.Batch(ids, ids, pad=0)
        out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        compute(out, batch.tgt_y, batch.ntokens)[1].backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    def alike(one, other):
        if not all(isinstance(each, Tensor) for each in one.values()):
            return False
        return all(torch.allclose(one[name], other[name]) for name in other)

    whole, last = of_one_batch(rows), of_one_batch(rows[-1:])
    model.zero_grad()
    found, trained = answer.ask(gradients, model, compute, batches)
    assert not alike(found, last), (
        "the gradient is that of the last batch alone. Hint: when are the old ones "
        "set to zero?"
    )
    more = {name: grad + 1 for name, grad in whole.items()}
    assert not alike(found, more), (
        "what was in `.grad` before is still in there. Hint: set it to zero once."
    )
    means = {name: torch.zeros_like(grad) for name, grad in whole.items()}
    for two in rows:
        for name, grad in of_one_batch([two]).items():
            means[name] += grad
    assert not alike(found, means), (
        "each batch was divided by its own number of words and the gradients were "
        "added: three times too large, and a word of a short batch counts for more."
    )
    third = {name: grad / 3 for name, grad in means.items()}
    assert not alike(found, third), (
        "this is the mean of the batches' gradients: a word of a short batch counts "
        "for more than one of a long batch."
    )

    def factor(of):
        """Return how many times too large it is, or None if it points elsewhere."""
        if not all(isinstance(each, Tensor) for each in found.values()):
            return None
        ours, theirs = (
            torch.cat([g.flatten() for g in x.values()]) for x in (found, of)
        )
        size = (ours @ theirs / (theirs @ theirs)).item()
        return size if torch.allclose(ours, size * theirs) and size else None

    if (size := factor(last)) is not None:
        raise AssertionError(
            f"the gradient is {size:.4g} times that of the last batch alone. Hint: "
            "when are the old ones set to zero?"
        )
    size = factor(whole)
    assert size is None or near(size, 1), (
        f"the gradient points the right way, but is {size:.4g} times as large as it "
        "should be. Hint: by what is each loss divided?"
    )
    assert alike(found, whole), (
        "the gradient is not that of one batch with all six pairs. Hint: what has to "
        "be known before the first backward()?"
    )
    assert trained, (
        "the model was in training mode, and the answer has switched to evaluation "
        "mode, in which there is no dropout. Hint: leave the mode alone."
    )
