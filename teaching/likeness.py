"""Which answers of different students are nearly the same, for a person to look at.

Two people who solve a small problem after the same lesson write much the same. So each
function or class is compared by itself (what is outside of them, cell by cell), and
what the course shows is subtracted first: the words that a repair leaves of the code
that its exercise gives, and all runs of ``RUN`` words that are in any chapter. Nothing
is said of people who share fewer than ``ENOUGH`` of the others: attention in four lines
has about 60. Names that an author chose, comments, and what texts say make no
difference, nor do answers that are only numbers or names.
"""

import ast
import builtins
import difflib
import io
import itertools
import keyword
import math
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from IPython.core.inputtransformer2 import TransformerManager

import annotated_transformer as at

RUN = 10  # words that together are a passage of the course
REPAIRED = 0.5  # the share of words in common from which on given code was repaired
LEFT = 3  # words that a repair leaves together
ALIKE = 0.9  # the share of their own words that two functions must have in common
ENOUGH = 64  # words in functions that are alike
MOST = 2000  # words of a function that are compared
OUTSIDE = "outside of functions"
VOCABULARY = set(keyword.kwlist).union(
    *map(dir, (builtins, math, torch, torch.Tensor, torch.nn, torch.nn.functional, at))
)

Runs = set[tuple[str, ...]]
Functions = list[tuple[str, list[str]]]  # names, and words that the course doesn't show


class Group(NamedTuple):
    """People whose answers are alike: in which functions, at least how much of what."""

    people: list[str]
    functions: list[str]
    share: float
    words: int

    def __str__(self) -> str:
        return (
            f"{', '.join(self.people)}: {', '.join(self.functions)}; at least "
            f"{self.share:.0%} of {self.words} words that the course doesn't show"
        )


def words_of(source: str) -> list[str]:
    """Return the words of a program, with one for all names that its author chose."""
    words, before = [], ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            known = before == "." or token.string in VOCABULARY
            words.append(token.string if known else "name")
        elif token.type in (tokenize.OP, tokenize.NUMBER):
            words.append(token.string)
        elif token.type == tokenize.STRING:
            words.append("text")
        before = token.string
    return words


def is_worked_out(statement: ast.stmt) -> bool:
    """Return whether a statement, outside of functions, is more than an answer.

    Right answers are equal, and so are the calls of their check.
    """
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
    return any(ast.unparse(call.func) != "check" for call in calls)


def parts_of(cell: str) -> Iterator[tuple[str, list[str]]]:
    """Yield names and words of a cell's functions and classes, and of the rest.

    A cell that isn't Python has no parts.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # "\\d" is a student's affair
            outside = ast.parse(TransformerManager().transform_cell(cell))
        inside = [
            each
            for each in outside.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        outside.body = [each for each in outside.body if is_worked_out(each)]
        for each in inside:
            yield each.name, words_of(ast.unparse(each))
        yield OUTSIDE, words_of(ast.unparse(outside))
    except (
        SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError,
    ):  # fmt: skip
        return


def runs_in(cells: Iterable[str]) -> Runs:
    """Return all runs of words of the course's cells."""
    return {run for cell in cells for _, words in parts_of(cell) for run in runs(words)}


def runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[n:] for n in range(RUN)))


def own(cells: Iterable[str], given: Iterable[str], shown: Runs) -> Functions:
    """Return the functions of an answer, without what their exercise and chapters have.

    ``given`` are the cells of the exercise, and ``shown`` the runs of all cells. Of
    several functions of one name, the last counts.
    """
    faulty = [words for cell in given for _, words in parts_of(cell)]
    functions: dict[str, list[str]] = {}
    outside: Functions = []
    for cell in cells:
        for name, words in parts_of(cell):
            theirs = {
                at + n
                for at, run in enumerate(runs(words))
                if run in shown
                for n in range(RUN)
            }
            for other in faulty:
                pair = matcher(words, other)
                if pair.real_quick_ratio() >= REPAIRED <= pair.ratio():
                    for at, _, size in pair.get_matching_blocks():
                        theirs |= {*range(at, at + size)} if size >= LEFT else set()
            left = [word for at, word in enumerate(words) if at not in theirs][:MOST]
            if name == OUTSIDE:
                outside.append((name, left))
            else:
                functions[name] = left
    return [*functions.items(), *outside]


def matcher(one: list[str], other: list[str]) -> difflib.SequenceMatcher[str]:
    return difflib.SequenceMatcher(None, one, other, autojunk=False)


def in_common(one: Functions, other: Functions) -> list[tuple[float, int, str]]:
    """Return the functions of one that the other has, too: share, words, and name.

    The share is that of difflib: of 1, all words are the same, in the same order.
    """
    found = []
    for name, a in one:
        shares = []
        for _, b in other:
            pair = matcher(a, b)
            size = min(len(a), len(b))
            if size >= RUN and pair.real_quick_ratio() >= ALIKE <= pair.quick_ratio():
                shares.append((pair.ratio(), size, name))
        best = max(shares, default=(0, 0, name))
        if best[0] >= ALIKE:
            found.append(best)
    return found


def groups(answers: dict[str, Functions]) -> list[Group]:
    """Return the groups of people whose answers to one exercise are alike."""
    found: list[Group] = []
    for (who, one), (whom, other) in itertools.combinations(answers.items(), 2):
        common = in_common(one, other)
        if (words := sum(size for _, size, _ in common)) >= ENOUGH:
            people, functions = {who, whom}, {name for _, _, name in common}
            share = min(share for share, _, _ in common)
            for each in [each for each in found if people & {*each.people}]:
                found.remove(each)
                people |= {*each.people}
                functions |= {*each.functions}
                share, words = min(share, each.share), min(words, each.words)
            order = [name for name in answers if name in people]
            found.append(Group(order, sorted(functions), share, words))
    return found
