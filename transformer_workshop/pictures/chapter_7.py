"""How are the charts of chapter 7 drawn? Each is one call."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
from transformer_workshop.pictures import CHART_COLORS
from transformer_workshop.pictures.controls import BLUE, ORANGE

if TYPE_CHECKING:
    import altair

TITLES = {
    "possible": "paid for what is possible",
    "shared": "equal sentences share a reward",
}


def groups_chart(results: dict[str, Any]) -> altair.HConcatChart:
    """Draw two shares of each update's group: means over the runs, bands for all.

    ``results`` are those of benchmarks/reinforce.py; one panel for each reward.
    """
    alt = optional_import("altair")
    shares = ("possible", "distinct")
    panels: list[altair.LayerChart] = []
    for way, title in TITLES.items():
        runs = [run["groups"] for run in results["runs"] if run["way"] == way]
        rows = []
        for update, groups in enumerate(zip(*runs, strict=True), start=1):
            for share in shares:
                values = [group[share] for group in groups]
                row = {"update": update, "sentences": share, "share": mean(values)}
                rows.append({**row, "low": min(values), "high": max(values)})
        color = alt.Color("sentences:N", title=None, sort=list(shares))
        color = color.scale(domain=list(shares), range=[ORANGE, BLUE])
        base = alt.Chart(alt.Data(values=rows), width=240, height=220, title=title)
        base = base.encode(
            alt.X("update:Q").axis(values=[1, 10, 20, 30, 40]),
            color.legend(orient="top", symbolOpacity=1),
        )
        share = alt.Y("share:Q", title="share of a group of 80" if not panels else None)
        share = share.axis(format="%").scale(domain=(0, 1))
        band = base.mark_area(opacity=0.2).encode(alt.Y("low:Q"), alt.Y2("high:Q"))
        panels.append(band + base.mark_line(strokeWidth=2).encode(share))
    return alt.hconcat(
        *panels,
        title="Both rewards make sentences possible; one makes them all the same",
        description="The share of possible and of different sentences in each group.",
    )


def race_chart(results: dict[str, Any]) -> altair.HConcatChart:
    """Draw unseen against possible for each way, and two measures beside it.

    Temperature is the path; means over the seeds. The points that were chosen are
    large, and the panels beside it belong to them: means as points, ranges as lines.
    """
    alt = optional_import("altair")
    ways = list(results["chosen"])
    path, chosen = [], []
    for way in ways:
        runs = [run["at"] for run in results["race"] if run["way"] == way]
        best = str(results["chosen"][way]["temperature"])
        for temperature in runs[0]:
            path.append(
                {
                    "way": way,
                    "temperature": float(temperature),
                    "chosen": temperature == best,
                    **{
                        what: mean(run[temperature][what] for run in runs)
                        for what in ("possible", "unseen")
                    },
                }
            )
        for what in ("patterns", "held-out loss"):
            values = [run[best][what] for run in runs]
            row = {"way": way, "what": what, "value": mean(values)}
            chosen.append({**row, "low": min(values), "high": max(values)})
    color = alt.Color("way:N", title=None, sort=ways)
    color = color.scale(domain=ways, range=CHART_COLORS[: len(ways)])
    data = alt.Chart(alt.Data(values=path), width=330, height=300)
    data = data.encode(
        alt.X("possible:Q", title="possible, % of samples").scale(zero=False),
        alt.Y("unseen:Q", title="different, possible, and unseen, %").scale(zero=False),
        color.legend(orient="bottom", columns=3, symbolOpacity=1),
        tooltip=["way:N", "temperature:Q", "possible:Q", "unseen:Q"],
    )
    line = data.mark_line().encode(order="temperature:Q")
    size = alt.condition("datum.chosen", alt.value(160), alt.value(25))
    points = data.mark_circle(opacity=1).encode(size=size)
    labels = data.mark_text(align="left", dx=1, dy=14, fontSize=11).encode(
        text="temperature:Q"
    )
    labels = labels.transform_filter(alt.datum.way == ways[0])
    beside = []
    for what in ("patterns", "held-out loss"):
        rows = [row for row in chosen if row["what"] == what]
        base = alt.Chart(alt.Data(values=rows), width=150, height=110)
        title = "patterns in 70" if what == "patterns" else "loss, held-out captions"
        base = base.encode(
            alt.Y("way:N", title=None, sort=ways), alt.Color("way:N", legend=None)
        )
        measure = alt.X("value:Q", title=title).scale(
            zero=what == "patterns", padding=8
        )
        base = base.encode(color.legend(None))
        dots = base.mark_circle(size=80, opacity=1).encode(measure)
        ranges = base.mark_rule(strokeWidth=2).encode(alt.X("low:Q"), alt.X2("high:Q"))
        beside.append(ranges + dots)
    return alt.hconcat(
        line + points + labels,
        alt.vconcat(*beside),
        title=alt.Title(
            "Unseen against possible, with temperature as the path",
            subtitle="numbers: the temperatures of the first model",
        ),
        description="Shares of possible and of unseen sentences at each temperature.",
    )
