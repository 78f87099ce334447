"""what each kind of attention contributes to a translation; prediction before
experiment
"""

import re

from transformer_workshop.exercises.checking import Part, judge_parts

ASKED = "give each of the letters a, b, and c once, as in 'cab'"
KINDS = (
    "in the maps of sections 5.3 and 5.4, which kind of attention looks from *mit* at "
    "the hat?"
)


def parts():
    return [
        Part("case 1", "3a2b06582e6b", KINDS),
        Part("case 2", "b10a2f680d99", KINDS),
        Part(
            "case 3",
            "4f30fe672d99",
            "without cross-attention, nothing of the source reaches the decoder.",
        ),
    ]


def judge(answer):
    letters = "".join(map(str, answer)) if isinstance(answer, list | tuple) else answer
    letters = re.sub(r"[\s,;]", "", str(letters)).lower()
    judge_parts(sorted(letters) == ["a", "b", "c"] and [*letters], ASKED, parts())
