"""How are the charts of chapter 6 drawn? Each is one call.

Some can be moved by readers; what follows is computed in the page by Vega, without
Python. At rest, they show the numbers of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
from transformer_workshop.pictures import rates
from transformer_workshop.pictures.controls import (
    BLUE,
    ORANGE,
    live_title,
    one_record,
    slider,
)

if TYPE_CHECKING:
    import altair
    from torch import Tensor


def rates_chart(measured: dict[str, Any]) -> altair.LayerChart:
    """Draw the loss over the learning rate: a line per variant, four of them named."""
    named = {
        "2017": "2017",
        "all five": "today's block",
        "without query-key norm": "no query–key norm",
        "all five, norm in cross-attention": "norm everywhere",
    }
    losses = {
        named.get(row["name"], row["name"]): {
            float(rate): nats for rate, nats in row["by_rate"].items()
        }
        for row in measured["variants"]
        if not row["name"].endswith(("phase", "Muon"))
    }
    title = "Twice the rate helps today's block, and hurts the old one"
    return rates.rates_chart(
        losses, "nats per sentence, one run each", list(named.values())
    ).properties(title=title)


def parts_chart(measured: dict[str, Any]) -> altair.Chart:
    """Draw what each part adds to the old block, and what today's loses without it.

    Each with the 95 % interval of a difference, and embeddings at the rate that suits
    the block; what is left without a part counts at the best of the rates tried.
    """
    alt = optional_import("altair")
    fast = ", fast embeddings"
    compared = measured["comparisons"]
    worth = {row["of"].removesuffix(fast): row for row in compared[f"added{fast}"]}
    left_out = compared["left out, embeddings at 0.024"]
    missed = sorted(left_out, key=lambda row: row["difference"])
    rows = []
    for part, added in sorted(worth.items(), key=lambda of: of[1]["difference"]):
        without = next(row for row in missed if row["of"].startswith(f"but {part}"))
        for how, nats, half in (
            ("added to the block of 2017", -added["difference"], added["half"]),
            ("left out of today's block", without["difference"], without["half"]),
        ):
            row = {"part": part.replace("-", "–"), "how": how, "nats": nats}
            rows.append({**row, "low": nats - half, "high": nats + half})
    each = alt.Chart().encode(
        alt.Y("part:N", title=None, sort=None), alt.YOffset("how:N", sort=None)
    )
    title = "nats per sentence that the part is worth"
    color = alt.Color("how:N", title=None, sort=None).legend(orient="top", columns=1)
    color = color.scale(range=[BLUE, ORANGE])
    bars = each.mark_bar().encode(alt.X("nats:Q", title=title), color)
    across = alt.X("low:Q", title=title)
    lines = each.mark_rule(color="#333333").encode(across, alt.X2("high:Q"))
    return alt.layer(
        bars, lines, data=alt.Data(values=rows), width=400, height=alt.Step(18)
    ).properties(title="What a part is worth, alone and among the others")


def dials_chart(results: dict[str, Any]) -> altair.LayerChart:
    """Draw what becomes of samples over temperature: means, and a band for seeds."""
    alt = optional_import("altair")
    names = {
        "possible": "possible",
        "possible, new, distinct": "possible and new, each counted once",
    }
    rows = []
    for of_each_seed in zip(*(run["dials"] for run in results["runs"]), strict=True):
        kind, _, value = of_each_seed[0]["dial"].partition(" ")
        for key, name in names.items():
            shares = [row[key] / 100 for row in of_each_seed]
            if kind == "temperature":
                rows.append({
                    "temperature": float(value), "samples": name,
                    "share": sum(shares) / len(shares),
                    "low": min(shares), "high": max(shares),
                })  # fmt: skip
    color = alt.Color("samples:N", title=None, sort=list(names.values()))
    base = alt.Chart(alt.Data(values=rows), width=440, height=280).encode(
        alt.X("temperature:Q").axis(
            values=[0.3, 0.5, 0.8, 1, 1.3, 1.6], labelFlush=False
        ),
        color.legend(orient="top", labelLimit=240, symbolOpacity=1),
    )
    share = alt.Y("share:Q", title="share of samples").axis(format="%")
    band = base.mark_area(opacity=0.2).encode(alt.Y("low:Q"), alt.Y2("high:Q"))
    lines = base.mark_line(point=True).encode(share.scale(domain=(0, 1)))
    title = "New sentences peak near a temperature of 0.5"
    return (band + lines).properties(title=title)


def cache_chart(
    size: Callable[..., int], models: Mapping[str, Sequence[int]]
) -> altair.LayerChart:
    """Draw the size of a cache over the length of a text.

    ``size`` returns bytes for a number of tokens and what ``models`` says of a model.
    """
    alt = optional_import("altair")
    longest = 2**17
    sizes = [
        {"model": name, "tokens": 2**n, "MiB": size(2**n, *shape) / 2**20}
        for name, shape in models.items()
        for n in range(7, 18)
    ]
    labels, lowest = [], 0.0
    for row in sorted(sizes, key=lambda row: row["MiB"]):
        if row["tokens"] == longest:  # far enough above the one below to be read
            lowest = max(row["MiB"], 1.6 * lowest)
            text = f"{row['model']}: {row['MiB'] / 2**10:.1f}"
            labels.append({**row, "MiB": lowest, "text": text})
    x = alt.X("tokens:Q", title="tokens in the cache (logarithmic)").scale(
        type="log", base=2
    )
    y = alt.Y("MiB:Q", title="MiB of cache (logarithmic)").scale(type="log")
    color = alt.Color("model:N", legend=None)
    base = alt.Chart(width=360, height=320).encode(
        x.axis(format=",d", values=[2**n for n in (7, 10, 13, 16)], labelFlush=False),
        y.axis(format=",~r", values=[10**n for n in range(6)]),
        color,
    )
    lines = base.mark_line(strokeWidth=2).properties(data=alt.Data(values=sizes))
    names = base.mark_text(align="left", dx=6).encode(alt.Text("text:N"))
    names = names.properties(data=alt.Data(values=labels))
    return (lines + names).properties(
        title=alt.Title(
            "The largest of these models keeps half as much as Llama 3 8B",
            subtitle=f"beside the names: GiB for {longest:,} tokens",
        )
    )


def rotary_hands(query: float, key: float, d_k: int) -> altair.HConcatChart:
    """Let readers move a query and a key along the sentence, and change the base.

    ``query`` and ``key`` are the angles of two hands in degrees, which turn by 20 more
    at each position. Beside them, a head of width ``d_k``: the score of equal vectors
    over their distance.
    """
    alt = optional_import("altair")
    m = slider("m", "position of the query", 3, 0, 40, 1)
    n = slider("n", "position of the key", 1, 0, 40, 1)
    base = slider("log_base", "base, as a power of ten:", 4, 1, 6, 0.5)
    turned = "PI / 180 * ({} + 20 * {})"
    hands = alt.Chart(alt.Data(values=[{"is": "query"}, {"is": "key"}]))
    hands = hands.transform_calculate(
        angle=f"datum.is == 'query' ? {turned.format(query, 'm')} "
        f": {turned.format(key, 'n')}",
        label="datum.is + ' at ' + (datum.is == 'query' ? m : n)",
    ).transform_calculate(x="cos(datum.angle)", y="sin(datum.angle)")
    scale = alt.Scale(domain=(-1.6, 1.6), nice=False)
    x = alt.X("x:Q", axis=None, scale=scale)
    y = alt.Y("y:Q", axis=None, scale=scale)
    color = alt.Color("is:N", legend=None)
    color = color.scale(domain=["query", "key"], range=[ORANGE, BLUE])
    circle = alt.Chart(alt.sequence(0, 73, as_="i")).transform_calculate(
        x="cos(datum.i * PI / 36)", y="sin(datum.i * PI / 36)"
    )
    zero = {"x2": alt.datum(0), "y2": alt.datum(0)}
    names = hands.transform_calculate(x="1.28 * datum.x", y="1.16 * datum.y")
    angle = f"({query - key} + 20 * (m - n))"
    clock = alt.layer(
        circle.mark_line(color="#bbbbbb", strokeWidth=1).encode(x, y, order="i:Q"),
        hands.mark_rule(strokeWidth=4, strokeCap="round").encode(x, y, color, **zero),
        names.mark_text(fontSize=12).encode(x, y, color, text="label:N"),
        width=250,
        height=250,
        view=alt.ViewBackground(stroke=None),
        title=live_title(
            f"{angle} + '° apart: score ' + format(cos(PI / 180 * {angle}), '.2f')"
        ),
    )
    half = d_k // 2
    similarity = (
        alt.Chart(alt.sequence(0, 81 * half, as_="term"))
        .transform_calculate(
            distance=f"floor(datum.term / {half}) - 40", pair=f"datum.term % {half}"
        )
        .transform_calculate(
            part=f"cos(datum.distance * pow(10, -log_base * datum.pair / {half}))"
        )
        .transform_aggregate(score="sum(part)", groupby=["distance"])
    )
    here = one_record().transform_calculate(distance="n - m")
    across = alt.X("distance:Q", title="position of the key − position of the query")
    across = across.scale(domain=(-40, 40), nice=False)
    across = across.axis(values=list(range(-40, 41, 20)), labelFlush=False)
    score = alt.Y("score:Q", title="score").scale(domain=(-half / 3, half))
    curve = alt.layer(
        similarity.mark_line().encode(across, score),
        here.mark_rule(color=ORANGE, strokeWidth=2).encode(across),
        width=300,
        height=220,
        title=live_title(
            f"'{half} hands together, base ' + format(pow(10, log_base), ',.0f')"
        ),
    )
    return alt.hconcat(
        clock,
        curve,
        spacing=20,
        description="A query and a key as hands that turn with their positions; beside "
        "them, the score of two equal vectors over their distance.",
    ).add_params(m, n, base)


def next_word(
    words: list[str],
    log_p: list[float],
    samples: dict[float, list[str]],
    shown: int = 12,
) -> altair.HConcatChart:
    """Let readers set temperature, top-k and top-p, and see what is drawn from.

    ``log_p`` are the log-probabilities of all words, best first, of which the first
    are drawn; ``samples`` from some temperatures, without the other dials, are what
    was written after the prompt.
    """
    alt = optional_import("altair")
    temperature = slider("temperature", "temperature", 1, 0.2, 2, 0.2)
    top_k = slider("top_k", "top-k (30: all words)", 30, 1, 30, 1)
    top_p = slider("top_p", "top-p", 1, 0.05, 1, 0.05)
    table = [
        {"word": w if i < shown else "", "log_p": round(p, 3)}
        for i, (w, p) in enumerate(zip(words, log_p, strict=True))
    ]
    best_first = [alt.SortField("log_p", order="descending")]
    y = alt.Y("word:N", sort=None, title=None)
    x = {"title": "probability", "scale": alt.Scale(domain=(0, 1))}
    text = alt.Chart().mark_text(align="left", dx=4, fontSize=11, color="#444444")
    bars = (
        alt.layer(
            alt.Chart().mark_bar(color="#cccccc").encode(alt.X("all:Q", **x), y),
            alt.Chart().mark_bar(height=7).encode(alt.X("p:Q", **x), y),
            text.encode(alt.X("longer:Q", **x), y, text=alt.Text("p:Q", format=".2f")),
            data=alt.Data(values=table),
            width=230,
            height=17 * shown,
            title=alt.Title(
                "The next word",
                subtitle="gray: after the temperature; blue: drawn from",
            ),
        )
        .transform_calculate(e="exp(datum.log_p / temperature)")
        .transform_joinaggregate(total="sum(e)")
        .transform_window(rank="row_number()", sort=best_first)
        .transform_calculate(
            of_k="top_k == 30 || datum.rank <= top_k ? datum.e : 0",
        )
        .transform_joinaggregate(total_k="sum(of_k)")
        .transform_window(until="sum(of_k)", sort=best_first)
        .transform_calculate(before="(datum.until - datum.of_k) / datum.total_k")
        .transform_calculate(
            of_p="datum.rank == 1 || top_p == 1 || datum.before < top_p "
            "? datum.of_k : 0"
        )
        .transform_joinaggregate(total_p="sum(of_p)")
        .transform_filter(f"datum.rank <= {shown}")
        .transform_calculate(
            all="datum.e / datum.total", p="datum.of_p / datum.total_p"
        )
        .transform_calculate(longer="max(datum.all, datum.p)")
    )
    lines = [
        {"at": at, "line": i, "text": text}
        for at, texts in samples.items()
        for i, text in enumerate(texts)
    ]
    drawn = (
        alt.Chart(
            alt.Data(values=lines),
            width=290,
            height=alt.Step(22),
            view=alt.ViewBackground(stroke=None),
            title=live_title(
                "'Drawn at temperature ' + format(temperature, '.1f')",
                subtitle="after the prompt; without top-k and top-p",
            ),
        )
        .transform_filter("abs(datum.at - temperature) < 0.05")
        .mark_text(align="left", fontSize=12, limit=285)
        .encode(alt.Y("line:O", axis=None), x=alt.value(0), text="text:N")
    )
    return alt.hconcat(
        bars,
        drawn,
        spacing=24,
        description="The probabilities of the next word under three dials; samples.",
    ).add_params(temperature, top_k, top_p)


def distances_chart(weight: Tensor, cost: Tensor) -> altair.HConcatChart:
    """Draw, for each layer, the weight on each distance and what hiding it costs.

    Both are (2, distances).
    """
    alt = optional_import("altair")
    panels = []
    for layer in range(2):
        rows = [
            {"back": back, "weight": w.item(), "cost": c.item()}
            for back, (w, c) in enumerate(zip(weight[layer], cost[layer], strict=True))
        ]
        base = alt.Chart(alt.Data(values=rows), width=300)
        above = base.mark_bar(color=BLUE).encode(
            alt.X("back:O", title=None).axis(labels=False, ticks=False),
            alt.Y("weight:Q", title="weight").scale(domain=(0, 0.5)).axis(tickCount=3),
        )
        below = base.mark_bar(color=ORANGE).encode(
            alt.X("back:O", title="positions back").axis(labelAngle=0),
            alt.Y("cost:Q", title="nats, if hidden").scale(domain=(-0.2, 6)),
        )
        above = above.properties(height=70, title=f"layer {layer}")
        below = below.properties(height=120)
        panels.append(alt.vconcat(above, below, spacing=8))
    return alt.hconcat(
        *panels,
        title="What is looked at, and what is missed",
        description="For each distance and layer, the mean weight while ids repeat, "
        "and what the loss on repeated ids gains if no head may look so far back.",
    )


def induction_chart(
    weights: Tensor, losses: dict[str, list[float]], period: int
) -> altair.HConcatChart:
    """Draw a head's map (L, L) over ids that repeat, and losses by position."""
    alt = optional_import("altair")
    cells = [
        {"query": i + 1, "key": j + 1, "weight": round(weights[i, j].item(), 3)}
        for i in range(len(weights))
        for j in range(i + 1)
    ]
    axis = alt.Axis(labelAngle=0, values=[1, *range(5, len(weights) + 1, 5)])
    grid = (
        alt.Chart(alt.Data(values=cells), width=330, height=330)
        .mark_rect()
        .encode(
            alt.X("key:O", title="position that is looked at (key)", axis=axis),
            alt.Y("query:O", title="position that was just read (query)", axis=axis),
            alt.Color("weight:Q").legend(orient="top-right", gradientLength=120),
        )
        .properties(title="Where an induction head looks, on average")
    )
    rows = [
        {"model": name, "position": i, "loss": loss}
        for name, row in losses.items()
        for i, loss in enumerate(row, 1)
    ]
    base = alt.Chart(alt.Data(values=rows), width=260, height=300).encode(
        alt.X("position:Q", title="position of the predicted id"),
        alt.Y("loss:Q", title="loss in nats").scale(domainMin=0),
    )
    lines = base.mark_line(point=True).encode(
        alt.Color("model:N", title=None).legend(orient="top")
    )
    again = alt.Chart(alt.Data(values=[{"position": period + 0.5}]))
    rule = again.mark_rule(strokeDash=[4, 3]).encode(alt.X("position:Q"))
    right = (rule + lines).properties(title="Two layers find what comes again")
    return alt.hconcat(
        grid,
        right,
        spacing=20,
        description="The attention of an induction head, and the loss at each position "
        "of a model of one layer and of one of two.",
    ).resolve_scale(color="independent")
