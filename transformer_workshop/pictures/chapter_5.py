"""How are the charts of chapter 5 drawn? Each is one call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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


def cuts_chart(panels: dict[str, dict[str, Tensor]], word: str) -> altair.FacetChart:
    """Draw what cuts do to the share of a word, one panel for each model.

    Each panel has, for each cut, the share in several sentences (n,), of which the
    first is the one that the text is about.
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
        alt.X("share:Q", title=f"share of {word}").scale(domain=(0, 1)),
        alt.Y("cut:N", title=None, sort=cuts).axis(labelLimit=300),
    )
    names = "datum.label == '0' ? 'our sentence' : 'nine others'"
    which = alt.Color("which:N", title=None, sort=[0, 1])
    which = which.legend(orient="top", labelExpr=names, symbolOpacity=1)
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


def patching_chart(
    patched: dict[str, list[Tensor]], columns: list[str], rows: list[str]
) -> altair.VConcatChart:
    """Draw what a transplant does at each position after each layer, by model.

    A model's shares of *in* are those of patches in the encoder (N + 1, S), whose
    positions are ``columns``, and in the decoder (N + 1, L), whose are ``rows``.
    """
    alt = optional_import("altair")

    def squares(shares: Tensor, words: list[str], title: str, last: bool) -> Any:
        after = ["embedding", *(f"layer {i}" for i in range(len(shares) - 1))]
        table = [
            {"after": after[i], "position": t, "share": round(share, 3)}
            for i, row in enumerate(shares.tolist())
            for t, share in enumerate(row)
        ]
        names = f"{json.dumps(words)}[datum.value]"
        below = alt.Axis(
            labelExpr=names, labelAngle=-90, labelOverlap=False, title=None
        )
        beside = alt.Axis(title="after", ticks=False) if words == columns else None
        chart = alt.Chart(
            alt.Data(values=table), title=alt.Title(title, fontSize=13),
            width=alt.Step(33), height=alt.Step(26),
        ).encode(
            x=alt.X("position:O", axis=below if last else None),
            y=alt.Y("after:N", sort=after, axis=beside),
        )  # fmt: skip
        ink = alt.condition("datum.share > 0.5", alt.value("white"), alt.value("black"))
        color = alt.Color("share:Q", title="share of in").scale(domain=(0, 1))
        text = alt.Text("share:Q", format=".2f")
        numbers = chart.mark_text(fontSize=11).encode(text=text, color=ink)
        return chart.mark_rect().encode(color=color) + numbers

    return alt.vconcat(
        *(
            squares(encoder, columns, f"{name}, encoder", last=name == [*patched][-1])
            | squares(decoder, rows, "decoder", last=name == [*patched][-1])
            for name, (encoder, decoder) in patched.items()
        ),
        title="The noun's vector stops mattering as the one at mit starts to",
        description="The share of in with one position transplanted after one layer",
    )


def leads_chart(leads: dict[str, tuple[Tensor, Tensor]]) -> altair.Chart:
    """Draw what cutting each head's cell costs over the cell's weight, (N, h) each."""
    alt = optional_import("altair")
    table = [
        {"model": name, "head": f"{i}.{a}", "weight": weight, "effect": effect}
        for name, (weights, effects) in leads.items()
        for i, layer in enumerate(zip(weights.tolist(), effects.tolist(), strict=True))
        for a, (weight, effect) in enumerate(zip(*layer, strict=True))
    ]
    scale = alt.Scale(domain=(-0.01, 0.1), nice=False)
    points = alt.Chart(alt.Data(values=table), width=520, height=240).encode(
        x=alt.X("weight:Q", title="weight from mit to the noun").scale(domain=(0, 1)),
        y=alt.Y("effect:Q", title="drop in the share of in", scale=scale),
        color=alt.Color("model:N", sort=list(leads)),
    )
    dark = points.transform_filter("datum.weight > 0.5")
    names = dark.mark_text(dy=-10).encode(text="head:N")
    title = "The cells that matter are dark, but dark cells matter unequally"
    return (points.mark_circle(size=50, opacity=0.8) + names).properties(title=title)
