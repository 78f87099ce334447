"""What does the text expect of a training, and did this run show it?"""

import json
import math
import os
from pathlib import Path

MISSED = "Not in this run:"
seen: list[dict] = []  # what this process has compared, in order


def finding(
    what: str,
    value: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Print a sentence if a training came out differently from what the text says.

    Trainings differ between seeds and, since processors round differently, between
    machines, so a bound lies well outside everything in results/findings.json, which
    tools/findings.py measures. Where the environment has ANNOTATED_TRANSFORMER_STRICT,
    as in the tests, raise AssertionError instead.
    """
    value = float(value)
    seen.append(
        {"what": what, "value": value, "at_least": at_least, "at_most": at_most}
    )
    if at_least is not None and not value >= at_least:
        expected = f"at least {at_least:g}"
    elif at_most is not None and not value <= at_most:
        expected = f"at most {at_most:g}"
    else:
        return
    sentence = (
        f"{MISSED} {what} is {value:.3g}, and the text expects {expected}. A training "
        "can come out differently from ours; nothing is broken, so go on."
    )
    if "ANNOTATED_TRANSFORMER_STRICT" in os.environ:
        raise AssertionError(sentence)
    print(sentence)


def all_runs(chapter: str, what: str) -> list[float]:
    """Return what a finding was from each seed; NaN where it was never measured.

    The runs are those of results/findings.json, on one processor: what a simulated one
    makes of the same seeds is no other run.
    """
    path = Path(__file__).resolve().parents[2] / "results/findings.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    return stored.get(chapter, {}).get(what, {"values": [math.nan]})["values"]
