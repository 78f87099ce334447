# Generated from notebooks/exercises/: edit the files there, then run `make notebooks`.
"""The checks of the exercises: `from exercise_checks import check`.

`check("1.4", answer)` says in one line whether an answer is right, and if not, what
is wrong with it. It never stops a notebook. Each check is a function below that
calls the answer with small inputs and asserts what must hold; the text behind an
`assert` is what the reader sees, so it names the input and gives a hint. Inputs are
drawn from a seed where that is possible, so another seed is another check.

A teacher's grader keeps the answer in another process (`teaching/grade.py`). That is
why a check passes it nothing but values, and gets back nothing but values.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import re
import sys
import traceback
import unicodedata
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import annotated_transformer as at
from transformer_workshop.notebooks import tell

Check = Callable[..., None]
CHECKS: dict[str, Check] = {}
UNANSWERED = "not answered yet."


def exercise(number: str) -> Callable[[Check], Check]:
    """Register the decorated function as the check of an exercise."""

    def register(judge: Check) -> Check:
        if number in CHECKS:
            raise ValueError(f"exercise {number} has two checks")
        CHECKS[number] = judge
        return judge

    return register


class Answer:
    """A reader's function or class, as a check calls it.

    ``ask`` runs a probe beside it: a function of this file that calls it and notes
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


def complaint(number: str, answer: Any, **numbers: Any) -> str | None:
    """Return what is wrong with an answer, in a sentence; None if it is right.

    ``numbers`` replace those that the exercise gives, if its check takes any.
    """
    if number not in CHECKS:
        known = ", ".join(CHECKS)
        return f"there is no exercise of this number; there are {known}."
    return complaint_of(CHECKS[number], answer, **numbers)


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


def stopped(error: BaseException, callers: tuple[str, ...] = (__file__,)) -> str:
    """Describe an exception in the answer in a sentence with the reader's line.

    ``callers`` are the files whose lines are not the reader's.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename not in callers]
    at = f" at its line {theirs[0].lineno}" if theirs else ""
    at += f" (`{theirs[0].line}`)" if theirs and theirs[0].line else ""
    kind, words = type(error).__name__, " ".join(str(error).split())
    return f"your answer stops{at} with {kind}{': ' if words else ''}{words}"


def check(number: str, answer: Any, **numbers: Any) -> None:
    """Say in one line whether an answer is right."""
    found = complaint(number, answer, **numbers)
    if found is None:
        print(f"Exercise {number}: right.")
    elif found == UNANSWERED:
        print(f"Exercise {number}: {UNANSWERED}")
    else:
        tell(f"Exercise {number}: not yet: {found}")


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


def true_sentences(
    number: str, found: Any, reasons: dict[str, str], sealed_letters: set[str]
) -> None:
    """Judge an answer that lists the letters of all true sentences."""
    assert isinstance(found, str | list | tuple | set), (
        f"a list of letters is needed, not {kind(found)}."
    )
    if isinstance(found, str):
        found = re.sub(r"[^a-z]", "", found.lower())
    strange = [each for each in found if each not in reasons]
    assert not strange, f"{strange[0]!r} is none of {', '.join(reasons)}."
    for letter, reason in reasons.items():
        holds = sealed(number, letter) in sealed_letters
        assert (letter in found) == holds, (
            f"{letter} is {'' if holds else 'not '}true: {reason}"
        )


def show(value: Any) -> str:
    """Return a value as messages show it, with tensors as short lists."""
    if isinstance(value, Tensor):
        listed = value.detach().tolist()
        if value.is_floating_point():
            listed = (value.detach().double() * 1e4).round().div(1e4).tolist()
        return str(listed)
    return str(value)


def agree(found: Any, expected: Tensor, given: str, hint: str = "") -> None:
    """Assert that a tensor is the expected one, up to rounding.

    `given` names the input ("for lengths [2, 1]"). The message says in which respect
    the two differ: type, shape, or the first place where the values do.
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
        found.detach().double(), expected.detach().double(), rtol=1e-4, atol=1e-5
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


@exercise("1.1")
def one_row(answer: Any) -> None:
    asked = "give three lists of numbers: ([…, …, …], […, …], […, …, …])"
    assert isinstance(answer, tuple | list) and len(answer) == 3, asked
    parts = [numbers_of(part, n, asked) for part, n in zip(answer, (3, 2, 3))]
    query = torch.tensor([[2.0, 0, 1, 1]])
    keys = torch.tensor([[0.0, 3, 1, -1], [1, 5, -1, 1], [1, 0, 2, 0]])
    values = torch.tensor([[10.0, 0], [0, 10], [5, 5]])
    seen = torch.tensor([[True, True, False]])
    output, weights = at.attention(query, keys, values)
    _, masked = at.attention(query, keys, values, seen)
    scores = query @ keys.mT
    wrong = (
        {
            "are the weights without the division by √d_k": scores.softmax(-1),
            "are the scores; the softmax is missing": scores / 2,
        },
        {"is the plain mean of the values": values.mean(0)},
        {
            "don't sum to one. Hint: leave the key out before the softmax": weights
            * seen,
            "come from a score of 0, which is not a weight of 0": (
                scores / 2 * seen
            ).softmax(-1),
        },
    )
    names = "the weights", "the output", "the weights without the third key"

    def far(part: list[float], expected: Tensor) -> bool:
        off = (torch.tensor(part) - expected).abs().max().item()
        return off > (0.03 if len(part) == 2 else 0.006)  # of weights with two decimals

    for part, name, right, faults in zip(
        parts, names, (weights, output, masked), wrong
    ):
        for fault, expected in faults.items():
            assert far(part, expected), f"{part} {fault}."
        assert not far(part, right), (
            f"{name}: not {part}. Hint: score each key, divide by √d_k, take the "
            "exponentials, and divide them by their sum."
        )


@exercise("1.2")
def spread_of_scores(answer: Any) -> None:
    found = numbers_of(answer, 4, "give four numbers, for (a), (b), (c), and (d)")
    asked = (
        ("(a)", "203d365f17ab", "the variances of independent products add up"),
        ("(b)", "15b351303e35", "both factors are half as large"),
        ("(c)", "435dd481aa00", "the product still has mean 0, so its variance is the "
         "mean of q² times the mean of k²"),
        ("(d)", "4b87c3284828", "divided by their standard deviation, numbers have the "
         "variance 1"),
    )  # fmt: skip
    for number, (part, right, hint) in zip(found, asked):
        assert sealed(f"1.2 {part}", f"{number:g}") == right, (
            f"{part} is not {number:g}. Hint: {hint}."
        )


@exercise("1.3")
def shapes(
    answer: Any, B: int = 2, S: int = 7, L: int = 4, d_model: int = 512, h: int = 8
) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "give three shapes, as ((…), (…), (…))"
    )
    layer = at.MultiHeadedAttention(h, d_model, 0.0)
    words, memory = torch.randn(B, L, d_model), torch.randn(B, S, d_model)
    layer(words, memory, memory)
    queries = layer.split(layer.linears[0](words))
    asked = (
        ("the weights", layer.attn, "batch, heads, queries, keys"),
        ("the heads' queries", queries, "batch, heads, queries, width of a head"),
        ("memory", memory, "batch, source length, width"),
    )
    for found, (name, tensor, axes) in zip(answer, asked):
        assert isinstance(found, tuple | list), f"{name}: a shape is a tuple of numbers"
        assert tuple(found) == tuple(tensor.shape), (
            f"{name} don't have the shape {tuple(found)}; the axes are {axes}"
        ).replace("memory don't", "memory does not")


