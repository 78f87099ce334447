"""How are the charts of chapter 7 drawn? Each is one call."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
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
        share = alt.Y("share:Q", title="share of a group" if not panels else None)
        share = share.axis(format="%").scale(domain=(0, 1))
        band = base.mark_area(opacity=0.2).encode(alt.Y("low:Q"), alt.Y2("high:Q"))
        panels.append(band + base.mark_line(strokeWidth=2).encode(share))
    return alt.hconcat(
        *panels,
        title="Both rewards make sentences possible; one makes them all the same",
        description="The share of possible and of different sentences in each group.",
    )
