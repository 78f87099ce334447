"""precision and recall of links; sure and possible ones"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import is_number, kind, near


def judge(answer):
    hint = "a link that is only possible is no mistake, but nothing that must be found"
    sure, possible = {(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1), (2, 2)}
    for found, expected, given in (
        (sure, 0.0, "for exactly the sure links"),
        (possible, 0.0, "for all possible links"),
        ({(0, 0)}, 1 / 3, "for one of two sure links"),
        ({(0, 0), (1, 1)}, 0.25, "for one sure and one possible link"),
        ({(2, 0)}, 1.0, "for one wrong link"),
        ({(0, 0), (1, 2), (2, 0)}, 0.2, "for both sure links and a wrong one"),
    ):
        value = answer(set(found), set(sure), set(possible))
        assert is_number(value), f"a plain number is needed, not {kind(value)}."
        assert near(value, expected), (
            f"{given}: with the links {sorted(found)}, sure ones {sorted(sure)}, and "
            f"possible ones {sorted(possible)} it is {expected:.4f}, not {value:.4f}. "
            f"Hint: {hint}."
        )
    alike = answer({(0, 0)}, set(sure), set(sure))
    apart = answer({(0, 0)}, set(sure), set(possible) - set(sure))
    assert near(alike, apart), (
        "a sure link is possible, too, whether or not the set of possible links "
        "repeats it."
    )
    draws = torch.rand(2, 4, 5) < 0.4
    expected = at.alignment_error_rate(at.count_links(*draws)).item()
    found, gold = ({tuple(place) for place in d.nonzero().tolist()} for d in draws)
    value = answer(found, set(gold), set(gold))
    assert near(value, expected), (
        "if every possible link is sure, it is the error rate of this section, "
        f"{expected:.4f}, not {value:.4f}."
    )
