"""Fields that check an answer in the page, and say what is wrong with it.

An answer of numbers or letters needs no PyTorch in the browser: the page holds digests,
and what the exercise's own check says of answers that are wrong in one place.
"""

import ast
import base64
import contextlib
import functools
import hashlib
import html
import importlib.util
import io
import itertools
import json
import re
import unicodedata
from pathlib import Path
from types import ModuleType

from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
WORDS = {  # label, button, right, not right, a part is not right
    "en": (
        "Your answer",
        "Check",
        "Right.",
        "Not yet.",
        "Not yet: number {} is wrong.",
    ),
    "zh": ("你的答案", "检查", "正确。", "还不对。", "还不对：第 {} 个有误。"),
}
WHERE = {
    "en": "To answer it, run `make lab` and open `{}`: it is in “{}”.",
    "zh": "要作答，请运行 `make lab IN=zh`，打开 `{}`：它在“{}”一节。",
}


@functools.cache
def checks(folder: Path) -> ModuleType:
    """Return the checks of a language's exercises."""
    path = folder / "exercise_checks.py"
    spec = importlib.util.spec_from_file_location(f"checks_{folder.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer_in(cells: list[NotebookNode]) -> tuple | list | str | None:
    """Return the answer of a solution, if it is numbers or letters.

    It is what the solution's own cell gives to its check, where that needs no PyTorch,
    or what the cell has printed.
    """
    [cell] = [each for each in cells if "\ncheck(" in f"\n{each.source}"]
    check = cell.source[cell.source.rindex("check(") :]
    given: list = []
    for code in (cell.source, check):
        with contextlib.suppress(NameError), contextlib.redirect_stdout(io.StringIO()):
            exec(code, {"check": lambda number, answer: given.append(answer)})
        if given:
            break
    if not given and "print(answer)" in cell.source:
        text = "".join(each.get("text", "") for each in cell.outputs)
        given = [ast.literal_eval(text.partition("\n")[0])]
    letters = re.sub(r"'[a-zġ]+'", "0", str(given).lower())
    return given[0] if given and not re.search("[a-z<]", letters) else None


def plain(value: object) -> list[str]:
    """Return the numbers of an answer, or its letters; site.js does the same."""
    text = unicodedata.normalize("NFKD", str(value)).lower()
    return re.findall(r"-?\d+(?:\.\d+)?", text) or re.findall("[a-z]", text)


def digest(tokens: list[str]) -> str:
    return hashlib.sha256(" ".join(tokens).encode()).hexdigest()[:16]


def with_part(answer: tuple | list, place: int, part: object) -> tuple | list:
    """Return an answer with another part in one place."""
    return type(answer)([*answer[:place], part, *answer[place + 1 :]])


def said_of_all(said: list[tuple[str, object]], others: set[str]) -> str:
    """Return the sentences that are said of each wrong part, with {} in its place."""
    texts = []
    for message, part in said:
        text = message.replace(str(part), "{}")
        pieces = map(str.strip, re.split(r"(?<=[.;:])\s+|(?<=[。；])", text))
        # What names a number beside the part's own may hold of this one alone.
        texts.append([each for each in pieces if not (
            others & set(re.findall(r"\d+", each)) if "{}" in each
            else re.search(r"\d+ ", each) and "x" in str(part))])  # fmt: skip
    kept = [each for each in texts[0] if all(each in text for text in texts)]
    text = re.sub("(?<=[。；：]) ", "", " ".join(kept).strip())
    text = re.sub("[;:]$", ".", re.sub("[；：]$", "。", text))
    return text if len(text) > len("(c).") else ""


def other_than(part: tuple | list) -> tuple[list, list]:
    """Return wrong lists as long as one, and of other lengths."""
    kind, odd = type(part), "x" if isinstance(part[0], str) else 987
    wrong = [kind([odd] * len(part)), kind([*part[:-1], odd])]
    if any(isinstance(each, float) for each in part):  # with the same sum
        wrong = [kind([part[0] + d, *part[1:-1], part[-1] - d]) for d in (1, 2)]
    return wrong, [kind(part[:-1]), kind([*part, odd])]


def around(number: str, answer: tuple | list, place: int, judge: ModuleType) -> dict:
    """Return the decimals of a part, hidden from the eye, and how far is near."""
    part = answer[place]
    for near in (0.029, 0.0055, 0.0019):
        moved = [type(part)([part[0] + d, *part[1:]]) for d in (near, -near)]
        if not any(judge.complaint(number, with_part(answer, place, each))
                   for each in moved):  # fmt: skip
            break
    hidden = base64.b64encode(json.dumps(part).encode()).decode()
    return {"hidden": hidden, "near": near}


def hints(number: str, answer: tuple | list | str, judge: ModuleType) -> dict:
    """Return what the page needs in order to say what is wrong.

    For numbers: of each part the digest, how many it has, and what is said of a wrong
    one, and of one of another size. For letters: what is said of each wrong choice.
    """
    if all(isinstance(each, str) for each in answer):
        right = "".join(answer)
        choices = map("".join, itertools.permutations(right))
        # A set of letters can be given in any order.
        if not isinstance(answer, str) or not judge.complaint(number, right[::-1]):
            sizes = range(len("abcdef") + 1)
            choices = ("".join(each) for size in sizes
                       for each in itertools.combinations("abcdef", size))  # fmt: skip
        says = {digest([*each]): judge.complaint(number, each) for each in choices
                if each and each != right}  # fmt: skip
        return {"says": sorted({*says.values()}),
                "letters": {key: sorted({*says.values()}).index(text)
                            for key, text in says.items()}}  # fmt: skip
    parts = []
    for place, part in enumerate(answer):
        own, few = plain(part), isinstance(part, int | float)
        others = {x for i, each in enumerate(answer) if i != place for x in plain(each)}
        wrong, more = ([987, part + 1], []) if few else other_than(part)
        said = [
            [(text, each) for each in group
             if (text := judge.complaint(number, with_part(answer, place, each)))]
            for group in (wrong, more)
        ]  # fmt: skip
        says, size = (said_of_all(each, others) if each else "" for each in said)
        parts.append({"n": len(own), "digest": digest(own), "says": says, "size": size})
        if not few and any(isinstance(each, float) for each in part):
            parts[-1] |= around(number, answer, place, judge)
    return {
        "parts": parts,
        "shape": judge.complaint(number, (987,) * 99).replace("99", "{}"),
    }


def field(
    number: str, cells: list[NotebookNode], page: Path, section: str, language: str
) -> str:
    """Return the HTML of a field that checks an answer, or says where to answer."""
    answer = answer_in(cells)
    if answer is None:
        where = WHERE[language].format(page.name, section)
        return f'<small class="takes">\n\n{where}\n\n</small>'
    label, button, right, wrong, part = WORDS[language]
    held = hints(number, answer, checks(page.parent))
    held |= {"digest": digest(plain(answer))}
    held |= {"right": right, "wrong": wrong, "part": part}
    data = html.escape(json.dumps(held, ensure_ascii=False), quote=True)
    return (
        f'<form class="answer" data-held="{data}">'
        f'<label>{label} <input name="{number}" '
        f'autocomplete="off" spellcheck="false"></label> <button>{button}</button> '
        f"<output></output></form>"
    )
