"""evaluation: the model's mode, gradients, targets, and averages"""

from typing import Any

from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import (
    MODE,
    is_number,
    kind,
    left_in_mode,
    near,
    small_model,
    uneven_rows,
)


class Watched:
    """A loss that remembers whether gradients were recorded when it was called."""

    def __init__(self, compute):
        self.compute, self.recorded = compute, False

    def __call__(self, x: Tensor, y: Tensor, norm: float):
        self.recorded |= x.requires_grad
        return self.compute(x, y, norm)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["compute"], name)


def validated(answer, training, model, batches, compute):
    """Return an answer's result, and all that it may have left behind."""
    watched = Watched(compute)
    result, mode = left_in_mode(answer, training, model, batches, watched)
    trainable = all(p.requires_grad for p in model.parameters())
    return result, mode, watched.recorded, trainable


def judge(answer):
    model = small_model(dropout=0.3)
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, 0))
    batches = [
        at.Batch(at.padded(two, 0), at.padded(two, 0), pad=0) for two in uneven_rows()
    ]
    whole = at.mean_loss(batches, model, compute)
    one = at.mean_loss(batches[:1], model, compute)
    alone, *_ = answer.ask(validated, False, model, batches[:1], compute)
    assert is_number(alone), f"a plain number is needed, not {kind(alone)}."
    assert near(alone, one), (
        f"for a single batch the NLL is {one:.4f}, not {alone:.4f}. Hint: which word "
        "is to be predicted at each position?"
    )
    found, evaluates, _, trainable = answer.ask(
        validated, False, model, batches, compute
    )
    assert near(found, whole), (
        f"for batches of {[b.ntokens for b in batches]} words the NLL is {whole:.4f}, "
        f"not {found:.4f}. Hint: a mean over words is not a mean over batches."
    )
    found, trains, recorded, _ = answer.ask(validated, True, model, batches, compute)
    assert near(found, whole), (
        "for a model in training mode the NLL is another one: dropout is on. Hint: "
        "`model.eval()` was there for a reason."
    )
    assert trains, MODE[0]
    assert not evaluates, MODE[1]
    assert not recorded, (
        "the forward pass recorded a graph for gradients that nobody needs. Hint: the "
        "chapter has a helper that takes care of this and of the mode."
    )
    assert trainable, (
        "afterwards some weights no longer require gradients, so the rest of the "
        "training would leave them as they are."
    )
