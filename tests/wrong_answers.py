"""Typical wrong answers to the exercises, by number: each must get a complaint.

An answer is what its check takes: a value, a function, or a class. The first one of
each number must be answered in the check's own words, not with the exception that it
runs into.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import torch

import annotated_transformer as at

WRONG: dict[str, list[Any]] = {}


# chapter 1


def causal_but_alone(x, w_q, w_k, w_v, h, mask):
    """Use one head where h are asked for."""
    return at.attention(x @ w_q, x @ w_k, x @ w_v, mask)[0]


def cut_by_view(x, w_q, w_k, w_v, h, mask):
    """Leave the planted bug in."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, h, L, d_model // h) for w in (w_q, w_k, w_v))
    out = at.attention(q, k, v, mask.unsqueeze(1))[0]
    return out.transpose(1, 2).reshape(B, L, d_model)


def joined_by_reshape(x, w_q, w_k, w_v, h, mask):
    """Split correctly, but don't bring the heads of a word together again."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, L, h, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    return at.attention(q, k, v, mask.unsqueeze(1))[0].reshape(B, L, d_model)


def mean_of_pieces(query, key, value, size):
    """Count every piece's answer alike, however much weight it has."""
    pieces = zip(key.split(size, -2), value.split(size, -2))
    answers = [at.attention(query, k, v)[0] for k, v in pieces]
    return torch.stack(answers).mean(0)


def without_a_maximum(query, key, value, size):
    """Omit the maximum: right for small scores, infinite for large ones."""
    total: Any = 0
    weighted: Any = 0
    for k, v in zip(key.split(size, -2), value.split(size, -2)):
        p = (query @ k.mT / query.size(-1) ** 0.5).exp()
        total, weighted = total + p.sum(-1, keepdim=True), weighted + p @ v
    return weighted / total