def steps_of_python(answer: Any, *inputs: Any) -> int:
    """Return how many steps Python's interpreter takes in the answer's own code."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if frame.f_globals.get("__name__", "").startswith("torch"):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answer(*inputs)
    finally:
        sys.settrace(before)
    return count


@exercise("1.4")
def masks_from_lengths(answer: Any) -> None:
    few = [0, 2, 5]
    for lengths, size in (([3, 1], 3), (few, 5), ([1], 4)):
        rows = torch.zeros(len(lengths), size, dtype=torch.bool)
        for row, length in zip(rows, lengths):
            row[:length] = True
        agree(
            answer(torch.tensor(lengths), size),
            rows.unsqueeze(1),
            f"for lengths {lengths} and size {size}",
            "True where attention is allowed, and one row for all queries",
        )
    many = torch.tensor(few * 20)
    counts = [answer.ask(steps_of_python, x, 5) for x in (torch.tensor(few), many)]
    assert counts[0] == counts[1], (
        "the masks are right, but Python takes more steps for sixty lengths than for "
        "three: somewhere there is a loop. Hint: compare a row of positions with a "
        "column of lengths."
    )


@exercise("1.5")
def mended_attention(answer: Any) -> None:
    def heads_of(x: Tensor, w: Tensor, h: int, mask: Tensor) -> Tensor:
        """Return the outputs of h heads of self-attention, (B, h, L, d_k)."""
        parts = torch.arange(x.size(-1)).split(x.size(-1) // h)
        heads = [at.attention(*(x @ m[:, p] for m in w), mask)[0] for p in parts]
        return torch.stack(heads, dim=1)

    x, w = torch.randn(2, 5, 12), torch.randn(3, 12, 12)
    causal = at.subsequent_mask(5)
    found, heads = answer(x, *w, 4, causal), heads_of(x, w, 4, causal)
    unmoved = heads.reshape(2, 5, 12)  # without bringing the heads of a word together
    assert not same(found, unmoved), (
        "the heads are split right, but joined wrong: with (B, h, L, d_k), `reshape` "
        "fills a row with several words of one head. Hint: which two axes have to "
        "change places first, so that the h heads of a word are neighbors?"
    )
    for factor in (4**-0.5, 3**0.5):  # divided by sqrt(d_model), or by nothing
        scaled = heads_of(x, torch.stack([w[0] * factor, *w[1:]]), 4, causal)
        assert not same(found, scaled.transpose(1, 2).flatten(2)), (
            "the heads are split and joined right, but the scale of their scores is "
            "wrong. Hint: a score is the product of two vectors, divided by the square "
            "root of their width; how wide are they in one head?"
        )
    other = x.clone()
    other[:, -1] += 1
    moved = (found - answer(other, *w, 4, causal))[:, :-1].abs().amax()
    assert moved < 1e-5, (
        f"when the last of 5 words is changed, an earlier output moves by {moved:.2f}. "
        "Hint: with B = 1 and x = torch.arange(L * d_model).view(1, L, d_model), which "
        "numbers of which word are in each head?"
    )
    random = (torch.rand(1, 5, 5) < 0.5) | torch.eye(5).bool()
    for h, mask, name in (
        (1, causal, "a causal mask"), (2, causal, "a causal mask"),
        (4, causal, "a causal mask"), (3, random, "a random mask"),
    ):  # fmt: skip
        joined = heads_of(x, w, h, mask).transpose(1, 2).flatten(2)
        given = f"for {h} heads of width {12 // h} and {name}"
        hint = "each head takes neighboring columns of every word"
        agree(answer(x, *w, h, mask), joined, given, hint)


@exercise("1.6")
def where_the_norm_goes(answer: Any) -> None:
    norm = at.LayerNorm(6)
    for weight in norm.parameters():
        nn.init.uniform_(weight, 0.5, 1.5)
    sublayers = [nn.Linear(6, 6) for _ in range(3)]
    x = 3 * torch.randn(2, 5, 6)

    def stream(norm_first: bool, fault: str = "") -> Tensor:
        y = x
        for sublayer in sublayers:
            if fault == "stream":
                y = norm(y)
                y = y + sublayer(y)
            elif fault == "sublayer":
                y = y + norm(sublayer(y))
            else:
                connection = at.SublayerConnection(6, 0.0, norm_first=norm_first)
                connection.norm = norm
                y = connection(y, sublayer)
        return norm(y) if norm_first and fault != "last" else y

    hints = {
        "stream": "x itself is replaced by its norm, so nothing passes by unchanged.",
        "sublayer": "what is added is the norm of the sub-layer's output. Hint: the "
        "norm is of what the sub-layer reads.",
        "last": "the last norm is missing: no sub-layer follows that would take it.",
    }
    for norm_first in (True, False):
        given = f"for three sub-layers and norm_first={norm_first}"
        found = answer(x.clone(), sublayers, norm, norm_first)
        expected = stream(norm_first)
        for fault, hint in hints.items() if norm_first else ():
            assert not same(found, stream(True, fault)), f"{given} {hint}"
        assert norm_first or not same(found, norm(expected)), (
            f"{given} there is one norm too many: the last sum has been normalized."
        )
        hint = "x + f(norm(x)) with norm_first, norm(x + f(x)) without."
        agree(found, expected, given, hint)


@exercise("1.7")
def wavelengths(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "give two distances, as (for 10000, for 100)"
    )
    for base, found in zip((10000, 100), answer):
        omega = base ** -(torch.arange(0, 64, 2) / 64)
        share = (torch.arange(200)[:, None] * omega).cos().mean(1)  # of the largest
        assert isinstance(found, int) and 0 < found < 200, (
            f"for {base} the distance is a whole number from 1 to 199, not {found}"
        )
        assert share[found] < 0.5, (
            f"for {base}, at distance {found} the product is still {share[found]:.2f} "
            "of that of a position with itself"
        )
        assert (share[1:found] >= 0.5).all(), (
            f"for {base}, the product is below one half before distance {found}"
        )


@exercise("1.8")
def which_outputs_change(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 4, (
        "give four lists of positions, for (a), (b), (c) and (d)"
    )
    model = at.make_model(11, 11, 2, 16, 32, 4).eval()
    without_attention = copy.deepcopy(model)
    for layer in without_attention.decoder.layers:
        for attn in (layer.self_attn, layer.src_attn):
            torch.nn.init.zeros_(attn.linears[3].weight)
            torch.nn.init.zeros_(attn.linears[3].bias)
    src, tgt = torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([[3, 4, 5, 6]])
    other_src, other_tgt = src.clone(), tgt.clone()
    other_src[0, 4] = other_tgt[0, 2] = 9
    triangle, ones = at.subsequent_mask(4), torch.ones(1, 1, 5)
    asked = (
        ("(a)", model, src, other_tgt, triangle, "who may attend to position 2?"),
        ("(b)", model, src, other_tgt, None, "which positions see later ones now?"),
        ("(c)", model, other_src, tgt, triangle, "which positions read the source?"),
        ("(d)", without_attention, src, other_tgt, triangle,
         "the residual connections still work; what else moves between positions?"),
    )  # fmt: skip
    for found, (part, decoder, source, target, mask, hint) in zip(answer, asked):
        before = decoder(src, tgt, ones, mask)
        moved = (decoder(source, target, ones, mask) - before)[0].abs().amax(-1)
        expected = (moved > 1e-5).nonzero().flatten().tolist()
        assert isinstance(found, tuple | list) and sorted(found) == expected, (
            f"{part} is not {found}. Hint: {hint}"
        )


@exercise("1.9")
def in_pieces(answer: Any) -> None:
    q, k, v = torch.randn(2, 5, 8), torch.randn(2, 11, 8), torch.randn(2, 11, 8)
    for size in (1, 4, 11, 20):
        expected = F.scaled_dot_product_attention(q, k, v)
        given = f"for 5 queries, 11 keys and pieces of {size}"
        agree(answer(q, k, v, size), expected, given, "do later pieces rescale sums?")
    far = 200 * q  # exp of such scores overflows
    agree(
        answer(far, k, v, 4),
        F.scaled_dot_product_attention(far, k, v),
        "for scores in the hundreds",
        "subtract the largest score so far before you take exp",
    )
    q, k, v = torch.randn(1, 40, 2), torch.randn(1, 60, 2), torch.randn(1, 60, 2)
    largest, names = answer.ask(tensor_work, q, k, v, 4)
    assert largest < 40 * 60, (
        "the result is right, but for 40 queries and 60 keys a tensor of 2,400 numbers "
        "was built on the way, all scores at once; take the products with one piece of "
        "the keys at a time"
    )
    assert not any("dot_product_attention" in name for name in names), (
        "the result is right, but PyTorch's attention computed it. Hint: write the "
        "loop over the pieces yourself."
    )


@exercise("2.1")
def what_the_decoder_reads(answer, ids=(0, 7, 4, 9, 1, 2, 2)):
    row = torch.tensor([ids])
    batch = at.Batch(row, row)
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "three things are asked for, (tgt, tgt_y, ntokens)."
    )
    tgt, tgt_y = (listed(part) for part in answer[:2])
    assert len(tgt) == len(tgt_y) == len(ids) - 1, (
        f"tgt has {len(tgt)} ids and tgt_y {len(tgt_y)}. A row of {len(ids)} makes one "
        "position fewer, each with an id that is read and an id to be predicted."
    )
    assert tgt == batch.tgt[0].tolist(), (
        f"tgt is not {tgt}. Hint: it is the row without its last id, whatever that is."
    )
    assert tgt_y == batch.tgt_y[0].tolist(), (
        f"tgt_y is not {tgt_y}. Hint: the answer at each position is the id that the "
        "next position reads."
    )
    assert answer[2] == batch.ntokens, (
        f"ntokens is not {answer[2]}. Hint: it counts the ids of tgt_y that are not "
        "padding; the end symbol is an answer, too."
    )


@exercise("2.2")
def perplexity_of_a_test_set(answer):
    found = answer([6 * math.log(10)], [6])
    assert is_number(found), f"a plain number is needed, not {kind(found)}."
    assert near(found, 10), (
        "one batch of 6 words, each given one tenth: the perplexity is 10, not "
        f"{found:.4g}. Hint: the sums are in nats, so the base is e."
    )
    sums, sizes = [2.0, 1.8], [1, 9]
    found, given = answer(sums, sizes), f"for nll_sums {sums} and tokens {sizes}"
    means = [total / size for total, size in zip(sums, sizes, strict=True)]
    assert not near(found, math.exp(sum(means) / 2)), (
        f"{given} this is a mean of the batches' means: the one word of the first "
        "batch weighs as much as the nine of the second."
    )
    assert not near(found, sum(map(math.exp, means)) / 2), (
        f"{given} this is a mean of the batches' perplexities. Hint: it changes when "
        "the same sentences are divided into batches differently."
    )
    assert near(found, math.exp(0.38)), (
        f"{given} it is {math.exp(0.38):.4f}, not {found:.4f}. Hint: together, the "
        "ten words have 3.8 nats."
    )
    sums = (30 * torch.rand(4)).tolist()
    sizes = torch.randint(2, 20, (4,)).tolist()
    whole = answer(sums, sizes)
    parts = [0.25 * sums[3], 0.75 * sums[3]]
    apart = answer([*sums[:3], *parts], [*sizes[:3], 1, sizes[3] - 1])
    joined = answer([sums[0] + sums[1], *sums[2:]], [sizes[0] + sizes[1], *sizes[2:]])
    assert near(whole, apart) and near(whole, joined), (
        f"for batches of {sizes} words the perplexity changes when the same words are "
        "divided into batches differently."
    )
    assert near(answer([2 * each for each in sums], sizes), whole**2), (
        "with twice the nats per word, the perplexity must be its square."
    )


@exercise("2.3")
def gradient_of_the_softmax(answer):
    asked = "give two lists of three numbers, for (a) and (b)"
    assert isinstance(answer, tuple | list) and len(answer) == 2, asked
    parts = [numbers_of(part, 3, asked) for part in answer]
    logits = torch.tensor([1.0, 2.0, 5.0]).log().requires_grad_()
    p = logits.softmax(dim=-1).detach()
    for name, found, target in zip(
        ("(a)", "(b)"), parts, ([0.0, 1.0, 0.0], [0.1, 0.8, 0.1])
    ):
        target = torch.tensor(target)
        [right] = torch.autograd.grad(F.cross_entropy(logits, target), logits)
        found = torch.tensor(found)
        assert not torch.allclose(found, -right, atol=2e-3), (
            f"{name}: the signs are the wrong way around. The loss falls when the "
            "logit of the right word grows."
        )
        assert not torch.allclose(found, p, atol=2e-3), (
            f"{name}: these are the probabilities; the target is still to be "
            "subtracted."
        )
        assert not torch.allclose(found, -target / p, atol=2e-3), (
            f"{name}: this is the gradient with respect to the probabilities. Hint: "
            "when one logit grows, all three probabilities change."
        )
        assert abs(found.sum().item()) < 3e-3, (
            f"{name}: {show(found)} doesn't sum to zero. Hint: adding the same number "
            "to all logits changes nothing, so the loss has no slope that way."
        )
        hint = {
            "(a)": "the probabilities first; they are in the ratio 1 : 2 : 5.",
            "(b)": "the probabilities are those of (a); only the target has changed, "
            "for all three words.",
        }[name]
        assert torch.allclose(found, right, atol=2e-3), (
            f"{name} is not {show(found)}. Hint: {hint}"
        )


def gradients(answer, model, compute, batches):
    """Return what the answer leaves in .grad, and whether it left a model in training.

    Before, the model is in training mode, and something is in .grad.
    """
    model.train()
    modes: list[bool] = []
    hook = model.register_forward_pre_hook(lambda *_: modes.append(model.training))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    answer(model, compute, batches)
    hook.remove()
    trained = all(modes) and model.training
    return {name: p.grad for name, p in model.named_parameters()}, trained


@exercise("2.4")
def accumulated(answer):
    model = small_model()
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, 0))
    rows = uneven_rows()
    batches = [at.Batch(at.padded(two, 0), at.padded(two, 0), pad=0) for two in rows]

    def of_one_batch(rows):
        ids = at.padded([row for two in rows for row in two], pad=0)
        model.zero_grad()
        batch = at.Batch(ids, ids, pad=0)
        out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        compute(out, batch.tgt_y, batch.ntokens)[1].backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    def alike(one, other):
        if not all(isinstance(each, Tensor) for each in one.values()):
            return False
        return all(torch.allclose(one[name], other[name]) for name in other)

    whole, last = of_one_batch(rows), of_one_batch(rows[-1:])
    model.zero_grad()
    found, trained = answer.ask(gradients, model, compute, batches)
    assert not alike(found, last), (
        "the gradient is that of the last batch alone. Hint: when are the old ones "
        "set to zero?"
    )
    more = {name: grad + 1 for name, grad in whole.items()}
    assert not alike(found, more), (
        "what was in `.grad` before is still in there. Hint: set it to zero once."
    )
    means = {name: torch.zeros_like(grad) for name, grad in whole.items()}
    for two in rows:
        for name, grad in of_one_batch([two]).items():
            means[name] += grad
    assert not alike(found, means), (
        "each batch was divided by its own number of words and the gradients were "
        "added: three times too large, and a word of a short batch counts for more."
    )
    third = {name: grad / 3 for name, grad in means.items()}
    assert not alike(found, third), (
        "this is the mean of the batches' gradients: a word of a short batch counts "
        "for more than one of a long batch."
    )

    def factor(of):
        """Return how many times too large it is, or None if it points elsewhere."""
        if not all(isinstance(each, Tensor) for each in found.values()):
            return None
        ours, theirs = (
            torch.cat([g.flatten() for g in x.values()]) for x in (found, of)
        )
        size = (ours @ theirs / (theirs @ theirs)).item()
        return size if torch.allclose(ours, size * theirs) and size else None

    if (size := factor(last)) is not None:
        raise AssertionError(
            f"the gradient is {size:.4g} times that of the last batch alone. Hint: "
            "when are the old ones set to zero?"
        )
    size = factor(whole)
    assert size is None or near(size, 1), (
        f"the gradient points the right way, but is {size:.4g} times as large as it "
        "should be. Hint: by what is each loss divided?"
    )
    assert alike(found, whole), (
        "the gradient is not that of one batch with all six pairs. Hint: what has to "
        "be known before the first backward()?"
    )
    assert trained, (
        "the model was in training mode, and the answer has switched to evaluation "
        "mode, in which there is no dropout. Hint: leave the mode alone."
    )


@exercise("2.5")
def a_longer_warm_up(answer):
    pair = isinstance(answer, tuple | list) and len(answer) == 2
    assert pair and all(is_number(part) for part in answer), (
        "two numbers are asked for, (peak multiplied by, update 100,000 multiplied by)."
    )

    def peak(warmup):
        return max(at.rate(step, 512, 1.0, warmup) for step in range(1, 20_001))

    def late(warmup):
        return at.rate(100_000, 512, 1.0, warmup)

    assert near(answer[0], peak(16_000) / peak(4_000)), (
        f"the peak is not multiplied by {answer[0]}. Hint: the two peaks belong to two "
        "different updates; print rate(warmup, 512, 1, warmup) for both warm-ups."
    )
    assert near(answer[1], late(16_000) / late(4_000)), (
        f"the rate of update 100,000 is not multiplied by {answer[1]}. Hint: which of "
        "the minimum's two arguments counts there, and does it contain the warm-up?"
    )


@exercise("2.6")
def half_a_cosine(answer):
    peak, warmup, total = 2.0, 10, 110
    given = f"with peak {peak}, warmup {warmup} and total {total}"
    for step in (1, 5, 10):
        found, expected = answer(step, peak, warmup, total), peak * step / warmup
        assert near(found, expected), (
            f"{given} the rate of update {step} is {expected}, not {found:.4g}. Hint: "
            "the rise is a straight line through 0 that reaches the peak at its end."
        )
    found = answer(60, peak, warmup, total)
    assert near(found, peak / 2), (
        f"{given} the rate of update 60, half-way down, is half the peak, not "
        f"{found:.4g}. Hint: the angle is 0 at update `warmup` and π at update `total`."
    )
    found, expected = answer(35, peak, warmup, total), peak * (2 + math.sqrt(2)) / 4
    assert near(found, expected), (
        f"{given} the rate of update 35, a quarter of the way down, is {expected:.4f}, "
        f"not {found:.4f}: flat at first. Hint: move the cosine up by one and halve it."
    )
    for step in (110, 111, 150, 210):
        found = answer(step, peak, warmup, total)
        assert abs(found) < 1e-9, (
            f"{given} the rate of update {step} is 0, not {found:.4g}. Hint: the "
            "cosine rises again beyond π; the fraction of the way must stop at one."
        )
    assert near(answer(4000, 1.0, 4000, 20_000), 1.0), (
        "with another peak, warmup and total the rate at the end of the warm-up must "
        "again be the peak; is a number of the example written into the code?"
    )
    peak = 1 + torch.rand(1).item()
    warmup = int(torch.randint(2, 50, (1,)))
    down = 4 * int(torch.randint(10, 50, (1,)))
    given = f"with peak {peak:.4f}, warmup {warmup} and total {warmup + down}"
    fall = [answer(warmup + k, peak, warmup, warmup + down) for k in range(down + 1)]
    for k in range(down // 2):
        assert near(fall[k] + fall[down - k], peak), (
            f"{given} the rates {k} updates after the warm-up and {k} before the end "
            f"add up to {fall[k] + fall[down - k]:.4f}, not to the peak."
        )
    for k in range(1, down):
        # a wave's second difference is proportional to its distance from the middle
        bend = fall[k - 1] - 2 * fall[k] + fall[k + 1]
        size = 2 * math.cos(math.pi / down) - 2
        assert math.isclose(bend, size * (fall[k] - peak / 2), abs_tol=1e-9), (
            f"{given} the rates around update {warmup + k} don't lie on a cosine."
        )
    rise = [answer(k, peak, warmup, warmup + down) / k for k in range(1, warmup + 1)]
    assert near(min(rise), max(rise)) and near(rise[0], peak / warmup), (
        f"{given} the rise is not a straight line."
    )


@exercise("2.7")
def finish_the_sentence(answer):
    def continuation(fault: str, ys: Tensor) -> Tensor:
        """Return what the model writes after ys with one fault."""
        seen = torch.ones_like(src_mask) if fault == "padding" else src_mask
        memory = model.encode(src, seen)
        while ys.size(1) < 9:
            read = ys[:, -1:] if fault == "last word" else ys
            triangle = at.subsequent_mask(read.size(1))
            mask = torch.ones_like(triangle) if fault == "no triangle" else triangle
            out = model.decode(memory, seen, read, mask)
            last = out[:, 0] if fault == "first position" else out[:, -1]
            word = model.generator(last).argmax(-1, keepdim=True)
            ys = torch.cat([ys, word], dim=1)
        return ys

    hints = {
        "padding": "the source's padding is attended to. Hint: pass on `src_mask`.",
        "last word": "the decoder reads only the last word. Hint: it has no memory of "
        "its own and needs all the words so far.",
        "no triangle": "the earlier positions see the later ones. Hint: in training "
        "they did not; `subsequent_mask` hides them.",
        "first position": "the next word is predicted from the first position. Hint: "
        "which position has read everything?",
    }
    torch.manual_seed(torch.initial_seed() + 4)  # seed 4 shows every fault
    model = small_model(N=2, scale=2.0, dropout=0.3)
    src = torch.tensor([[5, 3, 9, 4, 7], [8, 6, 2, 0, 0]])
    src_mask = (src != 0).unsqueeze(1)
    for typed in ([[1], [1]], [[1, 7, 4], [1, 3, 10]]):
        beginning = torch.tensor(typed)
        K = beginning.size(1)
        given = f"for the beginnings {typed} and max_len 9"
        found, mode = answer.ask(
            left_in_mode, False, model, src, src_mask, beginning.clone(), 9
        )
        what = tuple(found.shape) if isinstance(found, Tensor) else kind(found)
        assert what == (2, 9), f"{given} ids of shape (2, 9) are needed, not {what}."
        for row, ids in zip(found, beginning):
            assert torch.equal(row[:K], ids), (
                f"{given} a row begins with {show(row[:K])} instead of {show(ids)}. "
                "What was typed must stay as it is."
            )
        model.eval()
        with torch.no_grad():  # one pass over what was written says what should follow
            out = model(src, found[:, :-1], src_mask, at.subsequent_mask(8))
            right = torch.equal(
                model.generator(out).argmax(-1)[:, K - 1 :], found[:, K:]
            )
            for fault, hint in hints.items():
                wrong = torch.equal(found, continuation(fault, beginning))
                assert right or not wrong, f"{given} {hint}"
        assert right, f"{given} some word is not the most probable one."
        assert not mode, MODE[1]
        found_in_training, mode = answer.ask(
            left_in_mode, True, model, src, src_mask, beginning.clone(), 9
        )
        assert torch.equal(found_in_training, found), (
            "a model in training mode writes other words than in evaluation mode. "
            "Hint: the chapter has a helper that switches dropout off and restores the "
            "mode."
        )
        assert mode, MODE[0]


class Watched:
    """A loss that remembers whether gradients were recorded when it was called."""

    def __init__(self, compute):
        self.compute, self.recorded = compute, False

    def __call__(self, x: Tensor, y: Tensor, norm: float):
        self.recorded |= x.requires_grad
        return self.compute(x, y, norm)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["compute"], name)


def validated(answer, training, model, batches, compute):
    """Return an answer's result, and all that it may have left behind."""
    watched = Watched(compute)
    result, mode = left_in_mode(answer, training, model, batches, watched)
    trainable = all(p.requires_grad for p in model.parameters())
    return result, mode, watched.recorded, trainable


