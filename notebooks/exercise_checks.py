"""The checks of the exercises: `from exercise_checks import check`.

`check("1.2", answer)` says in one line whether an answer is right, and if not, what
is wrong with it. It never stops a notebook. Each check is a function below that
calls the answer with small inputs and asserts what must hold; the text behind an
`assert` is what the reader sees, so it names the input and gives a hint.
"""

from __future__ import annotations

import copy
import functools
import math
import re
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import annotated_transformer as at

CHECKS: dict[str, Callable[[Any], None]] = {}
UNANSWERED = "not answered yet."


def exercise(number: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register the decorated function as the check of an exercise."""

    def register(judge: Callable[[Any], None]) -> Callable[[Any], None]:
        if number in CHECKS:
            raise ValueError(f"exercise {number} has two checks")
        CHECKS[number] = judge
        return judge

    return register


def complaint(number: str, answer: Any) -> str | None:
    """Return what is wrong with an answer, in a sentence; None if it is right.

    The check runs from a seed of its own and leaves the notebook's random numbers
    as they were.
    """
    if number not in CHECKS:
        known = ", ".join(sorted(CHECKS))
        return f"there is no exercise of this number; there are {known}."
    if answer is None or answer is ...:
        return UNANSWERED
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            CHECKS[number](answer)
    except NotImplementedError:
        return UNANSWERED
    except AssertionError as error:
        return " ".join(str(error).split()) or stopped(error)
    except Exception as error:
        return stopped(error)
    return None


def stopped(error: Exception) -> str:
    """Describe an exception in the answer in a sentence with the reader's line."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename != __file__]
    at = f" at its line {theirs[0].lineno}" if theirs else ""
    at += f" (`{theirs[0].line}`)" if theirs and theirs[0].line else ""
    kind, words = type(error).__name__, " ".join(str(error).split())
    return f"your answer stops{at} with {kind}{': ' if words else ''}{words}"


def check(number: str, answer: Any) -> None:
    """Say in one line whether an answer is right."""
    found = complaint(number, answer)
    if found is None:
        print(f"Exercise {number}: right.")
    elif found == UNANSWERED:
        print(f"Exercise {number}: {UNANSWERED}")
    else:
        print(f"Exercise {number}: not yet: {found}")


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
    kind = type(found).__name__
    assert isinstance(found, Tensor), f"{given} a tensor is needed, not {kind}.{hint}"

    def same(what: str, was: Any, should: Any, equal: bool) -> None:
        assert equal, f"{given} your {what} is {was}; it should be {should}.{hint}"

    shapes = tuple(found.shape), tuple(expected.shape)
    same("shape", *shapes, shapes[0] == shapes[1])
    kinds = [(t.is_floating_point(), t.dtype == torch.bool) for t in (found, expected)]
    same("type", found.dtype, expected.dtype, kinds[0] == kinds[1])
    far = ~torch.isclose(
        found.detach().double(), expected.detach().double(), rtol=1e-4, atol=1e-5
    )
    if far.any():
        place = far.nonzero()[0].tolist()
        was, should = show(found[tuple(place)]), show(expected[tuple(place)])
        same(f"value at {place}" if place else "value", was, should, False)


# chapter 1


@exercise("1.1")
def shapes(answer: Any) -> None:
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "give three shapes, as ((…), (…), (…))"
    )
    layer = at.MultiHeadedAttention(8, 512, 0.0)
    words, memory = torch.randn(2, 4, 512), torch.randn(2, 7, 512)
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


@exercise("1.4")
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


@exercise("1.2")
def masks_from_lengths(answer: Any) -> None:
    for lengths, size in (([3, 1], 3), ([0, 2, 5], 5), ([1], 4)):
        rows = [[s < length for s in range(size)] for length in lengths]
        agree(
            answer(torch.tensor(lengths), size),
            torch.tensor(rows).unsqueeze(1),
            f"for lengths {lengths} and size {size}",
            "True where attention is allowed, and one row for all queries",
        )


@exercise("1.5")
def size_of_a_model(answer: Any) -> None:
    for vocab, N, d_model, d_ff in ((11, 1, 4, 8), (7, 3, 6, 10)):
        model = at.make_model(vocab, vocab, N, d_model, d_ff, 2)
        at.tie_weights(model, "all")
        count = at.count_parameters(model)
        found = answer(vocab, N, d_model, d_ff)
        given = f"for vocab={vocab}, N={N}, d_model={d_model}, d_ff={d_ff}"
        assert isinstance(found, int), f"{given} a whole number is needed, not {found}"
        off = f"{abs(found - count)} too {'many' if found > count else 'few'}"
        assert found == count, (
            f"{given} you count {found}, which is {off}. Hint: compare with "
            "`for name, p in model.named_parameters(): print(name, p.numel())`"
        )


class Watch(TorchDispatchMode):
    """Note whether any result has the given last two axes."""

    def __init__(self, axes: tuple[int, int]):
        super().__init__()
        self.axes = axes
        self.seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.shape[-2:] == self.axes:
            self.seen = True
        return result


