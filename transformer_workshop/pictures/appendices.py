"""How are the charts of the appendices drawn? Each is one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair


def threshold_chart(curve: list[dict[str, dict[str, float]]]) -> altair.Chart:
    """Draw the share of labeled translations flagged at each threshold.

    Columns: translations (a line), captions and flagged (percent); from trust.json.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")

    def share(counted: dict[str, float]) -> float:
        return 100 * counted["count"] / counted["of"]

    points = pd.DataFrame(
        {
            "translations": group,
            "captions": share(point["all captions"]),
            "flagged": share(point[group]),
        }
        for point in curve
        for group in ("bad sentences", "good sentences", "bad captions")
    )
    title = "Where to draw the line? Labeled translations flagged at each threshold"
    return (
        alt.Chart(points, title=title, width=520, height=220)
        .mark_line(point=True)
        .encode(
            alt.X("captions:Q", title="% of all validation captions flagged"),
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
        (kind, 100 * preferred["count"] / preferred["of"], *preferred["interval"])
        for kind, preferred in ((k, v["preferred"]) for k, v in kinds.items())
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
