"""What do the checks of the exercises share, and how does a reader call one?

`check("masks", answer)` says in one line whether an answer is right, and if not, what
is wrong with it. It never stops a notebook. The check is the function `judge` of the
file of this name beside this one. It calls the answer with small inputs and asserts
what must hold; the text behind an `assert` is what the reader sees, so it names the
input and gives a hint. Inputs are drawn from a seed where that is possible, so another
seed is another check.

A teacher's grader keeps the answer in another process (`teaching/grade.py`). That is
why a check passes it nothing but values, and gets back nothing but values.
"""

from __future__ import annotations

import hashlib
import math
import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import annotated_transformer as at
from transformer_workshop.notebooks import tell

Check = Callable[..., None]
HERE = Path(__file__).resolve().parent
UNANSWERED = "not answered yet."


def names() -> list[str]:
    """Return the names of all exercises."""
    found = {path.stem for path in HERE.glob("*.py")} - {"__init__", "checking"}
    return sorted(found)


def named(exercise: str) -> str:
    """Return the name of an exercise, given that or the number that it once had."""
    return ONCE.get(exercise, exercise)


def module(name: str) -> ModuleType:
    """Return the file of an exercise, which is loaded when it is first needed."""
    return import_module(f"{__package__}.{name}")


def judge_of(exercise: str) -> Check:
    """Return the check of an exercise."""
    return module(named(exercise)).judge


class Answer:
    """A reader's function or class, as a check calls it.

    ``ask`` runs a probe beside it: a function of this package that calls it and notes
    what can only be seen there. A grader's answer has the same two methods.
    """

    def __init__(self, value: Any):
        self.value = value

    def __call__(self, *inputs: Any) -> Any:
        return self.ask(called, *inputs)

    def ask(self, probe: Callable[..., Any], *inputs: Any) -> Any:
        return probe(self.value, *inputs)


def called(answer: Any, *inputs: Any) -> Any:
    return answer(*inputs)


def kind(answer: Any) -> str:
    """Return what messages call the type of a value."""
    if isinstance(answer, Answer):
        return answer.ask(kind)
    return "class" if isinstance(answer, type) else type(answer).__name__


def wrapped(answer: Any) -> Any:
    """Return an answer in which each function or class is an Answer."""
    if type(answer) in (tuple, list):
        return type(answer)(map(wrapped, answer))
    wrap = callable(answer) and not isinstance(answer, Answer)
    return Answer(answer) if wrap else answer


def complaint(exercise: str, answer: Any, **numbers: Any) -> str | None:
    """Return what is wrong with an answer, in a sentence; None if it is right.

    ``numbers`` replace those that the exercise gives, if its check takes any.
    """
    if named(exercise) not in names():
        return f"there is no exercise of this name; there are {', '.join(names())}."
    return complaint_of(judge_of(exercise), answer, **numbers)


def complaint_of(
    judge: Check, answer: Any, seed: int = 0, **numbers: Any
) -> str | None:
    """Return what a check says of an answer; None if it is right.

    The inputs come from the seed; the notebook's random numbers stay as they were.
    """
    if answer is None or answer is ...:
        return UNANSWERED
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            judge(wrapped(answer), **numbers)
    except NotImplementedError:
        return UNANSWERED
    except AssertionError as error:
        return " ".join(str(error).split()) or stopped(error)
    except Exception as error:
        return stopped(error)
    return None


def stopped(error: BaseException, callers: tuple[str, ...] = ()) -> str:
    """Describe an exception in the answer in a sentence with the reader's line.

    ``callers`` are more files, beside those of this package, whose lines are not the
    reader's.
    """
    frames = traceback.extract_tb(error.__traceback__)
    files = callers + tuple(str(path) for path in HERE.glob("*.py"))
    theirs = [frame for frame in frames if frame.filename not in files]
    at = f" at its line {theirs[0].lineno}" if theirs else ""
    at += f" (`{theirs[0].line}`)" if theirs and theirs[0].line else ""
    kind, words = type(error).__name__, " ".join(str(error).split())
    return f"your answer stops{at} with {kind}{': ' if words else ''}{words}"


def check(exercise: str, answer: Any, **numbers: Any) -> None:
    """Say in one line whether an answer is right."""
    found = complaint(exercise, answer, **numbers)
    if found is None:
        print(f"Exercise {exercise}: right.")
    elif found == UNANSWERED:
        print(f"Exercise {exercise}: {UNANSWERED}")
    else:
        tell(f"Exercise {exercise}: not yet: {found}")