@exercise("1.6")
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


@exercise("1.7")
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
    with Watch((5, 11)) as watch:
        answer(q, k, v, 4)
    assert not watch.seen, (
        "the result is right, but the whole matrix of 5 by 11 scores was built on the "
        "way; take the products with one piece of the keys at a time"
    )


def outputs_of_heads(x: Tensor, w: Tensor, h: int, mask: Tensor) -> Tensor:
    """Return the outputs of h heads of self-attention, (B, h, L, d_k)."""
    parts = torch.arange(x.size(-1)).split(x.size(-1) // h)
    heads = [at.attention(*(x @ m[:, part] for m in w), mask)[0] for part in parts]
    return torch.stack(heads, dim=1)


@exercise("1.3")
def mended_attention(answer: Any) -> None:
    x, w = torch.randn(2, 5, 12), torch.randn(3, 12, 12)
    mask = at.subsequent_mask(5)
    found, heads = answer(x, *w, 4, mask), outputs_of_heads(x, w, 4, mask)
    unmoved = heads.reshape(2, 5, 12)  # without bringing the heads of a word together
    assert not (found.shape == unmoved.shape and torch.allclose(found, unmoved)), (
        "the heads are split right, but joined wrong: with (B, h, L, d_k), `reshape` "
        "fills a row with several words of one head. Hint: which two axes have to "
        "change places first, so that the h heads of a word are neighbors?"
    )
    other = x.clone()
    other[:, -1] += 1
    moved = (found - answer(other, *w, 4, mask))[:, :-1].abs().amax()
    assert moved < 1e-5, (
        f"when the last of 5 words is changed, an earlier output moves by {moved:.2f}. "
        "Hint: with B = 1 and x = torch.arange(L * d_model).view(1, L, d_model), which "
        "numbers of which word are in each head?"
    )
    for h in (1, 2, 4):
        joined = outputs_of_heads(x, w, h, mask).transpose(1, 2).flatten(2)
        given = f"for {h} heads of width {12 // h}"
        hint = "each head takes neighboring columns of every word"
        agree(answer(x, *w, h, mask), joined, given, hint)


# chapter 2


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def listed(row: Any) -> list:
    """Return a row of ids as a list, whether it is a list, a tuple or a tensor."""
    return row.flatten().tolist() if isinstance(row, Tensor) else list(row)


def near(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=1e-4, abs_tol=1e-9)


@exercise("2.1")
def what_the_decoder_reads(answer):
    row = torch.tensor([[0, 7, 4, 9, 1, 2, 2]])
    batch = at.Batch(row, row)
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "three things are asked for, (tgt, tgt_y, ntokens)."
    )
    tgt, tgt_y = (listed(part) for part in answer[:2])
    assert len(tgt) == len(tgt_y) == 6, (
        f"tgt has {len(tgt)} ids and tgt_y {len(tgt_y)}. A row of seven makes six "
        "positions, each with an id that is read and an id to be predicted."
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


@exercise("2.3")
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


@exercise("2.2")
def perplexity_of_a_test_set(answer):
    found = answer([6 * math.log(10)], [6])
    assert is_number(found), f"a plain number is needed, not {type(found).__name__}."
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


@exercise("2.4")
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


def small_setting() -> tuple:
    """Return a small model in double precision, its loss and three uneven batches."""
    torch.manual_seed(1)
    model = at.make_model(12, 12, N=1, d_model=8, d_ff=16, h=2, dropout=0.0).double()
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, 0, 0.1))
    rows = [torch.randint(3, 12, (2, length)) for length in (2, 9, 5)]
    return model, compute, [at.Batch(each, each, pad=0) for each in rows]


def continuation(model, src, src_mask, ys, max_len, fault: str = "") -> Tensor:
    """Return what a model writes after ys, as it should or with one fault."""
    with torch.no_grad():
        seen = torch.ones_like(src_mask) if fault == "padding" else src_mask
        memory = model.encode(src, seen)
        while ys.size(1) < max_len:
            read = ys[:, -1:] if fault == "last word" else ys
            triangle = at.subsequent_mask(read.size(1))
            mask = torch.ones_like(triangle) if fault == "no triangle" else triangle
            out = model.decode(memory, seen, read, mask)
            last = out[:, 0] if fault == "first position" else out[:, -1]
            word = model.generator(last).argmax(-1, keepdim=True)
            ys = torch.cat([ys, word], dim=1)
    return ys