@exercise("2.8")
def four_faults(answer):
    model = small_model(dropout=0.3)
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, 0))
    batches = [
        at.Batch(at.padded(two, 0), at.padded(two, 0), pad=0) for two in uneven_rows()
    ]
    whole, _ = at.run_epoch(batches, model, compute, None, None, mode="eval")
    one, _ = at.run_epoch(batches[:1], model, compute, None, None, mode="eval")
    alone, *_ = answer.ask(validated, False, model, batches[:1], compute)
    assert is_number(alone), f"a plain number is needed, not {kind(alone)}."
    assert near(alone, one), (
        f"for a single batch the NLL is {one:.4f}, not {alone:.4f}. Hint: which word "
        "is to be predicted at each position?"
    )
    found, evaluates, _, trainable = answer.ask(
        validated, False, model, batches, compute
    )
    assert near(found, whole), (
        f"for batches of {[b.ntokens for b in batches]} words the NLL is {whole:.4f}, "
        f"not {found:.4f}. Hint: a mean over words is not a mean over batches."
    )
    found, trains, recorded, _ = answer.ask(validated, True, model, batches, compute)
    assert near(found, whole), (
        "for a model in training mode the NLL is another one: dropout is on. Hint: "
        "`model.eval()` was there for a reason."
    )
    assert trains, MODE[0]
    assert not evaluates, MODE[1]
    assert not recorded, (
        "the forward pass recorded a graph for gradients that nobody needs. Hint: the "
        "chapter has a helper that takes care of this and of the mode."
    )
    assert trainable, (
        "afterwards some weights no longer require gradients, so the rest of the "
        "training would leave them as they are."
    )


@exercise("2.9")
def how_sure(answer):
    reasons = {
        "a": "which symbol has the highest probability in the smoothed target?",
        "b": "where is the loss zero? Look at the chart of this section.",
        "c": "what tells the other symbols apart? And what does the target say?",
        "d": "the NLL asks for nothing but the probability of the right symbol.",
        "e": "what does the smoothed target say about padding?",
        "f": "the loss is the avoidable part of the surprise. What is left to avoid?",
    }
    true_sentences(
        "2.9", answer, reasons, {"42490b3df0a0", "9f34157b80f5", "a9f3070e127c"}
    )


def german_words(*sentences: str) -> at.Vocabulary:
    """Return the source vocabulary that section 3.3 builds from these sentences."""
    return at.Vocabulary.build(word for line in sentences for word in line.split())


@exercise("3.1")
def from_a_word_to_its_number(answer, sentence="der Vogel schläft nie"):
    assert isinstance(answer, list | tuple | Tensor), "the answer is a list of ids."
    ids = listed(answer)
    vocab = german_words(
        "der Hund bellt", "der Hund schläft", "der Vogel schläft", "der Hund frisst"
    )  # fmt: skip
    words = sentence.split()
    expected = [at.START, *vocab(words), at.END]
    assert len(ids) == len(expected), (
        f"your row has {len(ids)} ids. Four words, <s>, and </s> make six."
    )
    assert ids[0] == at.START and ids[-1] == at.END, (
        f"the row runs from <s>, {at.START}, to </s>, {at.END}; yours from {ids[0]} to "
        f"{ids[-1]}."
    )
    assert at.PAD not in ids, "2 is padding, which fills up the short rows of a batch."
    for word, hint in (
        ("nie", "it never occurs in training."),
        ("Vogel", "how often does it occur in training, and what does min_freq=2 ask?"),
    ):
        place = words.index(word) + 1
        assert ids[place] == at.UNK, (
            f"the id of {word} is not {ids[place]}. Hint: {hint}"
        )
    assert ids == expected, (
        f"the row is not {ids}. Hint: the special tokens have 0 to 3, then come the "
        "words that are kept, the most frequent first."
    )


def batches_and_reading(answer, lengths, times, count, batch_tokens, pool):
    """Return the first batches, and how many lengths had been read before each."""
    taken = 0

    def stream():
        nonlocal taken
        for _ in range(times):
            for pair in lengths:
                taken += 1
                yield pair

    batches, read = [], []
    for group in itertools.islice(answer(stream(), batch_tokens, pool), count):
        batches.append([int(i) for i in group])
        read.append(taken)
    return batches, read


