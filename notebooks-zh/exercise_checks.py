"""`from exercise_checks import check`, in the language of this folder.

What a check of `transformer_workshop.exercises` says is put together again from the
pieces in messages.toml; a message that isn't there is shown in English. Nothing here
depends on the language.
"""

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

from transformer_workshop import exercises

HERE = Path(__file__).resolve().parent
FIELD = re.compile(r"\{(\d+)\}")
SAID = tomllib.loads((HERE / "messages.toml").read_text(encoding="utf-8"))


def pieces() -> list[tuple[re.Pattern, list[str], str, int]]:
    """Return all pieces: a pattern, the names of its fields, its translation, its size.

    The size is the number of characters that it has beside its fields. A period at the
    end doesn't count. Pieces that begin with a field come first: they begin with the
    input that a check names, which is another piece.
    """
    found = []
    for piece, text in SAID["exercises"].items():
        own = FIELD.split(piece.removesuffix("."))[::2]
        pattern = re.compile("(.*)".join(map(re.escape, own)))
        found.append((pattern, FIELD.findall(piece), text, len("".join(own))))
    return sorted(found, key=lambda piece: not piece[0].pattern.startswith("(.*)"))


PIECES = pieces()


@functools.cache
def understood(message: str) -> tuple[int, str]:
    """Return how many characters of a message are known, and its translation.

    Of several ways to read a message, the one counts that knows most of it.
    """
    best = 0, message
    for pattern, names, text, size in PIECES:
        if found := pattern.fullmatch(message.removesuffix(".")):
            sizes, fields = zip(*map(understood, found.groups())) if names else ((), ())
            if (known := size + sum(sizes)) > best[0]:
                best = known, filled(text, dict(zip(names, fields)))
    return best


def filled(text: str, fields: dict[str, str]) -> str:
    """Return a translation with its fields."""
    return FIELD.sub(lambda name: fields[name[1]], text)


def translated(message: str) -> str:
    """Return a message in this language; what isn't in the table stays English."""
    head, hint, tail = message.partition(" Hint: ")
    parts = (head, hint.strip(), tail)
    return "".join(understood(part)[1] for part in parts if part)


def complaint(exercise: str, answer: Any) -> str | None:
    """Return what is wrong with an answer, in a sentence; None if it is right."""
    found = exercises.complaint(exercise, answer)
    return found and translated(found)


def check(exercise: str, answer: Any) -> None:
    """Say in one line whether an answer is right."""
    found = exercises.complaint(exercise, answer)
    verdict = "right." if found is None else f"not yet: {found}"
    if found == exercises.UNANSWERED:
        verdict = found
    print(translated(f"Exercise {exercise}: {verdict}"))