@exercise("2.5")
def finish_the_sentence(answer):
    hints = {
        "padding": "the source's padding is attended to. Hint: pass on `src_mask`.",
        "last word": "the decoder reads only the last word. Hint: it has no memory of "
        "its own and needs all the words so far.",
        "no triangle": "the earlier positions see the later ones. Hint: in training "
        "they did not; `subsequent_mask` hides them.",
        "first position": "the next word is predicted from the first position. Hint: "
        "which position has read everything?",
    }
    torch.manual_seed(4)  # a model in which every fault shows
    model = at.make_model(12, 12, N=2, d_model=16, d_ff=32, h=2, dropout=0.3)
    for parameter in model.parameters():  # sharp enough to say different things
        parameter.data *= 2
    src = torch.tensor([[5, 3, 9, 4, 7], [8, 6, 2, 0, 0]])
    setting = model, src, (src != 0).unsqueeze(1)
    for typed in ([[1], [1]], [[1, 7, 4], [1, 3, 10]]):
        model.eval()
        beginning = torch.tensor(typed)
        given = f"for the beginnings {typed} and max_len 9"
        expected = continuation(*setting, beginning, 9)
        found = answer(*setting, beginning.clone(), 9)
        kind = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        assert kind == (2, 9), f"{given} ids of shape (2, 9) are needed, not {kind}."
        for row, ids in zip(found, beginning):
            assert torch.equal(row[: len(ids)], ids), (
                f"{given} a row begins with {show(row[: len(ids)])} instead of "
                f"{show(ids)}. What was typed must stay as it is."
            )
        for fault, hint in hints.items():
            wrong = continuation(*setting, beginning, 9, fault)
            assert not torch.equal(found, wrong), f"{given} {hint}"
        agree(found, expected, given, "take the most probable word, again and again.")
    model.train()
    assert torch.equal(answer(*setting, beginning.clone(), 9), expected), (
        "a model in training mode writes other words than in evaluation mode. Hint: "
        "the chapter has a helper that switches dropout off and restores the mode."
    )
    assert model.training, (
        "the model was in training mode and is in evaluation mode afterwards: the rest "
        "of its training would go on without dropout."
    )
    model.eval()
    answer(*setting, beginning.clone(), 9)
    assert not model.training, (
        "the model was in evaluation mode and is in training mode afterwards: it must "
        "be left as it was."
    )


class Watched:
    """A loss that remembers whether gradients were recorded when it was called."""

    def __init__(self, compute):
        self.compute, self.recorded = compute, False

    def __call__(self, x: Tensor, y: Tensor, norm: float):
        self.recorded |= x.requires_grad
        return self.compute(x, y, norm)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compute, name)


@exercise("2.6")
def four_faults(answer):
    model, _, batches = small_setting()
    compute = at.SimpleLossCompute(model.generator, at.LabelSmoothing(12, 0))
    whole, _ = at.run_epoch(batches, model, compute, None, None, mode="eval")
    watched = Watched(compute)
    model.train()
    alone = answer(model, batches[:1], watched)
    trains, recorded = model.training, watched.recorded
    one, _ = at.run_epoch(batches[:1], model, compute, None, None, mode="eval")
    assert is_number(alone), f"a plain number is needed, not {type(alone).__name__}."
    assert near(alone, one), (
        f"for a single batch the NLL is {one:.4f}, not {alone:.4f}. Hint: which word "
        "is to be predicted at each position?"
    )
    found, given = answer(model, batches, watched), [b.ntokens for b in batches]
    assert near(found, whole), (
        f"for batches of {given} words the NLL is {whole:.4f}, not {found:.4f}. "
        "Hint: a mean over words is not a mean over batches."
    )
    assert trains, (
        "the model was in training mode and is in evaluation mode afterwards: the rest "
        "of its training would go on without dropout."
    )
    model.eval()
    answer(model, batches, watched)
    assert not model.training, (
        "the model was in evaluation mode and is in training mode afterwards: it must "
        "be left as it was."
    )
    assert not recorded, (
        "the forward pass recorded a graph for gradients that nobody needs. Hint: the "
        "chapter has a helper that takes care of this and of the mode."
    )


# chapter 3


def german_words(*sentences: str) -> at.Vocabulary:
    """Return the source vocabulary that section 3.3 builds from these sentences."""
    words, english = at.load_tokenizers()
    pairs = [(sentence, "x") for sentence in sentences]
    return at.build_vocabulary(words, english, pairs=pairs)[0]


@exercise("3.1")
def from_a_word_to_its_number(answer):
    assert isinstance(answer, list | tuple | Tensor), "the answer is a list of ids."
    ids = listed(answer)
    vocab = german_words(
        "der Hund bellt", "der Hund schläft", "der Vogel schläft", "der Hund frisst"
    )  # fmt: skip
    expected = [at.START, *vocab("der Vogel schläft nie".split()), at.END]
    assert len(ids) == len(expected), (
        f"your row has {len(ids)} ids. Four words, <s>, and </s> make six."
    )
    assert ids[0] == at.START and ids[-1] == at.END, (
        f"the row runs from <s>, {at.START}, to </s>, {at.END}; yours from {ids[0]} to "
        f"{ids[-1]}."
    )
    assert at.PAD not in ids, "2 is padding, which fills up the short rows of a batch."
    assert ids[4] == at.UNK, (
        f"nie never occurs in training, so its id is that of <unk>, not {ids[4]}."
    )
    assert ids[2] == at.UNK, (
        f"the id of Vogel is not {ids[2]}. Hint: how often does it occur in training, "
        "and what does min_freq=2 ask for?"
    )
    assert ids == expected, (
        f"the row is not {ids}. Hint: the special tokens have 0 to 3, then come the "
        "words that are kept, the most frequent first."
    )


