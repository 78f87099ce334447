"""How are the charts of chapters 1 to 6 drawn? Each is one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from annotated_transformer import END, optional_import

if TYPE_CHECKING:
    import altair
    import pandas

# --- chapter 1 -----------------------------------------------------------------------


def scaling_chart(measured: pandas.DataFrame) -> altair.HConcatChart:
    """Draw what the division by √d_k does: a line with, one without it.

    Columns: d_k, scores, largest weight (of 16), mean gradient, median gradient.
    """
    alt = optional_import("altair")
    color = alt.Color("scores:N", title=None).legend(orient="top")
    base = alt.Chart(measured, width=240, height=200).encode(
        alt.X("d_k:Q", title="width d_k").scale(type="log", base=2).axis(tickCount=6),
        color,
    )
    largest = alt.Y("largest weight:Q", title="mean weight")
    typical = alt.Y("median gradient:Q", title="median length")
    even = alt.Chart().encode(y=alt.datum(1 / 16))
    label = even.mark_text(text="equal weights: 1/16", dy=-8, x=4, align="left")
    weights = base.mark_line(point=True).encode(largest)
    gradient = base.mark_line(point=True).encode(typical)
    return (weights + even.mark_rule(strokeDash=[5, 4]) + label).properties(
        title="The weight of the best of sixteen keys"
    ) | gradient.properties(title="The gradient that reaches a typical query")


# --- chapter 2 -----------------------------------------------------------------------


# --- chapter 3 -----------------------------------------------------------------------


# --- chapter 4 -----------------------------------------------------------------------


def merge_chart(
    merges: Iterable[tuple[tuple[str, str], int, dict[tuple[str, ...], int]]],
) -> altair.LayerChart:
    """Draw the words of a text after each merge, with its new symbol in orange.

    A merge is the pair, how often it occurred, and how often each word occurs.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    rows = []
    for number, ((a, b), n, words) in enumerate(merges, start=1):
        left, label = 0, f"{number}: {a} + {b}, {n} times"
        for word, times in words.items():
            if number == 1:
                right = left + sum(map(len, word))
                rows.append(("occurs in the text", left, right, f"{times} ×", False))
            for symbol in word:
                right = left + len(symbol)
                rows.append((label, left, right, symbol, symbol == a + b))
                left = right
            left += 1  # a gap after each word
    symbols = pd.DataFrame(rows, columns=["merge", "left", "right", "symbol", "new"])
    symbols["middle"] = (symbols.left + symbols.right) / 2
    chart = alt.Chart(symbols, width=540, height=350)
    chart = chart.encode(alt.Y("merge", sort=None, title="merge"))
    boxes = chart.mark_bar(stroke="white", strokeWidth=2, height=21).encode(
        alt.X("left", title="the words of the sentence").axis(
            labels=False, ticks=False, grid=False
        ),
        alt.X2("right"),
        alt.Color("new", legend=None).scale(range=["#d7e8f3", "#f2b48a"]),
    )
    letters = chart.mark_text(fontSize=12).encode(x="middle", text="symbol")
    title = "Frequent words become one symbol, rare ones stay in pieces"
    return (boxes + letters).properties(title=title)


