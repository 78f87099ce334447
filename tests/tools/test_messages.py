"""What the checks of the exercises say in Chinese; what isn't translated is English."""

import re

import messages
import pytest
from chapters import ROOT
from wrong_answers import wrong_answers

from transformer_workshop.exercises import complaint

CHINESE = messages.load(ROOT / "notebooks-zh")
WRONG = wrong_answers()


def test_what_has_no_translation_is_listed(monkeypatch):
    new = "a new message about {} words"
    known = messages.strings()
    monkeypatch.setattr(messages, "strings", lambda: [*known, new, "a dog runs"])
    assert new in messages.missing(ROOT / "notebooks-zh")
    assert "a dog runs" not in messages.missing(ROOT / "notebooks-zh")
    assert messages.missing(ROOT) == []  # English is no translation


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_get_a_complaint_in_chinese(name):
    """Unless the list says that it is missing."""
    missing = messages.missing(ROOT / "notebooks-zh")
    holes = [re.escape(text).replace(r"\{\}", ".*") for text in missing]
    for answer in WRONG[name][:2]:
        said = complaint(name, answer)
        if not any(re.search(hole, said) for hole in holes):
            found = CHINESE.translated(said)
            assert not messages.english_left(re.sub(r"停.*?：.*", "停", found)), found


@pytest.mark.parametrize(
    "message, chinese",
    [
        ("for 4 heads of width 3 your value at [0, 1] is 3.0; it should be 2.0. "
         "Hint: divide by their number",
         "4 个头、每个 3 维时，你给出的值（在 [0, 1] 处）是 3.0，应该是 2.0。"
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
        ("shapes", ((2, 8, 4, 7), (2, 8, 4, 64), (2, 7, 512)), "练习 shapes：正确。"),
        ("one_row", None, "练习 one_row：还没有作答。"),
        ("1.3", 3, "练习 1.3：还不对：请给出三个形状，写成 ((…), (…), (…))。"),
        ("wrong_result", stops, "练习 wrong_result：还不对：你的代码停在了它的第 .* 行"
                       "（`return 1 / 0`）：ZeroDivisionError: division by zero"),
        ("9.9", 1, "练习 9.9：还不对：没有这个名称的练习；可用名称：.*。"),
    ],
)  # fmt: skip
def test_check_says_one_line(capsys, number, answer, line):
    CHINESE.check(number, answer)
    said = capsys.readouterr().out
    start, _, end = line.partition(".*")
    assert said.startswith(start) and said.endswith(f"{end}\n"), said
