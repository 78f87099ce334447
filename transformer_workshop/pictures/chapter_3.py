"""How are the charts of chapter 3 drawn? Each is one call."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
from transformer_workshop.pictures.controls import BLUE

if TYPE_CHECKING:
    import altair


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
                    bar = {"way": way, "row": row, "end": row + 0.8}
                    bars.append(bar | {"from": start, "to": stop, "positions": kind})
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


def learning_curves(history: Sequence[dict[str, float]]) -> altair.HConcatChart:
    """Draw what ``train`` returns: two losses in two panels, a ring around the best.

    Columns: updates, and the losses train and valid in nats per token.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    best = min(history, key=lambda record: record["valid"])["updates"]
    panels = []
    for name, title in (
        ("train", "training loss, with label smoothing"),
        ("valid", "validation NLL"),
    ):
        base = alt.Chart(pd.DataFrame(history), width=260, height=200)
        base = base.encode(
            alt.X("updates:Q").axis(tickCount=5).scale(domainMin=0),
            alt.Y(f"{name}:Q", title="nats per token").scale(domainMin=0),
        )
        layers = [base.mark_line(point=True, color="#0072b2")]
        if name == "valid":
            ring = base.mark_point(size=180, color="#d55e00", strokeWidth=2, opacity=1)
            layers.append(ring.transform_filter(f"datum.updates == {best}"))
        plain = alt.TitleParams(title, fontWeight="normal", fontSize=13)
        panels.append(alt.layer(*layers, title=plain))
    return alt.hconcat(*panels).properties(
        title=f"The validation NLL is lowest after {best:,.0f} updates"
    )


def ngram_chart(
    translation: Sequence[str], reference: Sequence[str]
) -> altair.LayerChart:
    """Draw a translation's n-grams, in blue those that count as matches in BLEU.

    Columns: n, from, to, top, end, n-gram, matched. Each bar spans the words of an
    n-gram; an n-gram matches at most as often as the reference has it. A click on one
    shows where its words stand in the reference, which is the last row.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    bars, labels, found, top = [], [], [], 1.8
    for n in range(1, min(4, len(translation)) + 1):
        runs, theirs = (
            [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
            for words in (translation, reference)
        )
        left, hits = Counter(theirs), 0
        for i, run in enumerate(runs):
            hits += (hit := left[run] > 0)
            left[run] -= 1
            bars.append({
                "n": n, "from": i + 0.08, "to": i + n - 0.08, "n-gram": " ".join(run),
                "top": top + i % n, "end": top + i % n + 0.8,
                "matched": "in the reference" if hit else "not in the reference",
            })  # fmt: skip
        labels.append({"words": f"n = {n}: {hits} of {len(runs)}", "y": top + n / 2})
        found += [
            {"n-gram": " ".join(run), "place": at + i + 0.5, "word": word}
            for at, run in enumerate(theirs)
            if run in runs
            for i, word in enumerate(run)
        ]
        top += n + 0.8

    longest = max(len(translation), len(reference))
    x = alt.Scale(domain=[0, longest], nice=False)
    y = alt.Scale(domain=[0, top + 1.2], nice=False, reverse=True)
    clicked = alt.selection_point("ngram", fields=["n-gram"], on="click", empty=False)

    def line(words: list[dict[str, Any]], row: float, **mark: Any) -> altair.Chart:
        chart = alt.Chart(pd.DataFrame(words)).transform_calculate(row=str(row))
        return chart.mark_text(**mark).encode(
            alt.X("place:Q", scale=x, axis=None),
            alt.Y("row:Q", scale=y, axis=None),
            text="word:N",
        )

    sentences = [
        [{"place": i + 0.5, "word": word} for i, word in enumerate(words)]
        for words in (translation, reference)
    ]
    there = line(found or [{"n-gram": ""}], top + 0.5, fontWeight="bold", color=BLUE)
    names = alt.Chart(pd.DataFrame(labels)).mark_text(align="right")
    bar = alt.Chart(pd.DataFrame(bars)).mark_rect(cursor="pointer", stroke="black")
    colors = {"in the reference": BLUE, "not in the reference": "#d0d0d0"}
    return alt.layer(
        line(sentences[0], 0.7),
        line(sentences[1], top + 0.5, color="#888888"),
        there.transform_filter(clicked),
        names.encode(x=alt.value(-8), y=alt.Y("y:Q", scale=y), text="words:N"),
        bar.encode(
            alt.X("from:Q", scale=x, axis=None),
            alt.X2("to"),
            alt.Y("top:Q", scale=y),
            alt.Y2("end"),
            alt.Color("matched:N", title=None, sort=list(colors))
            .scale(domain=list(colors), range=list(colors.values()))
            .legend(orient="bottom", symbolStrokeWidth=0),
            alt.Tooltip("n-gram:N"),
            strokeWidth=alt.condition(clicked, alt.value(2), alt.value(0)),
        ).add_params(clicked),
        width=46 * longest,
        height=15 * (top + 1.2),
        title=alt.Title(
            "A wrong word breaks every n-gram that contains it",
            subtitle="Click one, and see where the reference (last row) has it",
        ),
    ).configure_view(stroke=None)


def repair_chart(runs: Sequence[dict[str, Any]]) -> altair.Chart:
    """Draw what becomes of the minimal pairs before and after fine-tuning.

    Columns: kind (a panel), run, outcome, share. ``runs`` are those of
    results/repair.json: the model as it was, and three of each training.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    colors = {
        "right": "#0072b2", "roles swapped": "#d55e00", "said twice": "#e6ab02",
        "another fault": "#d0d0d0",
    }  # fmt: skip
    names = {
        "before": "before", "usual": "control", "place": "places only",
        "changed": "fine-tuned",
    }  # fmt: skip
    order = [*names]
    bars: list[dict[str, object]] = []
    rows: list[str] = []
    for run in sorted(runs, key=lambda run: order.index(run["trained on"])):
        how = run["trained on"]
        row = f"{names[how]}, seed {run['seed']}" if how != "before" else "before"
        rows.append(row)
        for kind, outcomes in run["outcomes"].items():
            start, total = 0.0, sum(outcomes.values())
            for outcome in colors:
                end = start + outcomes.get(outcome, 0) / total
                bars.append({
                    "kind": kind, "run": row, "outcome": outcome, "from": start,
                    "to": end, "sentences": outcomes.get(outcome, 0),
                })  # fmt: skip
                start = end
    kinds = ["usual order", "place first", "object first", "negated"]
    title = "With the place in front, fine-tuning mends most; the control, nothing"
    return (
        alt.Chart(pd.DataFrame(bars), width=130, height=200, title=title)
        .mark_bar()
        .encode(
            alt.X("from:Q", title="share of sentences").axis(
                format="%", values=[0, 0.5, 1]
            ),
            alt.X2("to"),
            alt.Y("run:N", title=None, sort=rows),
            alt.Color("outcome:N", title=None)
            .scale(domain=[*colors], range=[*colors.values()])
            .legend(orient="top"),
            alt.Column("kind:N", title=None, sort=kinds),
            tooltip=["run", "kind", "outcome", "sentences"],
        )
    )


