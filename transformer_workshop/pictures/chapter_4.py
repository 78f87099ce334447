"""How are the charts of chapter 4 drawn? Each is one call.

Some can be moved by readers; what follows is computed in the page by Vega, without
Python. At rest, they show the numbers of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import (
    END,
    length_normalized,
    optional_import,
)
from transformer_workshop.pictures import KEEPS_WIDTH
from transformer_workshop.pictures.controls import (
    GREEN,
    ORANGE,
    choices,
    live_title,
    slider,
)

if TYPE_CHECKING:
    import altair


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
                rows.append(("occurs in the text", 0, left, right, whole, False))
            for symbol in word:
                right = left + len(symbol)
                rows.append((label, number, left, right, symbol, symbol == a + b))
                left = right
            left += 1  # a gap after each word
    symbols = pd.DataFrame(
        rows, columns=["merge", "number", "left", "right", "symbol", "new"]
    )
    symbols["middle"] = (symbols.left + symbols.right) / 2
    steps = int(symbols.number.max())
    until = slider("merges", "merges", steps, 0, steps, 1)
    chart = alt.Chart(symbols, width=540, height=350)
    chart = chart.transform_filter("datum.number <= merges")
    names = list(dict.fromkeys(symbols["merge"]))
    chart = chart.encode(alt.Y("merge", title="merge").scale(domain=names))
    boxes = chart.mark_bar(stroke="white", strokeWidth=2, height=21).encode(
        alt.X("left", title="the words of the sentence")
        .axis(labels=False, ticks=False, grid=False)
        .scale(domain=(0, int(symbols.right.max())), nice=False),
        alt.X2("right"),
        alt.Color("new", legend=None).scale(range=["#d7e8f3", "#f2b48a"]),
    )
    letters = chart.mark_text(fontSize=12).encode(x="middle", text="symbol")
    title = "Each merge joins the most frequent pair"
    both = (boxes + letters).properties(title=title, usermeta=KEEPS_WIDTH)
    return both.add_params(until)


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


def clock_chart(rows: Sequence[Mapping[str, float]]) -> altair.HConcatChart:
    """Draw positions and tokens a second by the number of words, on log scales.

    ``rows`` are the lengths of results/cache.json.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    cells = []
    for row in rows:
        words = row["words"]
        for name, positions in (
            ("without a cache", row["positions without"]),
            ("with a cache", words),
        ):
            speed = row["tokens a second " + name.split()[0]]
            cells.append((words, name, positions, speed))
    columns = ["words", "decoder", "positions", "tokens a second"]
    data = pd.DataFrame(cells, columns=columns)
    names = list(dict.fromkeys(data["decoder"]))
    base = alt.Chart(data, width=250, height=170).mark_line(point=True)
    panels = []
    of_words = alt.X("words").title("words of the output").scale(type="log", nice=False)
    of_words = of_words.axis(values=sorted(set(data["words"])))
    for field in columns[2:]:
        panel = base.encode(
            of_words,
            alt.Y(field).scale(type="log").axis(tickCount=4).title(field),
            alt.Color("decoder", title=None, sort=names).scale(
                domain=names, range=["#e69f00", "#0072b2"]
            ),
        )
        panels.append(panel)
    return alt.hconcat(*panels).properties(
        title="Far fewer positions are computed, but each takes longer"
    )