@functools.cache
def caption_lengths() -> list[tuple[int, int]]:
    """Return source and target lengths of the training pairs, as in section 3.5."""
    pairs = at.load_pairs(at.CONFIGS["tiny"], "train")
    tokenizers = at.load_tokenizers()
    sides = zip(*pairs, strict=True)
    cut = [
        [len(tokenizer.tokenize(text)) + 2 for text in side]
        for side, tokenizer in zip(sides, tokenizers, strict=True)
    ]
    return list(zip(*cut, strict=True))


def padding(batch_tokens: int, sides: tuple[int, ...] = (0, 1)) -> float:
    """Return the share of padding in the batches of a budget."""
    lengths = caption_lengths()
    real = positions = 0
    for group in at.token_budget_batches(lengths, batch_tokens):
        for side in sides:
            widths = [lengths[i][side] for i in group]
            real += sum(widths)
            positions += len(group) * max(widths)
    return 1 - real / positions


@exercise("3.2")
def a_smaller_and_a_larger_budget(answer):
    pair = isinstance(answer, tuple | list) and len(answer) == 2
    assert pair and all(is_number(part) for part in answer), (
        "the answer is two numbers, (share with 300, share with 12,000)."
    )
    assert all(0 < part < 1 for part in answer), (
        "a share lies between 0 and 1; five percent is 0.05."
    )

    def same(shares):
        return all(abs(a - b) < 6e-4 for a, b in zip(answer, shares))

    shares = padding(300), padding(12_000)
    assert not same(shares[::-1]), "these are the two shares in the wrong order."
    for sides, side in (((0,), "source"), ((1,), "target")):
        assert not same([padding(300, sides), padding(12_000, sides)]), (
            f"this is the padding of the {side} side alone. Hint: add up the positions "
            "of both sides before you divide."
        )
    assert not same([share / (1 - share) for share in shares]), (
        "this is padding per word. Hint: divide by all positions, including padding."
    )
    assert not same([1 - share for share in shares]), (
        "these are the shares of words, not of padding."
    )
    for budget, found, expected in zip((300, 12_000), answer, shares):
        assert abs(found - expected) < 6e-4, (
            f"with a budget of {budget:,} the share is not {found:.4f}. Hint: call "
            f"`padding_share(token_budget_batches(lengths, {budget}))`."
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


@exercise("3.5")
def bleu_by_hand(answer):
    pairs = [(ours.split(), theirs.split()) for ours, theirs in SENTENCES]

    def found(some):
        value = answer(*(list(side) for side in zip(*some)))
        assert is_number(value), f"return a plain number, not {type(value).__name__}."
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
    none = [("a b c d".split(), "e f g h".split())]
    assert found(none) == 0, "if no word is shared, it is 0."


@exercise("3.3")
def a_corpus_that_does_not_fit(answer):
    draw = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, 30, (230, 2), generator=draw).tolist()
    lengths = [(a, b) for a, b in sizes]
    taken = 0

    def endless():
        nonlocal taken
        for pair in lengths * 1000:
            taken += 1
            yield pair

    batches = iter(answer(endless(), 120, 50))
    assert next(batches, None), "for an endless stream it yields no batch."
    assert taken <= 51, (
        f"it reads {taken} lengths before its first batch, with a pool of 50. Hint: "
        "`itertools.islice` takes the next fifty items of an iterator, and no more."
    )
    found = [list(group) for group in answer(iter(lengths), 120, 50)]
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
    pools = [range(start, min(start + 50, 230)) for start in range(0, 230, 50)]
    packed = sum(
        len(at.token_budget_batches([lengths[i] for i in pool], 120)) for pool in pools
    )
    assert len(found) == packed, (
        f"there are {len(found)} batches, {packed} would do. Hint: each pool is packed "
        "as a whole, sorted by length."
    )


@exercise("3.6")
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


