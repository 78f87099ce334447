"""The riddles of chapter 1 as a script, for the page in which a model learns them.

A sentence is a row of bytes: the words that differ from sentence to sentence, the
answers, and the set of animals that it is about. `learner.js` unpacks it.
"""

import base64
import json
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent
sys.path.append(str(SITE.parent))
from transformer_workshop.lab.riddles import (  # noqa: E402
    ANIMALS,
    OF_ROLES,
    Riddle,
    clause,
    hunts,
)

HELD_OUT = 9  # sets of three animals, as in chapter 1
IT = "it"


def packed(exam: str) -> dict[str, object]:
    """Return all riddles of two questions, with numbers for words.

    exam: "read", which asks for two of the ``choices``, or "write", which asks for the
    words of the German clause. The dog, the cat, and the goat are group 0.
    """
    task = hunts(questions=2)
    rows = task.held_out + task.learned
    rows.sort(key=lambda row: animals(row) != {"dog", "cat", "goat"})
    sentences = [row.sentence.split() for row in rows]
    words, choices, start = list(task.words), list(task.choices), None
    if exam == "write":
        clauses = [clause(row).split()[1:-1] for row in rows]
        words += sorted({word for each in clauses for word in each})
        start, choices = words.index(clauses[0][0]), []
        answers = [[words.index(word) for word in each[1:]] for each in clauses]
    else:
        answers = [[choices.index(noun) for noun in row.answers] for row in rows]
    columns = [set(column) for column in zip(*sentences)]
    frame = [words.index(*each) if len(each) == 1 else -1 for each in columns]
    groups: dict[frozenset[str], int] = {}
    data = bytearray()
    for row, sentence, answer in zip(rows, sentences, answers):
        data += bytes(words.index(w) for w, f in zip(sentence, frame) if f < 0)
        data += bytes([*answer, groups.setdefault(animals(row), len(groups))])
    return {
        "exam": exam, "words": words, "frame": frame, "choices": choices,
        "answers": len(answers[0]), "asking": sentences[0].index(IT), "start": start,
        "held": HELD_OUT, "bytes": base64.b64encode(data).decode(),
    }  # fmt: skip


def animals(row: Riddle) -> frozenset[str]:
    return frozenset(row.sentence.split()).intersection(ANIMALS)


def script() -> str:
    """Return a script that stores both exams, and the words to choose from."""
    roles = [list(each) for each in OF_ROLES]
    held = {"read": packed("read"), "write": packed("write"), "roles": roles}
    text = json.dumps(held, ensure_ascii=False, separators=(",", ":"))
    return f"const RIDDLES = {text};\n"
