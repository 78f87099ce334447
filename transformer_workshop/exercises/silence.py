"""what each kind of attention contributes to a translation; prediction before
experiment
"""

import re

from transformer_workshop.exercises.checking import sealed


def judge(answer):
    letters = "".join(map(str, answer)) if isinstance(answer, list | tuple) else answer
    letters = re.sub(r"[\s,;]", "", str(letters)).lower()
    assert sorted(letters) == ["a", "b", "c"], (
        f"{answer!r} doesn't have each of the letters a, b and c once, as in 'cab'."
    )
    assert sealed("5.5, case 3", letters[2]) == "ce0fcce0e4a9", (
        "case 3: without cross-attention, nothing of the source reaches the decoder."
    )
    assert sealed("5.5", letters) == "ac31aeb7bb31", (
        "cases 1 and 2 are the other way around. Hint: in the maps of section 5.4, "
        "which kind of attention looks from *mit* at the hat?"
    )
