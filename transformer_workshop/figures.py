"""How are the charts of chapters 1 to 6 drawn? Each is one call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair
    import pandas
    from torch import Tensor

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


def _sentence_with_arcs(
    sentence: str, weights: dict[str, float], query: str
) -> altair.LayerChart:
    """Draw one panel of ``arcs``."""
    alt = optional_import("altair")
    words, curves, numbers = [], [], []
    center: dict[str, float] = {}
    x = 0.0  # in pixels, if letters were as wide as this takes them to be
    for word in sentence.split():
        width = sum(4.5 if letter in "fijlrt.,'" else 8.2 for letter in word)
        center.setdefault(word.strip(".,"), x + width / 2)
        words.append({"x": x + width / 2, "y": 0, "word": word})
        x += width + 8
    for word, weight in weights.items():
        radius = (center[query] - center[word]) / 2
        for step in range(41):
            angle = math.pi * step / 40
            across = center[word] + radius * (1 - math.cos(angle))
            up = 14 + 0.5 * abs(radius) * math.sin(angle)
            curves.append(
                {"to": word, "weight": weight, "step": step, "x": across, "y": up}
            )
        numbers.append({"x": center[word] - 8, "y": 22, "weight": f"{weight:.2f}"})

    def marks(records: list) -> altair.Chart:
        return alt.Chart(alt.Data(values=records), width=620, height=140).encode(
            alt.X("x:Q", axis=None).scale(domain=(-10, x)),
            alt.Y("y:Q", axis=None).scale(domain=(-8, 0.28 * x)),
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
    asks = alt.condition(
        alt.datum.word == query, alt.value("#d55e00"), alt.value("black")
    )
    text = marks(words).mark_text(fontSize=14).encode(text="word:N", color=asks)
    values = marks(numbers).mark_text(fontSize=13, fontWeight="bold", align="right")
    return alt.layer(
        lines,
        text,
        values.encode(text="weight:N"),
        view=alt.ViewBackground(stroke=None),
    )


def arcs(heard: dict[str, dict[str, float]], query: str = "it") -> altair.VConcatChart:
    """Draw sentences with arcs from one word to others, wider for a larger weight.

    Each sentence has its weights by word: {"The dog …": {"dog": 0.1, "soup": 0.8}}. A
    word is found where it first occurs.
    """
    panels = (_sentence_with_arcs(each, heard[each], query) for each in heard)
    says = "; ".join(
        f"{each} {query}: "
        + ", ".join(f"{word} {w:.2f}" for word, w in weights.items())
        for each, weights in heard.items()
    )
    return optional_import("altair").vconcat(*panels, spacing=8, description=says)


# --- chapter 2 -----------------------------------------------------------------------


# --- chapter 3 -----------------------------------------------------------------------


# --- chapter 4 -----------------------------------------------------------------------


# --- chapter 5 -----------------------------------------------------------------------


def cuts_chart(panels: dict[str, dict[str, Tensor]]) -> altair.FacetChart:
    """Draw what cuts do to a choice between two words, one panel for each choice.

    Each panel has, for each cut, the share of the first word in several sentences (n,),
    of which the first is the one that the text is about.
    """
    alt = optional_import("altair")
    cuts = list(dict.fromkeys(cut for panel in panels.values() for cut in panel))
    table = [
        {"panel": panel, "cut": cut, "share": round(share, 3), "which": min(i, 1)}
        for panel, shares in panels.items()
        for cut, each in shares.items()
        for i, share in enumerate(each.tolist())
    ]
    base = alt.Chart(width=225, height=alt.Step(26)).encode(
        alt.X("share:Q", title="share of the first word").scale(domain=(0, 1)),
        alt.Y("cut:N", title=None, sort=cuts).axis(labelLimit=300),
    )
    names = "datum.label == '0' ? 'our sentence' : 'nine others'"
    which = alt.Color("which:N", title=None, sort=[0, 1])
    which = which.legend(orient="top", labelExpr=names)
    which = which.scale(domain=[0, 1], range=["#d55e00", "#0072b2"])
    others = base.transform_filter("datum.which == 1").mark_circle(size=60, opacity=0.4)
    ours = base.transform_filter("datum.which == 0").mark_circle(size=110, opacity=1)
    even = alt.Chart().mark_rule(strokeDash=[5, 4], color="#555555")
    return alt.layer(
        even.encode(x=alt.datum(0.5)),
        others.encode(which),
        ours.encode(which),
        data=alt.Data(values=table),
    ).facet(alt.Facet("panel:N", title=None, sort=list(panels)), columns=2, spacing=16)


# --- chapter 6 -----------------------------------------------------------------------
