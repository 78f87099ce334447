"""aliasing, running means, and sums in half precision"""

import torch
from checking import agree, exercise, same


def averaged(answer, states):
    """Return an average of checkpoints, and the checkpoints as it left them."""
    return answer(states), states


@exercise("4.6")
def mean_of_checkpoints(answer):
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


def mean_with(own=True, weights="all", wide=True):
    """Return a mean of checkpoints with some of the faults of 4.6."""

    def mean_of_states(states):
        mean = {name: x.clone() for name, x in states[0].items()} if own else states[0]
        for state in states[1:]:
            for name in mean:
                x = mean[name]
                if wide:
                    mean[name] = x.double() + state[name].double()
                else:
                    x += state[name]
                if weights == "halves":
                    mean[name] /= 2
        divisor = 1 if weights == "halves" else len(states)
        return {name: (x / divisor).to(states[-1][name]) for name, x in mean.items()}

    return mean_of_states


WRONG = [
    mean_with(own=False, weights="halves", wide=False),  # as planted
    mean_with(weights="halves"),
    mean_with(own=False),
    mean_with(wide=False),
    lambda states: mean_with()([{k: x.float() for k, x in s.items()} for s in states]),
    lambda states: [s["w"] for s in states],
]