@exercise("3.2")
def a_corpus_that_does_not_fit(answer):
    lengths = [tuple(pair) for pair in torch.randint(3, 30, (230, 2)).tolist()]

    def packed(start):
        return len(at.token_budget_batches(lengths[start : start + 50], 120))

    first = packed(0)
    found, read = answer.ask(batches_and_reading, lengths, 1000, first + 1, 120, 50)
    assert found, "for an endless stream it yields no batch."
    assert read[0] <= 51, (
        f"it reads {read[0]} lengths before its first batch, with a pool of 50. Hint: "
        "`itertools.islice` takes the next fifty items of an iterator, and no more."
    )
    most = max(read[:first])
    assert most <= 51, (
        f"it has read {most} lengths while batches of the first pool of 50 are still "
        "to come."
    )
    found, _ = answer.ask(batches_and_reading, lengths, 1, None, 120, 50)
    seen = sorted(i for group in found for i in group)
    assert max(seen, default=0) >= 50, (
        "for 230 lengths in pools of 50, no index reaches 50. Hint: indices count from "
        "the beginning of the stream, not of the pool."
    )
    assert seen == list(range(230)), (
        f"of 230 lengths in pools of 50, {len(set(seen))} occur, {len(seen)} times in "
        "all. Hint: what happens to the last, shorter pool?"
    )
    for group in found:
        assert len({i // 50 for i in group}) == 1, (
            f"the batch {group} mixes two pools of 50."
        )
        area = len(group) * max(max(lengths[i]) for i in group)
        assert area <= 120, f"a batch has {area} positions, over the budget of 120."
    count = sum(packed(start) for start in range(0, 230, 50))
    assert len(found) == count, (
        f"there are {len(found)} batches, {count} would do. Hint: each pool is packed "
        "as a whole, sorted by length."
    )
    longer, _ = answer.ask(batches_and_reading, lengths, 1, None, 60, 230)
    expected = sorted(map(sorted, at.token_budget_batches(lengths, 60)))
    assert sorted(map(sorted, longer)) == expected, (
        "in a single pool that holds everything, the batches are not those of "
        "`token_budget_batches`."
    )


@exercise("3.3")
def mended_collate(answer):
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    ids = {
        word: [at.START, *vocab(word), at.END] for word in ("abc", "f", "gh", "abcdef")
    }

    def rows(pairs, limit):
        found = answer([(list(a), list(b)) for a, b in pairs], vocab, vocab, limit)
        assert isinstance(found, tuple | list) and len(found) == 2, (
            "return two tensors."
        )
        for each in found:
            assert isinstance(each, Tensor), f"return two tensors, not a {kind(each)}."
        return [each.tolist() for each in found]

    def bare(row):
        """Return a row without special tokens and padding."""
        return [i for i in row if i > at.UNK]

    src, tgt = rows([("abc", "gh"), ("f", "abc")], 9)
    given = "for the pairs (abc, gh) and (f, abc)"
    pairs = [tuple(map(bare, pair)) for pair in zip(src, tgt)]
    expected = [(bare(ids["abc"]), bare(ids["gh"])), (bare(ids["f"]), bare(ids["abc"]))]
    assert sorted(p[0] for p in pairs) == sorted(p[0] for p in expected), (
        f"{given} the sources are no longer those of the pairs."
    )
    assert pairs == expected, (
        f"{given} row 0 of src holds {pairs[0][0]} and row 0 of tgt {pairs[0][1]}. "
        "Hint: what happens to a pair when each side is sorted on its own?"
    )
    for row, word, side in ((src[1], "f", "source"), (tgt[0], "gh", "target")):
        said = f"{given} the short {side} row is {row}"
        end = len(ids[word])
        assert at.START not in row[end:], f"{said}. Hint: which id is padding?"
        assert row[:end] == ids[word] and set(row[end:]) <= {at.PAD}, (
            f"{said}; after </s> comes padding, {at.PAD}."
        )
    mixed = [("gh", "f"), ("abcdef", "abc"), ("f", "gh"), ("abc", "abcdef")]
    src, tgt = rows(mixed, 9)
    found = [(bare(a), bare(b)) for a, b in zip(src, tgt)]
    assert found == [(bare(ids[a]), bare(ids[b])) for a, b in mixed], (
        f"for the pairs {mixed} the rows of src and tgt hold {found}: the order is not "
        "that of the pairs."
    )
    src, tgt = rows([("f", "abcdef"), ("f", "gh")], 9)
    assert tgt[0][: len(ids["abcdef"])] == ids["abcdef"], (
        f"for the pair (f, abcdef) the target row is {tgt[0]}: its end is gone. Hint: "
        "the two sides of a batch have different widths."
    )
    assert len(src[0]) == 3 and len(tgt[0]) == 8, (
        "for the pairs (f, abcdef) and (f, gh) src is 3 and tgt 8 positions wide, each "
        f"as wide as its longest row; yours {len(src[0])} and {len(tgt[0])}."
    )
    src, tgt = rows([("abcdef", "gh"), ("f", "gh"), ("f", "abcdef")], 6)
    assert len(src) == len(tgt) and [bare(r) for r in src] == [bare(ids["f"])], (
        "with max_tokens=6, of the pairs (abcdef, gh), (f, gh) and (f, abcdef) only "
        f"the second is short enough on both sides; you keep {len(src)} rows. Hint: "
        "half a sentence is not a translation, so a long pair is left out, not cut."
    )
    [row], _ = rows([("gh", "f")], 4)
    assert row == ids["gh"], (
        "with max_tokens=4 the pair (gh, f), four tokens and three, is short enough; "
        f"your src row is {row}."
    )


SENTENCES = [
    ("the dog runs through the green park .", "the dog runs through a green park ."),
    ("the the the the the", "a man sees the dog in the park"),
    ("a woman is reading a long book on a bench", "a woman reads a book on a bench ."),
]


def sacre(pairs: list[tuple[list[str], list[str]]]) -> float:
    """Return sacreBLEU's BLEU of sentences that are already split."""
    ours, theirs = ([" ".join(words) for words in side] for side in zip(*pairs))
    metric = at.optional_import("sacrebleu").BLEU(tokenize="none", smooth_method="none")
    return metric.corpus_score(ours, [theirs]).score


@exercise("3.4")
def bleu_by_hand(answer):
    pairs = [(ours.split(), theirs.split()) for ours, theirs in SENTENCES]

    def found(some):
        value = answer(*(list(side) for side in zip(*some)))
        assert is_number(value), f"return a plain number, not {kind(value)}."
        return value

    right = [(theirs, theirs) for _, theirs in pairs]
    assert near(found(right), 100), (
        f"for translations equal to their references it is 100, not {found(right):.4g}."
    )
    short = [(theirs[:-2], theirs) for _, theirs in pairs]
    assert near(found(short), sacre(short)), (
        "for references without their last two words it is "
        f"{sacre(short):.2f}, not {found(short):.2f}. Hint: all n-grams match, so "
        "only the brevity penalty matters, over the words of all sentences."
    )
    long = [(theirs + ["so", "they", "say"], theirs) for _, theirs in pairs]
    assert near(found(long), sacre(long)), (
        "for references with three extra words at the end it is "
        f"{sacre(long):.2f}, not {found(long):.2f}. Hint: the brevity penalty is at "
        "most 1, and the shares of n-grams for n = 1, 2, 3, and 4 are combined by "
        "their geometric mean."
    )
    first = pairs[:2]
    assert near(found(first), sacre(first)), (
        f"for {SENTENCES[0][0]!r} and {SENTENCES[1][0]!r} it is {sacre(first):.2f}, "
        f"not {found(first):.2f}. Hint: 'the' counts at most as often as the reference "
        "of its own sentence has it, and counts are summed before they are divided."
    )
    assert near(found(pairs), sacre(pairs)), (
        f"for three sentences it is {sacre(pairs):.2f}, not {found(pairs):.2f}. Hint: "
        "the mean of the sentences' BLEU scores is a different figure."
    )
    the, cat = (
        ("the the dog runs home now .", "a dog runs home now ."),
        ("a cat sleeps there now .", "the cat sleeps there the now ."),
    )
    lent = [(ours.split(), theirs.split()) for ours, theirs in (the, cat)]
    assert near(found(lent), sacre(lent)), (
        f"for {the[0]!r} and {cat[0]!r} it is {sacre(lent):.2f}, not "
        f"{found(lent):.2f}. Hint: a word that is too often in one sentence gets no "
        "credit because another sentence's reference has it."
    )
    brief = [*right, ("a dog".split(), "a dog".split())]
    assert near(found(brief), 100), (
        "for four right translations, of which one has two words, it is 100, not "
        f"{found(brief):.2f}. Hint: how many 4-grams does a sentence of two words have?"
    )
    for ours, theirs in (("a b c d", "e f g h"), ("a b c d e", "b c a e d")):
        value = found([(ours.split(), theirs.split())])
        assert value == 0, (
            f"for {ours!r} with the reference {theirs!r} it is 0, not {value:.3g}: one "
            "of the four counts is zero."
        )


@exercise("3.5")
def the_nearest_training_sentence(answer):
    corpus = [
        line.split()
        for line in (
            "a cat sleeps", "a dog runs in the park", "a dog runs", "a dog runs",
            "the the the dog",
        )
    ]  # fmt: skip
    for line, expected, share in (
        ("a bird sleeps", 0, 0.5),
        ("a dog runs in the rain", 1, 5 / 7),
        ("in the dark", 1, 2 / 7),
        ("the dog", 4, 1.0),
        ("a dog runs", 2, 1.0),
        ("zebra", 0, 0.0),
    ):
        found = answer(line.split(), corpus)
        assert isinstance(found, tuple | list) and len(found) == 2, (
            "the answer is an index and a nearness, (index, nearness)."
        )
        near_one = " ".join(corpus[expected])
        assert near(float(found[1]), share), (
            f"for {line!r} the nearness is {share:.3f}, to {near_one!r}, not "
            f"{found[1]:.3f}. Hint: count different words, those in both sentences "
            "divided by those in either; a word counts once, however often it occurs."
        )
        assert found[0] == expected, (
            f"for {line!r} the index is {expected}, {near_one!r}, not {found[0]}. "
            "Hint: if several are equally near, the first counts."
        )
    letters = [chr(97 + i) for i in torch.randint(0, 6, (40, 4)).flatten().tolist()]
    drawn = [letters[i : i + 4] for i in range(0, 160, 4)]
    for line in drawn[:8]:
        index, share = answer(line, drawn[8:])
        shares = [
            len(set(line) & set(other)) / len(set(line) | set(other))
            for other in drawn[8:]
        ]
        assert near(float(share), max(shares)) and index == shares.index(max(shares)), (
            f"for {' '.join(line)!r} among 32 random lines the answer is not {index}, "
            f"{show(share)}."
        )


@exercise("4.1")
def merges_by_hand(answer):
    assert isinstance(answer, list | tuple) and len(answer) == 4, (
        'give four pairs, such as [("a", "b"), …]'
    )
    counts = {"hand": 5, "hund": 4, "band": 2, "und": 8, "bund": 1}
    text = " ".join(word for word, count in counts.items() for _ in range(count))
    learned = at.BytePairEncoding.train([text], 260 + 4)
    merges = at.json.loads(learned.to_json())["model"]["merges"]
    pieces = {word: ["Ġ", *word] for word in counts}
    for n, (found, expected) in enumerate(zip(answer, merges), 1):
        times: dict[tuple[str, str], int] = {}
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                times[pair] = times.get(pair, 0) + counts[word]
        assert isinstance(found, list | tuple) and len(found) == 2, (
            f"merge {n} is a pair of symbols, not {found!r}."
        )
        pair = tuple(unicodedata.normalize("NFC", str(part)) for part in found)
        best = tuple(expected)
        assert pair == best, (
            f"merge {n} is not {' + '.join(pair)}: those two are neighbors "
            f"{times.get(pair, 0)} times, and another pair {times[best]} times. Hint: "
            "count each word as often as it occurs, and Ġ is a symbol, too."
        )
        for parts in pieces.values():
            for i in range(len(parts) - 1):
                if tuple(parts[i : i + 2]) == best:
                    parts[i : i + 2] = ["".join(best)]


@exercise("4.2")
def cut_by_merges(answer):
    merges = [("n", "d"), ("u", "nd"), ("Ġ", "h"), ("Ġh", "und")]
    cases = {
        "hund": ["Ġhund"],
        "und": ["Ġ", "und"],
        "handhund": ["Ġh", "a", "nd", "h", "und"],
        "x": ["Ġ", "x"],
    }
    shown = ", ".join(" + ".join(pair) for pair in merges)
    for word, expected in cases.items():
        found = list(answer(word, list(merges)))
        assert found == expected, (
            f"with the merges {shown} {word!r} becomes {expected}, not {found}. "
            "Hint: go through the merges one by one, and for each through the word."
        )
    found, expected = answer("abcab", [("b", "c"), ("a", "b")]), ["Ġ", "a", "bc", "ab"]
    assert list(found) == expected, (
        f"with the merges b + c, a + b 'abcab' becomes {expected}, not {found}. "
        "Hint: an early merge takes its symbols away from later ones."
    )
    letters = "".join("abln"[i] for i in torch.randint(0, 4, (120,)).tolist())
    words = ["aa", "aaa", "aaaa", "lalalal"]
    words += [letters[i : i + n] for n in (4, 5, 6) for i in range(0, 24, n)]
    encoding = at.BytePairEncoding.train([" ".join(words * 3)], 290)
    merges = [tuple(m) for m in at.json.loads(encoding.to_json())["model"]["merges"]]
    for word in [*words, letters[24:40], letters[40:60], "lallaa", "aaaaa"]:
        found, expected = list(answer(word, merges)), encoding.tokenize(word)
        assert found == expected, (
            f"with {len(merges)} merges {word!r} becomes {expected}, not {found}. "
            "Hint: after a merge, go on after the joined pair."
        )


@exercise("4.3")
def which_rows_learn(answer):
    asked = "give four lists of ids, for (a), (b), (c), and (d)"
    assert isinstance(answer, tuple | list) and len(answer) == 4, asked
    src, tgt, asked_for = [[3, 4]], [[0, 5]], torch.tensor([5, 1])

    def rows(tie):
        """Return which rows of each table have a gradient."""
        model = at.make_model(8, 8, N=1, d_model=8, d_ff=16, h=2, dropout=0.0)
        at.tie_weights(model, tie)
        out = model(torch.tensor(src), torch.tensor(tgt), None, at.subsequent_mask(2))
        F.nll_loss(model.generator(out)[0], asked_for).backward()
        tables = (
            model.src_embed[0].lut.weight,
            model.tgt_embed[0].lut.weight,
            model.generator.proj.weight,
        )
        return [t.grad.abs().sum(-1).nonzero().flatten().tolist() for t in tables]

    expected = [*rows("none"), rows("all")[0]]
    hints = (
        "a row is read where its token stands in the source.",
        "which ids does the decoder read? It doesn't read what it is to predict.",
        "the softmax compares the vector with every row.",
        "a shared row gets the sum of three gradients.",
    )
    for part, found, right, hint in zip("abcd", answer, expected, hints):
        assert isinstance(found, list | tuple | set | range), (
            f"({part}) is a list of ids, not {kind(found)}."
        )
        found = sorted(found)
        assert found == right, f"({part}) is not {found}. Hint: {hint}"


@exercise("4.4")
def what_it_would_have_said(answer):
    model = at.make_model(9, 9, N=1, d_model=16, d_ff=32, h=2, dropout=0.3)
    for p in model.parameters():
        p.data += 0.3 * torch.randn_like(p)
    src = torch.tensor([[4, 5, 6, 7, 2, 2]])
    mask, all_seen = (src != 2).unsqueeze(1), torch.ones(1, 1, 6).bool()

    def parts_of(ids, seen):
        """Return the log-probability of each id but the first, step by step."""
        with at.in_mode(model, training=False), at.remembering(model.decoder):
            memory = model.encode(src, seen)
            steps = [
                at.decode_step(model, memory, seen, torch.tensor([ids[:n]]))
                for n in range(1, len(ids))
            ]
            return [step[0, new].item() for step, new in zip(steps, ids[1:])]

    for n, start, end in ((4, 0, 1), (7, 3, 8)):
        ids = torch.randint(3, 8, (n,)).tolist()
        parts = parts_of([start, *ids, end], mask)
        expected = sum(parts)
        given = f"for the output {ids}, start={start} and end={end}"

        given_ids = model, src, mask, ids, start, end
        found, mode = answer.ask(left_in_mode, True, *given_ids)
        assert is_number(found), (
            f"a plain number is needed, not {kind(found)}. Hint: .item()"
        )
        assert not near(found, sum(parts[:-1])), (
            f"{given} the end symbol is missing: stopping is a decision, too."
        )
        assert not near(found, expected / len(parts)), (
            f"{given} this is a mean; the answer is the sum over the words."
        )
        assert not near(found, sum(parts_of([start, *ids, end], all_seen))), (
            f"{given} the source's padding is attended to. Hint: pass on `src_mask`."
        )
        assert near(found, answer.ask(left_in_mode, True, *given_ids)[0]), (
            "a second call gives a different number. Hint: dropout is on."
        )
        assert near(found, expected), (
            f"{given} it is {expected:.4f}, not {found:.4f}. Hint: the decoder reads "
            "the start symbol and the ids, and predicts the ids and the end symbol."
        )
        assert mode, MODE[0]
        assert not answer.ask(left_in_mode, False, *given_ids)[1], MODE[1]


class Table:
    """A `step` for exercise 4.5: next-token probabilities for each prefix."""

    def __init__(self, rows: dict[tuple[int, ...], list[float]]):
        self.rows = rows
        self.after_the_end = False

    def __call__(self, ids: list[int]) -> Tensor:
        self.after_the_end |= 1 in ids
        row = self.rows.get(tuple(ids[1:]), [0.01, 0.97, 0.01, 0.01])
        return torch.tensor(row).double().log()


def searched(answer, rows, width, max_len, alpha):
    """Return what a search finds, and whether it asked what follows the end."""
    table = Table(rows)
    return list(answer(table, width, max_len, alpha)), table.after_the_end


@exercise("4.5")
def four_faults_of_a_search(answer):
    def best(rows, max_len: int, alpha: float) -> list[int]:
        """Return the output with the best score by trying everything."""
        table = Table(rows)
        scored, live = [], [(0.0, [0])]
        for length in range(1, max_len + 1):
            live = [
                (total + logp, [*ids, token])
                for total, ids in live
                for token, logp in enumerate(table(ids).tolist())
            ]
            over = [each for each in live if each[1][-1] == 1 or length == max_len]
            scored += [(at.length_normalized(s, length, alpha), ids) for s, ids in over]
            live = [each for each in live if each[1][-1] != 1]
        return max(scored)[1][1:]

    found, _ = answer.ask(searched, {(): [0.0, 0.4, 0.6, 0.0]}, 2, 4, 0.0)
    assert found == [2, 1], (
        "the output `1` has probability 0.4 and `2 1` has 0.58; yours returned "
        f"`{found}`{', which has not ended' if found[-1:] != [1] else ''}."
    )
    _, after = answer.ask(searched, {(): [0.01, 0.6, 0.38, 0.01]}, 3, 4, 0.0)
    assert not after, (
        "the search calls `step` with ids that contain the end symbol: a hypothesis "
        "that has ended stays in the beam, and takes the place of another."
    )
    close = {(): [0.0, 0.5, 0.5, 0.0], (2,): [0.0, 0.58, 0.42, 0.0]}
    found, _ = answer.ask(searched, close, 4, 2, 4.0)
    assert found == best(close, 2, 4.0), (
        "with alpha 4, `1` scores log 0.5 / (6/6)^4 = -0.69, and `2 1`, two words, "
        f"log 0.29 / (7/6)^4 = -0.67; yours returned `{found}`. Hint: the start symbol "
        "does not count as a word."
    )
    flat = {
        (): [0.0, 0.45, 0.55, 0.0],
        (2,): [0, 0.02, 0.49, 0.49],
        (2, 2): [0, 0.02, 0.97, 0.01],
        (2, 3): [0, 0.02, 0.97, 0.01],
    }
    for alpha in (0.0, 4.0):
        found, _ = answer.ask(searched, flat, 64, 3, alpha)
        right = best(flat, 3, alpha)
        assert found == right, (
            f"at max_len 3 and alpha {alpha} the best is {right}, not {found}. Hint: "
            "an output that is cut there is scored like one that has ended, by its "
            "length."
        )
    narrow = {
        (): [0.0, 0.0, 0.6, 0.4],
        (2,): [0.5, 0.0, 0.5, 0.0],
        (3,): [0.0, 1.0, 0.0, 0.0],
    }
    found, _ = answer.ask(searched, narrow, 1, 4, 0.0)
    assert found[:1] == [2], (
        f"with width 1 the search is greedy, and the best first id is 2; yours "
        f"returned `{found}`: more than one hypothesis was kept."
    )
    for _ in range(12):
        bodies = [(), *((a,) for a in (0, 2, 3))]
        bodies += [(a, b) for a in (0, 2, 3) for b in (0, 2, 3)]
        rows = {body: (2 * torch.randn(4)).softmax(0).tolist() for body in bodies}
        for alpha in (0.0, 0.6, 1.5):
            found, _ = answer.ask(searched, rows, 64, 3, alpha)
            right = best(rows, 3, alpha)
            assert found == right, (
                f"with a beam that holds everything and alpha {alpha} the best of all "
                f"outputs is {right}, not {found}. Hint: the score is the sum divided "
                "by the penalty for the number of words, including the end symbol."
            )


def averaged(answer, states):
    """Return an average of checkpoints, and the checkpoints as it left them."""
    return answer(states), states


@exercise("4.6")
def mean_of_checkpoints(answer):
    def states(dtype=torch.float32):
        kind = {"dtype": dtype, "copy": True}
        return [{"w": w.to(**kind), "b": b.to(**kind)} for w, b in zip(weights, biases)]

    weights, biases = torch.randn(5, 3, 4), torch.randn(5, 4)
    found, after = answer.ask(averaged, states())
    assert isinstance(found, dict) and sorted(found) == ["b", "w"], (
        "a dictionary is needed that has the names of the checkpoints'."
    )
    halves = weights[0]
    for each in weights[1:]:
        halves = (halves + each) / 2
    assert not same(found["w"], halves), (
        "the last of five checkpoints counts for half of the result, the first for a "
        "sixteenth. Hint: add them all up before you divide."
    )
    for name, expected in (("w", weights.mean(0)), ("b", biases.mean(0))):
        agree(found[name], expected, f"for five checkpoints, in {name!r},")
    assert all(torch.equal(a["w"], b["w"]) for a, b in zip(after, states())), (
        "the first checkpoint has been overwritten: it holds the mean now. Hint: `+=` "
        "changes the tensor that is there."
    )
    weights, biases = 1000 * torch.rand(400, 3, 4), torch.rand(400, 4)
    found, _ = answer.ask(averaged, states(torch.float16))
    expected = weights.half().double().mean(0)
    assert found["w"].dtype == torch.float16, (
        f"of checkpoints in float16 the mean is {found['w'].dtype}. Hint: each tensor "
        "keeps the type that it has."
    )
    off = (found["w"].double() - expected).abs().max().item()
    assert off < 1, (
        "for 400 checkpoints in float16, whose numbers go to 1,000, the mean is off by "
        f"up to {off:.4g}. Hint: add up in double precision, and convert the result "
        "back."
    )


@exercise("4.7")
def mean_of_probabilities(answer):
    p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]])
    found = answer(list(p.log()))
    hint = "what is averaged are probabilities, and the result is a logarithm"
    given = "for one word of probability 0.9 and 0.3"
    agree(found, torch.tensor([[0.6, 0.4]]).log(), given, hint)
    many = [torch.randn(4, 7).log_softmax(-1) for _ in range(3)]
    expected = torch.stack(many).double().exp().mean(0).log()
    agree(answer(many), expected, "for three models", "divide by their number")
    far = torch.tensor([[0.0, -200.0]])
    found = answer([far, far - torch.tensor([[0.0, 300.0]])])
    expected = torch.tensor([[0.0, -200 - math.log(2)]])
    small = "for log-probabilities of -200 and -500"
    agree(found, expected, small, "torch.logsumexp takes the largest one out first")