def with_own_mask(x, w_q, w_k, w_v, h, mask):
    """Ignore the caller's mask; a triangle is right for most callers."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, L, h, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    out = at.attention(q, k, v, at.subsequent_mask(L).unsqueeze(1))[0]
    return out.transpose(1, 2).reshape(B, L, d_model)


def turned_over(query, key, value, size):
    """Build the whole matrix, with keys in the rows."""
    weights = (key @ query.mT / query.size(-1) ** 0.5).softmax(dim=-2)
    return weights.mT @ value


def one_by_one(lengths, size):
    """Build each row in a loop."""
    rows = [[s < length for s in range(size)] for length in lengths.tolist()]
    return torch.tensor(rows).unsqueeze(1)


def stack_with(fault):
    """Return a stack of residual connections with one fault."""

    def stack(x, sublayers, norm, norm_first):
        for sublayer in sublayers:
            if fault == "stream":
                x = norm(x) + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
            elif fault == "output":
                x = x + norm(sublayer(x)) if norm_first else norm(x + sublayer(x))
            elif fault == "after":
                x = x + sublayer(norm(x)) if norm_first else x + norm(sublayer(x))
            elif fault == "alone":
                x = x + sublayer(norm(x)) if norm_first else norm(sublayer(x))
            else:
                x = x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
        return norm(x) if fault == "twice" or norm_first and fault != "last" else x

    return stack


ROW = [0.09, 0.24, 0.67], [4.23, 5.77], [0.27, 0.73, 0]
WRONG["1.1"] = [
    ([0.02, 0.12, 0.87], ROW[1], ROW[2]),  # not divided
    ([0, 1, 2], ROW[1], ROW[2]),  # scores
    (ROW[0], [5, 5], ROW[2]),
    (ROW[0], ROW[1], [0.09, 0.24, 0]),  # masked after the softmax
    (ROW[0], ROW[1], [0.21, 0.58, 0.21]),  # a score of 0
    (ROW[0], ROW[1]),
    (ROW[0], ROW[1], ["0.27", "0.73", "0"]),
    3,
]
WRONG["1.2"] = [
    (8, 4, 128, 32),  # the deviation
    (64, 16, 128, 32),
    (64, 4, 64, 32),
    (64, 4, 128, 8),
    (64, 4, 128, 1024),
    64,
]
WRONG["1.6"] = [
    stack_with("stream"),
    stack_with("output"),
    stack_with("after"),
    stack_with("alone"),
    stack_with("last"),
    stack_with("twice"),
    lambda x, sublayers, norm, norm_first: None,
]
WRONG["1.3"] = [
    ((2, 8, 7, 4), (2, 8, 4, 64), (2, 7, 512)),
    ((2, 8, 4, 7), (2, 4, 512), (2, 7, 512)),
    ((2, 8, 4, 7), (2, 8, 4, 64), (7, 512)),
    (2, 8, 4, 7),
]
WRONG["1.7"] = [(1, 1), (199, 199), (0.5, 0.5), 10]
WRONG["1.4"] = [
    lambda lengths, size: torch.arange(size) < lengths.unsqueeze(1),  # (B, size)
    lambda lengths, size: (torch.arange(size) <= lengths[:, None]).unsqueeze(1),
    lambda lengths, size: (torch.arange(size) < lengths[:, None]).unsqueeze(1).float(),
    one_by_one,
]
WRONG["1.8"] = [
    ([2], [0, 1, 2, 3], [0, 1, 2, 3], [2]),  # later positions don't see it
    ([2, 3], [2, 3], [0, 1, 2, 3], [2]),  # the triangle is still there
    ([2, 3], [0, 1, 2, 3], [4], [2]),  # a position of the source
    ([2, 3], [0, 1, 2, 3], [0, 1, 2, 3], []),  # no residual connection
    [2, 3],
]
WRONG["1.9"] = [
    mean_of_pieces,
    without_a_maximum,
    lambda query, key, value, size: at.attention(query, key, value)[0],
    turned_over,
    lambda q, k, v, size: torch.nn.functional.scaled_dot_product_attention(q, k, v),
]
WRONG["1.5"] = [cut_by_view, joined_by_reshape, causal_but_alone, with_own_mask]


# chapter 2

WRONG["2.1"] = [
    ([0, 7, 4, 9, 1, 2, 2], [7, 4, 9, 1, 2, 2], 4),  # nothing cut off
    ([0, 7, 4, 9, 2, 2], [7, 4, 9, 1, 2, 2], 4),  # the end symbol cut, not the last
    ([0, 7, 4, 9, 1, 2], [0, 7, 4, 9, 1, 2], 4),  # not shifted
    ([0, 7, 4, 9, 1, 2], [7, 4, 9, 1, 2, 2], 3),  # the end symbol not counted
    4,
]

WRONG["2.5"] = [
    (0.125, 1.0),  # compares update 4,000 with update 4,000
    (0.5, 0.5),  # the tail moves with the peak
    0.5,
]


def mean_of_means(nll_sums, tokens):
    means = [total / n for total, n in zip(nll_sums, tokens)]
    return math.exp(sum(means) / len(means))


def mean_of_perplexities(nll_sums, tokens):
    each = [math.exp(total / n) for total, n in zip(nll_sums, tokens)]
    return sum(each) / len(each)


WRONG["2.2"] = [
    mean_of_means,
    mean_of_perplexities,
    lambda nll_sums, tokens: 2 ** (sum(nll_sums) / sum(tokens)),
    lambda nll_sums, tokens: torch.tensor(nll_sums).sum().exp(),
]


def cosine_from_the_start(step, peak, warmup, total):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * min(step / total, 1))) / 2


def cosine_that_rises_again(step, peak, warmup, total):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


def cosine_without_warm_up(step, peak, warmup, total):
    return peak * (1 + math.cos(math.pi * min(step / total, 1))) / 2


def linear_fall(step, peak, warmup, total):
    down = (total - step) / (total - warmup)
    return peak * max(min(step / warmup, down), 0)


def straight_between(step, peak, warmup, total):
    """Hit the cosine at five places, with straight lines between them."""
    if step <= warmup:
        return peak * step / warmup
    down = min((step - warmup) / (total - warmup), 1) * 4
    heights = [(1 + math.cos(math.pi * part / 4)) / 2 for part in range(5)] + [0]
    part = int(down)
    low, high = heights[part + 1], heights[part]
    return peak * (high + (down - part) * (low - high))


WRONG["2.6"] = [
    straight_between,
    cosine_from_the_start,
    cosine_that_rises_again,
    cosine_without_warm_up,
    linear_fall,
]


def continuation(model, src, src_mask, ys, max_len, fault=""):
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
            scores = model.generator(last)
            if fault == "least":
                scores = -scores
            ys = torch.cat([ys, scores.argmax(-1, keepdim=True)], dim=1)
    return ys


def finishing(fault="", quiet=True, restore=True):
    """Return a decoder that continues a beginning, wrongly in one way or another."""

    def continue_from(model, src, src_mask, beginning, max_len):
        before = model.training
        if quiet:
            model.eval()
        ys = continuation(model, src, src_mask, beginning, max_len, fault)
        if restore:
            model.train(True if restore == "always" else before)
        return ys

    return continue_from


def from_the_start(model, src, src_mask, beginning, max_len):
    """Ignore what was typed."""
    return at.greedy_decode(model, src, src_mask, max_len, start_symbol=1)


def only_the_rest(model, src, src_mask, beginning, max_len):
    """Return only what comes after what was typed."""
    ys = finishing()(model, src, src_mask, beginning, max_len)
    return ys[:, beginning.size(1) :]


WRONG["2.7"] = [
    from_the_start,
    only_the_rest,
    finishing("padding"),
    finishing("last word"),
    finishing("no triangle"),
    finishing("first position"),
    finishing("least"),
    finishing(quiet=False),
    finishing(restore=False),
    finishing(restore="always"),
]


def validation(
    answers="tgt_y",
    mean_of_means=False,
    restore=True,
    graph=False,
    frozen=False,
    padding=False,
):
    """Return a validation with none, one, or more of the faults planted in 2.8."""

    def validation_nll(model, batches, compute):
        before, nll, words, means = model.training, 0.0, 0, []
        model.eval()
        with torch.set_grad_enabled(graph):
            for batch in batches:
                out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
                total, _ = compute(out, getattr(batch, answers), batch.ntokens)
                size = batch.tgt_y.numel() if padding else batch.ntokens
                nll, words = nll + total, words + size
                means.append(total / batch.ntokens)
        if restore:
            model.train(True if restore == "always" else before)
        if frozen:
            model.requires_grad_(False)
        return sum(means) / len(means) if mean_of_means else nll / words

    return validation_nll


WRONG["2.8"] = [
    validation("tgt", mean_of_means=True, restore=False, graph=True),  # as planted
    validation(mean_of_means=True),
    validation(restore=False),
    validation(restore="always"),
    validation(graph=True),
    validation(frozen=True),
    validation(padding=True),
]


def adding_up(zero="once", words="all", mean=False):
    """Return what 2.4 asks for, with one or another fault."""

    def accumulate(model, compute, batches):
        count = sum(batch.ntokens for batch in batches)
        if words == "positions":
            count = sum(batch.tgt_y.numel() for batch in batches)
        if zero == "once":
            model.zero_grad()
        for batch in batches:
            if zero == "each":
                model.zero_grad()
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            norm = batch.ntokens if words == "own" else count
            _, loss = compute(out, batch.tgt_y, norm)
            (loss / len(batches) if mean else loss).backward()

    return accumulate


WRONG["2.4"] = [
    adding_up(zero="each", words="own", mean=True),  # as planted
    adding_up(zero="each"),
    adding_up(zero="each", words="own"),
    adding_up(zero="never"),
    adding_up(words="own"),
    adding_up(words="own", mean=True),
    adding_up(words="positions"),
    adding_up(mean=True),
    lambda model, compute, batches: None,
    lambda model, compute, batches: model.zero_grad(),
]
WRONG["2.3"] = [
    ([-0.125, 0.75, -0.625], [-0.025, 0.55, -0.525]),
    ([0.125, 0.25, 0.625], [0.125, 0.25, 0.625]),
    ([0, -4, 0], [-0.8, -3.2, -0.16]),  # with respect to the probabilities
    ([0.125, -0.75, 0.625], [0.125, -0.75, 0.625]),
    ([0.1, -0.7, 0.6], [0.025, -0.55, 0.525]),
    0.25,
]
WRONG["2.9"] = ["b", "bc", "abcf", "bcdf", "bcef", "cf", "bf", "x", 3]


# chapter 3

WRONG["3.1"] = [
    [4, 3, 6, 3],  # without the marks
    [0, 4, 3, 6, 1],  # the unknown word left out
    [1, 4, 3, 6, 3, 2],
    [0, 1, 3, 3, 3, 1],  # numbers from 1
    [0, 4, 3, 5, 3, 1],  # the second most frequent in place of the third
    [0, 4, 3, 6, 2, 1],
    6,
]


def ngrams(words, n):
    return Counter(zip(*(words[i:] for i in range(n))))


def some_bleu(clip=True, brevity=True, reward=False):
    """Return a BLEU with one thing or another left out."""

    def bleu(translations, references):
        shares = []
        for n in range(1, 5):
            right = total = 0
            for ours, theirs in zip(translations, references, strict=True):
                ours, theirs = ngrams(ours, n), ngrams(theirs, n)
                total += sum(ours.values())
                if clip:
                    right += sum((ours & theirs).values())
                else:
                    right += sum(k for run, k in ours.items() if run in theirs)
            shares.append(right / max(total, 1))
        if min(shares) == 0:
            return 0.0
        joined = math.exp(sum(map(math.log, shares)) / 4)
        c, r = (sum(map(len, side)) for side in (translations, references))
        penalty = math.exp(1 - r / c)
        penalty = penalty if reward else min(1, penalty)
        return 100 * joined * (penalty if brevity else 1)

    return bleu


def mean_of_sentences(translations, references):
    each = [
        some_bleu()([ours], [theirs])
        for ours, theirs in zip(translations, references, strict=True)
    ]
    return sum(each) / len(each)


WRONG["3.4"] = [
    some_bleu(clip=False),
    some_bleu(brevity=False),
    some_bleu(reward=True),
    mean_of_sentences,
    lambda translations, references: some_bleu()(translations, references) / 100,
]


def pooled(shift=True, last=True, lazy=True, early=False, packed=True):
    """Return a function that batches a stream in pools, with one fault or another."""

    def batches(stream, batch_tokens, pool):
        stream, start = iter(stream), 0
        if not lazy:
            stream = iter(list(itertools.islice(stream, 230)))
        while lengths := list(itertools.islice(stream, pool)):
            if len(lengths) < pool and not last:
                return
            groups = [[i] for i in range(len(lengths))]
            if packed:
                groups = at.token_budget_batches(lengths, batch_tokens)
            for n, group in enumerate(groups):
                if early and n == len(groups) - 1:
                    stream = itertools.chain(
                        list(itertools.islice(stream, pool)), stream
                    )
                yield [i + start * shift for i in group]
            start += pool

    return batches


def in_given_order(stream, batch_tokens, pool):
    """Sort nothing: close a batch when the next sentence does not fit."""
    group, longest = [], 0
    for i, pair in enumerate(stream):
        if group and max(longest, *pair) * (len(group) + 1) > batch_tokens:
            yield group
            group, longest = [], 0
        group, longest = [*group, i], max(longest, *pair)
    yield group


WRONG["3.2"] = [
    pooled(shift=False),
    pooled(last=False),
    pooled(lazy=False),
    pooled(early=True),
    pooled(packed=False),
    in_given_order,
    lambda stream, batch_tokens, pool: iter([]) or iter([[0]]),
]


def nearest_by(nearness, last=False):
    def nearest(sentence, corpus):
        found = [nearness(sentence, other) for other in corpus]
        best = max(found)
        places = [i for i, value in enumerate(found) if value == best]
        return places[-1 if last else 0], best

    return nearest


def jaccard(one, two):
    return len({*one} & {*two}) / len({*one} | {*two})


WRONG["3.5"] = [
    nearest_by(jaccard, last=True),
    nearest_by(lambda one, two: len({*one} & {*two}) / len({*one})),
    nearest_by(lambda one, two: len({*one} & {*two})),
    lambda sentence, corpus: nearest_by(jaccard)(sentence, corpus)[0],
]


def faulty_collate(
    apart=False, filled=at.PAD, cut=False, one_width=False, together=False, strict=False
):
    """Return the function of 3.3 with some of its faults."""

    def collate(pairs, vocab_src, vocab_tgt, max_tokens):
        rows = [
            ([0, *vocab_src(src), 1], [0, *vocab_tgt(tgt), 1]) for src, tgt in pairs
        ]
        if not cut:
            rows = [row for row in rows if max(map(len, row)) <= max_tokens - strict]
        if together:
            rows = sorted(rows, key=lambda row: len(row[0]), reverse=True)
        sides = [list(side) for side in zip(*rows, strict=True)]
        if apart:
            sides = [sorted(side, key=len) for side in sides]
        widths = [min(max(map(len, side)), max_tokens) for side in sides]
        if one_width:
            widths = widths[:1] * 2
        return tuple(
            torch.tensor([(row + [filled] * width)[:width] for row in side])
            for side, width in zip(sides, widths, strict=True)
        )

    return collate


WRONG["3.3"] = [
    faulty_collate(apart=True, filled=at.START, cut=True, one_width=True),  # as planted
    faulty_collate(apart=True),
    faulty_collate(filled=at.START),
    faulty_collate(filled=at.END),
    faulty_collate(cut=True),
    faulty_collate(one_width=True),
    faulty_collate(together=True),
    faulty_collate(strict=True),
]

# chapter 4


def longest_known(word, merges):
    """Take the longest token that fits, from the left."""
    known, rest, pieces = {a + b for a, b in merges}, "Ġ" + word, []
    while rest:
        sizes = [n for n in range(len(rest), 1, -1) if rest[:n] in known] + [1]
        pieces, rest = [*pieces, rest[: sizes[0]]], rest[sizes[0] :]
    return pieces


def first_of_each(word, merges):
    """Join each pair only once."""
    pieces = ["Ġ", *word]
    for pair in merges:
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) == tuple(pair):
                pieces[i : i + 2] = ["".join(pair)]
                break
    return pieces


def from_the_end(word, merges):
    """Join all occurrences of each pair, the last learned pair first."""
    pieces = " ".join(["Ġ", *word])
    for a, b in reversed(merges):
        pieces = pieces.replace(f"{a} {b}", f"{a}{b}")
    return pieces.split(" ")


RIGHT_MERGES = [("n", "d"), ("u", "nd"), ("Ġ", "h"), ("Ġ", "und")]
WRONG["4.1"] = [
    [("u", "n"), ("n", "d"), ("Ġ", "h"), ("Ġ", "und")],
    [*RIGHT_MERGES[:1], ("a", "nd"), *RIGHT_MERGES[2:]],  # each word counted once
    [*RIGHT_MERGES[:2], ("h", "und"), ("Ġ", "h")],  # without the mark
    [*RIGHT_MERGES[:3], ("Ġh", "und")],
    [*RIGHT_MERGES[:3], "Ġund"],
    RIGHT_MERGES[:3],
]
ALL = list(range(8))
WRONG["4.3"] = [
    ([3, 4], [5, 1], ALL, ALL),  # what is predicted
    ([3, 4], [0, 5], [1, 5], ALL),  # only the right words
    ([3, 4], [0, 5], ALL, [0, 1, 3, 4, 5]),
    (ALL, ALL, ALL, ALL),
    3,
]


def mean_with(own=True, weights="all", wide=True):
    """Return a mean of checkpoints with some of the faults of 4.6."""

    def mean_of_states(states):
        mean = {name: x.clone() for name, x in states[0].items()} if own else states[0]
        for state in states[1:]:
            for name in mean:
                x = mean[name]
                if wide:
                    mean[name] = x.double() + state[name].double()
                else:
                    x += state[name]
                if weights == "halves":
                    mean[name] /= 2
        divisor = 1 if weights == "halves" else len(states)
        return {name: (x / divisor).to(states[-1][name]) for name, x in mean.items()}

    return mean_of_states


WRONG["4.6"] = [
    mean_with(own=False, weights="halves", wide=False),  # as planted
    mean_with(weights="halves"),
    mean_with(own=False),
    mean_with(wide=False),
    lambda states: mean_with()([{k: x.float() for k, x in s.items()} for s in states]),
    lambda states: [s["w"] for s in states],
]
WRONG["4.2"] = [
    from_the_end,
    longest_known,
    first_of_each,
    lambda word, merges: ["Ġ" + word],
]

WRONG["4.7"] = [
    lambda log_p: torch.stack(log_p).mean(0),  # a mean of logarithms
    lambda log_p: torch.stack(log_p).exp().mean(0).log(),  # minus infinity
    lambda log_p: torch.stack(log_p).logsumexp(0),  # not divided
]


def judging(
    end=True,
    mean=False,
    off=True,
    shift=True,
    number=True,
    restore=True,
    seen=False,
    symbols=True,
):
    """Return what 4.4 asks for, with a choice of faults."""

    def log_probability(model, src, src_mask, ids, start, end_symbol):
        before = model.training
        if off:
            model.eval()
        if seen:
            src_mask = torch.ones_like(src_mask)
        if not symbols:
            start, end_symbol = 0, 1
        read = [start, *ids] if shift else [*ids, end_symbol]
        asked = torch.tensor([*ids, end_symbol])
        tgt = torch.tensor([read])
        out = model(src, tgt, src_mask, at.subsequent_mask(len(read)))
        each = model.generator(out)[0].gather(1, asked.unsqueeze(1)).squeeze(1)
        each = each if end else each[:-1]
        model.train(before if restore else False)
        total = each.mean() if mean else each.sum()
        return total.item() if number else total

    return log_probability


WRONG["4.4"] = [
    judging(end=False),
    judging(mean=True),
    judging(off=False),
    judging(shift=False),
    judging(number=False),
    judging(restore=False),
    judging(seen=True),
    judging(symbols=False),
]


def plain_search(hasty=False, undead=False, start=False, raw=False, wide=False):
    """Return a beam search with some of the faults of 4.5."""

    def search(step, width, max_len, alpha):
        live, ended = [(0.0, [0])], []

        def rated(total, ids):
            length = len(ids) - (not start)
            return at.length_normalized(total, length, alpha), ids

        for _ in range(max_len):
            offers = [
                (total + logp, [*ids, token])
                for total, ids in live
                for token, logp in enumerate(step(ids).tolist())
            ]
            live = sorted(offers, reverse=True)[: None if wide else width]
            ended += [rated(*each) for each in live if each[1][-1] == 1]
            if not undead:
                live = [each for each in live if each[1][-1] != 1]
            if hasty and ended:
                break
        return max(ended + [each if raw else rated(*each) for each in live])[1][1:]

    return search


WRONG["4.5"] = [
    plain_search(hasty=True, undead=True, start=True, raw=True),  # as planted
    plain_search(undead=True),
    plain_search(start=True),
    plain_search(raw=True),
    plain_search(wide=True),
    lambda step, width, max_len, alpha: [1],
]


# chapter 5


def entropy_in_nats(weights):
    return -torch.xlogy(weights, weights).sum(-1).mean(-1)


def entropy_with_nan(weights):
    return -(weights * weights.log2()).sum(-1).mean(-1)


WRONG["5.3"] = [
    entropy_with_nan,
    entropy_in_nats,
    lambda weights: entropy_in_nats(weights).sum() / math.log(2),
    lambda weights: -torch.xlogy(weights, weights).sum((-2, -1)) / math.log(2),
]


def pieces_joined(weights, row_words, col_words, rows="mean", columns="sum"):
    """Join pieces into words, each side by its own rule."""

    def join(x, words, how):
        parts = [
            x[..., [i for i, w in enumerate(words) if w == word]]
            for word in range(max(words) + 1)
        ]
        joined = [p.mean(-1) if how == "mean" else p.sum(-1) for p in parts]
        return torch.stack(joined, -1)

    return join(join(weights, col_words, columns).mT, row_words, rows).mT


def last_row(weights, row_words, col_words):
    """Let a word's last piece speak for it."""
    rows = [max(i for i, w in enumerate(row_words) if w == word) for word in
            range(max(row_words) + 1)]  # fmt: skip
    return pieces_joined(weights[..., rows, :], range(len(rows)), col_words)


