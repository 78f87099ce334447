"""precision and recall of links; sure and possible ones"""

import torch
from checking import exercise, is_number, kind, near

import annotated_transformer as at


@exercise("5.4")
def error_rate_of_links(answer):
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


def hidden(answer):
    for _ in range(10):
        draws = torch.rand(3, 4, 5) < 0.4
        found, sure, more = ({tuple(p) for p in d.nonzero().tolist()} for d in draws)
        right = sum((link in sure) + (link in sure | more) for link in found)
        expected = 1 - right / (len(found) + len(sure))
        value = answer(found, sure, more)
        assert near(value, expected), (
            f"for random links it is {expected:.4f}, not {value}."
        )


def rate_of(drawn, sure, possible, union=True):
    allowed = possible | sure if union else possible
    return 1 - (len(drawn & sure) + len(drawn & allowed)) / (len(drawn) + len(sure))


WRONG = [
    lambda drawn, sure, possible: rate_of(drawn, sure, sure),
    lambda drawn, sure, possible: rate_of(drawn, possible, possible),
    lambda drawn, sure, possible: rate_of(drawn, sure, possible, union=False),
    lambda drawn, sure, possible: 1 - rate_of(drawn, sure, possible),
    lambda drawn, sure, possible: torch.tensor(rate_of(drawn, sure, possible)),
]
