"""What the checks of the exercises say is translated, all of it."""

import ast
import importlib.util
import re

import pytest
from chapters import NOTEBOOKS, ROOT
from wrong_answers import WRONG

HAN = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,}")  # two words in a row
DATA = re.compile(r"`[^`]*`|'[^']*'|\([^()]*\)")  # what an exercise is about


def load(folder):
    """Return the checks of a translation; its folder isn't on the path."""
    path = folder / "exercise_checks.py"
    spec = importlib.util.spec_from_file_location(folder.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHINESE = load(ROOT / "notebooks-zh")


def strings() -> dict[str, int]:
    """Return the text in the English checks with its line; fields are numbers."""
    tree = ast.parse((NOTEBOOKS / "exercise_checks.py").read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    docstrings = [node.value for node in nodes if isinstance(node, ast.Expr)]
    with_fields = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    skipped = {*docstrings, *(part for each in with_fields for part in each.values)}
    found = {}
    for node in nodes:
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts = (getattr(part, "value", "") for part in node.values)
            text = "".join(part if isinstance(part, str) else "7" for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.replace("{}", "7")
        if node not in skipped and re.search(r"[a-z]+\W+[a-z]+", text):
            found[text] = node.lineno
    return found


OTHER = {
    # of the machinery
    "exercise 7 has two checks", "your answer stops7 with 777", " at its line 7",
    "memory don't", "memory does not",
    # keys of a table
    "last word", "no triangle", "first position", "neighbors, halves", "from one",
    "[^a-z]",
    # what exercises are about
    "der Hund bellt", "der Hund schläft", "der Vogel schläft", "der Hund frisst",
    "der Vogel schläft nie", "a b c d", "e f g h",
    "the dog runs through the green park .", "the dog runs through a green park .",
    "the the the the the", "a man sees the dog in the park",
    "a woman is reading a long book on a bench", "a woman reads a book on a bench .",
    "a cat sleeps", "a dog runs in the park", "a dog runs", "the the the dog",
    "a bird sleeps", "a dog runs in the rain", "in the dark", "the dog",
    "other weights",
}  # fmt: skip


def english_left(text: str) -> str:
    """Return where a Chinese message is still English, or all of it."""
    left = ENGLISH.search(DATA.sub("", text))
    return left[0] if left else "" if HAN.search(text) else text


def test_every_message_has_a_translation():
    """Take a message alone, or after the input that it is about."""
    given = "for scores in the hundreds "
    missing = {
        text: line
        for text, line in strings().items()
        if english_left(CHINESE.translated(text))
        and english_left(CHINESE.translated(given + text))
    }
    assert set(missing) == OTHER


@pytest.mark.slow
@pytest.mark.parametrize("number", WRONG)
def test_wrong_answers_get_a_complaint_in_chinese(number):
    for answer in WRONG[number][:2]:
        found = CHINESE.complaint(number, answer)
        assert not english_left(re.sub(r"停.*?：.*", "停", found)), found


@pytest.mark.parametrize(
    "message, chinese",
    [
        ("for 4 heads of width 3 your value at [0, 1] is 3.0; it should be 2.0. "
         "Hint: divide by their number",
         "4 个头、每个宽 3 时，你给出的值（在 [0, 1] 处）是 3.0，应该是 2.0。"
         "提示：要除以模型的个数。"),
        ("for x your shape is (2,); it should be (3,).",
         "for x，你给出的形状是 (2,)，应该是 (3,)。"),
        ("this one is new, and off by 3.", "this one is new, and off by 3."),
    ],
)  # fmt: skip
def test_messages_are_put_together_from_pieces(message, chinese):
    """Show in English what isn't in the table."""
    assert CHINESE.translated(message) == chinese


def test_fields_are_those_of_the_english():
    for _, names, text, _ in CHINESE.PIECES:
        assert set(CHINESE.FIELD.findall(text)) == set(names), text


def stops(*sizes):
    return 1 / 0


@pytest.mark.parametrize(
    "number, answer, line",
    [
        ("1.3", ((2, 8, 4, 7), (2, 8, 4, 64), (2, 7, 512)), "练习 1.3：正确。"),
        ("1.1", None, "练习 1.1：还没有作答。"),
        ("1.3", 3, "练习 1.3：还不对：请给出三个形状，写成 ((…), (…), (…))。"),
        ("1.5", stops, "练习 1.5：还不对：你的代码停在了它的第 .* 行"
                       "（`return 1 / 0`）：ZeroDivisionError: division by zero"),
        ("9.9", 1, "练习 9.9：还不对：没有这个编号的练习；可用编号：1.1, .*。"),
    ],
)  # fmt: skip
def test_check_says_one_line(capsys, number, answer, line):
    CHINESE.check(number, answer)
    said = capsys.readouterr().out
    start, _, end = line.partition(".*")
    assert said.startswith(start) and said.endswith(f"{end}\n"), said