@exercise("3.4")
def mended_collate(answer):
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    ids = {
        word: [at.START, *vocab(word), at.END] for word in ("abc", "f", "gh", "abcdef")
    }

    def rows(pairs, limit):
        src, tgt = answer([(list(a), list(b)) for a, b in pairs], vocab, vocab, limit)
        return src.tolist(), tgt.tolist()

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
    short = src[1]
    assert short.count(at.START) == 1, (
        f"{given} the short source row is {short}. Hint: which id is padding?"
    )
    assert short[:3] == ids["f"] and set(short[3:]) == {at.PAD}, (
        f"{given} the short source row is {short}; after </s> comes padding, {at.PAD}."
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


# chapter 4


@exercise("4.2")
def what_is_computed(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "the answer is three numbers: (without a cache, with a cache, source keys)."
    )
    words, source = 15, 12
    model = at.make_model(9, 9, N=1, d_model=8, d_ff=16, h=2)
    seen = []
    layer = model.decoder.layers[0].feed_forward
    layer.register_forward_hook(lambda _, x, y: seen.append(x[0].shape[:-1].numel()))
    src = torch.full((1, source), 4)
    at.greedy_decode(model, src, torch.ones(1, 1, source), words + 1, 0)
    keys = at.DecoderCache(model, src, torch.ones(1, 1, source)).source[0].keys.size(2)
    assert answer[0] == sum(seen), (
        f"without a cache it is not {answer[0]}. Hint: to write word t, the decoder "
        "computes t positions, from the start symbol on; add up 1, 2, … for 15 words."
    )
    assert answer[1] == words, (
        f"with a cache it is not {answer[1]}. Hint: each position is computed when it "
        "is the newest, and never again."
    )
    assert answer[2] == keys, (
        f"the cache does not hold keys of {answer[2]} positions of the source. Hint: "
        "all outputs for a sentence share them."
    )


@exercise("4.3")
def where_the_longer_one_wins(answer):
    assert is_number(answer), "the answer is one number, such as 0.6."

    def long_wins(alpha):
        long = at.length_normalized(-5.2, 9, alpha)
        return long > at.length_normalized(-4.0, 6, alpha)

    assert long_wins(answer), (
        f"with alpha {answer} the short one still wins. Hint: divide each sum by the "
        "penalty of its own length, and remember that both are negative."
    )
    assert not long_wins(answer - 0.1), (
        f"the longer one wins with alpha {answer}, but it already wins with "
        f"{answer - 0.1:.1f}."
    )
    tenths = 10 * answer
    assert near(tenths, round(tenths)), f"{answer} is not a whole number of tenths."


@exercise("4.1")
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
    words = ["hund", "handball", "ballhund", "unter", "aa", "aaa", "aaaa", "lalalal"]
    encoding = at.BytePairEncoding.train([" ".join(words * 3)], 290)
    merges = [tuple(m) for m in at.json.loads(encoding.to_json())["model"]["merges"]]
    for word in [*words, "bundhall", "lallaa", "aaaaa"]:
        found, expected = list(answer(word, merges)), encoding.tokenize(word)
        assert found == expected, (
            f"with {len(merges)} merges {word!r} becomes {expected}, not {found}. "
            "Hint: after a merge, go on after the joined pair."
        )


@exercise("4.6")
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


@exercise("4.4")
def what_it_would_have_said(answer):
    model = at.make_model(9, 9, N=1, d_model=16, d_ff=32, h=2, dropout=0.3)
    for p in model.parameters():
        p.data += 0.3 * torch.randn_like(p)
    model.train()
    src, mask = torch.tensor([[4, 5, 6, 7]]), torch.ones(1, 1, 4).bool()
    for alpha in (0.0, 1.0):
        [(ids, rating)] = at.beam_search(
            model, src, mask, 9, 0, end_symbol=1, beam_size=3, length_penalty=alpha
        )
        ids = ids[:7]  # where the search was cut, it has no end symbol
        expected = -sum(surprises(model, src, mask, [0, *ids, 1]))
        found = answer(model, src, mask, ids, 0, 1)
        assert is_number(found), (
            f"a plain number is needed, not {type(found).__name__}. Hint: .item()"
        )
        given = f"for the output {ids}"
        parts = surprises(model, src, mask, [0, *ids, 1])
        assert not near(found, -sum(parts[:-1])), (
            f"{given} the end symbol is missing: stopping is a decision, too."
        )
        assert not near(found, -sum(parts) / len(parts)), (
            f"{given} this is a mean; the answer is the sum over the words."
        )
        assert near(found, answer(model, src, mask, ids, 0, 1)), (
            "a second call gives a different number. Hint: dropout is on."
        )
        assert near(found, expected), (
            f"{given} it is {expected:.4f}, not {found:.4f}. Hint: the decoder reads "
            "the start symbol and the ids, and predicts the ids and the end symbol."
        )
    assert model.training, "the model was in training mode before, and no longer is."


def surprises(model, src, mask, ids):
    """Return the negative log-probability of each id but the first, step by step."""
    with at.in_mode(model, training=False):
        cache = at.DecoderCache(model, src, mask)
        steps = [
            at.decode_step(model, cache, torch.tensor([ids[:n]]))
            for n in range(1, len(ids))
        ]
        return [-step[0, new].item() for step, new in zip(steps, ids[1:])]


class Table:
    """A `step` for exercise 4.5: next-token probabilities for each prefix."""

    def __init__(self, rows: dict[tuple[int, ...], list[float]]):
        self.rows = rows
        self.after_the_end = False

    def __call__(self, ids: list[int]) -> Tensor:
        self.after_the_end |= 1 in ids
        row = self.rows.get(tuple(ids[1:]), [0.01, 0.97, 0.01, 0.01])
        return torch.tensor(row).double().log()

    def best(self, max_len: int, alpha: float) -> list[int]:
        """Return the output with the best score by trying everything."""
        scored, live = [], [(0.0, [0])]
        for length in range(1, max_len + 1):
            live = [
                (total + logp, [*ids, token])
                for total, ids in live
                for token, logp in enumerate(self(ids).tolist())
            ]
            over = [each for each in live if each[1][-1] == 1 or length == max_len]
            scored += [(at.length_normalized(s, length, alpha), ids) for s, ids in over]
            live = [each for each in live if each[1][-1] != 1]
        return max(scored)[1][1:]


@exercise("4.5")
def four_faults_of_a_search(answer):
    late = Table({(): [0.0, 0.4, 0.6, 0.0]})
    found = list(answer(late, 2, 4, 0.0))
    assert found == [2, 1], (
        "the output `1` has probability 0.4 and `2 1` has 0.58; yours returned "
        f"`{found}`{', which has not ended' if found[-1:] != [1] else ''}."
    )
    asked = Table({(): [0.01, 0.6, 0.38, 0.01]})
    answer(asked, 3, 4, 0.0)
    assert not asked.after_the_end, (
        "the search calls `step` with ids that contain the end symbol: a hypothesis "
        "that has ended stays in the beam, and takes the place of another."
    )
    close = Table({(): [0.0, 0.5, 0.5, 0.0], (2,): [0.0, 0.58, 0.42, 0.0]})
    found = list(answer(close, 4, 2, 4.0))
    assert found == close.best(2, 4.0), (
        "with alpha 4, `1` scores log 0.5 / (6/6)^4 = -0.69, and `2 1`, two words, "
        f"log 0.29 / (7/6)^4 = -0.67; yours returned `{found}`. Hint: the start symbol "
        "does not count as a word."
    )
    flat = Table(
        {
            (): [0.0, 0.45, 0.55, 0.0],
            (2,): [0, 0.02, 0.49, 0.49],
            (2, 2): [0, 0.02, 0.97, 0.01],
            (2, 3): [0, 0.02, 0.97, 0.01],
        }
    )
    for alpha in (0.0, 4.0):
        found, best = list(answer(flat, 64, 3, alpha)), flat.best(3, alpha)
        assert found == best, (
            f"at max_len 3 and alpha {alpha} the best is {best}, not {found}. Hint: an "
            "output that is cut there is scored like one that has ended, by its length."
        )
    for seed in range(12):
        torch.manual_seed(seed)
        bodies = [(), *((a,) for a in (0, 2, 3))]
        bodies += [(a, b) for a in (0, 2, 3) for b in (0, 2, 3)]
        rows = {body: (2 * torch.randn(4)).softmax(0).tolist() for body in bodies}
        free = Table(rows)
        for alpha in (0.0, 0.6, 1.5):
            found, best = list(answer(free, 64, 3, alpha)), free.best(3, alpha)
            assert found == best, (
                f"with a beam that holds everything and alpha {alpha} the best of all "
                f"outputs is {best}, not {found}. Hint: the score is the sum divided "
                "by the penalty for the number of words, including the end symbol."
            )


# chapter 5


@exercise("5.1")
def which_cell(answer):
    hint = "the word before it is read in the row that writes it, and `<s>` has a place"
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "give a row and a column, such as (0, 4)."
    )
    row, column = answer
    assert row != 3, f"row 3 reads `sleeps`, already written by then. Hint: {hint}."
    assert row == 2, f"row {row} is not the one that writes `sleeps`. Hint: {hint}."
    assert column == 3, f"column {column} is not `schläft`. Hint: {hint}."


