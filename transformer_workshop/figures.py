"""How are the charts of chapters 1 to 6 drawn? Each is one call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair
    import pandas
    from torch import Tensor

# The site makes charts narrower on a phone, but not those that hold running text.
KEEPS_WIDTH = {"keepsWidth": True}

# --- chapter 1 -----------------------------------------------------------------------


def scaling_chart(measured: list[dict]) -> altair.HConcatChart:
    """Draw what the division by √d_k does: a line with, one without it.

    Keys: d_k, scores (its name), largest weight (of 16), typical gradient (the
    median length, divided by the mean).
    """
    alt = optional_import("altair")
    color = alt.Color("scores:N", title=None).legend(orient="top")
    data = alt.Data(values=measured)
    base = alt.Chart(data, width=240, height=200).encode(
        alt.X("d_k:Q", title="width d_k").scale(type="log", base=2).axis(tickCount=6),
        color,
    )
    largest = alt.Y("largest weight:Q", title="mean weight")
    typical = alt.Y("typical gradient:Q", title="median / mean").scale(domain=(0, 1))
    even = alt.Chart().encode(y=alt.datum(1 / 16))
    label = even.mark_text(text="equal weights: 1/16", dy=-8, x=4, align="left")
    weights = base.mark_line(point=True).encode(largest)
    gradient = base.mark_line(point=True).encode(typical)
    return (weights + even.mark_rule(strokeDash=[5, 4]) + label).properties(
        title="The weight of the best of sixteen keys"
    ) | gradient.properties(title="Typical gradient, relative to the mean")


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
        alt.datum.word == query, alt.value("#d55e00"), alt.value("#444444")
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
    alt = optional_import("altair")
    return alt.vconcat(*panels, spacing=8, description=says, usermeta=KEEPS_WIDTH)


def attention_maps(
    maps: dict[str, Tensor], rows: str, columns: str
) -> altair.HConcatChart:
    """Draw small maps of weights (L, S) side by side, under their titles.

    ``rows`` and ``columns`` name the axes, which count from 0.
    """
    alt = optional_import("altair")
    charts: list[altair.Chart] = []
    for title, weights in maps.items():
        cells = [
            {"row": i, "column": j, "weight": round(weights[i, j].item(), 3)}
            for i in range(weights.size(0))
            for j in range(weights.size(1))
        ]
        chart = alt.Chart(alt.Data(values=cells), title=title, width=170, height=170)
        charts.append(
            chart.mark_rect().encode(
                alt.X("column:O", title=columns).axis(labelAngle=0),
                alt.Y("row:O", title=rows if not charts else None),
                alt.Color("weight:Q").scale(domain=(0, 1)),
                tooltip=["row:O", "column:O", "weight:Q"],
            )
        )
    return alt.hconcat(*charts)


def depth_chart(gradients: pandas.DataFrame) -> altair.Chart:
    """Draw the gradient of each layer in stacks of several depths.

    Columns: norm (its name), N (layers), layer, gradient (a mean norm).
    """
    alt = optional_import("altair")
    title = "Toward the top, gradients grow with post-norm and shrink with pre-norm"
    chart = alt.Chart(gradients, title=title, width=150, height=200)
    return (
        chart.mark_line(point=True)
        .encode(
            alt.X("layer:O").axis(labelAngle=0, labelOverlap=True),
            alt.Y("gradient:Q", title="mean norm of the gradient"),
            alt.Color("norm:N"),
            alt.Column("N:O", title="layers in the stack"),
        )
        .resolve_scale(x="independent")
    )


# --- chapter 2 -----------------------------------------------------------------------


def schedule_chart(rates: pandas.DataFrame) -> altair.Chart:
    """Draw the learning rate over the updates. Columns: update, rate, schedule."""
    alt = optional_import("altair")
    order = list(rates["schedule"].unique())
    return (
        alt.Chart(rates, width=430, height=240)
        .mark_line()
        .encode(
            alt.X("update:Q", title="update"),
            alt.Y("rate:Q", title="learning rate").axis(format=".4f"),
            alt.Color("schedule:N", title=None).scale(domain=order),
            alt.StrokeDash("schedule:N", title=None).scale(domain=order),
        )
        .properties(title="Learning rates over 20,000 updates")
    )


def copying_chart(runs: pandas.DataFrame, title: str) -> altair.HConcatChart:
    """Draw losses and exact copies of one or more runs, side by side.

    Columns: run, epoch, NLL, exact (a share).
    """
    alt = optional_import("altair")
    table = runs[["run", "epoch", "NLL", "exact"]]
    base = alt.Chart(table, width=260, height=210)
    lines = base.mark_line(point=True).encode(
        alt.X("epoch:Q", title="epoch of 25 updates").axis(tickMinStep=1),
        alt.Color("run:N", title=None, sort=None).legend(orient="top"),
        alt.StrokeDash("run:N", sort=None, legend=None),
    )
    losses = lines.encode(alt.Y("NLL:Q", title="NLL (nats per symbol)"))
    exact = lines.encode(
        alt.Y("exact:Q", title="share copied exactly").axis(format="%")
    )
    guess = alt.Chart().encode(y=alt.datum(math.log(10)))
    rule = guess.mark_rule(strokeDash=[4, 4])
    label = guess.mark_text(text="uniform guess", align="right", dy=-7)
    label = label.encode(x=alt.datum(int(table["epoch"].max())))
    return (rule + label + losses | exact).properties(title=title)


def diagonal_chart(attention: pandas.Series, epochs: list[int]) -> altair.FacetChart:
    """Draw the cross-attention (9, 10) of some epochs, predicted position by source."""
    alt = optional_import("altair")
    pd = optional_import("pandas")
    cells = pd.DataFrame(
        {"epoch": epoch, "target": t + 2, "source": s + 1, "weight": weight}
        for epoch in epochs
        for t, row in enumerate(attention[epoch].tolist())
        for s, weight in enumerate(row)
    )
    maps = alt.Chart(cells, width=165, height=145).mark_rect()
    maps = maps.encode(
        alt.X("source:O", title="source position attended to").axis(labelAngle=0),
        alt.Y("target:O", title="position to predict"),
        alt.Color("weight:Q", title="weight"),
        tooltip=["target", "source", alt.Tooltip("weight", format=".2f")],
    )
    return maps.facet(
        "epoch:O", columns=3, title="Where the decoder looks, epoch by epoch"
    )


def confidence_chart(losses: pandas.DataFrame) -> altair.Chart:
    """Draw the smoothed loss over the correct word's probability.

    Columns: p, smoothing, loss.
    """
    alt = optional_import("altair")
    return (
        alt.Chart(losses, width=420, height=230)
        .mark_line()
        .encode(
            alt.X("p:Q", title="probability p of the correct word").scale(zero=False),
            alt.Y("loss:Q", title="loss, KL divergence (nats)"),
            alt.Color("smoothing:N", title="smoothing ε"),
        )
        .properties(title="With smoothing, the loss is lowest at 1 − ε")
    )


def target_chart(goals: dict[str, list[float]], words: list[str]) -> altair.Chart:
    """Draw target distributions over the same words as bars, side by side."""
    alt = optional_import("altair")
    pd = optional_import("pandas")
    shares = pd.DataFrame(
        {"goal": goal, "word": word, "q": share}
        for goal, row in goals.items()
        for word, share in zip(words, row, strict=True)
    )
    return (
        alt.Chart(shares, width=180, height=150)
        .mark_bar()
        .encode(
            alt.X("word:N", sort=words, title="word").axis(labelAngle=0),
            alt.Y("q:Q", title="target probability"),
            alt.Color("goal:N", sort=list(goals), legend=None),
            alt.Column("goal:N", sort=list(goals), title=None),
            tooltip=["goal", "word", alt.Tooltip("q", format=".3f")],
        )
        .properties(title="Target distributions when “dog” is correct")
    )


# --- chapter 3 -----------------------------------------------------------------------


def batching_chart(
    lengths: Sequence[int], groupings: dict[str, list[list[int]]], fixed: int
) -> altair.Chart:
    """Draw each batch's rows: tokens in blue, the padding after them in gray.

    Columns: way (a panel), row, from, to, positions. The first panel pads the batches
    of the first grouping to a fixed length; the others to each batch's longest row.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    first = next(iter(groupings.values()))
    panels = {f"padded to {fixed}": first} | groupings
    bars: list[dict[str, object]] = []
    for way, groups in panels.items():
        top = 0
        for group in groups:
            end = fixed if way not in groupings else max(lengths[i] for i in group)
            for row, i in enumerate(group, start=top):
                for start, stop, kind in (
                    (0, lengths[i], "tokens"),
                    (lengths[i], end, "padding"),
                ):
                    place = {"way": way, "row": row, "end": row + 0.8}
                    bars.append(place | {"from": start, "to": stop, "positions": kind})
            top += len(group) + 2
    title = f"The same {len(lengths)} sentences, batched in four ways"
    return (
        alt.Chart(pd.DataFrame(bars), width=140, height=320, title=title)
        .mark_rect()
        .encode(
            alt.X("from:Q", title="position").scale(domain=[0, fixed]),
            alt.X2("to"),
            alt.Y("row:Q", title=None).axis(None).scale(reverse=True),
            alt.Y2("end"),
            alt.Color("positions:N", title=None, sort=None)
            .scale(range=["#0072b2", "#d0d0d0"])
            .legend(orient="top"),
            alt.Column("way:N", title=None, sort=list(panels)),
        )
    )


