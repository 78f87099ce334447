"""How are the charts of chapter 1 drawn? Each is one call.

Some can be moved by readers; what follows is computed in the page by Vega, without
Python. At rest, they show the numbers of the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from annotated_transformer import optional_import
from transformer_workshop.pictures import KEEPS_WIDTH
from transformer_workshop.pictures.controls import (
    BLUE,
    GREEN,
    ORANGE,
    choices,
    live_title,
    one_record,
    slider,
)

if TYPE_CHECKING:
    import altair
    import pandas


def ladder_chart(
    right: dict[str, float],
    ranges: dict[str, list[float]],
    guess: float | None = None,
    new: int | None = None,
) -> altair.LayerChart:
    """Draw the score of each model: a dot for this run, a line for the stored ones.

    A dashed line is at the score of a guess, if one is given. Models before the last
    ``new`` ones, which a reader has seen before, are gray.
    """
    alt = optional_import("altair")
    names = list(right)
    seen = set(names[:-new] if new else [])
    rows = [
        {
            "model": name,
            "right": round(now, 4),
            "low": min(ranges[name], default=now),
            "high": max(ranges[name], default=now),
            "seen": name in seen,
        }
        for name, now in right.items()
    ]
    base = alt.Chart(alt.Data(values=rows), width=300, height=alt.Step(28)).encode(
        alt.Y("model:N", title=None, sort=names).axis(
            labelLimit=300, labelFontSize=13, labelPadding=8, ticks=False, domain=False
        ),
        color=alt.condition("datum.seen", alt.value("#8c8c8c"), alt.value(BLUE)),
        tooltip=["model:N", "right:Q", "low:Q", "high:Q"],
    )
    title = "share of held-out sentences that are right"
    x = alt.X("low:Q", title=title).scale(domain=(0, 1))
    x = x.axis(labelFontSize=13, titleFontSize=13, values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    stored = base.mark_rule(strokeWidth=7, opacity=0.4, strokeCap="round").encode(
        x, alt.X2("high:Q")
    )
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(alt.X("right:Q"))
    numbers = base.mark_text(align="left", dx=9, fontSize=13).encode(
        alt.X("right:Q"),
        alt.Text("right:Q", format=".2f"),
        color=alt.condition("datum.seen", alt.value("#595959"), alt.value("black")),
    )
    if guess is None:
        return stored + dots + numbers
    at = {"x": alt.datum(guess)}
    line = one_record().mark_rule(strokeDash=[4, 4], color=ORANGE).encode(**at)
    named = one_record().mark_text(text="a guess", fontSize=13, color="#a34700", dy=-8)
    return stored + line + named.encode(y=alt.value(0), **at) + dots + numbers


def _sentence_with_arcs(
    words: list[str], weights: dict[int, float], query: int
) -> altair.LayerChart:
    """Draw one panel of ``arcs``: from the word at ``query`` to those with weights."""
    alt = optional_import("altair")
    named, curves, numbers = [], [], []
    center = []
    x = 0.0  # in pixels, if letters were as wide as this takes them to be
    for i, word in enumerate(words):
        width = sum(4.5 if letter in "fijlrt.,'" else 8.2 for letter in word)
        if i in weights:
            width = max(width, 26)  # room for the number below
        center.append(x + width / 2)
        named.append({"x": center[i], "y": 0, "word": word, "asks": i == query})
        x += width + 8
    shown = {i: weight for i, weight in weights.items() if weight >= 0.03}
    for i, weight in shown.items():
        radius = (center[query] - center[i]) / 2
        for step in range(41):
            angle = math.pi * step / 40
            across = center[i] + radius * (1 - math.cos(angle))
            up = 14 + 0.5 * abs(radius) * math.sin(angle)
            if i == query:  # a loop
                across = center[i] + 7 * math.sin(2 * angle)
                up = 14 + 6 * (1 - math.cos(2 * angle))
            curves.append(
                {"to": i, "weight": weight, "step": step, "x": across, "y": up}
            )
    for i, weight in weights.items():
        numbers.append(
            {"x": center[i], "y": 0, "weight": f"{weight:.2f}", "small": i not in shown}
        )

    def marks(records: list) -> altair.Chart:
        return alt.Chart(alt.Data(values=records), width=620, height=140).encode(
            alt.X("x:Q", axis=None).scale(domain=(-10, x)),
            alt.Y("y:Q", axis=None).scale(domain=(-0.06 * x, 0.28 * x)),
        )

    lines = (
        marks(curves)
        .mark_line(strokeCap="round")
        .encode(
            alt.Size("weight:Q", legend=None).scale(domain=(0, 1), range=(1, 9)),
            alt.Opacity("weight:Q", legend=None).scale(domain=(0, 1), range=(0.4, 0.9)),
            detail="to:N",
            order="step:Q",
        )
    )
    asks = alt.condition("datum.asks", alt.value("#d55e00"), alt.value("#444444"))
    text = marks(named).mark_text(fontSize=14).encode(text="word:N", color=asks)
    values = marks(numbers).mark_text(fontSize=13, fontWeight="bold", dy=18)
    return alt.layer(
        lines,
        text,
        values.encode(
            text="weight:N",
            color=alt.condition(
                "datum.small", alt.value("#9a9a9a"), alt.value("black")
            ),
        ),
        view=alt.ViewBackground(stroke=None),
    )


def arcs(
    heard: dict[str, dict[str, float] | list[float]], query: str | list[str] = "it"
) -> altair.VConcatChart:
    """Draw sentences with arcs from one word to others, wider for a larger weight.

    Each sentence has the weights of all its words, in order, or of some by name:
    {"The dog …": {"dog": 0.1, "soup": 0.8}}. A name is found where it first occurs.
    ``query`` is the word in all sentences, or one for each.
    """
    alt = optional_import("altair")
    asking = [query] * len(heard) if isinstance(query, str) else query
    panels, says = [], []
    for (sentence, given), word in zip(heard.items(), asking, strict=True):
        words = sentence.split()
        plain = [each.strip(".,") for each in words]
        if isinstance(given, dict):
            weights = {plain.index(each): weight for each, weight in given.items()}
        else:
            weights = dict(enumerate(given))
        panels.append(_sentence_with_arcs(words, weights, plain.index(word)))
        listed = ", ".join(f"{plain[i]} {weight:.2f}" for i, weight in weights.items())
        says.append(f"{sentence} {word}: {listed}")
    return alt.vconcat(
        *panels, spacing=8, description="; ".join(says), usermeta=KEEPS_WIDTH
    )


def attention_maps(
    maps: dict[str, Tensor], rows: str, columns: str
) -> altair.HConcatChart:
    """Draw small maps of weights (L, S) side by side, under their titles.

    ``rows`` and ``columns`` name the axes, which count from 0.
    """
    alt = optional_import("altair")
    charts: list[altair.Chart] = []
    for title, weights in maps.items():
        cells = [
            {"row": i, "column": j, "weight": round(weights[i, j].item(), 3)}
            for i in range(weights.size(0))
            for j in range(weights.size(1))
        ]
        chart = alt.Chart(alt.Data(values=cells), title=title, width=170, height=170)
        charts.append(
            chart.mark_rect().encode(
                alt.X("column:O", title=columns).axis(labelAngle=0),
                alt.Y("row:O", title=rows if not charts else None),
                alt.Color("weight:Q").scale(domain=(0, 1)),
                tooltip=["row:O", "column:O", "weight:Q"],
            )
        )
    return alt.hconcat(*charts)


def depth_chart(gradients: pandas.DataFrame) -> altair.Chart:
    """Draw the gradient of each layer in stacks of several depths.

    Columns: norm (its name), N (layers), layer, gradient (a mean norm).
    """
    alt = optional_import("altair")
    title = "Toward the top, gradients grow with post-norm and shrink with pre-norm"
    chart = alt.Chart(gradients, title=title, width=150, height=200)
    return (
        chart.mark_line(point=True)
        .encode(
            alt.X("layer:O").axis(labelAngle=0, labelOverlap=True),
            alt.Y("gradient:Q", title="mean norm of the gradient"),
            alt.Color("norm:N"),
            alt.Column("N:O", title="layers in the stack"),
        )
        .resolve_scale(x="independent")
    )


def attention_by_hand(
    words: list[str], key: Tensor, votes: list[str | None], queries: dict[str, Tensor]
) -> altair.HConcatChart:
    """Let readers move a query among keys (S, 2), and see the weights and the votes.

    ``votes`` names what each word votes for, if anything. ``queries`` are named places
    (2) of the plane; the first is where the query starts.
    """
    alt = optional_import("altair")
    start = next(iter(queries.values())).tolist()
    pull = "pointerdown, [pointerdown, window:pointerup] > pointermove"
    axes = {"x": "can be eaten", "y": "is an animal"}
    bind = {
        axis: alt.binding_range(min=-2, max=2, step=0.1, name=f"the query’s “{name}” ")
        for axis, name in axes.items()
    }
    query = alt.selection_point(
        "query", fields=["y", "x"], bind=bind, nearest=True, on=pull, clear=False,
        value=[dict(zip("xy", start, strict=True))],
    )  # fmt: skip
    now = {
        axis: f"isValid(query.{axis}) ? query.{axis}[0] : {value}"
        for axis, value in zip("xy", start, strict=True)
    }
    scale = alt.Scale(domain=(-2, 2), nice=False)
    at = {
        axis: alt.X("x:Q", title=name, scale=scale).axis(values=[-2, -1, 0, 1, 2])
        if axis == "x"
        else alt.Y("y:Q", title=name, scale=scale).axis(values=[-2, -1, 0, 1, 2])
        for axis, name in axes.items()
    }
    origin = {"x2": alt.datum(0), "y2": alt.datum(0)}
    keys = [
        {"word": word, "x": round(x, 3), "y": round(y, 3), "vote": vote}
        for word, (x, y), vote in zip(words, key.tolist(), votes, strict=True)
    ]
    placed = alt.Chart(alt.Data(values=keys)).encode(**at)
    named = alt.Chart(alt.Data(values=[
        {"name": name, **dict(zip("xy", point.tolist(), strict=True))}
        for name, point in queries.items()
    ])).encode(**at)  # fmt: skip
    steps = 41  # places that the query can be moved to, along each axis
    everywhere = alt.Chart(alt.sequence(steps**2, as_="i")).transform_calculate(
        x=f"datum.i % {steps} / 10 - 2", y=f"floor(datum.i / {steps}) / 10 - 2"
    )
    moved = one_record().transform_calculate(**now).encode(**at)
    plane = alt.layer(
        placed.mark_rule(color=BLUE, strokeWidth=2).encode(**origin),
        placed.mark_point(color=BLUE, filled=True, size=40, opacity=1),
        placed.mark_text(align="left", dx=7, dy=-5, fontSize=13).encode(text="word:N"),
        named.mark_point(shape="cross", size=60, color=ORANGE, strokeWidth=1),
        named.mark_text(dy=14, fontSize=12, fontStyle="italic").encode(text="name:N"),
        moved.mark_rule(color=ORANGE, strokeWidth=3).encode(**origin),
        moved.mark_point(color=ORANGE, filled=True, size=170, opacity=1),
        everywhere.mark_point(opacity=0, cursor="grab", size=60, aria=False)
        .encode(**at)
        .add_params(query),
        width=250,
        height=250,
        title="Drag the orange query",
    )
    heard = (
        alt.Chart(alt.Data(values=keys))
        .transform_calculate(**{f"q{axis}": value for axis, value in now.items()})
        .transform_calculate(score="datum.qx * datum.x + datum.qy * datum.y")
        .transform_calculate(exponential="exp(datum.score)")
        .transform_joinaggregate(total="sum(exponential)")
        .transform_calculate(weight="datum.exponential / datum.total")
    )
    row = alt.Y("word:N", sort=None, title=None).axis(ticks=False, domain=False)

    def column(field: str, head: str, right: int) -> altair.LayerChart:
        """Return a column of numbers under its head."""
        across = {"x": alt.value(right)}
        text = heard.mark_text(align="right", fontSize=13)
        text = text.encode(row, text=alt.Text(f"{field}:Q", format=".2f"), **across)
        above = one_record().mark_text(align="right", fontSize=11, text=head)
        return text + above.encode(y=alt.value(-8), **across)

    share = alt.X(
        "weight:Q", axis=None, scale=alt.Scale(domain=(0, 1), range=(176, 250))
    )
    table = alt.layer(
        column("score", "score", 48),
        column("exponential", "exp(score)", 120),
        column("weight", "weight", 168),
        heard.mark_bar(height=14, x2=176).encode(row, share),
        width=250,
        height=100,
        view=alt.ViewBackground(stroke=None),
    )
    ballot = heard.transform_filter("datum.vote != null").encode(
        alt.X("weight:Q", title="output").scale(domain=(0, 1)).axis(tickCount=5),
        alt.Y("vote:N", sort=None, title=None),
    )
    votes_ = alt.layer(
        ballot.mark_bar(color=GREEN, height=14),
        ballot.mark_text(align="left", dx=4, fontSize=13, color="#444444").encode(
            text=alt.Text("weight:Q", format=".2f")
        ),
        width=250,
        height=66,
    )
    says = "A plane with the keys of the words and a query that can be moved. "
    return alt.hconcat(
        plane,
        alt.vconcat(table, votes_, spacing=24),
        spacing=28,
        description=says + "At rest, " + _weights_in_words(words, key, start),
    )


def _weights_in_words(words: list[str], key: Tensor, query: list[float]) -> str:
    """Return what a query (2) makes of the keys (S, 2), in words."""
    weights = (key @ key.new_tensor(query)).softmax(dim=0).tolist()
    return ", ".join(f"{w} {p:.2f}" for w, p in zip(words, weights, strict=True))


def softmax_by_width(scores: list[float]) -> altair.VConcatChart:
    """Let readers choose the width d_k, and whether scores are divided by its root.

    ``scores`` are one query's, divided by √d_k, so of about the size 1. Below them are
    means over 1,000 draws of sixteen such scores.
    """
    alt = optional_import("altair")
    width = slider("log_width", "log₂ of the width d_k", 6, 0, 10, 1)
    divide = alt.param(
        name="divide", value=False, bind=alt.binding_checkbox(name="divide by √d_k ")
    )
    keys = [{"key": i, "z": round(z, 4)} for i, z in enumerate(scores, 1)]
    looked = (
        alt.Chart(alt.Data(values=keys))
        .transform_calculate(
            score="datum.z * (divide ? 1 : sqrt(pow(2, log_width)))",
        )
        .transform_joinaggregate(top="max(score)")
        .transform_calculate(e="exp(datum.score - datum.top)")
        .transform_joinaggregate(total="sum(e)")
        .transform_calculate(weight="datum.e / datum.total")
    )
    best = looked.transform_filter("datum.score == datum.top")
    at = {
        "x": alt.X("key:O", title="key").axis(labelAngle=0),
        "y": alt.Y("weight:Q").scale(domain=(0, 1.1)).axis(values=[0, 0.5, 1]),
    }
    which = alt.condition(
        "datum.score == datum.top", alt.value(ORANGE), alt.value(BLUE)
    )
    number = best.mark_text(
        align="left", dx=-9, dy=-8, color=ORANGE, fontWeight="bold", fontSize=13
    )
    bars = alt.layer(
        looked.mark_bar().encode(color=which, **at),
        number.encode(text=alt.Text("weight:Q", format=".2f"), **at),
        width=300,
        height=170,
        title=live_title(
            "'d_k = ' + pow(2, log_width) + (divide ? ', divided by √d_k' : ', "
            "not divided')"
        ),
    )
    many = torch.randn(1000, 16, generator=torch.Generator().manual_seed(0))
    means = []
    for log_width in range(11):
        top = (many * 2 ** (log_width / 2)).softmax(dim=-1).amax(dim=-1)
        for what, mean in (
            ("largest weight p", top.mean()),
            ("its slope, p (1 − p)", (top * (1 - top)).mean()),
        ):
            means.append({"w": log_width, "what": what, "mean": round(mean.item(), 3)})
    mean = alt.X("mean:Q", title=None).scale(domain=(0, 1.1)).axis(values=[0, 0.5, 1])
    base = (
        alt.Chart(alt.Data(values=means))
        .transform_filter("datum.w == (divide ? 0 : log_width)")
        .encode(mean, alt.Y("what:N", title=None, sort=None))
    )
    below = alt.layer(
        base.mark_bar(color=GREEN, height=16),
        base.mark_text(align="left", dx=4, fontSize=13).encode(
            text=alt.Text("mean:Q", format=".2f")
        ),
        width=300,
        height=56,
        title="means of 1,000 draws",
    )
    return alt.vconcat(
        bars,
        below,
        description="Sixteen weights at a width d_k that can be chosen, with scores "
        "divided by its root or not, and the mean of the largest weight and of its "
        "slope. At rest, d_k is 64 and nothing is divided.",
    ).add_params(width, divide)


def mask_by_hand(words: list[str], scores: Tensor) -> altair.LayerChart:
    """Let readers choose which scores (L, L) are hidden, and click cells themselves."""
    alt = optional_import("altair")
    hidden = {
        "the future": "datum.s > datum.t",
        "the last two words": f"datum.s > {len(words) - 3}",
        "nothing": "false",
        "everything": "true",
    }
    choice = choices("hides", "the mask hides", "the future", list(hidden))
    cells = [
        {"t": t, "s": s, "query": words[t], "key": words[s], "score": round(x, 4)}
        for t, row in enumerate(scores.tolist())
        for s, x in enumerate(row)
    ]
    clicked = alt.selection_point(
        "clicked", fields=["t", "s"], toggle="true", clear=False, on="click",
        empty=False,
    )  # fmt: skip
    chosen = " : ".join(f"hides == '{name}' ? {test}" for name, test in hidden.items())
    label = f"{words}[datum.value]".replace("'", '"')
    at = {
        "x": alt.X("s:O", title="key").axis(
            labelExpr=label, orient="top", labelAngle=-40, domain=False, ticks=False
        ),
        "y": alt.Y("t:O", title="query").axis(
            labelExpr=label, domain=False, ticks=False
        ),
    }
    cell = alt.Chart().encode(**at)
    seen = alt.Chart().transform_filter("datum.open").encode(**at)
    dark = alt.condition("datum.weight > 0.5", alt.value("white"), alt.value("black"))
    sums = alt.Chart().transform_aggregate(sum="sum(weight)", groupby=["t"])
    sums = sums.mark_text(align="left", fontSize=13, fontWeight="bold")
    size = 46 * len(words)
    beside = {"x": alt.value(size + 8)}
    return (
        alt.layer(
            cell.mark_rect(fill="#999999", fillOpacity=0.25, stroke="#888888"),
            seen.mark_rect(stroke="#888888").encode(
                alt.Color("weight:Q", legend=None).scale(domain=(0, 1))
            ),
            seen.mark_text(fontSize=12).encode(
                text=alt.Text("weight:Q", format=".2f"), color=dark
            ),
            seen.transform_filter("datum.s > datum.t").mark_rect(
                fillOpacity=0, stroke=ORANGE, strokeWidth=2.5
            ),
            sums.encode(at["y"], text=alt.Text("sum:Q", format=".2f"), **beside),
            one_record()
            .mark_text(align="left", fontSize=12, text="sum")
            .encode(y=alt.value(-8), **beside),
            cell.mark_rect(opacity=0, cursor="pointer")
            .encode(tooltip=["query:N", "key:N", "cell:N"])
            .add_params(clicked),
            data=alt.Data(values=cells),
            width=size,
            height=size,
            title=alt.Title(
                "Click a cell to open or to hide it",
                subtitle="orange: a look into the future",
            ),
            description="The weights of five words. Choose what a mask hides, or click "
            "cells: rows that may attend to anything still add up to one.",
        )
        .transform_calculate(masked=f"{chosen} : false")
        .transform_calculate(
            open="datum.masked == vlSelectionTest('clicked_store', datum)"
        )
        .transform_calculate(e="datum.open ? exp(datum.score) : 0")
        .transform_joinaggregate(total="sum(e)", groupby=["t"])
        .transform_calculate(
            weight="datum.total ? datum.e / datum.total : 0",
            cell="datum.open ? 'open' : 'hidden'",
        )
        .add_params(choice)
    )


def position_clocks(
    d_model: int, length: int, pairs: Sequence[int]
) -> altair.HConcatChart:
    """Draw a table of positions as a map, some pairs as clock hands, and a similarity.

    Readers choose the position from which six clocks go on, and the base. Pair i is
    columns 2i (sine) and 2i + 1 (cosine); twelve o'clock is an angle of zero.
    """
    alt = optional_import("altair")
    position = slider("position", "position", 0, 0, length - 6, 1)
    base = slider("log_base", "base, as a power of ten:", 4, 0.5, 4, 0.5)
    half = d_model // 2
    speed = f"pow(10, -log_base * datum.pair / {half})"
    cells = (
        alt.Chart(alt.sequence(0, length * d_model, as_="cell"))
        .transform_calculate(
            position=f"floor(datum.cell / {d_model})", column=f"datum.cell % {d_model}"
        )
        .transform_calculate(pair="floor(datum.column / 2)")
        .transform_calculate(angle=f"datum.position * {speed}")
        .transform_calculate(
            value="datum.column % 2 ? cos(datum.angle) : sin(datum.angle)",
            next="datum.column + 1",
            below="datum.position + 1",
        )
    )
    hands = (
        alt.Chart(alt.sequence(0, 6 * len(pairs), as_="clock"))
        .transform_calculate(
            step="datum.clock % 6",
            row="floor(datum.clock / 6)",
            pair=f"{list(pairs)}[floor(datum.clock / 6)]",
        )
        .transform_calculate(angle=f"(position + datum.step) * {speed}")
        .transform_calculate(
            x="datum.step + 0.42 * sin(datum.angle)",
            y="datum.row - 0.42 * cos(datum.angle)",
        )
    )
    across = (
        alt.X("step:Q", title="position")
        .scale(domain=(-0.5, 5.5), nice=False)
        .axis(values=list(range(6)), grid=False, labelExpr="position + datum.value")
    )
    rows = len(pairs)
    named = alt.Y("row:Q", title=None).scale(domain=(rows - 0.5, -0.5), nice=False)
    named = named.axis(
        values=list(range(rows)), grid=False, domain=False, ticks=False,
        labelExpr=f"'pair ' + {list(pairs)}[datum.value]",
    )  # fmt: skip
    clocks = alt.layer(
        hands.mark_circle(size=1150, color="#efefef", opacity=1).encode(across, named),
        hands.mark_rule(strokeWidth=2.5).encode(
            across, alt.X2("x", title=""), named, alt.Y2("y")
        ),
        width=264,
        height=46 * rows,
        title="Pairs of columns as clock hands",
    )
    similarity = (
        alt.Chart(alt.sequence(0, length * half, as_="term"))
        .transform_calculate(
            other=f"floor(datum.term / {half})", pair=f"datum.term % {half}"
        )
        .transform_calculate(part=f"cos((datum.other - position) * {speed})")
        .transform_aggregate(dot="sum(part)", groupby=["other"])
    )
    others = alt.X("other:Q", title="other position")
    others = others.scale(domain=(0, length - 1), nice=False)
    dots = alt.Y("dot:Q", title=None).scale(domain=(-half / 2, half))
    dots = dots.axis(values=[0, half / 2, half])
    mark = one_record().transform_calculate(other="position")
    curve = alt.layer(
        similarity.mark_line().encode(others, dots),
        mark.mark_rule(color=ORANGE, strokeWidth=2).encode(others),
        width=264,
        height=70,
        title="Dot product with the other positions",
    )
    first = one_record().transform_calculate(top="position", end="position + 6")
    frame = first.mark_rect(fillOpacity=0, stroke="black", strokeWidth=2)
    down = alt.Scale(domain=(length, 0), nice=False)
    map_ = alt.layer(
        cells.mark_rect().encode(
            alt.X("column:Q", title="column")
            .scale(domain=(0, d_model), nice=False)
            .bin("binned"),
            alt.X2("next", title=""),
            alt.Y("position:Q", title="position")
            .scale(down)
            .bin("binned")
            .axis(grid=False),
            alt.Y2("below", title=""),
            alt.Color("value:Q")
            .scale(scheme="blueorange", domain=(-1, 1))
            .legend(orient="bottom", direction="horizontal"),
        ),
        frame.encode(alt.Y("top:Q", scale=down, title=""), alt.Y2("end")),
        width=290,
        height=290,
        title="The table",
    )
    right = alt.vconcat(clocks, curve, spacing=16)
    chart = alt.hconcat(map_, right, spacing=24, description=(
        "A table of positions as a map; pairs of its columns as the hands of clocks, "
        "for six positions from the one chosen; the dot product with every position."
    ))  # fmt: skip
    return chart.add_params(position, base)
