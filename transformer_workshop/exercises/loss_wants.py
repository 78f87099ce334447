"""the gradient p − q, and that it sums to zero"""

import torch
import torch.nn.functional as F

from transformer_workshop.exercises.checking import lettered, numbers_of, show

ASKED = "give two lists of three numbers, for (a) and (b)"
LOGITS = torch.tensor([1.0, 2.0, 5.0]).log()


def parts():
    def gradient(*target):
        logits = LOGITS.clone().requires_grad_()
        loss = F.cross_entropy(logits, torch.tensor(target))
        return torch.autograd.grad(loss, logits)[0].tolist()

    hints = (
        "the probabilities first; they are in the ratio 1 : 2 : 5.",
        "the probabilities are those of (a); only the target has changed, for all "
        "three words.",
    )
    return lettered((gradient(0.0, 1.0, 0.0), gradient(0.1, 0.8, 0.1)), hints, 2e-3)


def judge(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, ASKED
    p = LOGITS.softmax(dim=-1)
    for given, part in zip(answer, parts()):
        name, right = part.name, torch.tensor(part.right)
        found = torch.tensor(numbers_of(given, 3, ASKED), dtype=torch.float)
        assert not torch.allclose(found, -right, atol=2e-3), (
            f"{name}: the signs are the wrong way around. The loss falls when the "
            "logit of the right word grows."
        )
        assert not torch.allclose(found, p, atol=2e-3), (
            f"{name}: these are the probabilities; the target is still to be "
            "subtracted."
        )
        target = p - right
        assert not torch.allclose(found, -target / p, atol=2e-3), (
            f"{name}: this is the gradient with respect to the probabilities. Hint: "
            "when one logit grows, all three probabilities change."
        )
        assert abs(found.sum().item()) < 3e-3, (
            f"{name}: {show(found)} doesn't sum to zero. Hint: adding the same number "
            "to all logits changes nothing, so the loss has no slope that way."
        )
        assert part.fits(found.tolist()), part.message(show(found))
