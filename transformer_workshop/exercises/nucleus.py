"""where `top_p` stops, the case where the limit is met exactly, rescaling"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import kind, near, show, tensor_work


def judge(answer):
    sharp = [0.0625, 0.5, 0.125, 0.25, 0.04, 0.0225]
    order = [1, 3, 2, 0, 4, 5]

    def kept(p, top_p):
        found = answer(list(p), top_p)
        assert isinstance(found, dict), (
            f"a dictionary {{id: probability}} is needed, not {kind(found)}."
        )
        return found

    for top_p, size, hint in (
        (0.6, 2, "the best alone has 0.5, which is too little, so a second is needed."),
        (0.51, 2, "the token that crosses the limit is kept, too."),
        (0.8, 3, "go through the tokens from the most probable to the least."),
        (0.5, 1, "the best alone has 0.5, and that is enough."),
        (0.75, 2, "two tokens have 0.75, and that is enough."),
        (0.1, 1, "the best token is always kept."),
        (0.0, 1, "the best token is always kept."),
        (0.99, 6, "the first five have 0.9775."),
    ):
        found, expected = kept(sharp, top_p), order[:size]
        assert sorted(found) == sorted(expected), (
            f"of {sharp} the nucleus of top_p={top_p} is {sorted(expected)}, not "
            f"{sorted(found)}. Hint: {hint}"
        )
        share = sum(sharp[i] for i in expected)
        for i in expected:
            assert near(float(found[i]), sharp[i] / share), (
                f"of {sharp} with top_p={top_p} token {i} is drawn with probability "
                f"{sharp[i] / share:.4f}, not {found[i]:.4f}. Hint: what is kept has "
                f"{share:g} in all; divide by that."
            )
    assert not answer.ask(tensor_work, sharp, 0.6)[1], (
        "the ids are right, but tensors were used on the way. Hint: `sorted` with a "
        "`key`, and a loop."
    )
    found = kept([0.75, 0.0, 0.25], 1.0)
    assert sorted(found) == [0, 2], (
        f"of [0.75, 0.0, 0.25] the nucleus of top_p=1.0 is [0, 2], not "
        f"{sorted(found)}. Hint: the fewest tokens that add up to 1."
    )
    for _ in range(20):
        log_p = torch.randn(7).mul(2).log_softmax(-1).double()
        log_p -= log_p.logsumexp(-1)
        top_p = torch.rand(1).item()
        p = at.restrict(log_p, None, top_p).softmax(-1)
        expected = {i: share for i, share in enumerate(p.tolist()) if share}
        found = kept(log_p.exp().tolist(), top_p)
        assert sorted(found) == sorted(expected) and all(
            near(float(found[i]), expected[i]) for i in expected
        ), (
            f"of {show(log_p.exp())} with top_p={top_p:.4f} `restrict` keeps "
            f"{ {i: round(q, 4) for i, q in expected.items()} }; yours "
            f"{ {i: round(float(q), 4) for i, q in found.items()} }."
        )