def cells_with_four_faults(attn, head, rows, columns):
    """Return the cells as the faulty function that exercise 5.1 gives does."""
    weights = attn[head, 0] / attn[head, 0].max()
    return [
        (rows.index(row), row, columns.index(column), column, weights[c, r].item())
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
    ]


@exercise("5.1")
def cells_of_a_head(answer):
    untouched = torch.rand(2, 2, 3, 3), 1, ["a", "b", "a"], ["x", "y", "x"]
    if answer(*untouched) == cells_with_four_faults(*untouched):
        raise NotImplementedError  # so that no hint names a fault before you looked
    attn = torch.zeros(2, 2, 3, 3)
    attn[0, 1, 0, 2], attn[1, 0] = 0.5, 0.9
    rows, columns = ["a", "b", "a"], ["x", "y", "x"]
    found = answer(attn, 1, rows, columns)
    assert len(found) == 9, f"{len(found)} cells for 3 by 3 tokens, not 9."
    places = sorted((row, column) for row, _, column, _, _ in found)
    every = [(row, column) for row in range(3) for column in range(3)]
    assert places == every, (
        f"for rows {rows} and columns {columns} the cells are at {places}. "
        "Hint: a word that occurs twice has two places."
    )
    largest = max(found, key=lambda cell: cell[-1])
    heads = "the first sentence's head 1 has 0.5 at (0, 2), elsewhere 0"
    assert largest[-1] < 0.9 and sum(cell[-1] > 0 for cell in found) == 1, (
        f"{heads}; yours has {sum(cell[-1] > 0 for cell in found)} weights above 0, "
        f"the largest {largest[-1]:.1f}. Hint: which axis is the head's, and what "
        "must not be done to weights that are to be compared?"
    )
    assert (largest[0], largest[2]) == (0, 2), (
        f"{heads}; yours lies at {(largest[0], largest[2])}. Hint: rows come first."
    )
    labels = largest[1], largest[3]
    assert labels == ("a", "x"), f"the cell (0, 2) is called {labels}, not ('a', 'x')."
    maps = torch.rand(1, 1, 4, 5)
    padded = answer(maps, 0, ["a", "b"], ["x", "y", "z"])
    assert len(padded) == 6, f"{len(padded)} cells for 2 by 3 tokens, not 6."
    for row, _, column, _, weight in padded:
        assert near(weight, maps[0, 0, row, column].item()), (
            f"of a random map the weight at ({row}, {column}) is "
            f"{maps[0, 0, row, column]:.4f}, not {weight:.4f}."
        )


