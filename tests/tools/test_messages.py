"""What the checks of the exercises say in Chinese; what isn't translated is English."""

import re

import messages
import pytest
from chapters import ROOT
from exercise_checks import complaint
from exercises import wrong_answers

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
@pytest.mark.parametrize("number", WRONG)
def test_wrong_answers_get_a_complaint_in_chinese(number):
    """Unless the list says that it is missing."""
    missing = messages.missing(ROOT / "notebooks-zh")
    holes = [re.escape(text).replace(r"\{\}", ".*") for text in missing]
    for answer in WRONG[number][:2]:
        if not any(re.search(hole, complaint(number, answer)) for hole in holes):
            found = CHINESE.complaint(number, answer)
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
