"""What a teacher checks beside the handed-out checks: other inputs, drawn from a seed.

`judged` first calls the handed-out check as it is, then with inputs from seeds that no
student knows, and then the function of `hidden.py` that has the exercise's name, if
there is one. The seeds are made of the course's seed and the student's name.
"""

import contextlib
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

from hidden import HIDDEN

from transformer_workshop.exercises.checking import (
    complaint,
    complaint_of,
    judge_of,
    named,
)

TIMES = 3  # how often the handed-out check is called with other inputs


def seed_of(*parts: str) -> int:
    """Return a number that depends on all parts, and on nothing else."""
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big")


def judged(
    exercise: str, answer: Any, seed: str, numbers: dict[str, Any]
) -> tuple[str | None, str | None]:
    """Return what the handed-out check complains of, and what the hidden ones do.

    ``exercise`` is its name, or in homework from before it had one its number.
    ``numbers`` are those that the homework gives in place of the chapter's.
    """
    name = named(exercise)
    public = complaint(name, answer, **numbers)
    if public is not None:
        return public, public
    for n in range(TIMES):
        drawn = seed_of(seed, exercise, str(n))
        if fault := complaint_of(judge_of(name), answer, drawn, **numbers):
            return None, fault
    if not (judge := HIDDEN.get(name)):
        return None, None
    return None, complaint_of(judge, answer, seed_of(seed, exercise, "hidden"))


def earned(exercise: str, answer: Any, *, points: int, **numbers: Any) -> float:
    """Return an answer's points where nbgrader runs it: beside the student's code.

    The seed is the course's, and the student's name that of the folder in which
    nbgrader has put the notebook. Raises AssertionError if nothing was earned.
    """
    course = json.loads(Path(os.environ["HOMEWORK_COURSE"]).read_text("utf-8"))
    mine = f"{course['seed']}/{Path.cwd().parent.name}"
    with contextlib.redirect_stderr(io.StringIO()):  # a warning would cost the points
        public, hidden = judged(exercise, answer, mine, numbers)
    assert public is None, public
    if hidden is not None:
        print(f"Right for the inputs of your check, but: {hidden}")
    return points if hidden is None else points / 2
