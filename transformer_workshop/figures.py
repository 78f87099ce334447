"""How are the charts of chapters 1 to 6 drawn? Each is one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


# --- chapter 4 -----------------------------------------------------------------------


# --- chapter 5 -----------------------------------------------------------------------


# --- chapter 6 -----------------------------------------------------------------------
