"""What the checks of the exercises say, and what of that a translation lacks."""

import ast
import importlib.util
import itertools
import re
from pathlib import Path
from types import ModuleType

from exercises import FOLDER

HAN = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,}")  # two words in a row
DATA = re.compile(r"`[^`]*`|'[^']*'|\([^()]*\)")  # what an exercise is about
GIVEN = "for scores in the hundreds "  # an input, which a message may come after


def missing(folder: Path) -> list[str]:
    """Return what readers of a language written without Latin letters see in English.

    Strings of the checks that are no messages are in its messages.toml, as `same`.
    """
    if not (folder / "exercise_checks.py").exists():
        return []
    language = load(folder)
    return [
        text
        for text in strings()
        if text not in language.SAID.get("same", ())
        and english_left(language.translated(filled := text.replace("{}", "7")))
        and english_left(language.translated(GIVEN + filled))
    ]


def load(folder: Path) -> ModuleType:
    """Return the checks of a translation; its folder isn't on the path."""
    path = folder / "exercise_checks.py"
    spec = importlib.util.spec_from_file_location(folder.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def strings() -> list[str]:
    """Return the text in the English checks; {} is what they fill in."""
    files = sorted(FOLDER.glob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    found, skipped = {}, set()  # docstrings, and parts of text with fields
    for node in itertools.chain(*map(ast.walk, trees)):  # what holds a node comes first
        text = ""
        if isinstance(node, ast.Expr):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}"
                           for part in node.values)  # fmt: skip
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value if node not in skipped else ""
        if re.search(r"[a-z]+\W+[a-z]+", text.replace("{}", "7")):
            found[text] = None
    return list(found)


def english_left(text: str) -> str:
    """Return where a translated message is still English, or all of it."""
    left = ENGLISH.search(DATA.sub("", text))
    return left[0] if left else "" if HAN.search(text) else text