@exercise("5.2")
def pieces_to_words(answer):
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    given = f"for {show(weights)}, rows [0, 0] and columns [0, 1, 1]"
    hint = "sum over the pieces that get weight, mean over the pieces that give it."
    agree(answer(weights, [0, 0], [0, 1, 1]), torch.tensor([[0.4, 0.6]]), given, hint)
    one = answer(weights, [0, 1], [0, 1, 2])
    agree(one, weights, "where every piece is a word", hint)
    maps = torch.rand(2, 3, 5, 6).softmax(-1)
    found = answer(maps, [0, 0, 0, 1, 2], [0, 1, 1, 2, 3, 3])
    what = tuple(found.shape) if isinstance(found, Tensor) else kind(found)
    assert what == (2, 3, 3, 4), f"maps (2, 3, 5, 6) became {what}, not (2, 3, 3, 4)."
    agree(found.sum(-1), torch.ones(2, 3, 3), "the sum of each row of words", hint)
    expected = (maps[..., 3, 4] + maps[..., 3, 5]).unsqueeze(-1)
    agree(found[..., 1, 3:], expected, "for the word of one piece", hint)
    three = (maps[..., 0, 0] + maps[..., 1, 0] + maps[..., 2, 0]) / 3
    agree(found[..., 0, 0], three, "for a word of three pieces and a first key", hint)


@exercise("5.3")
def entropy_of_rows(answer):
    sure = torch.eye(3).unsqueeze(0)
    agree(answer(sure), torch.zeros(1), "for weights of 0 and 1", "0 · log 0 is 0.")
    even = torch.full((2, 3, 4), 0.25)
    hint = "bits, a mean over rows, one number for each map."
    agree(answer(even), torch.full((2,), 2.0), "for uniform weights on 4 keys", hint)
    masked = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    agree(answer(masked), torch.tensor([0.5]), f"for {show(masked)}", hint)
    many = torch.rand(2, 5, 6, 7).softmax(-1)
    nats = torch.distributions.Categorical(many).entropy().mean(-1)
    agree(answer(many), nats / torch.tensor(2.0).log(), "for maps (2, 5, 6, 7)", hint)


@exercise("5.4")
def error_rate_of_links(answer):
    hint = "a link that is only possible is no mistake, but nothing that must be found"
    sure, possible = {(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1), (2, 2)}
    for found, expected, given in (
        (sure, 0.0, "for exactly the sure links"),
        (possible, 0.0, "for all possible links"),
        ({(0, 0)}, 1 / 3, "for one of two sure links"),
        ({(0, 0), (1, 1)}, 0.25, "for one sure and one possible link"),
        ({(2, 0)}, 1.0, "for one wrong link"),
        ({(0, 0), (1, 2), (2, 0)}, 0.2, "for both sure links and a wrong one"),
    ):
        value = answer(set(found), set(sure), set(possible))
        assert is_number(value), f"a plain number is needed, not {kind(value)}."
        assert near(value, expected), (
            f"{given}: with the links {sorted(found)}, sure ones {sorted(sure)}, and "
            f"possible ones {sorted(possible)} it is {expected:.4f}, not {value:.4f}. "
            f"Hint: {hint}."
        )
    alike = answer({(0, 0)}, set(sure), set(sure))
    apart = answer({(0, 0)}, set(sure), set(possible) - set(sure))
    assert near(alike, apart), (
        "a sure link is possible, too, whether or not the set of possible links "
        "repeats it."
    )
    draws = torch.rand(2, 4, 5) < 0.4
    expected = at.alignment_error_rate(at.count_links(*draws)).item()
    found, gold = ({tuple(place) for place in d.nonzero().tolist()} for d in draws)
    value = answer(found, set(gold), set(gold))
    assert near(value, expected), (
        "if every possible link is sure, it is the error rate of this section, "
        f"{expected:.4f}, not {value:.4f}."
    )


@exercise("5.5")
def what_the_silenced_print(answer):
    letters = "".join(map(str, answer)) if isinstance(answer, list | tuple) else answer
    letters = re.sub(r"[\s,;]", "", str(letters)).lower()
    assert sorted(letters) == ["a", "b", "c"], (
        f"{answer!r} doesn't have each of the letters a, b and c once, as in 'cab'."
    )
    assert sealed("5.5, case 3", letters[2]) == "ce0fcce0e4a9", (
        "case 3: without cross-attention, nothing of the source reaches the decoder."
    )
    assert sealed("5.5", letters) == "ac31aeb7bb31", (
        "cases 1 and 2 are the other way around. Hint: in the maps of section 5.4, "
        "which kind of attention looks from *mit* at the hat?"
    )


def run_patched(answer, module, x, mask, *patch):
    """Return a module's output and its weights while an answer patches it."""
    with at.plain_attention(module), torch.no_grad():
        if patch:
            answer(module, *patch)
        return module(x, x, x, mask), module.attn


@exercise("5.6")
def one_head_from_a_donor(answer):
    module = at.MultiHeadedAttention(3, 12, dropout=0.0).eval()
    x, mask = torch.randn(4, 5, 12), torch.ones(4, 1, 5, dtype=torch.bool)
    mask[1, :, 3:] = False
    donors, t = torch.tensor([2, 0, 1, 3]), 2

    def run(*patch):
        return answer.ask(run_patched, module, x, mask, *patch)

    clean, weights = run()
    own, _ = run(1, t, torch.arange(4))
    agree(own, clean, "where each sentence is its own donor, nothing may change:",
          "the function gets more than queries, keys, and values.")  # fmt: skip
    found, kept = run(1, t, donors)
    given = "for h = 3, head 1, position 2, and donors [2, 0, 1, 3]"
    agree(kept, weights, f"{given} the weights in `attn` stay as they are:",
          "what is transplanted is the head's output.")  # fmt: skip
    moved = ((found - clean).abs().amax((0, 2)) > 1e-5).nonzero().flatten().tolist()
    assert moved == [t], (
        f"{given} your output changes at the positions {moved}, not at [2]. "
        "Hint: the outputs of all heads are (B, h, L, d_k)."
    )
    each = torch.stack([run(head, t, donors)[0] - clean for head in range(3)])
    assert not same(each[0], each[1]), (
        "heads 0 and 1 make the same difference. Hint: only one of them is patched."
    )
    together = each.sum(0)[:, t]
    backward = clean[donors.argsort()][:, t] - clean[:, t]
    assert not same(together, backward), (
        f"{given} sentence 0 gets the vector of sentence 1. Hint: donors[b] is where "
        "that of sentence b comes from."
    )
    agree(together, clean[donors][:, t] - clean[:, t],
          "with heads 0, 1, and 2 patched one at a time, the three differences must "
          "add up to that between donor and sentence:",
          "take all donors' vectors before you overwrite any.")  # fmt: skip
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        with torch.no_grad():
            kept = module.linears[3].weight[:, part].clone()
            module.linears[3].weight[:, part] = 0
            silent = run()[0]
            patched = run(head, t, donors)[0]
            module.linears[3].weight[:, part] = kept
        assert same(patched, silent), (
            f"head {head} has no say in the output projection, and still it changes "
            "the output when it is patched. Hint: which head did you patch?"
        )