@exercise("5.5")
def which_map_makes_keys_alike(answer):
    why = {
        "queries": "queries are then all alike, and so are the rows, but not the keys",
        "values": "the values have no part in the weights",
    }
    word = str(answer).strip().lower()
    assert word in {"queries", "keys", "values"}, (
        f"{answer!r} is not one of 'queries', 'keys' and 'values'."
    )
    assert word == "keys", f"not the {word}: {why.get(word)}. Record and look."


@exercise("5.4")
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


@exercise("5.3")
def pieces_to_words(answer):
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    given = f"for {show(weights)}, rows [0, 0] and columns [0, 1, 1]"
    hint = "sum over the pieces that get weight, mean over the pieces that give it."
    agree(answer(weights, [0, 0], [0, 1, 1]), torch.tensor([[0.4, 0.6]]), given, hint)
    same = answer(weights, [0, 1], [0, 1, 2])
    agree(same, weights, "where every piece is a word", hint)
    maps = torch.rand(2, 3, 5, 6).softmax(-1)
    found = answer(maps, [0, 0, 0, 1, 2], [0, 1, 1, 2, 3, 3])
    shape = tuple(found.shape)
    assert shape == (2, 3, 3, 4), f"maps (2, 3, 5, 6) became {shape}, not (2, 3, 3, 4)."
    agree(found.sum(-1), torch.ones(2, 3, 3), "the sum of each row of words", hint)
    expected = (maps[..., 3, 4] + maps[..., 3, 5]).unsqueeze(-1)
    agree(found[..., 1, 3:], expected, "for the word of one piece", hint)


