"""the axes of a batch of maps, comparable color scales, repeated words"""

import torch

from transformer_workshop.exercises.checking import near


def cells_with_four_faults(attn, head, rows, columns):
    """Return the cells as the faulty function that exercise 5.1 gives does."""
    weights = attn[head, 0] / attn[head, 0].max()
    return [
        (rows.index(row), row, columns.index(column), column, weights[c, r].item())
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
    ]


def judge(answer):
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
