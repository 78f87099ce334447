"""What the hidden checks of `hidden_checks.py` look for, by the exercises' names.

They are for exercises whose handed-out check has fixed inputs or may not contain what
computes the answer.
"""

import itertools
import math

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import (
    agree,
    drawn_words,
    near,
    show,
    whole,
)
from transformer_workshop.exercises.empty_file import (
    judge_attention,
    judge_heads,
    judge_layer,
)


def masks(answer):
    for _ in range(5):
        size = whole(1, 30)
        lengths = torch.randint(0, size + 1, (whole(1, 9),))
        rows = [[s < n for s in range(size)] for n in lengths.tolist()]
        given = f"for lengths {lengths.tolist()} and size {size}"
        agree(answer(lengths, size), torch.tensor(rows).unsqueeze(1), given)


def empty_file(answer):
    attention, heads, layer = answer
    for _ in range(3):
        d_k, h = whole(2, 6), whole(2, 5)
        judge_attention(attention)
        judge_heads(heads, d_k, h)
        judge_layer(layer, d_k, h)


def perplexity(answer):
    for _ in range(5):
        sizes = torch.randint(1, 100, (whole(1, 8),)).tolist()
        sums = [3 * size * torch.rand(1).item() for size in sizes]
        expected, found = math.exp(sum(sums) / sum(sizes)), answer(sums, sizes)
        assert near(found, expected), (
            f"for nll_sums {show(torch.tensor(sums))} and tokens {sizes} it is "
            f"{expected:.4f}, not {found}."
        )


def half_cosine(answer):
    for _ in range(20):
        warmup, peak = whole(1, 500), 10 * torch.rand(1).item()
        total = warmup + whole(1, 5000)
        step = whole(1, total + 100)
        down = min(max(step - warmup, 0) / (total - warmup), 1)
        expected = peak * min(step / warmup, (1 + math.cos(math.pi * down)) / 2)
        found = answer(step, peak, warmup, total)
        assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9), (
            f"with peak {peak:.4f}, warmup {warmup} and total {total} the rate of "
            f"update {step} is {expected:.6f}, not {found:.6f}."
        )


def faulty_collate(answer):
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    for _ in range(5):
        pairs = list(zip(drawn_words(12), drawn_words(12)))
        most = whole(8, 12)
        kept = [p for p in pairs if max(map(len, p)) + 2 <= most]
        found = answer(pairs, vocab, vocab, most)
        assert isinstance(found, tuple | list) and len(found) == 2, "two tensors."
        for rows, side, name in zip(found, zip(*kept), ("src", "tgt")):
            ids = [[at.START, *vocab(words), at.END] for words in side]
            given = f"for twelve random pairs and max_tokens={most}, in {name},"
            agree(rows, at.padded(ids), given)


def bleu(answer):
    metric = at.optional_import("sacrebleu").BLEU(tokenize="none", smooth_method="none")
    for _ in range(5):
        theirs = drawn_words(whole(1, 6), 6, 15)
        ours = [line[: whole(0, len(line) + 1)] + drawn_words(1)[0] for line in theirs]
        expected = metric.corpus_score(
            [" ".join(line) for line in ours], [[" ".join(line) for line in theirs]]
        ).score
        found = answer(ours, theirs)
        assert near(found, expected), (
            f"for {len(ours)} random lines it is {expected:.4f}, not {found}."
        )


def faulty_cells(answer):
    for _ in range(3):
        B, h, L, S = (whole(1, 5) for _ in range(4))
        maps, head = torch.rand(B, h, L + 1, S + 2), whole(0, h)
        rows, columns = ([f"{i % 2}" for i in range(n)] for n in (L, S))
        found = {tuple(c[:4]): c[4] for c in answer(maps, head, rows, columns)}
        expected = {
            (r, rows[r], c, columns[c]): maps[0, head, r, c].item()
            for r, c in itertools.product(range(L), range(S))
        }
        assert found.keys() == expected.keys() and all(
            near(found[place], expected[place]) for place in expected
        ), f"for a random map of {L} by {S} tokens, some cells are not those of it."


def subwords_to_words(answer):
    for _ in range(5):
        sides = [[i for i in range(whole(1, 5)) for _ in range(whole(1, 4))] * 1
                 for _ in range(2)]  # fmt: skip
        maps = torch.rand(2, *map(len, sides)).softmax(-1)
        rows, columns = (
            torch.nn.functional.one_hot(torch.tensor(side)).float() for side in sides
        )
        expected = (rows / rows.sum(0)).mT @ maps @ columns
        agree(answer(maps, *sides), expected, f"for rows and columns {sides}")


def sure_and_possible(answer):
    for _ in range(10):
        draws = torch.rand(3, 4, 5) < 0.4
        found, sure, more = ({tuple(p) for p in d.nonzero().tolist()} for d in draws)
        right = sum((link in sure) + (link in sure | more) for link in found)
        expected = 1 - right / (len(found) + len(sure))
        value = answer(found, sure, more)
        assert near(value, expected), (
            f"for random links it is {expected:.4f}, not {value}."
        )


def tokens_that_fit(answer):
    bytes_per_token, tokens_that_fit = answer
    for _ in range(10):
        size = whole(1, 50), whole(1, 20), whole(1, 200), (1, 2, 4)[whole(0, 3)]
        memory, batch = whole(10**6, 10**9), whole(1, 20)
        each = 2 * math.prod(size)
        found = bytes_per_token(*size), tokens_that_fit(memory, batch, *size)
        assert found == (each, memory // (batch * each)), (
            f"for N, h_kv, d_k, bytes = {size}, {memory:,} bytes and {batch} sequences "
            f"the two are not {found}."
        )


HIDDEN = {
    judge.__name__: judge
    for judge in (
        masks,
        empty_file,
        perplexity,
        half_cosine,
        faulty_collate,
        bleu,
        faulty_cells,
        subwords_to_words,
        sure_and_possible,
        tokens_that_fit,
    )
}
