"""How are the charts of chapter 2 drawn? Each is one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair
    import pandas


def learning_chart(history: pandas.DataFrame, words: list[str]) -> altair.HConcatChart:
    """Draw losses, and the share of right words, while a model learns.

    Columns: update, training, validation (losses), and a share for each of ``words``.
    """
    alt = optional_import("altair")

    def lines(columns: list[str], title: str) -> altair.Chart:
        table = history.melt("update", columns, var_name="line", value_name="value")
        x = alt.X("update:Q").scale(nice=False).axis(tickCount=5)
        return (
            alt.Chart(table, width=270, height=210)
            .mark_line()
            .encode(
                x,
                alt.Y("value:Q", title=title),
                alt.Color("line:N", title=None, sort=columns).legend(orient="top"),
                alt.StrokeDash("line:N", sort=columns, legend=None),
            )
        )

    losses = lines(["training", "validation"], "loss")
    shares = lines(words, "share of held-out sentences")
    both = losses | shares
    return both.resolve_scale(color="independent", strokeDash="independent")


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


def schedules_chart(
    stored: dict[tuple[str, str], list[float]], here: dict[tuple[str, str], float]
) -> altair.FacetChart:
    """Draw shares of strings copied: a dot for each stored run, a ring for this one.

    The keys are pairs, the name of a run and the moment that is drawn.
    """
    alt = optional_import("altair")
    rows = [
        {"run": run, "moment": moment, "share": share, "whose": whose}
        for whose, shares in (
            ("stored", stored),
            ("here", {key: [value] for key, value in here.items()}),
        )
        for (run, moment), values in shares.items()
        for share in values
    ]
    runs = list(dict.fromkeys(run for run, _ in here))
    base = alt.Chart(width=240, height=alt.Step(30)).encode(
        alt.X("share:Q", title="share of strings copied").axis(format="%"),
        alt.Y("run:N", title=None, sort=runs),
        tooltip=["run:N", alt.Tooltip("share:Q", format=".1%")],
    )
    dots = base.transform_filter("datum.whose == 'stored'").mark_tick(
        thickness=2, size=16, opacity=0.4
    )
    rings = base.transform_filter("datum.whose == 'here'").mark_point(
        size=110, opacity=1, color="#d55e00"
    )
    moments = list(dict.fromkeys(moment for _, moment in here))
    chart = alt.layer(dots, rings, data=alt.Data(values=rows))
    return chart.facet(alt.Column("moment:N", title=None, sort=moments))


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
