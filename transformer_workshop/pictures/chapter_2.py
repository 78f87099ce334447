"""How are the charts of chapter 2 drawn? Each is one call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair
    import pandas


def schedule_chart(rates: pandas.DataFrame) -> altair.Chart:
    """Draw the learning rate over the updates. Columns: update, rate, schedule."""
    alt = optional_import("altair")
    order = list(rates["schedule"].unique())
    return (
        alt.Chart(rates, width=430, height=240)
        .mark_line()
        .encode(
            alt.X("update:Q", title="update"),
            alt.Y("rate:Q", title="learning rate").axis(format=".4f"),
            alt.Color("schedule:N", title=None).scale(domain=order),
            alt.StrokeDash("schedule:N", title=None).scale(domain=order),
        )
        .properties(title="Learning rates over 20,000 updates")
    )


def copying_chart(runs: pandas.DataFrame, title: str) -> altair.HConcatChart:
    """Draw losses and exact copies of one or more runs, side by side.

    Columns: run, epoch, NLL, exact (a share).
    """
    alt = optional_import("altair")
    table = runs[["run", "epoch", "NLL", "exact"]]
    base = alt.Chart(table, width=260, height=210)
    lines = base.mark_line(point=True).encode(
        alt.X("epoch:Q", title="epoch of 25 updates").axis(tickMinStep=1),
        alt.Color("run:N", title=None, sort=None).legend(orient="top"),
        alt.StrokeDash("run:N", sort=None, legend=None),
    )
    losses = lines.encode(alt.Y("NLL:Q", title="NLL (nats per symbol)"))
    exact = lines.encode(
        alt.Y("exact:Q", title="share copied exactly").axis(format="%")
    )
    guess = alt.Chart().encode(y=alt.datum(math.log(10)))
    rule = guess.mark_rule(strokeDash=[4, 4])
    label = guess.mark_text(text="uniform guess", align="right", dy=-7)
    label = label.encode(x=alt.datum(int(table["epoch"].max())))
    return (rule + label + losses | exact).properties(title=title)


def diagonal_chart(attention: pandas.Series, epochs: list[int]) -> altair.FacetChart:
    """Draw the cross-attention (9, 10) of some epochs, predicted position by source."""
    alt = optional_import("altair")
    pd = optional_import("pandas")
    cells = pd.DataFrame(
        {"epoch": epoch, "target": t + 2, "source": s + 1, "weight": weight}
        for epoch in epochs
        for t, row in enumerate(attention[epoch].tolist())
        for s, weight in enumerate(row)
    )
    maps = alt.Chart(cells, width=165, height=145).mark_rect()
    maps = maps.encode(
        alt.X("source:O", title="source position attended to").axis(labelAngle=0),
        alt.Y("target:O", title="position to predict"),
        alt.Color("weight:Q", title="weight"),
        tooltip=["target", "source", alt.Tooltip("weight", format=".2f")],
    )
    return maps.facet(
        "epoch:O", columns=3, title="Where the decoder looks, epoch by epoch"
    )


def confidence_chart(losses: pandas.DataFrame) -> altair.Chart:
    """Draw the smoothed loss over the correct word's probability.

    Columns: p, smoothing, loss.
    """
    alt = optional_import("altair")
    return (
        alt.Chart(losses, width=420, height=230)
        .mark_line()
        .encode(
            alt.X("p:Q", title="probability p of the correct word").scale(zero=False),
            alt.Y("loss:Q", title="loss, KL divergence (nats)"),
            alt.Color("smoothing:N", title="smoothing ε"),
        )
        .properties(title="With smoothing, the loss is lowest at 1 − ε")
    )


def target_chart(goals: dict[str, list[float]], words: list[str]) -> altair.Chart:
    """Draw target distributions over the same words as bars, side by side."""
    alt = optional_import("altair")
    pd = optional_import("pandas")
    shares = pd.DataFrame(
        {"goal": goal, "word": word, "q": share}
        for goal, row in goals.items()
        for word, share in zip(words, row, strict=True)
    )
    return (
        alt.Chart(shares, width=180, height=150)
        .mark_bar()
        .encode(
            alt.X("word:N", sort=words, title="word").axis(labelAngle=0),
            alt.Y("q:Q", title="target probability"),
            alt.Color("goal:N", sort=list(goals), legend=None),
            alt.Column("goal:N", sort=list(goals), title=None),
            tooltip=["goal", "word", alt.Tooltip("q", format=".3f")],
        )
        .properties(title="Target distributions when “dog” is correct")
    )
