"""How are the charts of chapter 5 drawn? Each is one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair


def error_rate_chart(
    rates: dict[str, Tensor], guesses: dict[str, Tensor]
) -> altair.LayerChart:
    """Draw error rates (N, h + 1, 3) with intervals, and guesses (3,) as dashed lines.

    The last entry of each layer is the mean over its heads.
    """
    alt = optional_import("altair")
    measured = [
        {"word": word, "head": f"{i}.{head}", "rate": rate, "low": low, "high": high}
        for word, by_layer in rates.items()
        for i, layer in enumerate(by_layer.tolist())
        for head, (rate, low, high) in zip(
            [*range(len(layer) - 1), "mean"], layer, strict=True
        )
    ]
    levels = [{"is": name, "rate": rate[0].item()} for name, rate in guesses.items()]
    scale = alt.Scale(domain=(0.2, 0.95))
    height = alt.Y("rate:Q", title="alignment error rate", scale=scale)
    heads = alt.Chart(alt.Data(values=measured)).encode(
        x=alt.X("head:N", title="layer.head").axis(labelAngle=0),
        y=height,
        color=alt.Color("word:N", title="row in which the word").sort(list(rates)),
    )
    bars = heads.mark_rule(strokeWidth=2)
    bars = bars.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    guess = alt.Chart(alt.Data(values=levels)).encode(y=height)
    names = guess.mark_text(align="right", dy=-8).encode(text="is:N", x=alt.value(475))
    lines = guess.mark_rule(color="#555555", strokeDash=[6, 4])
    return alt.layer(lines, names, bars, heads.mark_circle(size=40)).properties(
        title="Heads find words in the row that writes them (bars: 95% intervals)",
        width=480,
    )


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
        for cut, of_sentences in shares.items()
        for i, share in enumerate(of_sentences.tolist())
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
