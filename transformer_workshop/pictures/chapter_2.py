"""How are the charts of chapter 2 drawn? Each is one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair
    import pandas


def learning_chart(
    history: pandas.DataFrame, words: list[str], mark: dict[str, float]
) -> altair.HConcatChart:
    """Draw losses, and the share of right words, while a model learns.

    Columns: update, training, validation (losses), and a share for each of ``words``,
    the hero first. ``mark`` names a height of the loss, which a dashed line shows.
    """
    alt = optional_import("altair")

    def lines(
        columns: list[str], colors: list[str], hero: str, y: altair.Y
    ) -> altair.LayerChart:
        table = history.melt("update", columns, var_name="line", value_name="value")
        color = alt.Color("line:N", title=None, sort=columns).legend(orient="top")
        base = alt.Chart(table, width=270, height=210).encode(
            alt.X("update:Q").scale(nice=False).axis(tickCount=5),
            y,
            color.scale(domain=columns, range=colors),
        )
        others = base.transform_filter(alt.datum.line != hero).mark_line(strokeWidth=2)
        ours = base.transform_filter(alt.datum.line == hero).mark_line(strokeWidth=4)
        return others + ours

    [(words_of_mark, height)] = mark.items()
    y = alt.Y("value:Q", title="loss (logarithmic axis)").scale(type="log")
    y = y.axis(values=[0.003, 0.01, 0.03, 0.1, 0.3, 1, 3], format="~g")
    losses = lines(["training", "validation"], ["#8a8a8a", "#0072b2"], "validation", y)
    data = alt.Data(values=[{"value": height, "words": words_of_mark}])
    rule = (
        alt.Chart(data)
        .mark_rule(strokeDash=[6, 4], color="#d55e00")
        .encode(y="value:Q")
    )
    label = (
        alt.Chart(data)
        .mark_text(align="left", dy=-7, color="#d55e00", fontSize=12)
        .encode(alt.X(value=6), alt.Y("value:Q"), alt.Text("words:N"))
    )
    shares = lines(
        words,
        ["#d55e00", "#0072b2", "#56b4e9", "#8a8a8a"],
        words[0],
        alt.Y("value:Q", title="share of held-out sentences").scale(domain=(0, 1)),
    )
    both = (losses + rule + label) | shares
    return both.resolve_scale(color="independent")


def padding_chart(orders: dict[str, list[int]], size: int) -> altair.HConcatChart:
    """Draw rows of words, filled up to the longest of each batch of ``size`` rows.

    ``orders`` holds the lengths of the rows, in the order in which they are cut.
    """
    alt = optional_import("altair")
    charts: list[altair.Chart] = []
    for title, lengths in orders.items():
        bars = []
        for start in range(0, len(lengths), size):
            batch = lengths[start : start + size]
            for i, length in enumerate(batch):
                row = start + i + start // size  # a gap after each batch
                ends = (("word", 0, length), ("padding", length, max(batch)))
                bars += [
                    {"row": row, "kind": kind, "from": low, "to": high}
                    for kind, low, high in ends
                ]
        rows = list(range(len(lengths) + (len(lengths) - 1) // size))
        base = alt.Chart(alt.Data(values=bars), title=title, width=270)
        charts.append(
            base.mark_bar(height=4)
            .encode(
                alt.Y("row:O").axis(None).scale(domain=rows),
                alt.X("from:Q", title="position"),
                alt.X2("to:Q"),
                alt.Color("kind:N", title=None).scale(
                    domain=["word", "padding"], range=["#0072b2", "#c9c9c9"]
                ),
            )
            .properties(height=alt.Step(5))
        )
    return alt.hconcat(*charts)


def diagonal_chart(attention: pandas.Series, epochs: list[int]) -> altair.FacetChart:
    """Draw the cross-attention (11, 10) of some epochs, without the end's row."""
    alt = optional_import("altair")
    pd = optional_import("pandas")
    cells = pd.DataFrame(
        {"epoch": epoch, "target": t + 1, "source": s + 1, "weight": weight}
        for epoch in epochs
        for t, row in enumerate(attention[epoch][:-1].tolist())
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
            alt.Y("loss:Q", title="loss, KL divergence (nats)").scale(domainMin=0),
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
