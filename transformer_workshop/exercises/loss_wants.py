"""the gradient p − q, and that it sums to zero"""

import torch
import torch.nn.functional as F

from transformer_workshop.exercises.checking import numbers_of, show


def judge(answer):
    asked = "give two lists of three numbers, for (a) and (b)"
    assert isinstance(answer, tuple | list) and len(answer) == 2, asked
    parts = [numbers_of(part, 3, asked) for part in answer]
    logits = torch.tensor([1.0, 2.0, 5.0]).log().requires_grad_()
    p = logits.softmax(dim=-1).detach()
    for name, found, target in zip(
        ("(a)", "(b)"), parts, ([0.0, 1.0, 0.0], [0.1, 0.8, 0.1])
    ):
        target = torch.tensor(target)
        [right] = torch.autograd.grad(F.cross_entropy(logits, target), logits)
        found = torch.tensor(found)
        assert not torch.allclose(found, -right, atol=2e-3), (
            f"{name}: the signs are the wrong way around. The loss falls when the "
            "logit of the right word grows."
        )
        assert not torch.allclose(found, p, atol=2e-3), (
            f"{name}: these are the probabilities; the target is still to be "
            "subtracted."
        )
        assert not torch.allclose(found, -target / p, atol=2e-3), (
            f"{name}: this is the gradient with respect to the probabilities. Hint: "
            "when one logit grows, all three probabilities change."
        )
        assert abs(found.sum().item()) < 3e-3, (
            f"{name}: {show(found)} doesn't sum to zero. Hint: adding the same number "
            "to all logits changes nothing, so the loss has no slope that way."
        )
        hint = {
            "(a)": "the probabilities first; they are in the ratio 1 : 2 : 5.",
            "(b)": "the probabilities are those of (a); only the target has changed, "
            "for all three words.",
        }[name]
        assert torch.allclose(found, right, atol=2e-3), (
            f"{name} is not {show(found)}. Hint: {hint}"
        )
