"""masks as broadcast comparisons; the shape (B, 1, S)"""

import sys
from typing import Any

import torch

from transformer_workshop.exercises.checking import agree


def steps_of_python(answer: Any, *inputs: Any) -> int:
    """Return how many steps Python's interpreter takes in the answer's own code."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if frame.f_globals.get("__name__", "").startswith("torch"):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answer(*inputs)
    finally:
        sys.settrace(before)
    return count


def judge(answer: Any) -> None:
    few = [0, 2, 5]
    for lengths, size in (([3, 1], 3), (few, 5), ([1], 4)):
        rows = torch.zeros(len(lengths), size, dtype=torch.bool)
        for row, length in zip(rows, lengths):
            row[:length] = True
        agree(
            answer(torch.tensor(lengths), size),
            rows.unsqueeze(1),
            f"for lengths {lengths} and size {size}",
            "True where attention is allowed, and one row for all queries",
        )
    many = torch.tensor(few * 20)
    counts = [answer.ask(steps_of_python, x, 5) for x in (torch.tensor(few), many)]
    assert counts[0] == counts[1], (
        "the masks are right, but Python takes more steps for sixty lengths than for "
        "three: somewhere there is a loop. Hint: compare a row of positions with a "
        "column of lengths."
    )
