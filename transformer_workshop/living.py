"""Which figures can readers move? Each is one call, computed in the page by Vega.

A slider, a switch or a click changes a quantity, and everything that follows from it is
computed anew; no Python has to run. At rest, a figure shows the numbers of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import END, length_normalized, optional_import
from transformer_workshop.charts import CHART_COLORS

if TYPE_CHECKING:
    import altair
    from torch import Tensor

BLUE, ORANGE, GREEN = CHART_COLORS[:3]


def _slider(
    name: str, label: str, value: float, low: float, high: float, step: float
) -> altair.Parameter:
    """Return a number that readers set with a slider."""
    alt = optional_import("altair")
    bind = alt.binding_range(min=low, max=high, step=step, name=f"{label} ")
    return alt.param(name=name, value=value, bind=bind)


def _choice(
    name: str, label: str, value: Any, options: Sequence[Any], **labels: list[str]
) -> altair.Parameter:
    """Return a value that readers choose from a few."""
    alt = optional_import("altair")
    bind = alt.binding_radio(options=list(options), name=f"{label} ", **labels)
    return alt.param(name=name, value=value, bind=bind)


def _title(expression: str, **options: Any) -> altair.Title:
    """Return a title that Vega computes."""
    alt = optional_import("altair")
    return alt.Title(alt.ExprRef(expression), **options)


def _one() -> altair.Chart:
    """Return a chart of a single, empty record, for what is drawn once."""
    alt = optional_import("altair")
    return alt.Chart(alt.Data(values=[{}]))


# --- chapter 1 -----------------------------------------------------------------------


def attention_by_hand(
    words: list[str], key: Tensor, votes: list[str | None], queries: dict[str, Tensor]
) -> altair.HConcatChart:
    """Let readers move a query among keys (S, 2), and see the weights and the votes.

    ``votes`` names what each word votes for, if anything. ``queries`` are named places
    (2) of the plane; the first is where the query starts.
    """
    alt = optional_import("altair")
    start = next(iter(queries.values())).tolist()
    pull = "pointerdown, [pointerdown, window:pointerup] > pointermove"
    axes = {"x": "can be eaten", "y": "is an animal"}
    bind = {
        axis: alt.binding_range(min=-2, max=2, step=0.1, name=f"the query’s “{name}” ")
        for axis, name in axes.items()
    }
    query = alt.selection_point(
        "query", fields=["y", "x"], bind=bind, nearest=True, on=pull, clear=False,
        value=[dict(zip("xy", start, strict=True))],
    )  # fmt: skip
    now = {
        axis: f"isValid(query.{axis}) ? query.{axis}[0] : {value}"
        for axis, value in zip("xy", start, strict=True)
    }
    scale = alt.Scale(domain=(-2, 2), nice=False)
    at = {
        axis: alt.X("x:Q", title=name, scale=scale).axis(values=[-2, -1, 0, 1, 2])
        if axis == "x"
        else alt.Y("y:Q", title=name, scale=scale).axis(values=[-2, -1, 0, 1, 2])
        for axis, name in axes.items()
    }
    origin = {"x2": alt.datum(0), "y2": alt.datum(0)}
    keys = [
        {"word": word, "x": round(x, 3), "y": round(y, 3), "vote": vote}
        for word, (x, y), vote in zip(words, key.tolist(), votes, strict=True)
    ]
    placed = alt.Chart(alt.Data(values=keys)).encode(**at)
    named = alt.Chart(alt.Data(values=[
        {"name": name, **dict(zip("xy", place.tolist(), strict=True))}
        for name, place in queries.items()
    ])).encode(**at)  # fmt: skip
    steps = 41  # places that the query can be moved to, along each axis
    everywhere = alt.Chart(alt.sequence(steps**2, as_="i")).transform_calculate(
        x=f"datum.i % {steps} / 10 - 2", y=f"floor(datum.i / {steps}) / 10 - 2"
    )
    moved = _one().transform_calculate(**now).encode(**at)
    plane = alt.layer(
        placed.mark_rule(color=BLUE, strokeWidth=2).encode(**origin),
        placed.mark_point(color=BLUE, filled=True, size=40, opacity=1),
        placed.mark_text(align="left", dx=7, dy=-5, fontSize=13).encode(text="word:N"),
        named.mark_point(shape="cross", size=60, color=ORANGE, strokeWidth=1),
        named.mark_text(dy=14, fontSize=12, fontStyle="italic").encode(text="name:N"),
        moved.mark_rule(color=ORANGE, strokeWidth=3).encode(**origin),
        moved.mark_point(color=ORANGE, filled=True, size=170, opacity=1),
        everywhere.mark_point(opacity=0, cursor="grab", size=60, aria=False)
        .encode(**at)
        .add_params(query),
        width=250,
        height=250,
        title="Drag the orange query",
    )
    heard = (
        alt.Chart(alt.Data(values=keys))
        .transform_calculate(**{f"q{axis}": value for axis, value in now.items()})
        .transform_calculate(score="datum.qx * datum.x + datum.qy * datum.y")
        .transform_calculate(exponential="exp(datum.score)")
        .transform_joinaggregate(total="sum(exponential)")
        .transform_calculate(weight="datum.exponential / datum.total")
    )
    row = alt.Y("word:N", sort=None, title=None).axis(ticks=False, domain=False)

    def column(field: str, head: str, right: int) -> altair.LayerChart:
        """Return a column of numbers under its head."""
        place = {"x": alt.value(right)}
        text = heard.mark_text(align="right", fontSize=13)
        text = text.encode(row, text=alt.Text(f"{field}:Q", format=".2f"), **place)
        above = _one().mark_text(align="right", fontSize=11, text=head)
        return text + above.encode(y=alt.value(-8), **place)

    share = alt.X(
        "weight:Q", axis=None, scale=alt.Scale(domain=(0, 1), range=(176, 250))
    )
    table = alt.layer(
        column("score", "score", 48),
        column("exponential", "exp(score)", 120),
        column("weight", "weight", 168),
        heard.mark_bar(height=14, x2=176).encode(row, share),
        width=250,
        height=100,
        view=alt.ViewBackground(stroke=None),
    )
    ballot = heard.transform_filter("datum.vote != null").encode(
        alt.X("weight:Q", title="output").scale(domain=(0, 1)).axis(tickCount=5),
        alt.Y("vote:N", sort=None, title=None),
    )
    votes_ = alt.layer(
        ballot.mark_bar(color=GREEN, height=14),
        ballot.mark_text(align="left", dx=4, fontSize=13, color="#444444").encode(
            text=alt.Text("weight:Q", format=".2f")
        ),
        width=250,
        height=66,
    )
    says = "A plane with the keys of the words and a query that can be moved. "
    return alt.hconcat(
        plane,
        alt.vconcat(table, votes_, spacing=24),
        spacing=28,
        description=says + "At rest, " + _weights_in_words(words, key, start),
    )


def _weights_in_words(words: list[str], key: Tensor, query: list[float]) -> str:
    """Return what a query (2) makes of the keys (S, 2), in words."""
    weights = (key @ key.new_tensor(query)).softmax(dim=0).tolist()
    return ", ".join(f"{w} {p:.2f}" for w, p in zip(words, weights, strict=True))


def softmax_by_width(scores: list[float]) -> altair.VConcatChart:
    """Let readers choose the width d_k, and whether scores are divided by its root.

    ``scores`` are one query's, divided by √d_k, so of about the size 1.
    """
    alt = optional_import("altair")
    width = _slider("log_width", "log₂ of the width d_k", 6, 0, 10, 1)
    divide = alt.param(
        name="divide", value=False, bind=alt.binding_checkbox(name="divide by √d_k ")
    )
    keys = [{"key": i, "z": round(z, 4)} for i, z in enumerate(scores, 1)]
    looked = (
        alt.Chart(alt.Data(values=keys))
        .transform_calculate(
            score="datum.z * (divide ? 1 : sqrt(pow(2, log_width)))",
        )
        .transform_joinaggregate(top="max(score)")
        .transform_calculate(e="exp(datum.score - datum.top)")
        .transform_joinaggregate(total="sum(e)")
        .transform_calculate(
            weight="datum.e / datum.total",
            slope="datum.weight * (1 - datum.weight)",
        )
    )
    best = looked.transform_filter("datum.score == datum.top")
    at = {
        "x": alt.X("key:O", title="key").axis(labelAngle=0),
        "y": alt.Y("weight:Q").scale(domain=(0, 1.1)).axis(values=[0, 0.5, 1]),
    }
    which = alt.condition(
        "datum.score == datum.top", alt.value(ORANGE), alt.value(BLUE)
    )
    number = best.mark_text(
        align="left", dx=-9, dy=-8, color=ORANGE, fontWeight="bold", fontSize=13
    )
    bars = alt.layer(
        looked.mark_bar().encode(color=which, **at),
        number.encode(text=alt.Text("weight:Q", format=".2f"), **at),
        width=300,
        height=170,
        title=_title(
            "'d_k = ' + pow(2, log_width) + (divide ? ', divided by √d_k' : ', "
            "not divided')"
        ),
    )
    slope = alt.X("slope:Q", title="slope p (1 − p) of the largest weight")
    slope = slope.scale(domain=(0, 0.25))
    below = alt.layer(
        best.mark_bar(color=GREEN, height=16).encode(slope),
        best.mark_text(align="left", dx=4, fontSize=13).encode(
            slope, text=alt.Text("slope:Q", format=".3f")
        ),
        width=300,
        height=30,
    )
    return alt.vconcat(
        bars,
        below,
        description="Sixteen weights at a width d_k that can be chosen, with scores "
        "divided by its root or not. At rest, d_k is 64 and nothing is divided.",
    ).add_params(width, divide)


def mask_by_hand(words: list[str], scores: Tensor) -> altair.LayerChart:
    """Let readers choose which scores (L, L) are hidden, and click cells themselves."""
    alt = optional_import("altair")
    hidden = {
        "the future": "datum.s > datum.t",
        "the last two words": f"datum.s > {len(words) - 3}",
        "nothing": "false",
        "everything": "true",
    }
    choice = _choice("hides", "the mask hides", "the future", list(hidden))
    cells = [
        {"t": t, "s": s, "query": words[t], "key": words[s], "score": round(x, 4)}
        for t, row in enumerate(scores.tolist())
        for s, x in enumerate(row)
    ]
    clicked = alt.selection_point(
        "clicked", fields=["t", "s"], toggle="true", clear=False, on="click",
        empty=False,
    )  # fmt: skip
    chosen = " : ".join(f"hides == '{each}' ? {test}" for each, test in hidden.items())
    label = f"{words}[datum.value]".replace("'", '"')
    at = {
        "x": alt.X("s:O", title="key").axis(
            labelExpr=label, orient="top", labelAngle=-40, domain=False, ticks=False
        ),
        "y": alt.Y("t:O", title="query").axis(
            labelExpr=label, domain=False, ticks=False
        ),
    }
    cell = alt.Chart().encode(**at)
    seen = alt.Chart().transform_filter("datum.open").encode(**at)
    dark = alt.condition("datum.weight > 0.5", alt.value("white"), alt.value("black"))
    sums = alt.Chart().transform_aggregate(sum="sum(weight)", groupby=["t"])
    sums = sums.mark_text(align="left", fontSize=13, fontWeight="bold")
    size = 46 * len(words)
    beside = {"x": alt.value(size + 8)}
    return (
        alt.layer(
            cell.mark_rect(fill="#999999", fillOpacity=0.25, stroke="#888888"),
            seen.mark_rect(stroke="#888888").encode(
                alt.Color("weight:Q", legend=None).scale(domain=(0, 1))
            ),
            seen.mark_text(fontSize=12).encode(
                text=alt.Text("weight:Q", format=".2f"), color=dark
            ),
            seen.transform_filter("datum.s > datum.t").mark_rect(
                fillOpacity=0, stroke=ORANGE, strokeWidth=2.5
            ),
            sums.encode(at["y"], text=alt.Text("sum:Q", format=".2f"), **beside),
            _one()
            .mark_text(align="left", fontSize=12, text="sum")
            .encode(y=alt.value(-8), **beside),
            cell.mark_rect(opacity=0, cursor="pointer")
            .encode(tooltip=["query:N", "key:N", "cell:N"])
            .add_params(clicked),
            data=alt.Data(values=cells),
            width=size,
            height=size,
            title=alt.Title(
                "Click a cell to open or to hide it",
                subtitle="orange: a look into the future",
            ),
            description="The weights of five words. Choose what a mask hides, or click "
            "cells: rows that may attend to anything still add up to one.",
        )
        .transform_calculate(masked=f"{chosen} : false")
        .transform_calculate(
            open="datum.masked == vlSelectionTest('clicked_store', datum)"
        )
        .transform_calculate(e="datum.open ? exp(datum.score) : 0")
        .transform_joinaggregate(total="sum(e)", groupby=["t"])
        .transform_calculate(
            weight="datum.total ? datum.e / datum.total : 0",
            cell="datum.open ? 'open' : 'hidden'",
        )
        .add_params(choice)
    )


def position_clocks(
    d_model: int, length: int, pairs: Sequence[int]
) -> altair.HConcatChart:
    """Draw a table of positions as a map, some pairs as clock hands, and a similarity.

    Readers choose the position from which six clocks go on, and the base. Pair i is
    columns 2i (sine) and 2i + 1 (cosine); twelve o'clock is an angle of zero.
    """
    alt = optional_import("altair")
    position = _slider("position", "position", 0, 0, length - 6, 1)
    base = _slider("log_base", "base, as a power of ten:", 4, 0.5, 4, 0.5)
    half = d_model // 2
    speed = f"pow(10, -log_base * datum.pair / {half})"
    cells = (
        alt.Chart(alt.sequence(0, length * d_model, as_="cell"))
        .transform_calculate(
            position=f"floor(datum.cell / {d_model})", column=f"datum.cell % {d_model}"
        )
        .transform_calculate(pair="floor(datum.column / 2)")
        .transform_calculate(angle=f"datum.position * {speed}")
        .transform_calculate(
            value="datum.column % 2 ? cos(datum.angle) : sin(datum.angle)",
            next="datum.column + 1",
            below="datum.position + 1",
        )
    )
    hands = (
        alt.Chart(alt.sequence(0, 6 * len(pairs), as_="clock"))
        .transform_calculate(
            step="datum.clock % 6",
            row="floor(datum.clock / 6)",
            pair=f"{list(pairs)}[floor(datum.clock / 6)]",
        )
        .transform_calculate(angle=f"(position + datum.step) * {speed}")
        .transform_calculate(
            x="datum.step + 0.42 * sin(datum.angle)",
            y="datum.row - 0.42 * cos(datum.angle)",
        )
    )
    across = (
        alt.X("step:Q", title="position")
        .scale(domain=(-0.5, 5.5), nice=False)
        .axis(values=list(range(6)), grid=False, labelExpr="position + datum.value")
    )
    rows = len(pairs)
    named = alt.Y("row:Q", title=None).scale(domain=(rows - 0.5, -0.5), nice=False)
    named = named.axis(
        values=list(range(rows)), grid=False, domain=False, ticks=False,
        labelExpr=f"'pair ' + {list(pairs)}[datum.value]",
    )  # fmt: skip
    clocks = alt.layer(
        hands.mark_circle(size=1150, color="#efefef", opacity=1).encode(across, named),
        hands.mark_rule(strokeWidth=2.5).encode(
            across, alt.X2("x", title=""), named, alt.Y2("y")
        ),
        width=264,
        height=46 * rows,
        title="Pairs of columns as clock hands",
    )
    alike = (
        alt.Chart(alt.sequence(0, length * half, as_="term"))
        .transform_calculate(
            other=f"floor(datum.term / {half})", pair=f"datum.term % {half}"
        )
        .transform_calculate(part=f"cos((datum.other - position) * {speed})")
        .transform_aggregate(dot="sum(part)", groupby=["other"])
    )
    others = alt.X("other:Q", title="other position")
    others = others.scale(domain=(0, length - 1), nice=False)
    dots = alt.Y("dot:Q", title=None).scale(domain=(-half / 2, half))
    dots = dots.axis(values=[0, half / 2, half])
    mark = _one().transform_calculate(other="position")
    curve = alt.layer(
        alike.mark_line().encode(others, dots),
        mark.mark_rule(color=ORANGE, strokeWidth=2).encode(others),
        width=264,
        height=70,
        title="Dot product with the other positions",
    )
    first = _one().transform_calculate(top="position", end="position + 6")
    frame = first.mark_rect(fillOpacity=0, stroke="black", strokeWidth=2)
    place = alt.Scale(domain=(length, 0), nice=False)
    map_ = alt.layer(
        cells.mark_rect().encode(
            alt.X("column:Q", title="column")
            .scale(domain=(0, d_model), nice=False)
            .bin("binned"),
            alt.X2("next", title=""),
            alt.Y("position:Q", title="position")
            .scale(place)
            .bin("binned")
            .axis(grid=False),
            alt.Y2("below", title=""),
            alt.Color("value:Q")
            .scale(scheme="blueorange", domain=(-1, 1))
            .legend(orient="bottom", direction="horizontal"),
        ),
        frame.encode(alt.Y("top:Q", scale=place, title=""), alt.Y2("end")),
        width=290,
        height=290,
        title="The table",
    )
    right = alt.vconcat(clocks, curve, spacing=16)
    chart = alt.hconcat(map_, right, spacing=24, description=(
        "A table of positions as a map; pairs of its columns as the hands of clocks, "
        "for six positions from the one chosen; the dot product with every position."
    ))  # fmt: skip
    return chart.add_params(position, base)


# --- chapter 4 -----------------------------------------------------------------------

Candidate = tuple[list[int], float]
_PENALTIES = [i / 5 for i in range(21)]  # the values of alpha that readers can choose


def _finished(tree: list[list[Candidate]], beam_size: int) -> list[Candidate]:
    """Return the outputs of a search: candidates among the best that end."""
    return [c for step in tree for c in step[:beam_size] if c[0][-1] == END]


def beam_steps(
    searches: dict[str, dict[int, list[list[Candidate]]]],
    words: Callable[[list[int]], list[str]],
    beam_size: int = 3,
    steps: int = 8,
) -> altair.HConcatChart:
    """Let readers step through searches with several beam sizes and length penalties.

    ``searches`` has, for each sentence and beam size, the candidates (ids, log P) of
    each step, best first. Draws the best six of each of the first steps, and the best
    four outputs.
    """
    alt = optional_import("altair")
    nodes: list[dict] = []
    outputs: list[dict] = []
    for i, trees in enumerate(searches.values()):
        greedy = max(_finished(trees[1], 1), key=lambda c: c[1])[0]
        for size, tree in trees.items():
            here = {"i": i, "size": size}
            ended = _finished(tree, size)
            best = [
                max(ended, key=lambda c: length_normalized(c[1], len(c[0]) - 1, alpha))
                for alpha in _PENALTIES
            ]
            outputs += [
                {**here, "text": " ".join(words(ids[1:-1])), "log_p": round(log_p, 3),
                 "length": len(ids) - 1}
                for ids, log_p in ended
            ]  # fmt: skip
            ranks = {tuple(greedy[:1]): 0}
            for step, candidates in enumerate(tree[:steps], 1):
                live = [ids for ids, _ in candidates if ids[-1] != END][:size]
                for rank, (ids, log_p) in enumerate(candidates[:6]):
                    ranks[tuple(ids)] = rank
                    fate = "kept" if ids in live else "dropped"
                    if ids[-1] == END and rank < size:
                        fate = "finished"
                    on = [ids == output[: step + 1] for output, _ in best]
                    nodes.append({
                        **here, "step": step, "rank": rank, "fate": fate,
                        "parent": ranks[tuple(ids[:-1])],
                        "word": words(ids[-1:])[0], "log_p": round(log_p, 2),
                        "wins": "".join("01"[each] for each in on) if any(on) else "",
                        "greedy": ids == greedy[: step + 1],
                    })  # fmt: skip
    sentence = _choice(
        "sentence", "sentence", 0, range(len(searches)), labels=list(searches)
    )
    sizes = list(next(iter(searches.values())))
    width = _choice("beam", "beam of", beam_size, sizes)
    until = _slider("step", "step", steps, 0, steps, 1)
    alpha = _slider("alpha", "length penalty α", 0.6, 0, _PENALTIES[-1], 0.2)
    chosen = "datum.i == sentence && datum.size == beam"
    tree_ = (
        alt.Chart(alt.Data(values=nodes))
        .transform_filter(f"{chosen} && datum.step <= step")
        .transform_calculate(
            before="datum.step - 1",
            wins="datum.wins[round(alpha * 5)] == '1'",
            says="datum.word + '\\n' + format(datum.log_p, '.2f')",
        )
        .transform_calculate(
            path="datum.wins ? (datum.greedy ? 'both' : 'winner') "
            ": datum.greedy ? 'greedy' : 'neither'"
        )
    )
    place = {
        "x": alt.X("rank:Q", axis=None).scale(domain=(-0.55, 5.55), nice=False),
        "y": alt.Y("step:Q", title="step")
        .scale(domain=(steps + 0.4, -0.2), nice=False)
        .axis(values=list(range(1, steps + 1)), grid=False, domain=False, ticks=False),
    }
    way = alt.Stroke("path:N", legend=None).scale(
        domain=["both", "winner", "greedy", "neither"],
        range=["#444444", GREEN, ORANGE, "#d0d0d0"],
    )
    thick = alt.condition("datum.path == 'neither'", alt.value(1), alt.value(4))
    fates = alt.Color("fate:N", title=None).legend(orient="bottom")
    fates = fates.scale(
        domain=["kept", "finished", "dropped"], range=["#9ecae9", "#f5dd8a", "#e6e6e6"]
    )
    box = "M-0.76,-0.48H0.76V0.48H-0.76Z"
    tree_chart = alt.layer(
        tree_.mark_rule().encode(
            **place, x2="parent", y2="before", stroke=way, strokeWidth=thick
        ),
        tree_.mark_point(shape=box, size=4200, opacity=1, filled=True).encode(
            fates, **place
        ),
        tree_.mark_text(lineBreak="\n", dy=-5, fontSize=11, color="black").encode(
            **place, text="says:N"
        ),
        width=320,
        height=46 * (steps + 1),
        title=_title(
            "'The best six candidates, with a beam of ' + beam",
            subtitle="green: to the best output; orange: greedy; dark: both",
        ),
    )
    found = (
        alt.Chart(alt.Data(values=outputs))
        .transform_filter(chosen)
        .transform_calculate(score="datum.log_p / pow((5 + datum.length) / 6, alpha)")
        .transform_window(
            rank="row_number()", sort=[alt.SortField("score", order="descending")]
        )
        .transform_filter("datum.rank <= 4")
        .encode(alt.Y("rank:Q", axis=None).scale(domain=(4.6, 0.5), nice=False))
    )
    first = alt.condition("datum.rank == 1", alt.value(GREEN), alt.value("#555555"))
    texts = found.mark_text(align="left", fontSize=12, limit=265).encode(
        text="text:N", color=first, x=alt.value(44)
    )
    scores = found.mark_text(align="right", fontSize=12, fontWeight="bold").encode(
        text=alt.Text("score:Q", format=".2f"), color=first, x=alt.value(38)
    )
    outputs_chart = alt.layer(
        texts,
        scores,
        width=310,
        height=100,
        view=alt.ViewBackground(stroke=None),
        title=_title("'The best outputs, by score with α = ' + format(alpha, '.1f')"),
    )
    return alt.hconcat(
        tree_chart,
        outputs_chart,
        spacing=20,
        description="The candidates of each step of a beam search, best on the left, "
        "and its outputs. Sentence, beam, step and length penalty can be chosen.",
    ).add_params(sentence, width, until, alpha)


# --- chapter 6 -----------------------------------------------------------------------


def rotary_hands(query: float, key: float, d_k: int) -> altair.HConcatChart:
    """Let readers move a query and a key along the sentence, and change the base.

    ``query`` and ``key`` are the angles of two hands in degrees, which turn by 20 more
    at each position. Beside them, a head of width ``d_k``: the score of equal vectors
    over their distance.
    """
    alt = optional_import("altair")
    m = _slider("m", "position of the query", 3, 0, 40, 1)
    n = _slider("n", "position of the key", 1, 0, 40, 1)
    base = _slider("log_base", "base, as a power of ten:", 4, 1, 6, 0.5)
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
        title=_title(
            f"{angle} + '° apart: score ' + format(cos(PI / 180 * {angle}), '.2f')"
        ),
    )
    half = d_k // 2
    alike = (
        alt.Chart(alt.sequence(0, 81 * half, as_="term"))
        .transform_calculate(
            distance=f"floor(datum.term / {half}) - 40", pair=f"datum.term % {half}"
        )
        .transform_calculate(
            part=f"cos(datum.distance * pow(10, -log_base * datum.pair / {half}))"
        )
        .transform_aggregate(score="sum(part)", groupby=["distance"])
    )
    here = _one().transform_calculate(distance="n - m")
    across = alt.X("distance:Q", title="position of the key − position of the query")
    across = across.scale(domain=(-40, 40), nice=False)
    score = alt.Y("score:Q", title="score").scale(domain=(-half / 2, half))
    curve = alt.layer(
        alike.mark_line().encode(across, score),
        here.mark_rule(color=ORANGE, strokeWidth=2).encode(across),
        width=300,
        height=220,
        title=_title(
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
    are drawn; ``samples`` come from some temperatures, without the other dials.
    """
    alt = optional_import("altair")
    temperature = _slider("temperature", "temperature", 1, 0.2, 2, 0.2)
    top_k = _slider("top_k", "top-k (30: all words)", 30, 1, 30, 1)
    top_p = _slider("top_p", "top-p", 1, 0.05, 1, 0.05)
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
            width=310,
            height=alt.Step(22),
            view=alt.ViewBackground(stroke=None),
            title=_title(
                "'Drawn at temperature ' + format(temperature, '.1f')",
                subtitle="without top-k and top-p",
            ),
        )
        .transform_filter("abs(datum.at - temperature) < 0.05")
        .mark_text(align="left", fontSize=12, limit=310)
        .encode(alt.Y("line:O", axis=None), x=alt.value(0), text="text:N")
    )
    return alt.hconcat(
        bars,
        drawn,
        spacing=24,
        description="The probabilities of the next word under three dials; samples.",
    ).add_params(temperature, top_k, top_p)