WRONG["5.2"] = [
    lambda w, r, c: pieces_joined(w, r, c, "sum", "sum"),
    lambda w, r, c: pieces_joined(w, r, c, "mean", "mean"),
    lambda w, r, c: pieces_joined(w, r, c, "sum", "mean"),
    lambda w, r, c: w[: max(r) + 1, : max(c) + 1],
    last_row,
]


def rate_of(drawn, sure, possible, union=True):
    allowed = possible | sure if union else possible
    return 1 - (len(drawn & sure) + len(drawn & allowed)) / (len(drawn) + len(sure))


WRONG["5.4"] = [
    lambda drawn, sure, possible: rate_of(drawn, sure, sure),
    lambda drawn, sure, possible: rate_of(drawn, possible, possible),
    lambda drawn, sure, possible: rate_of(drawn, sure, possible, union=False),
    lambda drawn, sure, possible: 1 - rate_of(drawn, sure, possible),
    lambda drawn, sure, possible: torch.tensor(rate_of(drawn, sure, possible)),
]


WRONG["5.5"] = [
    "abc",  # as if the decoder, not the encoder, had told *mit* about the hat
    "bca",
    "ba",
    3,
]


def faulty_cells(index=False, scale=False, places=False, turned=False):
    """Return the function of 5.1 with some of its faults."""

    def cells(attn, head, rows, columns):
        weights = attn[head, 0] if index else attn[0, head]
        weights = weights / weights.max() if scale else weights
        return [
            (
                rows.index(row) if places else r,
                row,
                columns.index(column) if places else c,
                column,
                (weights[c, r] if turned else weights[r, c]).item(),
            )
            for r, row in enumerate(rows)
            for c, column in enumerate(columns)
        ]

    return cells