def ladder_chart(rungs: Sequence[Mapping[str, Any]]) -> altair.HConcatChart:
    """Draw the BLEU of each seed and the time of a sentence, rung by rung.

    ``rungs`` are those of results/ladder.json.
    """
    pd, alt = optional_import("pandas"), optional_import("altair")
    names = [row["rung"] for row in rungs]
    scores = [
        (row["rung"], seed, bleu, step)
        for step, row in enumerate(rungs)
        for seed, bleu in enumerate(row["bleu"])
    ]
    times = [(row["rung"], row["milliseconds a sentence"]) for row in rungs]
    y = alt.Y("rung", sort=names, title=None)
    dots = alt.Chart(
        pd.DataFrame(scores, columns=["rung", "seed", "BLEU", "step"]),
        width=260,
        height=190,
    )
    lines = dots.mark_line(point=True).encode(
        alt.X("BLEU").title("BLEU, a line for each seed").scale(zero=False, padding=8),
        y,
        alt.Color("seed:N", legend=None).scale(range=["#0072b2", ORANGE, "#999999"]),
        alt.Order("step"),
    )
    column = "milliseconds a sentence"
    bars = alt.Chart(pd.DataFrame(times, columns=["rung", column]), width=200)
    bars = bars.properties(height=190).mark_bar(color="#0072b2", height=10)
    bars = bars.encode(alt.X(column), y)
    title = "What each rung bought, and what it took"
    return alt.hconcat(lines, bars).properties(title=title)


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
            search = {"i": i, "size": size}
            ended = _finished(tree, size)
            best = [
                max(ended, key=lambda c: length_normalized(c[1], len(c[0]) - 1, alpha))
                for alpha in _PENALTIES
            ]
            outputs += [
                {**search, "text": " ".join(words(ids[1:-1])), "log_p": round(log_p, 3),
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
                        **search, "step": step, "rank": rank, "fate": fate,
                        "parent": ranks[tuple(ids[:-1])],
                        "word": words(ids[-1:])[0], "log_p": round(log_p, 2),
                        "wins": "".join("01"[won] for won in on) if any(on) else "",
                        "greedy": ids == greedy[: step + 1],
                    })  # fmt: skip
    sentence = choices(
        "sentence", "sentence", 0, range(len(searches)), labels=list(searches)
    )
    sizes = list(next(iter(searches.values())))
    width = choices("beam", "beam of", beam_size, sizes)
    until = slider("step", "step", steps, 0, steps, 1)
    alpha = slider("alpha", "length penalty α", 0.6, 0, _PENALTIES[-1], 0.2)
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
    position = {
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
            **position, x2="parent", y2="before", stroke=way, strokeWidth=thick
        ),
        tree_.mark_point(shape=box, size=4200, opacity=1, filled=True).encode(
            fates, **position
        ),
        tree_.mark_text(lineBreak="\n", dy=-5, fontSize=11, color="black").encode(
            **position, text="says:N"
        ),
        width=320,
        height=46 * (steps + 1),
        title=live_title(
            "'The best six candidates, with a beam of ' + beam",
            subtitle="green: to the best output; orange: greedy; dark: both",
        ),
    )
    listed = (
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
    texts = listed.mark_text(align="left", fontSize=12, limit=265).encode(
        text="text:N", color=first, x=alt.value(44)
    )
    scores = listed.mark_text(align="right", fontSize=12, fontWeight="bold").encode(
        text=alt.Text("score:Q", format=".2f"), color=first, x=alt.value(38)
    )
    outputs_chart = alt.layer(
        texts,
        scores,
        width=330,
        height=100,
        view=alt.ViewBackground(stroke=None),
        title=live_title(
            "'The best outputs, by score with α = ' + format(alpha, '.1f')"
        ),
    )
    on_a_path = tree_.transform_filter("datum.path != 'neither'").encode(
        alt.X("step:Q", title="step")
        .scale(domain=(0.5, steps + 0.5), nice=False)
        .axis(values=list(range(1, steps + 1)), grid=False),
        alt.Y("log_p:Q", title="summed log-probability").scale(padding=25),
    )
    lines = [
        on_a_path.transform_filter(which).mark_line(
            color=color, strokeWidth=3, point={"color": color}
        )
        for which, color in (
            ("datum.greedy", ORANGE),
            ("datum.wins", GREEN),
            ("datum.path == 'both'", "#444444"),
        )
    ]
    middle = on_a_path.transform_joinaggregate(
        middle="mean(log_p)", groupby=["step"]
    ).encode(text="word:N")
    words_on = [
        middle.transform_filter(f"datum.log_p {side} datum.middle").mark_text(
            dy=dy, fontSize=12, color="black"
        )
        for side, dy in ((">=", -13), ("<", 15))
    ]
    race = alt.layer(
        *lines,
        *words_on,
        width=330,
        height=46 * (steps + 1) - 190,
        title="The best output and the greedy one, word by word",
    )
    return alt.hconcat(
        tree_chart,
        alt.vconcat(outputs_chart, race),
        spacing=20,
        description="The candidates of each step of a beam search, best on the left, "
        "its outputs, and the log-probabilities of the best output and the greedy one, "
        "word by word. Sentence, beam, step and length penalty can be chosen.",
    ).add_params(sentence, width, until, alpha)