def recomputation_chart(positions: dict[str, list[int]]) -> altair.Chart:
    """Draw which positions each step computes, for decoders that differ in it.

    ``positions`` has a decoder's name, and how many positions each step computes.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    cells = []
    for decoder, numbers in positions.items():
        for step, computed in enumerate(numbers, start=1):
            for position in range(1, step + 1):
                old = "again" if position > step - computed else "read from the cache"
                kind = "new" if position == step else old
                cells.append((decoder, step, position, kind))
    columns = ["decoder", "step", "position", "computed"]
    chart = alt.Chart(pd.DataFrame(cells, columns=columns), width=220, height=220)
    chart = chart.mark_rect(stroke="white").encode(
        alt.X("position:O", title="position of the output").axis(labelAngle=0),
        alt.Y("step:O", title="step"),
        alt.Color("computed", title=None).scale(
            domain=["new", "again", "read from the cache"],
            range=["#0072b2", "#e69f00", "#e3e3e3"],
        ),
        alt.Column("decoder", sort=list(positions), title=None),
    )
    return chart.properties(title="With a cache, each step computes one position")


def beam_tree(
    tree: list[list[tuple[list[int], float]]],
    beam_size: int,
    outputs: dict[str, list[int]],
    tokens_of: Callable[[list[int]], list[str]],
) -> altair.LayerChart:
    """Draw the best six candidates of each step, and the paths of two outputs.

    ``tree`` has the candidates (ids, log_p) of each step, best first; ``outputs`` two
    names with their ids, the beam's first.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    start = tuple(next(iter(outputs.values()))[:1])
    ranks, both = {start: 0}, " and ".join(outputs)
    nodes = [(0, 0, 0, 0, "start\n0.00", "kept", both)]
    for step, candidates in enumerate(tree, start=1):
        live = [ids for ids, _ in candidates if ids[-1] != END][:beam_size]
        for rank, (ids, log_p) in enumerate(candidates[:6]):
            ranks[tuple(ids)] = rank
            fate = "kept" if ids in live else "dropped"
            if ids[-1] == END and rank < beam_size:
                fate = "finished"
            passing = [name for name, out in outputs.items() if ids == out[: step + 1]]
            path = " and ".join(passing) or "neither"
            label = f"{tokens_of(ids[-1:])[0]}\n{log_p:.2f}"
            parent = ranks[tuple(ids[:-1])]
            nodes.append((step - 1, parent, step, rank, label, fate, path))
    columns = ["before", "parent", "step", "rank", "label", "fate", "path"]
    last = len(tree)
    axis = alt.Axis(grid=False, values=list(range(last + 1)), format="d")
    chart = alt.Chart(pd.DataFrame(nodes, columns=columns), width=670, height=270)
    chart = chart.encode(
        alt.X("step:Q", axis=axis, title="step").scale(domain=[-0.5, last + 0.5]),
        alt.Y("rank:Q", axis=None).scale(domain=[-0.6, 5.6], reverse=True),
    )
    paths = alt.Stroke("path", title="on the way to").legend(orient="bottom")
    paths = paths.scale(
        domain=[both, *outputs, "neither"],
        range=["#444444", "#009e73", "#d55e00", "#d0d0d0"],
    )
    fates = alt.Color("fate", title="candidate").legend(orient="bottom")
    fates = fates.scale(
        domain=["kept", "finished", "dropped"], range=["#9ecae9", "#8fd3b6", "#eeeeee"]
    )
    thin = alt.when(path="neither").then(alt.value(1)).otherwise(alt.value(4))
    lines = chart.mark_rule().encode(paths, x2="before", y2="parent", strokeWidth=thin)
    shape = "M-0.81,-0.45H0.81V0.45H-0.81Z"
    boxes = chart.mark_point(shape=shape, size=5000, opacity=1, filled=True)
    labels = chart.mark_text(lineBreak="\n", dy=-4, fontSize=11).encode(text="label")
    title = f"The first {last} steps of a search with a beam of {beam_size}"
    return (lines + boxes.encode(fates) + labels).properties(title=title)


def averaging_chart(
    losses: dict[int, float], averaged: Sequence[int], loss_of_mean: float
) -> altair.LayerChart:
    """Draw the loss after each epoch, and the loss of the mean of some of them."""
    pd, alt = optional_import("pandas"), optional_import("altair")
    points = pd.DataFrame({"epoch": list(losses), "loss": list(losses.values())})
    level = pd.DataFrame({"epoch": list(averaged), "loss": loss_of_mean})
    level["label"] = "the mean of these five"
    x = alt.X("epoch", title="epochs of training").scale(
        domain=(min(losses) - 1, max(losses) + 1)
    )
    y = alt.Y("loss", title="trained loss (nats per token)")
    dots = alt.Chart(points, width=460).mark_line(point=True).encode(x, y)
    line = alt.Chart(level).mark_line(color="#d55e00", strokeWidth=5).encode(x, y)
    middle = averaged[len(averaged) // 2]
    note = alt.Chart(level[level.epoch == middle]).mark_text(dy=16)
    note = note.encode(x, y, text="label")
    title = "The mean lies below the five it is made of"
    return (dots + line + note).properties(title=title)


# --- chapter 5 -----------------------------------------------------------------------


# --- chapter 6 -----------------------------------------------------------------------