WRONG["5.1"] = [  # with all four faults it is the stub, which is no answer yet
    faulty_cells(places=True),
    faulty_cells(turned=True),
    faulty_cells(index=True),
    faulty_cells(scale=True),
    lambda attn, head, rows, columns: [],
]


# chapter 6


def as_complex(pairs="halves", sign=1, first=None, step=2, real=True, back="halves"):
    """Return a rotation by complex numbers with a choice of faults."""

    def rotate(x, start):
        L, d_k = x.shape[-2:]
        start = start if first is None else first(start)
        if pairs == "halves":
            z = torch.complex(*x.chunk(2, dim=-1))
        else:
            z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        position = torch.arange(start, start + L).unsqueeze(1)
        angle = sign * position / 10000 ** (step * torch.arange(d_k // 2) / d_k)
        z = z * torch.polar(torch.ones_like(angle), angle)
        if not real:
            return z
        if back == "halves":
            return torch.cat([z.real, z.imag], dim=-1)
        return torch.view_as_real(z).flatten(-2)

    return rotate


WRONG["6.1"] = [
    as_complex(pairs="neighbors", back="neighbors"),
    as_complex(pairs="neighbors"),
    as_complex(sign=-1),
    as_complex(first=lambda start: 0),
    as_complex(first=lambda start: start + 1),
    as_complex(step=1),
    as_complex(step=4),
    as_complex(real=False),
    as_complex(back="neighbors"),
    lambda x, start: at.RotaryEmbedding(x.size(-1))(x, start),  # no complex number
]


def by_library(x, start):
    """Let the module rotate, and compute something complex beside it."""
    torch.polar(torch.ones(3), torch.ones(3))
    return at.RotaryEmbedding(x.size(-1))(x, start)


WRONG["6.1"].append(by_library)
WRONG["6.2"] = [
    (10, 10, 1365),
    (10, 20, 1365),
    (10, 100, 1366),
    (10, 100, 1365.33),
    (10, 100, 1024),
    (1, 1, 1365),  # as if a norm stood before it
    100,
]


def cache_bytes(N, h_kv, d_k, bytes_per_number):
    return 2 * N * h_kv * d_k * bytes_per_number


def fitting(memory, batch, *size):
    return memory // (batch * cache_bytes(*size))


WRONG["6.3"] = [
    (lambda N, h_kv, d_k, b: N * h_kv * d_k * b, fitting),  # keys alone
    (lambda N, h_kv, d_k, b: 2 * h_kv * d_k * b, fitting),  # one layer
    (lambda N, h_kv, d_k, b: 2 * N * h_kv * d_k, fitting),  # numbers
    (lambda N, h_kv, d_k, b: 2 * N * d_k * b, fitting),  # one head
    (lambda *size: 8 * cache_bytes(*size), fitting),  # bits
    (lambda N, h_kv, d_k, b: 2 * N * h_kv * d_k * 4, fitting),  # always 4 bytes
    (cache_bytes, lambda memory, batch, *size: memory // cache_bytes(*size)),
    (cache_bytes, lambda memory, batch, *s: memory / (batch * cache_bytes(*s))),
    (cache_bytes, lambda memory, batch, *s: -(-memory // (batch * cache_bytes(*s)))),
    (cache_bytes, lambda memory, batch, *size: cache_bytes(*size) // memory),
]


def faulty_groups(values=False, again=False, interleaved=False, beginning=False):
    """Return the function of 6.4 with some of its faults."""

    def attend(query, key, value, mask=None):
        copies, d_k, S = query.size(1) // key.size(1), query.size(3), key.size(2)
        speed = 10000 ** -(torch.arange(0, d_k, 2) / d_k)

        def rotate(x):
            L = x.size(2)
            position = torch.arange(L) + (0 if beginning else S - L)
            angle = position.unsqueeze(1) * speed
            a, b = x.chunk(2, dim=-1)
            left = a * angle.cos() - b * angle.sin()
            right = (left if again else a) * angle.sin() + b * angle.cos()
            return torch.cat([left, right], dim=-1)

        def shared(x):
            if interleaved:
                return x.repeat(1, copies, 1, 1)
            return x.repeat_interleave(copies, dim=1)

        key, value = rotate(key), rotate(value) if values else value
        return at.attention(rotate(query), shared(key), shared(value), mask)[0]

    return attend


WRONG["6.4"] = [  # with all four faults it is the stub, which is no answer yet
    faulty_groups(values=True),
    faulty_groups(again=True),
    faulty_groups(interleaved=True),
    faulty_groups(beginning=True),
    lambda query, key, value, mask=None: query,
]


def extended(mask="causal", start="ids", again=False):
    """Return what 6.5 asks for, with one or another fault."""

    def in_pieces(model, pieces):
        cache: list[Any] = [None for _ in model.blocks]
        logits, before = [], 0
        for number, ids in enumerate(pieces):
            if again:
                ids = torch.cat(pieces[: number + 1], dim=1)
                cache, before = [None for _ in model.blocks], 0
            L = ids.size(1)
            first = {"ids": before, "pieces": number, "zero": 0}[start]
            last_rows = at.subsequent_mask(before + L)[:, before:]
            allowed = {
                "causal": last_rows,
                "none": None,
                "first": last_rows if not number else None,
                "square": at.subsequent_mask(L),
                "first rows": at.subsequent_mask(before + L)[:, :L],
                "strict": last_rows & ~torch.eye(before + L).bool()[before:],
            }[mask]
            x = model.embed(ids)
            for i, block in enumerate(model.blocks):
                attn, u = block.self_attn, block.norm_1(x)
                q, k, v = (attn.split(w(u)) for w in attn.linears[:3])
                q = attn.rope(attn.q_norm(q), first)
                k = attn.rope(attn.k_norm(k), first)
                if cache[i]:
                    k = torch.cat([cache[i][0], k], dim=2)
                    v = torch.cat([cache[i][1], v], dim=2)
                cache[i] = k, v
                x = x + attn.linears[3](attn.join(attn.attend(q, k, v, allowed)))
                x = x + block.feed_forward(block.norm_2(x))
            before += L
            logits.append((model.norm(x) @ model.embed.weight.mT)[:, -L:])
        return logits[-1] if again else torch.cat(logits, dim=1)

    return in_pieces


WRONG["6.5"] = [  # with both faults it is the stub, which is no answer yet
    extended(mask="none"),
    extended(start="pieces"),
    extended(mask="first"),
    extended(mask="square"),
    extended(mask="first rows"),
    extended(mask="strict"),
    extended(start="zero"),
    extended(again=True),
    lambda model, pieces: model(torch.cat(pieces, dim=1))[:, -1],
    lambda model, pieces: pieces,
]


def nucleus_of(stops="before >= top_p", rescale=True, one=True):
    """Return a nucleus with a rule for where it stops, or with another fault."""
    rules = {
        "before >= top_p": lambda before, after, top_p: before >= top_p,
        "before > top_p": lambda before, after, top_p: before > top_p,
        "after > top_p": lambda before, after, top_p: after > top_p,
    }

    def nucleus(p, top_p):
        kept, total = [], 0.0
        for i in sorted(range(len(p)), key=lambda i: -p[i]):
            if rules[stops](total, total + p[i], top_p) and (kept or not one):
                break
            kept.append(i)
            total += p[i]
        return {i: p[i] / total if rescale else p[i] for i in kept}

    return nucleus


WRONG["6.6"] = [
    nucleus_of("after > top_p"),  # without the token that crosses the limit
    nucleus_of("before > top_p"),  # one too many where the limit is met
    nucleus_of(one=False),  # nothing for 0
    nucleus_of(rescale=False),
    lambda p, top_p: {i: q for i, q in enumerate(p) if q >= top_p},  # a threshold
    lambda p, top_p: list(nucleus_of()(p, top_p)),
    lambda p, top_p: {
        i: q
        for i, q in enumerate(
            at.restrict(torch.tensor(p).double().log(), None, top_p)
            .softmax(-1)
            .tolist()
        )
        if q
    },
]


def block_with(first="", second="", norms=True, mask=True, feeds="y", cached=True):
    """Return the class of 6.7 with one or another fault."""

    class WithoutResiduals(at.Block):
        def forward(self, x, mask_, cached_=None):
            u = self.norm_1(x) if norms else x
            attend = cached_ if cached and cached_ is not None else self.self_attn
            y = attend(u, u, u, mask_ if mask else None) + (x if first else 0)
            if not feeds:
                return y
            u = x if feeds == "x" else y
            z = self.feed_forward(self.norm_2(u) if norms else u)
            return z + (y if second == "y" else x if second == "x" else 0)

    return WithoutResiduals


class Derived(at.Block):
    """Call the original."""

    def forward(self, x, mask, cached=None):
        return super().forward(x, mask, cached)


WRONG["6.7"] = [
    (block_with(first="x"), "bce"),
    (block_with(second="y"), "bce"),
    (block_with(second="x"), "bce"),
    (Derived, "bce"),
    (block_with(norms=False), "bce"),
    (block_with(feeds="x"), "bce"),
    (block_with(feeds=""), "bce"),
    (block_with(mask=False), "bce"),
    (block_with(cached=False), "bce"),
    (block_with(), None),  # predicted nothing
    (block_with(), "abce"),
    (block_with(), "ce"),
    (block_with(), "be"),
    (block_with(), "bcde"),
    (block_with(), "bc"),
    (block_with(), "bcef"),
    (block_with(), "bcg"),
    (block_with(), 3),
    (block_with()(16, 24, 4, 2), "bce"),
    (torch.nn.Identity, "bce"),
    block_with(),
]
