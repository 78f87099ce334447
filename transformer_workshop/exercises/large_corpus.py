"""streams and pools: indices, the last pool, reading nothing too early"""

import itertools

import torch

import annotated_transformer as at


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


def judge(answer):
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