@exercise("5.6")
def what_the_silenced_print(answer):
    letters = "".join(map(str, answer)) if isinstance(answer, list | tuple) else answer
    letters = re.sub(r"[\s,;]", "", str(letters)).lower()
    assert sorted(letters) == ["a", "b", "c"], (
        f"{answer!r} doesn't have each of the letters a, b and c once, as in 'cab'."
    )
    assert letters[2] == "c", (
        "case 3: without cross-attention, nothing of the source reaches the decoder."
    )
    assert letters == "bac", (
        "cases 1 and 2 are the other way around. Hint: in section 5.10, where did the "
        "vector at *mit* learn about the hat?"
    )


def cells_with_four_faults(attn, head, rows, columns):
    """Return the cells as the faulty function that exercise 5.2 gives does."""
    weights = attn[head, 0] / attn[head, 0].max()
    return [
        (rows.index(row), row, columns.index(column), column, weights[c, r].item())
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
    ]


@exercise("5.2")
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
    padded = answer(torch.rand(1, 1, 4, 5), 0, ["a", "b"], ["x", "y", "z"])
    assert len(padded) == 6, f"{len(padded)} cells for 2 by 3 tokens, not 6."


# chapter 6


@exercise("6.1")
def what_rms_norm_leaves(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "give three lists: the vectors, what leaves LayerNorm's output as it was, and "
        "what leaves RMSNorm's."
    )
    vectors = {
        "a": [3.0, -1.0, 1.0, -3.0],
        "b": [4.0, 4.0, 4.0, 4.0],
        "c": [1.0, 3.0, 5.0, 7.0],
        "d": [0.0, 0.0, 0.0, 0.0],
        "e": [2.0, 2.0, -6.0, 2.0],
    }
    layer_norm, rms_norm = at.LayerNorm(4), at.RMSNorm(4)

    def same(one, two):
        return torch.allclose(one, two, atol=1e-4)

    def named(part, known):
        kind = type(part).__name__
        assert isinstance(part, str | list | tuple | set), f"{kind} is not a list."
        part = [part] if str(part) in known else list(part)
        strange = [each for each in part if each not in known]
        assert not strange, f"{strange[0]!r} is none of {', '.join(known)}."
        return set(part)

    found = named(answer[0], list(vectors))
    for name, numbers in vectors.items():
        x = torch.tensor(numbers)
        one, two = layer_norm(x), rms_norm(x)
        if same(one, two) != (name in found):
            says = "return the same" if same(one, two) else "differ"
            raise AssertionError(
                f"for {name} the two {says}. Hint: what is the mean of its numbers, "
                "and what is left when it is subtracted?"
            )
    x = torch.tensor(vectors["c"])
    changes = {"shift": x + 10, "scale": 10 * x, "flip": -x}
    for norm, part in zip((layer_norm, rms_norm), answer[1:]):
        found, who = named(part, list(changes)), type(norm).__name__
        for name, changed in changes.items():
            stays = same(norm(changed), norm(x))
            becomes = f"{show(norm(x))} becomes {show(norm(changed))}"
            assert not (name in found and not stays), (
                f"{name} does change the output of {who}: {becomes}."
            )
            assert name in found or not stays, (
                f"{name} leaves the output of {who} as it was. Hint: does it cancel "
                "when the mean is subtracted, or when the sizes are divided out?"
            )


class WatchComplex(TorchFunctionMode):
    """Note whether any result is made of complex numbers."""

    seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.seen |= isinstance(result, Tensor) and result.is_complex()
        return result


def turned(x: Tensor, start: int, fault: str = "") -> Tensor:
    """Rotate vectors x (…, L, d_k) as they should be, or with one fault."""
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


@exercise("6.2")
def one_multiplication(answer):
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
        with WatchComplex() as watch:
            found = answer(x.clone(), start)
        kind = type(found).__name__
        assert isinstance(found, Tensor), f"{given} a tensor is needed, not {kind}."
        assert not found.is_complex(), (
            f"{given} the result is complex. Hint: put its real parts and then its "
            "imaginary parts into one vector."
        )
        expected = at.RotaryEmbedding(shape[-1])(x, start)
        right = found.shape == expected.shape and torch.allclose(
            found, expected, rtol=1e-4, atol=1e-5
        )
        for fault, hint in hints.items():
            wrong = turned(x, start, fault)
            if not right and found.shape == wrong.shape:
                near_it = torch.allclose(found, wrong, rtol=1e-4, atol=1e-5)
                assert not near_it, f"{given} {hint}"
        hint = "position p turns pair i by the angle p / 10000^(2i / d_k)."
        agree(found, expected, given, hint)
        assert watch.seen, (
            "the result is right, but no complex number was used on the way. Hint: "
            "`torch.complex(a, b) * torch.polar(…)`"
        )