def sealed(question: str, answer: Any) -> str:
    """Return the fingerprint of an answer, so that this file need not hold it."""
    return hashlib.sha256(f"{question}: {answer}".encode()).hexdigest()[:12]


def same(found: Any, expected: Tensor) -> bool:
    """Return whether this is the expected tensor, up to rounding."""
    return (
        isinstance(found, Tensor)
        and found.shape == expected.shape
        and torch.allclose(found.double(), expected.double(), rtol=1e-4, atol=1e-5)
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def near(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=1e-4, abs_tol=1e-9)


def numbers_of(answer: Any, count: int, asked: str) -> list[float]:
    """Return an answer that is ``count`` numbers, or complain with what is asked."""
    right = isinstance(answer, tuple | list) and len(answer) == count
    assert right and all(map(is_number, answer)), asked
    return list(answer)


@dataclass(frozen=True)
class Part:
    """A part of an answer that needs no PyTorch, so that a page, too, can check it.

    ``right`` is a number or text, a list of them, a set if the order doesn't count, or
    what ``sealed`` makes of one and the name. Numbers may be ``within`` of it.

    A file that has ``parts()``, and ``ASKED``, what is said of an answer with another
    number of parts, has a field on the web site.
    """

    name: str
    right: Any = field(repr=False)
    hint: str
    within: float = 0.0

    def fits(self, found: Any) -> bool:
        if isinstance(self.right, set):
            listed = isinstance(found, list | tuple | set | range)
            return listed and set(found) == self.right
        if isinstance(self.right, list):
            same_size = isinstance(found, list | tuple) and len(found) == len(
                self.right
            )
            return same_size and all(map(self._close, found, self.right))
        return self._close(found, self.right)

    def _close(self, found: Any, right: Any) -> bool:
        if isinstance(right, str):
            return sealed(self.name, plain(found)) == right
        return is_number(found) and abs(found - right) <= self.within

    def message(self, found: Any) -> str:
        """Return what is said if what was found doesn't fit."""
        return f"{self.name} is not {plain(found)}. Hint: {self.hint}"


def lettered(right: Iterable, hints: Iterable[str], within: float = 0.0) -> list[Part]:
    """Return the parts of an answer that are called (a), (b), …"""
    asked = zip("abcdef", right, hints)
    return [Part(f"({letter})", *each, within) for letter, *each in asked]


def plain(value: Any) -> str:
    """Return a value as text; 64.0 is 64."""
    return f"{value:.12g}" if is_number(value) else str(value)


def judge_parts(answer: Any, asked: str, parts: list[Part]) -> None:
    """Judge an answer part by part."""
    assert isinstance(answer, tuple | list) and len(answer) == len(parts), asked
    for found, part in zip(answer, parts):
        assert part.fits(found), part.message(found)


def again(letter: str, reason: str) -> str:
    """Return what is said of a sentence, be it true or not."""
    return f"look again at {letter}: {reason}"


def true_sentences(
    name: str, found: Any, reasons: dict[str, str], true: set[str]
) -> None:
    """Judge an answer that lists the letters of all true sentences.

    A file that has these, as ``REASONS`` and ``TRUE``, has a field on the web site.
    """
    assert isinstance(found, str | list | tuple | set), (
        f"a list of letters is needed, not {kind(found)}."
    )
    if isinstance(found, str):
        found = re.sub(r"[^a-z]", "", found.lower())
    strange = [each for each in found if each not in reasons]
    assert not strange, f"{strange[0]!r} is none of {', '.join(reasons)}."
    for letter, reason in reasons.items():
        holds = sealed(name, letter) in true
        assert (letter in found) == holds, again(letter, reason)


def show(value: Any) -> str:
    """Return a value as messages show it, with tensors as short lists."""
    if isinstance(value, Tensor):
        listed = value.detach().tolist()
        if value.is_floating_point():
            listed = (value.detach().double() * 1e4).round().div(1e4).tolist()
        return str(listed)
    return str(value)


def agree(
    found: Any, expected: Tensor, given: str, hint: str = "", within: float = 1e-5
) -> None:
    """Assert that a tensor is the expected one, up to rounding.

    `given` names the input ("for lengths [2, 1]"). The message says in which respect
    the two differ: type, shape, or the first place where the values do. ``within`` is
    larger for formulas that a small number keeps from dividing by 0.
    """
    hint = f" Hint: {hint}" if hint else ""
    assert isinstance(found, Tensor), (
        f"{given} a tensor is needed, not {kind(found)}.{hint}"
    )

    def require(what: str, was: Any, should: Any, equal: bool) -> None:
        assert equal, f"{given} your {what} is {was}; it should be {should}.{hint}"

    shapes = tuple(found.shape), tuple(expected.shape)
    require("shape", *shapes, shapes[0] == shapes[1])
    kinds = [(t.is_floating_point(), t.dtype == torch.bool) for t in (found, expected)]
    require("type", found.dtype, expected.dtype, kinds[0] == kinds[1])
    far = ~torch.isclose(
        found.detach().double(),
        expected.detach().double(),
        rtol=10 * within,
        atol=within,
    )
    if far.any():
        place = far.nonzero()[0].tolist()
        was, should = show(found[tuple(place)]), show(expected[tuple(place)])
        require(f"value at {place}" if place else "value", was, should, False)


class Work(TorchDispatchMode):
    """Note how many numbers the largest result has, and which operations ran."""

    def __init__(self):
        super().__init__()
        self.largest, self.names = 0, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.names.add(str(func))
        if isinstance(result, Tensor):
            self.largest = max(self.largest, result.numel())
        return result


def tensor_work(answer: Any, *inputs: Any) -> tuple[int, list[str]]:
    with Work() as work:
        answer(*inputs)
    return work.largest, sorted(work.names)


def listed(row: Any) -> list:
    """Return a row of ids as a list, whether it is a list, a tuple or a tensor."""
    return row.flatten().tolist() if isinstance(row, Tensor) else list(row)


def small_model(N: int = 1, scale: float = 1.0, dropout: float = 0.0) -> nn.Module:
    """Return a small model in double precision; a scale makes it sharper."""
    model = at.make_model(12, 12, N=N, d_model=16, d_ff=32, h=2, dropout=dropout)
    for parameter in model.parameters():
        parameter.data *= scale
    return model.double()


def uneven_rows() -> list[list[list[int]]]:
    """Return three pairs of rows; one row of each pair is to be padded."""
    sizes = (2, 4), (9, 5), (5, 6)
    return [[torch.randint(3, 12, (n,)).tolist() for n in two] for two in sizes]


def left_in_mode(answer, training, model, *inputs):
    """Return an answer's result, and how it left a model that was in this mode."""
    model.train(training)
    result = answer(model, *inputs)
    return result, model.training


MODE = (
    "the model was in training mode and is in evaluation mode afterwards: the rest of "
    "its training would go on without dropout.",
    "the model was in evaluation mode and is in training mode afterwards: it must be "
    "left as it was.",
)


def whole(low: int, high: int) -> int:
    """Draw a number from low to high - 1."""
    return int(torch.randint(low, high, (1,)))


def drawn_words(count: int, least: int = 1, most: int = 9) -> list[list[str]]:
    """Draw lines of the words a to h."""
    sizes = [whole(least, most) for _ in range(count)]
    return [["abcdefgh"[i] for i in torch.randint(0, 8, (n,))] for n in sizes]


# What notebooks from before exercises had names call them. The numbers of the chapters
# may move; these stay as they are.
ONCE = {
    "1.1": "one_row",
    "1.2": "division",
    "1.3": "shapes",
    "1.4": "masks",
    "1.5": "wrong_result",
    "1.6": "before_or_after",
    "1.7": "wavelength",
    "1.8": "which_outputs",
    "1.9": "in_pieces",
    "2.1": "decoder_reads",
    "2.2": "perplexity",
    "2.3": "loss_wants",
    "2.4": "window_of_batches",
    "2.5": "longer_warm_up",
    "2.6": "half_cosine",
    "2.7": "finish_sentence",
    "2.8": "faulty_validation",
    "2.9": "how_sure",
    "3.1": "word_to_number",
    "3.2": "large_corpus",
    "3.3": "faulty_collate",
    "3.4": "bleu",
    "3.5": "nearest_sentence",
    "4.1": "merges",
    "4.2": "new_word",
    "4.3": "which_rows",
    "4.4": "would_have_said",
    "4.5": "faulty_search",
    "4.6": "faulty_average",
    "4.7": "ensemble",
    "5.1": "faulty_cells",
    "5.2": "subwords_to_words",
    "5.3": "undecided_head",
    "5.4": "sure_and_possible",
    "5.5": "silence",
    "5.6": "patch_head",
    "6.1": "one_multiplication",
    "6.2": "gate",
    "6.3": "tokens_that_fit",
    "6.4": "faulty_groups",
    "6.5": "leaking_cache",
    "6.6": "nucleus",
    "6.7": "without_residuals",
    "6.8": "cheat",
    "7.1": "several_groups",
    "7.2": "verifier",
    "7.3": "reward",
}