def learning_curves(records: list[dict[str, float]]) -> altair.Chart:
    """Draw a run's two losses over its epochs.

    Columns: epoch, figure (a line), nats; from a run's records (``read_metrics``).
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    names = {
        "train_criterion": "loss on training pairs",
        "valid_nll": "NLL, validation",
    }
    curves = pd.DataFrame(records).rename(columns=names)
    curves = curves.melt("epoch", list(names.values()), "figure", "nats")
    title = "Late in training, the validation curve hardly falls"
    return (
        alt.Chart(curves, title=title, width=520, height=230)
        .mark_line(point=True)
        .encode(
            alt.X("epoch:Q"),
            alt.Y("nats:Q", title="nats per token"),
            alt.Color("figure:N", title=None, sort=None).legend(orient="top"),
        )
    )


# --- appendix 91 ---------------------------------------------------------------------


def threshold_chart(curve: list[dict[str, dict[str, float]]]) -> altair.Chart:
    """Draw the share of labeled translations below each threshold of the confidence.

    Columns: translations (a line), captions and flagged (percent); from trust.json.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")

    def share(found: dict[str, float]) -> float:
        return 100 * found["count"] / found["of"]

    points = pd.DataFrame(
        {
            "translations": group,
            "captions": share(point["all captions"]),
            "flagged": share(point[group]),
        }
        for point in curve
        for group in ("bad sentences", "good sentences", "bad captions")
    )
    title = "Where to draw the line? Labeled translations below each threshold"
    return (
        alt.Chart(points, title=title, width=520, height=220)
        .mark_line(point=True)
        .encode(
            alt.X("captions:Q", title="% of all validation captions below it"),
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
        (kind, 100 * found["count"] / found["of"], *found["interval"])
        for kind, found in ((k, v["preferred"]) for k, v in kinds.items())
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


# --- chapter 4 -----------------------------------------------------------------------


def merge_chart(
    merges: Iterable[tuple[tuple[str, str], int, dict[tuple[str, ...], int]]],
) -> altair.LayerChart:
    """Draw the words of a text after each merge, with its new symbol in orange.

    A merge is the pair, how often it occurred, and how often each word occurs.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    rows = []
    for number, ((a, b), n, words) in enumerate(merges, start=1):
        left, label = 0, f"{number}: {a} + {b}, {n} times"
        for word, times in words.items():
            if number == 1:
                right = left + sum(map(len, word))
                whole = f"{times} × {''.join(word).removeprefix('Ġ')}"
                rows.append(("occurs in the text", left, right, whole, False))
            for symbol in word:
                right = left + len(symbol)
                rows.append((label, left, right, symbol, symbol == a + b))
                left = right
            left += 1  # a gap after each word
    symbols = pd.DataFrame(rows, columns=["merge", "left", "right", "symbol", "new"])
    symbols["middle"] = (symbols.left + symbols.right) / 2
    chart = alt.Chart(symbols, width=540, height=350)
    chart = chart.encode(alt.Y("merge", sort=None, title="merge"))
    boxes = chart.mark_bar(stroke="white", strokeWidth=2, height=21).encode(
        alt.X("left", title="the words of the sentence").axis(
            labels=False, ticks=False, grid=False
        ),
        alt.X2("right"),
        alt.Color("new", legend=None).scale(range=["#d7e8f3", "#f2b48a"]),
    )
    letters = chart.mark_text(fontSize=12).encode(x="middle", text="symbol")
    title = "Each merge joins the most frequent pair"
    return (boxes + letters).properties(title=title, usermeta=KEEPS_WIDTH)


def recomputation_chart(positions: dict[str, list[int]]) -> altair.Chart:
    """Draw which positions each step computes, for decoders that differ in it.

    ``positions`` has a decoder's name, and how many positions each step computes.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    cells = []
    for decoder, numbers in positions.items():
        for step, computed in enumerate(numbers, start=1):
            for position in range(1, step + 1):
                old = "again" if position > step - computed else "read from the cache"
                kind = "new" if position == step else old
                cells.append((decoder, step, position, kind))
    columns = ["decoder", "step", "position", "computed"]
    chart = alt.Chart(pd.DataFrame(cells, columns=columns), width=220, height=220)
    chart = chart.mark_rect(stroke="white").encode(
        alt.X("position:O", title="position of the output").axis(labelAngle=0),
        alt.Y("step:O", title="step"),
        alt.Color("computed", title=None).scale(
            domain=["new", "again", "read from the cache"],
            range=["#0072b2", "#e69f00", "#e3e3e3"],
        ),
        alt.Column("decoder", sort=list(positions), title=None),
    )
    return chart.properties(title="With a cache, each step computes one position")


def averaging_chart(
    losses: dict[int, float], averaged: Sequence[int], loss_of_mean: float
) -> altair.LayerChart:
    """Draw the loss after each epoch, and for some of them the loss of their mean."""
    pd, alt = optional_import("pandas"), optional_import("altair")
    points = pd.DataFrame({"epoch": list(losses), "loss": list(losses.values())})
    level = pd.DataFrame({"epoch": list(averaged), "loss": loss_of_mean})
    level["label"] = "loss of the averaged weights"
    usual = level.assign(
        loss=sum(losses[epoch] for epoch in averaged) / len(averaged),
        label="average loss of these five",
    )
    x = alt.X("epoch", title="epochs of training").scale(
        domain=(min(losses) - 1, max(losses) + 1)
    )
    y = alt.Y("loss", title="trained loss (nats per token)")
    dots = alt.Chart(points, width=460).mark_line(point=True).encode(x, y)
    line = alt.Chart(level).mark_line(color="#d55e00", strokeWidth=5).encode(x, y)
    dashes = alt.Chart(usual).mark_line(color="#555555", strokeDash=[5, 4]).encode(x, y)
    labels = pd.concat([level, usual]).query(f"epoch == {averaged[0]}")
    notes = alt.Chart(labels).mark_text(align="right", dx=-8)
    notes = notes.encode(x, y, text="label")
    title = "Averaging beats the average checkpoint, but not the last one"
    return (dots + line + dashes + notes).properties(title=title)


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


def rates_chart(measured: dict[str, Any]) -> altair.LayerChart:
    """Draw the loss over the learning rate: a line per variant, four of them named."""
    alt = optional_import("altair")
    shown = {
        "2017": "#d55e00",
        "all five": "#0072b2",
        "without query-key norm": "#009e73",
        "all five, norm in cross-attention": "#cc79a7",
    }
    rows = [
        {"variant": row["name"], "rate": float(rate), "nats": nats}
        for row in measured["variants"]
        for rate, nats in row["by_rate"].items()
        if nats is not None and not row["name"].endswith(("phase", "Muon"))
    ]
    rates = sorted({row["rate"] for row in rows})
    x = alt.X("rate:Q", title="peak learning rate (logarithmic)")
    base = alt.Chart(alt.Data(values=rows), width=400, height=320).encode(
        x.scale(type="log", base=2, domain=(rates[0], rates[-1])).axis(values=rates),
        alt.Y("nats:Q", title="nats per sentence, one run each").scale(zero=False),
        alt.Detail("variant:N"),
        tooltip=["variant:N", "rate:Q", "nats:Q"],
    )
    named = base.transform_filter(alt.FieldOneOfPredicate("variant", list(shown)))
    color = alt.Color("variant:N", legend=None)
    color = color.scale(domain=list(shown), range=list(shown.values()))
    ends = [
        max((r for r in rows if r["variant"] == name), key=lambda r: r["rate"])
        for name in shown
    ]
    labels = alt.Chart(alt.Data(values=ends)).mark_text(align="left", dx=8)
    labels = labels.encode(
        alt.X("rate:Q"), alt.Y("nats:Q"), alt.Text("variant:N"), color
    )
    others = base.mark_line(color="#bbbbbb", strokeWidth=1)
    lines = named.mark_line(point=True, strokeWidth=2.5).encode(color)
    title = "Twice the rate helps today's block, and hurts the old one"
    return (others + lines + labels).properties(title=title)


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
        alt.X("temperature:Q").axis(values=[0.3, 0.5, 0.8, 1, 1.3, 1.6]),
        color.legend(orient="top", labelLimit=240, symbolOpacity=1),
    )
    share = alt.Y("share:Q", title="share of samples").axis(format="%")
    band = base.mark_area(opacity=0.2).encode(alt.Y("low:Q"), alt.Y2("high:Q"))
    lines = base.mark_line(point=True).encode(share.scale(domain=(0, 1)))
    title = "New and possible sentences peak at a temperature of 0.5"
    return (band + lines).properties(title=title)


def cache_chart(sizes: list[dict]) -> altair.LayerChart:
    """Draw the size of a cache over the length of a text. Keys: model, tokens, MiB."""
    alt = optional_import("altair")
    longest = max(row["tokens"] for row in sizes)
    labels, lowest = [], 0.0
    for row in sorted(sizes, key=lambda row: row["MiB"]):
        if row["tokens"] == longest:  # far enough above the one below to be read
            lowest = max(row["MiB"], 1.6 * lowest)
            labels.append({**row, "MiB": lowest})
    x = alt.X("tokens:Q", title="tokens in the cache (logarithmic)").scale(
        type="log", base=2
    )
    y = alt.Y("MiB:Q", title="MiB of cache (logarithmic)").scale(type="log")
    color = alt.Color("model:N", legend=None)
    base = alt.Chart(width=360, height=320).encode(
        x.axis(format=",d", values=[2**n for n in (7, 10, 13, 16)]),
        y.axis(format=",~r", values=[10**n for n in range(6)]),
        color,
    )
    lines = base.mark_line(strokeWidth=2).properties(data=alt.Data(values=sizes))
    names = base.mark_text(align="left", dx=6).encode(alt.Text("model:N"))
    names = names.properties(data=alt.Data(values=labels))
    return (lines + names).properties(
        title="The largest of these models keeps half as much as Llama 3 8B"
    )