def lost_words_chart(
    source: Sequence[str],
    output: Sequence[str],
    reference: Sequence[str],
    alignment: Sequence[tuple[int, int]],
) -> altair.LayerChart:
    """Draw a source above its translation, with lines between what belongs together.

    Columns: x, y, word, color. ``alignment`` has places of the source with those of the
    reference; a source word is orange if no word that the reference has for it is in
    the output.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")

    def middles(words: Sequence[str]) -> list[float]:
        ends = list(itertools.accumulate(len(word) + 1.5 for word in words))
        return [end - (len(word) + 1.5) / 2 for end, word in zip(ends, words)]

    above, below = middles(source), middles(output)
    wide = max(above[-1] + len(source[-1]), below[-1] + len(output[-1]))
    places: dict[str, list[int]] = {}
    for at, word in enumerate(output):
        places.setdefault(word, []).append(at)
    # the first "a" of the reference is the first "a" of the output, and so on
    said = [places[word].pop(0) if places.get(word) else None for word in reference]
    lines: list[dict[str, object]] = []
    for i, j in alignment:
        if (place := said[j]) is not None:
            lines.append({"x": above[i], "y": 0.86, "x2": below[place], "y2": 0.14})
    aligned = {i for i, _ in alignment}
    kept = {i for i, j in alignment if said[j] is not None}
    words: list[dict[str, object]] = []
    for i, word in enumerate(source):
        color = "#d55e00" if i in aligned - kept else "#0072b2"
        words.append({"x": above[i], "y": 1, "word": word, "color": color})
    for at, word in enumerate(output):
        words.append({"x": below[at], "y": 0, "word": word, "color": "#777777"})
    across = alt.X("x:Q").axis(None).scale(domain=[0, wide], nice=False)
    down = alt.Y("y:Q").axis(None).scale(domain=[-0.15, 1.15])
    base = alt.Chart(pd.DataFrame(lines), width=680, height=110)
    rules = base.mark_rule(color="#b0b0b0").encode(across, down, x2="x2", y2="y2")
    texts = (
        alt.Chart(pd.DataFrame(words))
        .mark_text(fontSize=12)
        .encode(across, down, text="word", color=alt.Color("color:N", scale=None))
    )
    title = "Orange: what the reference has for it isn't in the translation"
    return alt.layer(rules, texts, title=title).configure_view(stroke=None)
