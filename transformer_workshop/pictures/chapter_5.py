"""How are the charts of chapter 5 drawn? Each is one call."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from torch import Tensor

from annotated_transformer import optional_import
from transformer_workshop.pictures import CHART_COLORS

if TYPE_CHECKING:
    import altair


def error_rate_chart(
    rates: dict[str, Tensor], guesses: dict[str, Tensor]
) -> altair.LayerChart:
    """Draw error rates (N, h + 1), and guesses as dashed lines.

    The last entry of each layer is the mean over its heads.
    """
    alt = optional_import("altair")
    measured = [
        {"word": word, "head": f"{i}.{head}", "rate": rate}
        for word, by_layer in rates.items()
        for i, layer in enumerate(by_layer.tolist())
        for head, rate in zip([*range(len(layer) - 1), "mean"], layer, strict=True)
    ]
    levels = [{"is": name, "rate": rate.item()} for name, rate in guesses.items()]
    scale = alt.Scale(domain=(0.2, 0.95))
    height = alt.Y("rate:Q", title="alignment error rate", scale=scale)
    heads = alt.Chart(alt.Data(values=measured)).encode(
        x=alt.X("head:N", title="layer.head").axis(labelAngle=0),
        y=height,
        color=alt.Color("word:N", title="row in which the word").sort(list(rates)),
    )
    guess = alt.Chart(alt.Data(values=levels)).encode(y=height)
    names = guess.mark_text(align="right", dy=-8).encode(text="is:N", x=alt.value(475))
    lines = guess.mark_rule(color="#555555", strokeDash=[6, 4])
    return alt.layer(lines, names, heads.mark_circle(size=70, opacity=1)).properties(
        title="Heads find words in the row that writes them", width=480
    )


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
            {"after": after[i], "position": t, "share": round(share, 4)}
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


# Where the words of a circuit stand, and the numbers beside its connections.
_WORDS = {"noun": (1, 0), "mit": (0, 1), "other words": (2, 1), "man": (1, 2)}
_CONNECTIONS = {
    "noun → mit": (0.12, 0.4),
    "noun → other words": (1.88, 0.4),
    "noun → man": (1.3, 1),
    "mit → man": (0.12, 1.6),
    "other words → man": (1.88, 1.6),
}


def circuit_chart(
    measured: dict[str, dict[tuple[str, ...], tuple[Tensor, Tensor]]],
) -> altair.VConcatChart:
    """Draw a circuit for each model; a click on an arrow exchanges it, in both.

    ``measured`` has, by model and by the connections that are exchanged, the mean
    log-odds for the clothes and for the things.
    """
    alt = optional_import("altair")
    away = alt.selection_point(
        name="away", fields=["connection"], toggle="true", empty=False
    )

    def distance(name: str, *exchanged: str) -> float:
        clothes, things = measured[name][exchanged]
        return (clothes - things).item()

    table: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    for number, name in enumerate(measured):
        right = 2.8 * number  # the models side by side
        words.append({"word": name, "x": right + 1, "y": 2.4, "bold": True})
        for word, (x, y) in _WORDS.items():
            said = word.replace("other words", "others")  # there is little room
            words.append({"word": said, "x": right + x, "y": y, "bold": False})
        for what, (aside, height) in _CONNECTIONS.items():
            (x, y), (x2, y2) = (_WORDS[word] for word in what.split(" → "))
            carried = (distance(name) - distance(name, what)) / 2
            dx, dy = x2 - x, y2 - y
            gap = 0.2 / math.hypot(dx, dy)  # to the words
            table.append({
                "connection": what, "carried": round(carried, 2),
                "x": right + x + gap * dx, "y": y + gap * dy,
                "x2": right + x2 - 1.5 * gap * dx, "y2": y2 - 1.5 * gap * dy,
                "label_x": right + aside, "label_y": height,
                "angle": math.degrees(math.atan2(dx, dy)),
            })  # fmt: skip
    across = alt.Scale(domain=(-0.4, 2.8 * len(measured) - 0.2), nice=False)
    up = alt.Scale(domain=(-0.2, 2.5), nice=False)

    def at(x: str, y: str) -> dict[str, Any]:
        return {
            "x": alt.X(f"{x}:Q", scale=across, axis=None),
            "y": alt.Y(f"{y}:Q", scale=up, axis=None),
        }

    base = alt.Chart(alt.Data(values=table), width=520, height=250)
    ink = alt.condition(away, alt.value("#bbbbbb"), alt.value(CHART_COLORS[0]))
    widths = alt.Scale(domain=(0, 3.5), range=(1.5, 20), clamp=True)
    sizes = alt.Scale(domain=(0, 3.5), range=(120, 900))
    shafts = base.mark_rule().encode(
        **at("x", "y"), x2="x2:Q", y2="y2:Q", color=ink,
        strokeWidth=alt.StrokeWidth("carried:Q", scale=widths, legend=None),
        strokeDash=alt.condition(away, alt.value([3, 5]), alt.value([1, 0])),
    )  # fmt: skip
    heads = base.mark_point(shape="triangle", filled=True, opacity=1).encode(
        **at("x2", "y2"), color=ink, angle=alt.Angle("angle:Q", scale=None),
        size=alt.Size("carried:Q", scale=sizes, legend=None),
    )  # fmt: skip
    numbers = base.mark_text(fontSize=13).encode(
        **at("label_x", "label_y"), text=alt.Text("carried:Q", format=".1f"), color=ink
    )
    spoken = alt.Chart(alt.Data(values=words)).encode(**at("x", "y"), text="word:N")
    plain = spoken.transform_filter("!datum.bold").mark_text(fontSize=15)
    models = spoken.transform_filter("datum.bold").mark_text(
        fontSize=13, fontWeight="bold"
    )
    # Pointers hit the width of a filled mark everywhere, of a line not on a canvas.
    along = "datum.{0} + datum.part * (datum.{0}2 - datum.{0})"
    wide = (
        base.transform_calculate(part="[0, 0.25, 0.5, 0.75, 1]")
        .transform_flatten(["part"])
        .transform_calculate(at_x=along.format("x"), at_y=along.format("y"))
        .mark_circle(size=700, opacity=0, cursor="pointer")
        .encode(
            **at("at_x", "at_y"),
            tooltip=["connection:N", "carried:Q"],
        )
        .add_params(away)
    )

    states = [
        {"model": name, "state": number, "connection": what, "exchanged": what in those,
         "clothes": round(clothes.item(), 3), "things": round(things.item(), 3)}
        for name, of_states in measured.items()
        for number, (those, (clothes, things)) in enumerate(of_states.items())
        for what in _CONNECTIONS
    ]  # fmt: skip
    chosen = {"param": "away", "empty": False}
    agrees = {
        "or": [
            {"and": [chosen, "datum.exchanged"]},
            {"and": [{"not": chosen}, "!datum.exchanged"]},
        ]
    }
    left = (
        alt.Chart(alt.Data(values=states), width=520, height=alt.Step(44))
        .transform_filter(agrees)
        .transform_aggregate(
            agreeing="count()", groupby=["model", "state", "clothes", "things"]
        )
        .transform_filter(f"datum.agreeing == {len(_CONNECTIONS)}")
        .transform_calculate(
            middle="(datum.clothes + datum.things) / 2",
            apart="format(datum.clothes - datum.things, '.1f') + ' apart'",
        )
        .encode(y=alt.Y("model:N", title=None, sort=list(measured)))
    )
    odds = alt.Scale(domain=(-4, 3), nice=False)
    axis = alt.X("clothes:Q", scale=odds, title="log-odds:  with ← 0 → in")
    ends = left.transform_fold(["clothes", "things"], as_=["for", "odds"])
    color = alt.Color("for:N", title=None).legend(orient="bottom", symbolOpacity=1)
    dots = ends.mark_circle(size=150, opacity=1).encode(
        x=alt.X("odds:Q", scale=odds), color=color
    )
    even = alt.Chart(alt.Data(values=[{}])).mark_rule(
        strokeDash=[5, 4], color="#555555"
    )
    return alt.vconcat(
        alt.layer(
            shafts,
            heads,
            numbers,
            plain,
            models,
            wide,
            view=alt.ViewBackground(stroke=None),
        ),
        alt.layer(
            even.encode(x=alt.datum(0, scale=odds)),
            left.mark_rule(color="#999999", strokeWidth=2).encode(
                x=axis, x2="things:Q"
            ),
            dots,
            left.mark_text(dy=-14).encode(
                x=alt.X("middle:Q", scale=odds), text="apart:N"
            ),
        ),
        title="What tells clothes from things goes from the noun to mit, and on to man",
        description="Arrows from the noun to man, as thick as what they carry; a click "
        "on one exchanges it, and what becomes of clothes and things is below.",
    )


def leads_chart(leads: dict[str, tuple[Tensor, Tensor]]) -> altair.Chart:
    """Draw what each head's cell carries over the cell's weight, (N, h) each."""
    alt = optional_import("altair")
    table = [
        {"model": name, "head": f"{i}.{a}", "weight": weight, "carried": carried}
        for name, (weights, of_cells) in leads.items()
        for i, layer in enumerate(zip(weights.tolist(), of_cells.tolist(), strict=True))
        for a, (weight, carried) in enumerate(zip(*layer, strict=True))
    ]
    points = alt.Chart(alt.Data(values=table), width=520, height=240).encode(
        x=alt.X("weight:Q", title="weight from mit to the noun").scale(domain=(0, 1)),
        y=alt.Y("carried:Q"),
        color=alt.Color("model:N", sort=list(leads)),
    )
    names = [  # of one model at the right of its points, of the other at the left
        points.transform_filter(f"datum.model == '{name}' && datum.carried > 0.2")
        .mark_text(align=align, dx=dx)
        .encode(text="head:N")
        for name, align, dx in zip(leads, ("left", "right"), (8, -8))
    ]
    title = "The cells that carry much are dark, but dark cells carry unequally"
    circles = points.mark_circle(size=50, opacity=0.8)
    return alt.layer(circles, *names).properties(title=title)
