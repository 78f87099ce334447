"""Fields that check an answer in the page, and say what is wrong with it.

An exercise whose file has `parts` or `TRUE` (see transformer_workshop/exercises/
checking.py) needs no PyTorch in the browser: the page holds fingerprints.
"""

import base64
import html
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from messages import load

from transformer_workshop.exercises.checking import Part, again, module, sealed

WORDS = {  # label, button, right
    "en": ("Your answer", "Check", "Right."),
    "zh": ("你的答案", "检查", "正确。"),
}
WHERE = {
    "en": "To answer it, run `make lab` and open `{}`: it is in “{}”.",
    "zh": "要作答，请运行 `make lab IN=zh`，打开 `{}`：它在“{}”一节。",
}


def tokens(value: object) -> list[str]:
    """Return the numbers of an answer, or its letters; site.js does the same."""
    text = unicodedata.normalize("NFKD", str(value)).lower()
    return re.findall(r"-?\d+(?:\.\d+)?", text) or re.findall("[a-z]", text)


def of_part(part: Part, says: str) -> dict:
    """Return what the page holds of a part; decimals are only hidden from the eye."""
    held = {"name": part.name, "says": says}
    if part.within:
        right = part.right if isinstance(part.right, list) else [part.right]
        text = json.dumps([round(each, 4) for each in right])
        hidden = base64.b64encode(text.encode()).decode()
        return held | {
            "n": len(right),
            "hidden": hidden,
            "within": round(part.within, 4),
        }
    if isinstance(part.right, str):
        return held | {"n": 1, "seal": part.right}
    own, mixed = tokens(part.right), isinstance(part.right, set)
    seal = sealed(part.name, " ".join(sorted(own) if mixed else own))
    return held | {"n": len(own), "seal": seal, "mixed": mixed}


def held_of(name: str, translated: Callable[[str], str]) -> dict | None:
    """Return what the page needs in order to check an answer, if it can."""
    file = module(name)
    if hasattr(file, "TRUE"):
        says = {letter: translated(again(letter, reason))
                for letter, reason in file.REASONS.items()}  # fmt: skip
        return {"name": name, "says": says, "true": sorted(file.TRUE)}
    if not hasattr(file, "parts"):
        return None
    parts = [of_part(each, translated(each.message("{}"))) for each in file.parts()]
    return {"asked": translated(file.ASKED), "parts": parts}


def field(name: str, page: Path, section: str, language: str) -> str:
    """Return the HTML of a field that checks an answer, or says where to answer."""
    translated = str if language == "en" else load(page.parent).translated
    held = held_of(name, translated)
    if held is None:
        where = WHERE[language].format(page.name, section)
        return f'<small class="takes">\n\n{where}\n\n</small>'
    label, button, right = WORDS[language]
    data = html.escape(json.dumps(held | {"right": right}, ensure_ascii=False))
    return (
        f'<form class="answer" data-held="{data}">'
        f'<label>{label} <input name="{name}" '
        f'autocomplete="off" spellcheck="false"></label> <button>{button}</button> '
        f"<output></output></form>"
    )
