"""How does loss depend on the rate, and how do variants differ at their best one?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
from transformer_workshop.pictures.controls import BLUE, ORANGE

if TYPE_CHECKING:
    import altair

_COLORS = (ORANGE, BLUE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def rates_chart(
    losses: Mapping[str, Mapping[float, float | None]],
    unit: str,
    named: Sequence[str] = (),
    width: int = 400,
) -> altair.LayerChart:
    """Draw the loss over the learning rate: a line per variant, the ``named`` in color.

    losses: by variant and rate; what is None or infinite is left out.
    """
    alt = optional_import("altair")
    named = list(named or losses)

    def finite(by_rate: Mapping[float, float | None]) -> dict[float, float]:
        kept = {rate: x for rate, x in by_rate.items() if x is not None}
        return {rate: x for rate, x in kept.items() if math.isfinite(x)}

    rows: list[dict[str, Any]] = [
        {"variant": name, "rate": rate, "loss": loss}
        for name, by_rate in losses.items()
        for rate, loss in finite(by_rate).items()
    ]
    rates = sorted({row["rate"] for row in rows})
    domain = (rates[0], rates[-1]) if rates else (0.001, 0.01)
    x = alt.X("rate:Q", title="peak learning rate (logarithmic)")
    base = alt.Chart(alt.Data(values=rows), width=width, height=320).encode(
        x.scale(type="log", base=2, domain=domain).axis(values=rates),
        alt.Y("loss:Q", title=unit).scale(zero=False),
        alt.Detail("variant:N"),
        tooltip=["variant:N", "rate:Q", "loss:Q"],
    )
    shown = base.transform_filter(alt.FieldOneOfPredicate("variant", named))
    color = alt.Color("variant:N", legend=None)
    colors = [_COLORS[i % len(_COLORS)] for i in range(len(named))]
    color = color.scale(domain=named, range=colors)
    ends = [row for row in rows if row["rate"] == max(finite(losses[row["variant"]]))]
    ends = [row for row in ends if row["variant"] in named]
    labels = alt.Chart(alt.Data(values=ends)).mark_text(align="left", dx=8)
    labels = labels.encode(
        alt.X("rate:Q"), alt.Y("loss:Q"), alt.Text("variant:N"), color
    )
    others = base.mark_line(color="#bbbbbb", strokeWidth=1)
    return others + shown.mark_line(point=True, strokeWidth=2.5).encode(color) + labels


def experiment_chart(
    searched: Mapping[str, Mapping[float, float]],
    compared: Mapping[str, Mapping[float, Sequence[float]]],
    rows: Sequence[Mapping[str, Any]],
    differences: Mapping[str, Sequence[float]],
    unit: str,
) -> altair.HConcatChart:
    """Draw loss over rate, and each difference to the baseline with its interval.

    searched: losses by variant and rate. compared: those of all seeds, at the best
    rate. rows: those of ``Experiment.rows``, the baseline first. differences: by
    variant, one from each seed. What is infinite or not a number is left out.
    """
    alt = optional_import("altair")
    losses = [
        {"variant": name, "rate": rate, "loss": loss}
        for name, by_rate in compared.items()
        for rate, of_seeds in by_rate.items()
        for loss in of_seeds
        if math.isfinite(loss)
    ]
    dots = (
        alt.Chart(alt.Data(values=losses))
        .mark_point(opacity=0.6)
        .encode(alt.X("rate:Q"), alt.Y("loss:Q"), alt.Color("variant:N", legend=None))
    )
    title = "Lines: the search for a rate; circles: what is compared"
    left = (rates_chart(searched, unit, width=300) + dots).properties(title=title)
    shown = [dict(row) for row in rows[1:] if math.isfinite(row["difference"])]
    seeds = [
        {"variant": name, "difference": difference}
        for name, of_seeds in differences.items()
        for difference in of_seeds
    ]
    bars = alt.Chart(alt.Data(values=shown), width=300, height=alt.Step(40)).encode(
        alt.Y("variant:N", title=None, sort=None)
    )
    across = alt.X("from:Q", title=f"{unit}, against {rows[0]['variant']}")
    intervals = bars.mark_rule(strokeWidth=3).encode(across, alt.X2("to:Q"))
    points = bars.mark_point(filled=True, size=80, opacity=1).encode(
        alt.X("difference:Q"), tooltip=["variant:N", "difference:Q", "from:Q", "to:Q"]
    )
    pairs = (
        alt.Chart(alt.Data(values=seeds))
        .mark_point(opacity=0.6, size=20)
        .encode(alt.X("difference:Q"), alt.Y("variant:N", sort=None))
    )
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(strokeDash=[4, 3])
    right = zero.encode(alt.X("zero:Q")) + intervals + points + pairs
    title = "Differences by seed, their mean, and its interval"
    return left | right.properties(title=title)