class WatchComplex(TorchFunctionMode):
    """Note all results that are made of complex numbers."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.is_complex():
            self.seen.append(torch.cat([result.real, result.imag], dim=-1))
        return result


def with_complex(answer, x, start):
    """Return a result, and all complex results on the way, as halves."""
    with WatchComplex() as watch:
        found = answer(x.clone(), start)
    if isinstance(found, Tensor) and found.is_complex():
        return None, watch.seen
    return found, watch.seen


@exercise("6.1")
def one_multiplication(answer):
    def turned(x: Tensor, start: int, fault: str) -> Tensor:
        """Rotate vectors x (…, L, d_k) with one fault."""
        L, d_k = x.shape[-2:]
        first = {"beginning": 0, "from one": start + 1}.get(fault, start)
        exponent = torch.arange(0, d_k, 2) / d_k
        exponent = {"half": exponent / 2, "double": exponent * 2}.get(fault, exponent)
        angle = torch.arange(first, first + L).unsqueeze(1) * 10000**-exponent
        angle = -angle if fault == "backward" else angle
        neighbors = fault.startswith("neighbors")
        a, b = (x[..., ::2], x[..., 1::2]) if neighbors else x.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        parts = [a * cos - b * sin, a * sin + b * cos]
        if fault == "neighbors":
            return torch.stack(parts, dim=-1).flatten(-2)
        return torch.cat(parts, dim=-1)

    hints = {
        "neighbors": "the pairs are neighbors, 0 with 1, 2 with 3. Hint: coordinate i "
        "belongs with i + d_k / 2; `chunk` halves a vector.",
        "neighbors, halves": "the pairs that you rotate are neighbors, and the result "
        "has their parts in two halves. Hint: halve the vector before, too.",
        "backward": "the vectors turn the wrong way. Hint: a is the real part and b "
        "the imaginary one, and the sign of the angle is plus.",
        "beginning": "the positions are counted from 0. Hint: with a cache, x is only "
        "the end of the sequence; its first position is start.",
        "from one": "each position is one too large. Hint: the first position of a "
        "sequence is 0, and isn't rotated.",
        "half": "the later pairs turn too fast. Hint: the base is 10000, and its "
        "exponents run from 0 to almost 1, in steps of 2 / d_k.",
        "double": "the later pairs turn too slowly. Hint: the base is 10000, and its "
        "exponents run from 0 to almost 1, in steps of 2 / d_k.",
    }
    for shape, start in (((2, 3, 5, 8), 0), ((2, 3, 2, 8), 5), ((1, 6), 3)):
        x = torch.randn(shape)
        given = f"for x of shape {shape} and start {start}"
        found, seen = answer.ask(with_complex, x, start)
        assert found is not None, (
            f"{given} the result is complex or nothing. Hint: put its real parts and "
            "then its imaginary parts into one vector."
        )
        assert isinstance(found, Tensor), (
            f"{given} a tensor is needed, not {kind(found)}."
        )
        expected = at.RotaryEmbedding(shape[-1])(x, start)
        right = same(found, expected)
        for fault, hint in hints.items():
            wrong = not right and same(found, turned(x, start, fault))
            assert not wrong, f"{given} {hint}"
        hint = "position p turns pair i by the angle p / 10000^(2i / d_k)."
        agree(found, expected, given, hint)
        assert any(same(each, expected) for each in seen), (
            "the result is right, but it was not the product of complex numbers. Hint: "
            "`torch.complex(a, b) * torch.polar(…)`"
        )


@exercise("6.2")
def what_a_gate_does(answer):
    found = numbers_of(answer, 3, "give three numbers, for (a), (b), and (c)")
    x, w_g = torch.randn(100, 8), torch.randn(8, 16)
    w_1, w_2 = torch.randn(8, 16), torch.randn(16, 8)

    def factor(network):
        return (network(10 * x).norm() / network(x).norm()).item()

    asked = (
        ("(a)", factor(lambda x: F.relu(x @ w_1) @ w_2), "the ReLU of 10z is ten times "
         "the ReLU of z."),
        ("(b)", factor(lambda x: (F.relu(x @ w_g) * (x @ w_1)) @ w_2), "the gate grows "
         "as well as what it is multiplied by."),
    )  # fmt: skip
    for number, (part, measured, hint) in zip(found, asked):
        assert abs(number - measured) < 1e-3 * measured, (
            f"{part} is not {number:g}. Hint: {hint}"
        )
    plain = 2 * 512 * 2048
    width = found[2]
    assert width == int(width) and width > 0, f"(c) is a whole number, not {width}."
    assert 3 * 512 * width <= plain, (
        f"(c): with a width of {width} it has {3 * 512 * width:,} weights, more than "
        f"{plain:,}. Hint: a gated network has three matrices."
    )
    assert 3 * 512 * (width + 1) > plain, (
        f"(c): it could be wider than {width}: with {width + 1} it still has no more "
        f"than {plain:,} weights."
    )


@exercise("6.3")
def how_many_tokens_fit(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "two functions are asked for, (bytes_per_token, tokens_that_fit)."
    )

    def bytes_in_the_cache(N: int, h: int, h_kv: int, d_k: int) -> int:
        """Return what a cache of 32-bit numbers grows by with each token."""
        model, tokens = at.GPT(9, N, h * d_k, 8, h, h_kv), 3
        cache = model.empty_cache()
        for _ in range(tokens):
            model(torch.tensor([[4]]), cache)
        stored = [part for layer in cache for part in layer.values()]
        return sum(part.numel() * part.element_size() for part in stored) // tokens

    bytes_per_token, tokens_that_fit = answer
    for N, h, h_kv, d_k in ((1, 3, 3, 2), (3, 6, 2, 4), (2, 4, 1, 6)):
        expected = bytes_in_the_cache(N, h, h_kv, d_k)
        found = bytes_per_token(N, h_kv, d_k, 4)
        given = f"for N={N}, h_kv={h_kv}, d_k={d_k} and 4 bytes per number"
        assert is_number(found), f"{given} a number is needed, not {found!r}."
        assert found != expected / 2, (
            f"{given} {found} is half of what is stored. Hint: of what are there two?"
        )
        assert found != expected / 4, (
            f"{given} {found} counts numbers. Hint: how many bytes does each take?"
        )
        assert N == 1 or found != expected / N, (
            f"{given} {found} is what one layer stores."
        )
        assert found != 8 * expected, f"{given} {found} counts bits."
        assert found == expected, (
            f"{given} a cache grows by {expected} bytes, not {found}. Hint: each layer "
            "stores a key and a value for each of its h_kv heads."
        )
    assert bytes_per_token(1, 1, 8, 2) == 32, (
        "with 2 bytes per number the answer must be half of that with 4 bytes."
    )
    for memory, batch, size in (
        (960, 1, (1, 3, 2, 4)),
        (960, 5, (1, 3, 2, 4)),
        (1000, 3, (1, 3, 2, 4)),
        (16 * 2**30, 8, (32, 8, 128, 2)),
    ):
        each = bytes_per_token(*size)
        expected = memory // (batch * each)
        found = tokens_that_fit(memory, batch, *size)
        given = f"for {memory:,} bytes, batch={batch} and {each:,} bytes per token"
        assert is_number(found), f"{given} a number is needed, not {found!r}."
        assert batch == 1 or found not in (memory // each, expected * batch), (
            f"{given} {found:,} tokens are those of all sequences together. Hint: they "
            "share the memory."
        )
        assert found == int(found), f"{given} {found} isn't a whole number of tokens."
        assert found != expected + 1, (
            f"{given} {found} tokens don't fit. Hint: round down."
        )
        assert found == expected, f"{given} it is {expected:,}, not {found:,}."


def with_four_faults(query, key, value, mask=None):
    """Return what the faulty function that exercise 6.4 gives does."""
    copies = query.size(1) // key.size(1)
    speed = 10000 ** -(torch.arange(0, query.size(3), 2) / query.size(3))

    def rotate(x):
        angle = torch.arange(x.size(2)).unsqueeze(1) * speed
        a, b = x.chunk(2, dim=-1)
        a = a * angle.cos() - b * angle.sin()
        return torch.cat([a, a * angle.sin() + b * angle.cos()], dim=-1)

    key, value = (rotate(x).repeat(1, copies, 1, 1) for x in (key, value))
    return at.attention(rotate(query), key, value, mask)[0]


@exercise("6.4")
def grouped_and_rotated(answer):
    def draw(h, g, L, S):
        return torch.randn(2, h, L, 8), torch.randn(2, g, S, 8), torch.randn(2, g, S, 8)

    def expected(query, key, value, mask=None):
        copies = query.size(1) // key.size(1)
        key, value = (x.repeat_interleave(copies, dim=1) for x in (key, value))
        rotary, start = at.RotaryEmbedding(8), key.size(2) - query.size(2)
        return at.attention(rotary(query, start), rotary(key), value, mask)[0]

    untouched = draw(6, 2, 3, 5)
    found, faulty = answer(*untouched), with_four_faults(*untouched)
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind(found)}."
    if found.shape == faulty.shape and torch.allclose(found, faulty, atol=1e-5):
        raise NotImplementedError  # so that no hint names a fault before you looked

    query, key, value = draw(6, 2, 5, 5)
    alike = value[:, :1, :1].expand_as(value)
    agree(
        answer(query, key, alike),
        alike[:, :1].expand(2, 6, 5, 8),
        "where all keys have the same value, which must come out whatever the weights,",
        "positions decide who attends to whom; what is passed on has no position",
    )
    alone = draw(2, 2, 5, 5)
    agree(
        answer(*alone),
        expected(*alone),
        "with as many heads of keys as of queries, and as many keys,",
        "rotate the pair (1, 0) by 90° on paper, line by line; is the result (0, 1)?",
    )
    mixed = query, key.repeat(1, 3, 1, 1), value.repeat(1, 3, 1, 1)
    found = answer(query, key, value)
    assert not torch.allclose(found, expected(*mixed), atol=1e-5), (
        "with 6 heads of queries and 2 of keys, head 1 attends to the keys of head 1. "
        "Hint: neighbors share, so heads 0, 1 and 2 attend to the keys of head 0."
    )
    hint = "head i of the queries attends to head i // 3 of the keys"
    given = "with 6 heads of queries and 2 of keys"
    agree(found, expected(query, key, value), given, hint)
    given = "with the last 2 queries of 5, as when decoding with a cache,"
    last = query[:, :, 3:]
    hint = "they must get what they get among all 5; at which positions are they?"
    agree(answer(last, key, value), expected(query, key, value)[:, :, 3:], given, hint)
    for h, g, L, S in ((4, 1, 6, 6), (4, 2, 1, 6), (4, 4, 3, 6)):
        parts = draw(h, g, L, S)
        mask = at.subsequent_mask(S)[:, S - L :].unsqueeze(1)
        given = f"for {h} heads of queries, {g} of keys, {L} queries, {S} keys, a mask"
        agree(answer(*parts, mask), expected(*parts, mask), given)


def with_a_leak(model, pieces):
    """Return what the faulty function that exercise 6.5 gives does."""
    cache, logits = [None for _ in model.blocks], []
    for start, ids in enumerate(pieces):
        x = model.embed(ids)
        for i, block in enumerate(model.blocks):
            attn, u = block.self_attn, block.norm_1(x)
            q, k, v = (attn.split(w(u)) for w in attn.linears[:3])
            q, k = attn.rope(attn.q_norm(q), start), attn.rope(attn.k_norm(k), start)
            if cache[i]:
                k = torch.cat([cache[i][0], k], dim=2)
                v = torch.cat([cache[i][1], v], dim=2)
            cache[i] = k, v
            k, v = (t.repeat_interleave(attn.served, dim=1) for t in (k, v))
            attended, _ = at.attention(q, k, v)
            x = x + attn.linears[3](attended.transpose(1, 2).flatten(-2))
            x = x + block.feed_forward(block.norm_2(x))
        logits.append(model.norm(x) @ model.embed.weight.mT)
    return torch.cat(logits, dim=1)


def logits_and_embedded(answer, model, pieces):
    """Return logits, and how many positions of a row were embedded for them."""
    embedded = []
    counting = model.embed.register_forward_hook(
        lambda _, read, x: embedded.append(x.size(1))
    )
    found = answer(model, pieces)
    counting.remove()
    return found, sum(embedded)


@exercise("6.5")
def a_leak_through_the_cache(answer):
    model = at.GPT(vocab=11, N=2, d_model=16, d_ff=24, h=4, groups=2)
    for weight in model.parameters():  # a fresh model hardly reacts to its words
        weight.data += 0.3 * torch.randn_like(weight)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    expected = model(ids)

    def logits(ids, sizes):
        return answer(model, list(ids[:, : sum(sizes)].split(sizes, dim=1)))

    def differ(one, other):
        """Return the positions at which logits differ."""
        return ((one - other).abs().amax((0, 2)) > 1e-3).nonzero().flatten().tolist()

    found = logits(ids, [4, 1, 1])
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind(found)}."
    faulty = with_a_leak(model, ids.split([4, 1, 1], dim=1))
    if found.shape == faulty.shape and torch.allclose(found, faulty, atol=1e-4):
        raise NotImplementedError  # so that no hint names a fault before you looked

    for sizes in ([1] * 6, [4], [4, 1, 1], [3, 2, 1], [1, 5]):
        given, L = f"for pieces of {sizes} ids", sum(sizes)
        pieces = list(ids[:, :L].split(sizes, dim=1))
        found, embedded = answer.ask(logits_and_embedded, model, pieces)
        assert embedded <= L, (
            f"{given} {embedded} ids are embedded, not {L}. Hint: what is in the cache "
            "needn't be computed again."
        )
        shapes = tuple(found.shape), tuple(expected[:, :L].shape)
        assert shapes[0] == shapes[1], (
            f"{given} your shape is {shapes[0]}; it should be {shapes[1]}."
        )
        for changed in range(1, L):
            others = ids.clone()
            others[:, changed] = 7
            moved = differ(logits(others, sizes)[:, :changed], found[:, :changed])
            assert not moved, (
                f"{given} the logits at position {moved[0]} change when the id at "
                f"position {changed} does."
            )
        wrong = differ(found, expected[:, :L])
        assert not wrong, (
            f"{given} the logits at position {wrong[0]} differ from those of one pass "
            "over the same ids."
        )


@exercise("6.6")
def the_nucleus(answer):
    sharp = [0.0625, 0.5, 0.125, 0.25, 0.04, 0.0225]
    order = [1, 3, 2, 0, 4, 5]

    def kept(p, top_p):
        found = answer(list(p), top_p)
        assert isinstance(found, dict), (
            f"a dictionary {{id: probability}} is needed, not {kind(found)}."
        )
        return found

    for top_p, size, hint in (
        (0.6, 2, "the best alone has 0.5, which is too little, so a second is needed."),
        (0.51, 2, "the token that crosses the limit is kept, too."),
        (0.8, 3, "go through the tokens from the most probable to the least."),
        (0.5, 1, "the best alone has 0.5, and that is enough."),
        (0.75, 2, "two tokens have 0.75, and that is enough."),
        (0.1, 1, "the best token is always kept."),
        (0.0, 1, "the best token is always kept."),
        (0.99, 6, "the first five have 0.9775."),
    ):
        found, expected = kept(sharp, top_p), order[:size]
        assert sorted(found) == sorted(expected), (
            f"of {sharp} the nucleus of top_p={top_p} is {sorted(expected)}, not "
            f"{sorted(found)}. Hint: {hint}"
        )
        share = sum(sharp[i] for i in expected)
        for i in expected:
            assert near(float(found[i]), sharp[i] / share), (
                f"of {sharp} with top_p={top_p} token {i} is drawn with probability "
                f"{sharp[i] / share:.4f}, not {found[i]:.4f}. Hint: what is kept has "
                f"{share:g} in all; divide by that."
            )
    assert not answer.ask(tensor_work, sharp, 0.6)[1], (
        "the ids are right, but tensors were used on the way. Hint: `sorted` with a "
        "`key`, and a loop."
    )
    found = kept([0.75, 0.0, 0.25], 1.0)
    assert sorted(found) == [0, 2], (
        f"of [0.75, 0.0, 0.25] the nucleus of top_p=1.0 is [0, 2], not "
        f"{sorted(found)}. Hint: the fewest tokens that add up to 1."
    )
    for _ in range(20):
        log_p = torch.randn(7).mul(2).log_softmax(-1).double()
        log_p -= log_p.logsumexp(-1)
        top_p = torch.rand(1).item()
        p = at.restrict(log_p, None, top_p).softmax(-1)
        expected = {i: share for i, share in enumerate(p.tolist()) if share}
        found = kept(log_p.exp().tolist(), top_p)
        assert sorted(found) == sorted(expected) and all(
            near(float(found[i]), expected[i]) for i in expected
        ), (
            f"of {show(log_p.exp())} with top_p={top_p:.4f} `restrict` keeps "
            f"{ {i: round(q, 4) for i, q in expected.items()} }; yours "
            f"{ {i: round(float(q), 4) for i, q in found.items()} }."
        )


def outputs_of_block(answer, sizes, state, x, mask):
    """Return what a class of blocks computes with these weights; or what it lacks."""
    if not isinstance(answer, type):
        return None
    block = answer(*sizes)
    if not isinstance(block, nn.Module) or block.state_dict().keys() != state.keys():
        return "other weights"
    block.load_state_dict(state)
    cache: dict = {}
    steps = [block(x[:, [t]], None, cache) for t in range(x.size(1))]
    return block(x, mask), torch.cat(steps, dim=1)


@exercise("6.7")
def without_residuals(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "two things are asked for, (WithoutResiduals, letters)."
    )
    made, letters = answer
    assert isinstance(made, Answer), f"a class is needed, not {kind(made)}."
    sizes = 16, 24, 4, 2
    block = at.Block(*sizes)
    for weight in block.parameters():  # fresh scales are all one, whatever the norm
        if weight.dim() == 1:
            nn.init.uniform_(weight, 0.5, 1.5)
    x, mask = torch.randn(2, 5, 16), at.subsequent_mask(5)
    outputs = made.ask(outputs_of_block, sizes, block.state_dict(), x, mask)
    assert outputs is not None, f"a class is needed, not {kind(made)}."
    assert outputs != "other weights", (
        "your class doesn't have the weights of `Block`. Hint: derive it from that, "
        "and write only `forward`."
    )

    def passed_on(fault: str = "") -> Tensor:
        """Return what it should compute, or what it does with one fault."""
        u = x if fault == "norms" else block.norm_1(x)
        y = block.self_attn(u, u, u, None if fault == "mask" else mask)
        if fault in ("both", "first"):
            y = x + y
        if fault == "attention":
            return y
        read = x if fault == "input" else y
        z = block.feed_forward(read if fault == "norms" else block.norm_2(read))
        return y + z if fault in ("both", "second") else z

    found, cached = outputs
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind(found)}."
    hints = {
        "both": "your block still does what `Block` does: x is added twice.",
        "first": "x is still added to what attention returns.",
        "second": "what attention returns is still added to what the feed-forward "
        "network returns.",
        "norms": "the norms are gone, too. Hint: leave out only the additions.",
        "input": "the feed-forward network reads the block's input. Hint: what "
        "attention returns has to go on to it.",
        "attention": "the feed-forward network is gone, too.",
        "mask": "the mask is lost on the way to the attention.",
    }
    for fault, hint in hints.items():
        assert not same(found, passed_on(fault)), hint
    hint = "attention of the norm, then the rest"
    agree(found, passed_on(), "for x (2, 5, 16)", hint)
    agree(
        cached,
        passed_on(),
        "for the same x, one position at a time with a `cache`",
        "as in `Block`, the attention gets it",
    )

    assert letters is not None and letters is not ..., (
        "the class is right. Now decide what you expect, train the models, and give "
        "the letters."
    )
    reasons = {
        "a": "the loss falls by almost two nats, so something is learned.",
        "b": "the loss falls to the entropy of the words' frequencies, which takes no "
        "context to reach, and stays there.",
        "c": "compare the logits at two positions: in the end, the blocks turn all "
        "vectors the same way, whatever words they come from.",
        "d": "fresh weights and norms pass on enough; the gradient of the first block "
        "is as large as in the intact model, or larger.",
        "e": "where all vectors are alike, nothing that the first block changes makes "
        "a difference; its gradient is less than a hundredth of the intact model's.",
        "f": "a single block comes close to a model with residuals. What does it read, "
        "and what do the blocks above it read?",
    }
    true_sentences(
        "6.7", letters, reasons, {"ea8b98031d67", "f89810cbe07d", "f4bacbb35c17"}
    )


CASES = {  # ids, and the cells (query, key) that count, by hand
    (7, 1, 2, 7, 9, 8): [(3, 1)],
    (1, 2, 3, 1, 2, 3, 1): [(3, 1), (4, 2), (5, 3), (6, 1), (6, 4)],
    (4, 4, 5, 4, 6, 5, 4): [
        (1, 1), (3, 1), (3, 2), (5, 3), (6, 1), (6, 2), (6, 4),
    ],
}  # fmt: skip


def close(found, expected):
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-6)


@exercise("6.8")
def induction_by_content(answer):
    for given, cells in CASES.items():
        L, queries = len(given), len({t for t, _ in cells})
        weights = torch.rand(3, L, L).mul(4).exp().tril()
        weights /= weights.sum(-1, keepdim=True)
        found = answer(weights.clone(), torch.tensor(given))
        assert isinstance(found, torch.Tensor) and found.shape == (3,), (
            f"a score for each of 3 heads is needed, a tensor (3), not {kind(found)}."
        )
        right = sum(weights[:, t, key] for t, key in cells)
        same = sum(weights[:, t, key - 1] for t, key in cells)
        assert not close(found, same / queries), (
            f"of {given} that is the weight on the same id. Hint: an induction head "
            "looks at the id after it."
        )
        assert not close(found, right / L), (
            f"of {given} the sum is divided by {L}. Hint: only the queries count whose "
            f"id has occurred before: {queries}."
        )
        assert close(found, right / queries), (
            f"of {given} the cells (query, key) that count are {cells}, of {queries} "
            f"queries; their mean isn't {found.tolist()}. Hint: a query at t has a key "
            "at s + 1 for each s < t with the same id, however far back."
        )


@exercise("7.1")
def several_groups(answer):
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    found = answer(rewards.clone())
    root = 3**0.5
    expected = torch.tensor([[3.0, -1, -1, -1], [1, 1, 1, -3]]) / root
    given = "for rewards [[1, 0, 0, 0], [1, 1, 1, 0]]"
    if isinstance(found, torch.Tensor) and found.shape == rewards.shape:

        def is_near(other):
            return torch.allclose(found.double(), other.double(), atol=1e-3)

        assert not is_near(rewards - rewards.mean()), (
            f"{given} the mean of all eight was subtracted. Hint: each row is a group."
        )
        assert not is_near(rewards - rewards.mean(1, keepdim=True)), (
            f"{given} the mean is right. Hint: now divide by each group's standard "
            "deviation."
        )
        assert not is_near(expected * root / 2), (
            f"{given} the sum of squares was divided by 3. Hint: the *mean* squared "
            "distance, over all four; see `correction` of `torch.std`."
        )
    agree(found, expected, given, "mean and deviation are those of each row")
    for value in (0.0, 1.0, 0.3):
        equal = torch.full((1, 3), value)
        agree(
            answer(equal.clone()),
            torch.zeros(1, 3),
            f"for rewards {[[value] * 3]}",
            "nobody did better than the others, so nobody has an advantage; and there "
            "is nothing to divide by",
        )
    rewards = torch.rand(3, 5)
    rewards[1] = rewards[1, 0]
    centered = rewards - rewards.mean(1, keepdim=True)
    spread = centered.square().mean(1, keepdim=True).sqrt()
    expected = torch.where(spread > 1e-6, centered / spread, torch.zeros_like(centered))
    agree(
        answer(rewards.clone()),
        expected,
        "for groups of five, of which the second has equal rewards,",
    )


@exercise("7.2")
def a_verifier(answer):
    pets = {"dog", "dogs", "cat", "cats"}
    for line, words, expected, hint in (
        ("A man is petting a cat in a garden.", pets, True, "it has a cat."),
        ("A man is reading a book.", pets, False, "it has none of them."),
        ("A man is catching a fish.", pets, False, "*catching* isn't *cat*."),
        ("A woman is walking a dog.", pets, True, "the period isn't part of the word."),
        ("Dogs are playing.", pets, True, "the first word has a capital."),
        ("A dog, a boy, and a girl.", pets, True, "the comma isn't part of the word."),
        ("A hotdog.", pets, False, "*hotdog* isn't *dog*."),
        ("", pets, False, "an empty sentence has no words."),
        ("A cat.", set(), False, "without words to look for, nothing passes."),
        ("A cat and a dog.", {"bird", "dog"}, True, "one of the words is enough."),
    ):
        found = answer(line, set(words))
        assert isinstance(found, bool), f"True or False is needed, not {kind(found)}."
        assert found == expected, (
            f"of {line!r} and {sorted(words)} it says {found}. Hint: {hint}"
        )


@exercise("7.3")
def what_pays(letters):
    reasons = {
        "a": "no sentence earns more than 1, and this policy earns that each time.",
        "b": "a sentence earns 1 divided by its copies in the group. Of 79 others, how "
        "many are the same, if each is with probability 1 in 10,000?",
        "c": "a single pattern with many words to fill in has more sentences than any "
        "group, and the other patterns aren't missed.",
        "d": "the best p(s) is proportional to the first model's times exp(r(s) / β), "
        "which is the same factor for all possible sentences.",
        "e": "β is what it costs to go away. With a very large one, the first model is "
        "the best policy.",
        "f": "all advantages are zero, and so is the gradient.",
    }
    sealed_letters = {"785088962450", "07fc44ca6495", "1de5c702a534", "efdccd552247"}
    true_sentences("7.3", letters, reasons, sealed_letters)
