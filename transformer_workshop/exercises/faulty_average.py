"""aliasing, running means, and sums in half precision"""

import torch

from transformer_workshop.exercises.checking import agree, same


def averaged(answer, states):
    """Return an average of checkpoints, and the checkpoints as it left them."""
    return answer(states), states


def judge(answer):
    def states(dtype=torch.float32):
        kind = {"dtype": dtype, "copy": True}
        return [{"w": w.to(**kind), "b": b.to(**kind)} for w, b in zip(weights, biases)]

    weights, biases = torch.randn(5, 3, 4), torch.randn(5, 4)
    found, after = answer.ask(averaged, states())
    assert isinstance(found, dict) and sorted(found) == ["b", "w"], (
        "a dictionary is needed that has the names of the checkpoints'."
    )
    halves = weights[0]
    for each in weights[1:]:
        halves = (halves + each) / 2
    assert not same(found["w"], halves), (
        "the last of five checkpoints counts for half of the result, the first for a "
        "sixteenth. Hint: add them all up before you divide."
    )
    for name, expected in (("w", weights.mean(0)), ("b", biases.mean(0))):
        agree(found[name], expected, f"for five checkpoints, in {name!r},")
    assert all(torch.equal(a["w"], b["w"]) for a, b in zip(after, states())), (
        "the first checkpoint has been overwritten: it holds the mean now. Hint: `+=` "
        "changes the tensor that is there."
    )
    weights, biases = 1000 * torch.rand(400, 3, 4), torch.rand(400, 4)
    found, _ = answer.ask(averaged, states(torch.float16))
    expected = weights.half().double().mean(0)
    assert found["w"].dtype == torch.float16, (
        f"of checkpoints in float16 the mean is {found['w'].dtype}. Hint: each tensor "
        "keeps the type that it has."
    )
    off = (found["w"].double() - expected).abs().max().item()
    assert off < 1, (
        "for 400 checkpoints in float16, whose numbers go to 1,000, the mean is off by "
        f"up to {off:.4g}. Hint: add up in double precision, and convert the result "
        "back."
    )
