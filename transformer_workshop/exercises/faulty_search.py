"""which hypotheses are finished, which stay in the beam, how they are scored, and when
a search can stop
"""

import torch
from torch import Tensor

import annotated_transformer as at


class Table:
    """A `step` for exercise 4.5: next-token probabilities for each prefix."""

    def __init__(self, rows: dict[tuple[int, ...], list[float]]):
        self.rows = rows
        self.after_the_end = False

    def __call__(self, ids: list[int]) -> Tensor:
        self.after_the_end |= 1 in ids
        row = self.rows.get(tuple(ids[1:]), [0.01, 0.97, 0.01, 0.01])
        return torch.tensor(row).double().log()


def searched(answer, rows, width, max_len, alpha):
    """Return what a search finds, and whether it asked what follows the end."""
    table = Table(rows)
    return list(answer(table, width, max_len, alpha)), table.after_the_end


def judge(answer):
    def best(rows, max_len: int, alpha: float) -> list[int]:
        """Return the output with the best score by trying everything."""
        table = Table(rows)
        scored, live = [], [(0.0, [0])]
        for length in range(1, max_len + 1):
            live = [
                (total + logp, [*ids, token])
                for total, ids in live
                for token, logp in enumerate(table(ids).tolist())
            ]
            over = [each for each in live if each[1][-1] == 1 or length == max_len]
            scored += [(at.length_normalized(s, length, alpha), ids) for s, ids in over]
            live = [each for each in live if each[1][-1] != 1]
        return max(scored)[1][1:]

    found, _ = answer.ask(searched, {(): [0.0, 0.4, 0.6, 0.0]}, 2, 4, 0.0)
    assert found == [2, 1], (
        "the output `1` has probability 0.4 and `2 1` has 0.58; yours returned "
        f"`{found}`{', which has not ended' if found[-1:] != [1] else ''}."
    )
    _, after = answer.ask(searched, {(): [0.01, 0.6, 0.38, 0.01]}, 3, 4, 0.0)
    assert not after, (
        "the search calls `step` with ids that contain the end symbol: a hypothesis "
        "that has ended stays in the beam, and takes the place of another."
    )
    close = {(): [0.0, 0.5, 0.5, 0.0], (2,): [0.0, 0.58, 0.42, 0.0]}
    found, _ = answer.ask(searched, close, 4, 2, 4.0)
    assert found == best(close, 2, 4.0), (
        "with alpha 4, `1` scores log 0.5 / (6/6)^4 = -0.69, and `2 1`, two words, "
        f"log 0.29 / (7/6)^4 = -0.67; yours returned `{found}`. Hint: the start symbol "
        "does not count as a word."
    )
    flat = {
        (): [0.0, 0.45, 0.55, 0.0],
        (2,): [0, 0.02, 0.49, 0.49],
        (2, 2): [0, 0.02, 0.97, 0.01],
        (2, 3): [0, 0.02, 0.97, 0.01],
    }
    for alpha in (0.0, 4.0):
        found, _ = answer.ask(searched, flat, 64, 3, alpha)
        right = best(flat, 3, alpha)
        assert found == right, (
            f"at max_len 3 and alpha {alpha} the best is {right}, not {found}. Hint: "
            "an output that is cut there is scored like one that has ended, by its "
            "length."
        )
    narrow = {
        (): [0.0, 0.0, 0.6, 0.4],
        (2,): [0.5, 0.0, 0.5, 0.0],
        (3,): [0.0, 1.0, 0.0, 0.0],
    }
    found, _ = answer.ask(searched, narrow, 1, 4, 0.0)
    assert found[:1] == [2], (
        f"with width 1 the search is greedy, and the best first id is 2; yours "
        f"returned `{found}`: more than one hypothesis was kept."
    )
    weak = {
        (): [0.0, 0.25, 0.6, 0.15],
        (2,): [0.0, 0.4, 0.6, 0.0],
        (2, 2): [0.0, 1.0, 0.0, 0.0],
    }
    found, _ = answer.ask(searched, weak, 2, 4, 0.0)
    assert found == [2, 2, 1], (
        "with width 2, `1` (0.25) and `2 1` (0.24) end first, but `2 2 1` has 0.36; "
        f"yours returned `{found}`. Hint: that `width` outputs have ended doesn't mean "
        "that none of the others can become better."
    )
    for _ in range(12):
        bodies = [(), *((a,) for a in (0, 2, 3))]
        bodies += [(a, b) for a in (0, 2, 3) for b in (0, 2, 3)]
        rows = {body: (2 * torch.randn(4)).softmax(0).tolist() for body in bodies}
        for alpha in (0.0, 0.6, 1.5):
            found, _ = answer.ask(searched, rows, 64, 3, alpha)
            right = best(rows, 3, alpha)
            assert found == right, (
                f"with a beam that holds everything and alpha {alpha} the best of all "
                f"outputs is {right}, not {found}. Hint: the score is the sum divided "
                "by the penalty for the number of words, including the end symbol."
            )