def bytes_in_the_cache(N: int, h: int, h_kv: int, d_k: int) -> int:
    """Return what a cache of 32-bit numbers grows by with each token."""
    model, tokens = at.GPT(9, N, h * d_k, 8, h, h_kv), 3
    nothing = torch.empty(1, 0, h * d_k)
    cache = [at.CachedAttention(block.self_attn, nothing) for block in model.blocks]
    for _ in range(tokens):
        model(torch.tensor([[4]]), cache)
    stored = [part for attn in cache for part in (attn.keys, attn.values)]
    return sum(part.numel() * part.element_size() for part in stored) // tokens


@exercise("6.3")
def how_many_tokens_fit(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "two functions are asked for, (bytes_per_token, tokens_that_fit)."
    )
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
    kind = type(found).__name__
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind}."
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
            x = x + attn.linears[3](attn.join(attn.attend(q, k, v, None)))
            x = x + block.feed_forward(block.norm_2(x))
        logits.append(model.norm(x) @ model.embed.weight.mT)
    return torch.cat(logits, dim=1)


@exercise("6.5")
def a_leak_through_the_cache(answer):
    model = at.GPT(vocab=11, N=2, d_model=16, d_ff=24, h=4, groups=2)
    for weight in model.parameters():  # a fresh model hardly reacts to its words
        weight.data += 0.3 * torch.randn_like(weight)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    expected = model(ids)
    embedded = []
    model.embed.register_forward_hook(lambda _, read, x: embedded.append(x.size(1)))

    def logits(ids, sizes):
        return answer(model, list(ids[:, : sum(sizes)].split(sizes, dim=1)))

    def differ(one, other):
        """Return the positions at which logits differ."""
        return ((one - other).abs().amax((0, 2)) > 1e-3).nonzero().flatten().tolist()

    found = logits(ids, [4, 1, 1])
    kind = type(found).__name__
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind}."
    faulty = with_a_leak(model, ids.split([4, 1, 1], dim=1))
    if found.shape == faulty.shape and torch.allclose(found, faulty, atol=1e-4):
        raise NotImplementedError  # so that no hint names a fault before you looked

    for sizes in ([1] * 6, [4], [4, 1, 1], [3, 2, 1], [1, 5]):
        given, L = f"for pieces of {sizes} ids", sum(sizes)
        embedded.clear()
        found = logits(ids, sizes)
        assert sum(embedded) <= L, (
            f"{given} {sum(embedded)} ids are embedded, not {L}. Hint: what is in the "
            "cache needn't be computed again."
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
        kind = type(found).__name__
        assert isinstance(found, dict), (
            f"a dictionary {{id: probability}} is needed, not {kind}."
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


def passed_on(block, x, mask, fault=""):
    """Return what a block without residual connections does, or one with a fault."""
    u = x if fault == "norms" else block.norm_1(x)
    y = block.self_attn(u, u, u, None if fault == "mask" else mask)
    if fault in ("both", "first"):
        y = x + y
    if fault == "attention":
        return y
    read = x if fault == "input" else y
    z = block.feed_forward(read if fault == "norms" else block.norm_2(read))
    return y + z if fault in ("both", "second") else z


@exercise("6.7")
def without_residuals(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "two things are asked for, (WithoutResiduals, letters)."
    )
    made, letters = answer
    kind = type(made).__name__
    assert isinstance(made, type), f"a class is needed, not {kind}."
    block = made(16, 24, 4, 2)
    asked = at.Block(16, 24, 4, 2).state_dict().keys()
    assert isinstance(block, torch.nn.Module) and block.state_dict().keys() == asked, (
        "your class doesn't have the weights of `Block`. Hint: derive it from that, "
        "and write only `forward`."
    )
    for weight in block.parameters():  # fresh scales are all one, whatever the norm
        if weight.dim() == 1:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    x, mask = torch.randn(2, 5, 16), at.subsequent_mask(5)
    found, expected = block(x, mask), passed_on(block, x, mask)
    kind = type(found).__name__
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind}."
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
        wrong = passed_on(block, x, mask, fault)
        assert found.shape != wrong.shape or not torch.allclose(
            found, wrong, rtol=1e-4, atol=1e-5
        ), hint
    agree(found, expected, "for x (2, 5, 16)", "attention of the norm, then the rest")
    other = torch.randn_like(x)
    agree(
        block(x, mask, lambda *given, **named: other),
        block.feed_forward(block.norm_2(other)),
        "with a `cached`",
        "as in `Block`, it takes the place of the attention",
    )

    assert letters is not None and letters is not ..., (
        "the class is right. Now decide what you expect, train the models, and give "
        "the letters."
    )
    kind = type(letters).__name__
    assert isinstance(letters, str | list | tuple | set), f"{kind} is not a list."
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
    strange = [each for each in letters if each not in reasons]
    assert not strange, f"{strange[0]!r} is none of {', '.join(reasons)}."
    for letter, reason in reasons.items():
        holds = letter in "bce"
        assert (letter in letters) == holds, (
            f"{letter} is {'' if holds else 'not '}true: {reason}"
        )
