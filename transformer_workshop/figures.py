"""How are the charts of chapters 1 to 6 drawn? Each is one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import

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


def batching_chart(
    lengths: Sequence[int], groupings: dict[str, list[list[int]]], fixed: int
) -> altair.Chart:
    """Draw each batch's rows: tokens in blue, the padding after them in gray.

    Columns: way (a panel), row, from, to, positions. The first panel pads the batches
    of the first grouping to a fixed length; the others to each batch's longest row.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    first = next(iter(groupings.values()))
    panels = {f"padded to {fixed}": first} | groupings
    bars: list[dict[str, object]] = []
    for way, groups in panels.items():
        top = 0
        for group in groups:
            end = fixed if way not in groupings else max(lengths[i] for i in group)
            for row, i in enumerate(group, start=top):
                for start, stop, kind in (
                    (0, lengths[i], "tokens"),
                    (lengths[i], end, "padding"),
                ):
                    place = {"way": way, "row": row, "end": row + 0.8}
                    bars.append(place | {"from": start, "to": stop, "positions": kind})
            top += len(group) + 2
    title = f"The same {len(lengths)} sentences, batched in four ways"
    return (
        alt.Chart(pd.DataFrame(bars), width=140, height=320, title=title)
        .mark_rect()
        .encode(
            alt.X("from:Q", title="position").scale(domain=[0, fixed]),
            alt.X2("to"),
            alt.Y("row:Q", title=None).axis(None).scale(reverse=True),
            alt.Y2("end"),
            alt.Color("positions:N", title=None, sort=None)
            .scale(range=["#0072b2", "#d0d0d0"])
            .legend(orient="top"),
            alt.Column("way:N", title=None, sort=list(panels)),
        )
    )


def learning_curves(records: list[dict[str, float]]) -> altair.Chart:
    """Draw a run's two losses over its epochs.

    Columns: epoch, figure (a line), nats; from a run's records (``read_metrics``).
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    names = {
        "train_criterion": "loss on training pairs",
        "valid_nll": "NLL, validation",
    }
    curves = pd.DataFrame(records).rename(columns=names)
    curves = curves.melt("epoch", list(names.values()), "figure", "nats")
    title = "Late in training, the validation curve hardly falls"
    return (
        alt.Chart(curves, title=title, width=520, height=230)
        .mark_line(point=True)
        .encode(
            alt.X("epoch:Q"),
            alt.Y("nats:Q", title="nats per token"),
            alt.Color("figure:N", title=None, sort=None).legend(orient="top"),
        )
    )


# --- appendix 91 ---------------------------------------------------------------------


def threshold_chart(curve: list[dict[str, dict[str, float]]]) -> altair.Chart:
    """Draw the share of labeled translations below each threshold of the confidence.

    Columns: translations (a line), captions and flagged (percent); from trust.json.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")

    def share(found: dict[str, float]) -> float:
        return 100 * found["count"] / found["of"]

    points = pd.DataFrame(
        {
            "translations": group,
            "captions": share(point["all captions"]),
            "flagged": share(point[group]),
        }
        for point in curve
        for group in ("bad sentences", "good sentences", "bad captions")
    )
    title = "Where to draw the line? Labeled translations below each threshold"
    return (
        alt.Chart(points, title=title, width=520, height=220)
        .mark_line(point=True)
        .encode(
            alt.X("captions:Q", title="% of all validation captions below it"),
            alt.Y("flagged:Q", title="% of the group below it"),
            alt.Color("translations:N", title=None).legend(orient="top"),
        )
    )


def grammar_chart(kinds: dict[str, dict[str, Any]]) -> altair.LayerChart:
    """Draw how often the right sentence of two is the more probable one, by kind.

    Columns: kind, right, low, high (percent); from challenge.json.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    rows = [
        (kind, 100 * found["count"] / found["of"], *found["interval"])
        for kind, found in ((k, v["preferred"]) for k, v in kinds.items())
    ]
    table = pd.DataFrame(rows, columns=["kind", "right", "low", "high"])
    order = list(table.sort_values("right", ascending=False)["kind"])
    title = "How often the right English is the more probable one"
    base = alt.Chart(table, title=title, width=420).encode(
        alt.Y("kind:N", sort=order, title=None).axis(labelLimit=200)
    )
    lines = base.mark_rule(strokeWidth=3, color="#9ab").encode(
        alt.X("low:Q", title="% of 20, with 95% interval").scale(domain=[0, 100]),
        alt.X2("high"),
    )
    chance = alt.Chart(pd.DataFrame({"x": [50]})).encode(x="x:Q")
    label = chance.mark_text(text="guessing", align="left", dx=4).encode(y=alt.value(8))
    points = base.mark_point(filled=True, size=70).encode(x="right:Q")
    return lines + points + chance.mark_rule(strokeDash=[4, 4]) + label


# --- chapter 4 -----------------------------------------------------------------------


# --- chapter 5 -----------------------------------------------------------------------


# --- chapter 6 -----------------------------------------------------------------------
