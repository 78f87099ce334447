"""the gradient p − q, and that it sums to zero"""

import torch
import torch.nn.functional as F
from checking import exercise, numbers_of, show


@exercise("2.3")
def gradient_of_the_softmax(answer):
    asked = "give two lists of three numbers, for (a) and (b)"
    assert isinstance(answer, tuple | list) and len(answer) == 2, asked
    parts = [numbers_of(part, 3, asked) for part in answer]
    logits = torch.tensor([1.0, 2.0, 5.0]).log().requires_grad_()
    for name, found, target in zip(
        ("(a)", "(b)"), parts, ([0.0, 1.0, 0.0], [0.1, 0.8, 0.1])
    ):
        loss = F.cross_entropy(logits, torch.tensor(target))
        [right] = torch.autograd.grad(loss, logits)
        found = torch.tensor(found)
        assert not torch.allclose(found, -right, atol=2e-3), (
            f"{name}: the signs are the wrong way around. The loss falls when the "
            "logit of the right word grows."
        )
        assert not torch.allclose(found, right + torch.tensor(target), atol=2e-3), (
            f"{name}: these are the probabilities; the target is still to be "
            "subtracted."
        )
        assert abs(found.sum().item()) < 3e-3, (
            f"{name}: {show(found)} doesn't sum to zero. Hint: adding the same number "
            "to all logits changes nothing, so the loss has no slope that way."
        )
        assert torch.allclose(found, right, atol=2e-3), (
            f"{name} is not {show(found)}. Hint: the probabilities first; they are in "
            "the ratio 1 : 2 : 5."
        )


WRONG = [
    ([-0.125, 0.75, -0.625], [-0.025, 0.55, -0.525]),
    ([0.125, 0.25, 0.625], [0.125, 0.25, 0.625]),
    ([0, -4, 0], [-0.8, -3.2, -0.16]),  # with respect to the probabilities
    ([0.125, -0.75, 0.625], [0.125, -0.75, 0.625]),
    ([0.1, -0.7, 0.6], [0.025, -0.55, 0.525]),
    0.25,
]
