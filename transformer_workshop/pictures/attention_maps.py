"""How are attention maps drawn: chapter 5's, the explorer, the page of `attend`?"""

from __future__ import annotations

import html
import json
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from annotated_transformer import (
    KINDS,
    SPECIALS,
    START,
    BytePairEncoding,
    DataError,
    EncoderDecoder,
    Recording,
    optional_import,
    record,
)
from transformer_workshop.base.files import log, write_atomically
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.pictures import CHART_COLORS, theme
from transformer_workshop.text.spelling import tidied

if TYPE_CHECKING:
    import altair


def _record(recording: Recording) -> dict[str, Any]:
    """Return a recording as one record of a chart's data: its maps as texts.

    A text has the map's weights in thousandths, row by row. Raises ValueError if
    there are more labels than rows or columns.
    """
    rows, columns, weights = recording.rows, recording.columns, recording.weights
    if weights.size(-2) < len(rows) or weights.size(-1) < len(columns):
        labels = f"{len(rows)} row and {len(columns)} column labels"
        raise ValueError(f"{labels} do not fit a matrix of {tuple(weights.shape)}")
    shown = weights[..., : len(rows), : len(columns)]
    layers = shown.mul(1000).round().int().flatten(2).tolist()
    return {
        "kind": recording.kind,
        "sentence": recording.sentence,
        "rows": rows,
        "columns": columns,
        "layers": [[" ".join(map(str, head)) for head in layer] for layer in layers],
    }


def _by_cell(chart: Any) -> Any:
    """Let a chart split the ``map`` of its records into one record per cell."""
    cells = "sequence(length(datum.rows) * length(datum.columns))"
    chart = chart.transform_calculate(weight="split(datum.map, ' ')", cell=cells)
    return chart.transform_flatten(["weight", "cell"]).transform_calculate(
        value="datum.weight / 1000",
        row="floor(datum.cell / length(datum.columns))",
        column="datum.cell % length(datum.columns)",
        row_token="datum.rows[datum.row]",
        col_token="datum.columns[datum.column]",
    )


def _tooltip() -> list[altair.Tooltip]:
    """Return what a cell says when one points at it."""
    alt = optional_import("altair")
    return [
        alt.Tooltip("row_token:N", title="query"),
        alt.Tooltip("col_token:N", title="key"),
        alt.Tooltip("value:Q", title="weight", format=".3f"),
    ]


def _weight_color() -> altair.Color:
    """Return the color of a weight, on the same scale in all charts."""
    alt = optional_import("altair")
    return alt.Color("value:Q", title="weight").scale(domain=(0, 1))


def attention_grid(
    recording: Recording, layer: int, heads: Sequence[int] | None = None
) -> altair.FacetChart:
    """Draw heads of one layer of a recording as heat maps, at most four in a row.

    Draws all heads, or those given, in the order given: the fewer, the larger.
    """
    alt = optional_import("altair")
    record, says = _record(recording), f"{recording.kind}, layer {layer}"
    maps = record.pop("layers")[layer]
    shown = range(len(maps)) if heads is None else heads
    names = [f"head {head}" for head in shown]
    panels = [record | {"head": f"head {head}", "map": maps[head]} for head in shown]
    columns = min(4, len(panels))
    longest = max(len(recording.rows), len(recording.columns))
    step = max(3, min(16, 520 // columns // longest))

    def axis(tokens: list[str], **options: Any) -> altair.Axis | None:
        label = f"{json.dumps(tokens)}[datum.value]"
        options |= {"labelExpr": label, "labelFontSize": min(12, step), "title": None}
        options |= {"labelOverlap": False, "labelBaseline": "middle", "ticks": False}
        return alt.Axis(**options) if step >= 8 else None  # no room for words

    below = {"labelAngle": -90, "labelAlign": "right"}  # slanted, the last ones touch
    squares = alt.Chart(width=alt.Step(step), height=alt.Step(step)).mark_rect()
    chart = squares.encode(
        x=alt.X("column:O", axis=axis(recording.columns, **below)),
        y=alt.Y("row:O", axis=axis(recording.rows)),
        color=_weight_color(),
        tooltip=_tooltip(),
    ).facet(
        alt.Facet("head:N", title=None, sort=names),
        data=alt.Data(values=panels),
        columns=columns,
        spacing=8,
        title=says,
        description=f"{says}: a heat map for each head. {recording.sentence}",
    )
    return _by_cell(chart).resolve_axis(x="independent")


def head_squares(
    panels: dict[str, Tensor], title: str, what: str, form: str = ".2f",
    columns: int = 3,
) -> altair.FacetChart:  # fmt: skip
    """Draw a number for each head: layers down, heads across, some panels in a row.

    Each panel is a tensor (N, h).
    """
    alt = optional_import("altair")
    table = [
        {"panel": name, "layer": layer, "head": head, "value": value}
        for name, panel in panels.items()
        for layer, row in enumerate(panel.tolist())
        for head, value in enumerate(row)
    ]
    largest = max(record["value"] for record in table)
    scale = alt.Scale(domain=(0, largest), clamp=True)
    dark = alt.datum.value > 0.7 * largest
    ink = alt.condition(dark, alt.value("white"), alt.value("black"))
    heads = alt.Chart(width=alt.Step(27), height=alt.Step(24)).encode(
        x=alt.X("head:O", title="head").axis(labelAngle=0),
        y=alt.Y("layer:O", title="layer"),
    )
    squares = heads.mark_rect().encode(alt.Color("value:Q", title=what, scale=scale))
    numbers = alt.Text("value:Q", format=form)
    numbers = heads.mark_text(fontSize=11).encode(text=numbers, color=ink)
    return alt.layer(squares, numbers, data=alt.Data(values=table)).facet(
        alt.Facet("panel:N", title=None, sort=list(panels)),
        columns=columns,
        title=title,
    )


def _described(weights: Tensor, rows: list[str], columns: list[str]) -> str:
    """Describe a map (L, S) in words: the largest weight in each row."""
    most = weights[: len(rows), : len(columns)].max(-1)
    largest = zip(rows, most.indices.tolist(), most.values.tolist(), strict=True)
    return "Attention weights, largest in each row: " + ", ".join(
        f"{row} to {columns[column]} {value:.0%}" for row, column, value in largest
    )


def _with_choices(
    views: list, recorded: tuple[Recording, ...], layer: int, head: int
) -> altair.LayerChart:
    """Overlay views of the cells of one map, which readers choose from four lists."""
    alt = optional_import("altair")

    def choice(name: str, first: Any, options: Iterable, **labels: Any) -> Any:
        options = list(dict.fromkeys(options))
        if len(options) < 2:
            return alt.param(name=name, value=first)
        bind = alt.binding_select(options=options, name=f"{name} ", **labels)
        return alt.param(name=name, value=first, bind=bind)

    first = recorded[0]
    N, H = (max(r.weights.size(axis) for r in recorded) for axis in (0, 1))
    shown = first.weights[layer].mean(0) if head < 0 else first.weights[layer, head]
    which = "mean over heads" if head < 0 else f"head {head}"
    says = f"{first.kind}, layer {layer}, {which}. "
    named = "Head < 0 ? 'mean over heads' : 'head ' + Head"
    title = alt.ExprRef(f"Kind + ', layer ' + Layer + ', ' + ({named})")
    names = ["mean", *map(str, range(H))]
    chart = alt.layer(
        *views,
        data=alt.Data(values=[_record(r) for r in recorded]),
        description=says + _described(shown, first.rows, first.columns),
        view=alt.ViewBackground(stroke=None),
        title=alt.Title(title, offset=12),
    ).add_params(
        choice("Kind", first.kind, (r.kind for r in recorded)),
        choice("Sentence", first.sentence, (r.sentence for r in recorded)),
        choice("Layer", layer, range(N)),
        choice("Head", head, range(-1, H), labels=names),
    )
    there = "Layer < length(datum.layers) && Head < length(datum.layers[Layer])"
    chart = chart.transform_filter("datum.kind == Kind && datum.sentence == Sentence")
    chart = chart.transform_filter(there)
    maps = "Head < 0 ? datum.layers[Layer] : [datum.layers[Layer][Head]]"
    chart = _by_cell(chart.transform_calculate(map=maps).transform_flatten(["map"]))
    cell = ["row", "column", "row_token", "col_token"]
    return chart.transform_aggregate(value="mean(value)", groupby=cell)


# Without a pointer on a word, both are true for every cell.
_POINTED = [{"param": "row_pointed"}, {"param": "column_pointed"}]


def _words(side: str, size: int, mark: dict, **channels: Any) -> altair.Chart:
    """Draw the tokens of the rows or columns; pointing at one selects its cells.

    ``side`` is row or column. Each token is drawn once, from its first cell.
    """
    alt = optional_import("altair")
    on, clear = (f"@{side}_words_marks:pointer{way}" for way in ("over", "out"))
    selection = {"name": f"{side}_pointed", "fields": [side], "on": on, "clear": clear}
    token, other = ("row_token", "column") if side == "row" else ("col_token", "row")
    chart = alt.Chart(name=f"{side}_words").transform_filter(f"datum.{other} == 0")
    words = chart.mark_text(baseline="middle", limit=160, fontSize=size, **mark)
    words = words.encode(text=f"{token}:N", **channels)
    return words.add_params(alt.selection_point(**selection))


def explorer(*recorded: Recording, layer: int = 0, head: int = -1) -> altair.LayerChart:
    """Draw a heat map of the chosen recording, layer and head (-1: their mean).

    Pointing at a token shows only its row or column, with weights in percent.
    """
    alt = optional_import("altair")
    step = max(10, min(26, 560 // max(max(r.weights.shape[2:]) for r in recorded)))
    x, y = alt.X("column:O", axis=None), alt.Y("row:O", axis=None)
    channels, size = {"x": x, "y": y, "tooltip": _tooltip()}, min(12, step)
    lit = alt.condition({"test": {"and": _POINTED}}, alt.value(1), alt.value(0.12))
    squares = alt.Chart(width=alt.Step(step), height=alt.Step(step)).mark_rect()
    pointing = {"or": [pointed | {"empty": False} for pointed in _POINTED]}
    ink = alt.condition("datum.value > 0.5", alt.value("white"), alt.value("black"))
    percentages = alt.Chart().transform_filter({"and": [pointing, *_POINTED]})
    percentages = percentages.transform_calculate(percent="round(100 * datum.value)")
    percentages = percentages.mark_text(fontSize=0.45 * step)
    views = [
        squares.encode(color=_weight_color(), opacity=lit, **channels),
        percentages.encode(text="percent:Q", color=ink, **channels),
        _words("row", size, {"align": "right"}, y=y, x=alt.value(-6)),
        _words("column", size, {"align": "left", "angle": 300}, x=x, y=alt.value(-8)),
    ]
    return _with_choices(views, recorded, layer, head)


def sentence_pair(
    *recorded: Recording, layer: int = 0, head: int = -1
) -> altair.LayerChart:
    """Draw the map chosen as in ``explorer`` as lines from queries to keys.

    Each query gets one line, to the key with the largest weight; the larger the
    weight, the thicker the line. Weights below 0.05 get no line. Pointing at a
    token fades all lines but its own.
    """
    alt = optional_import("altair")
    longest, wide = max(max(r.weights.shape[2:]) for r in recorded), 260
    step = max(14, min(24, 700 // longest))
    down = alt.Scale(domain=(-0.5, longest - 0.5), nice=False, zero=False, reverse=True)
    asking = alt.Y("row:Q", scale=down, axis=None)
    asked = alt.Y("column:Q", scale=down, axis=None)
    thick = alt.StrokeWidth("value:Q", legend=None).scale(domain=(0, 1), range=(0, 9))
    lit = alt.condition({"test": {"and": _POINTED}}, alt.value(0.6), alt.value(0.04))
    lines = alt.Chart(width=wide, height=step * longest)
    lines = lines.transform_joinaggregate(largest="max(value)", groupby=["row"])
    seen = "datum.value == datum.largest && datum.value >= 0.05"
    lines = lines.transform_filter(seen)
    lines = lines.mark_rule(color=CHART_COLORS[0], strokeCap="round").encode(
        x=alt.value(0), x2=alt.value(wide), y=asking, y2="column:Q",
        strokeWidth=thick, opacity=lit, tooltip=_tooltip(),
    )  # fmt: skip
    left = _words("row", 12, {"align": "right"}, y=asking, x=alt.value(-8))
    right = _words("column", 12, {"align": "left"}, y=asked, x=alt.value(wide + 8))
    return _with_choices([lines, left, right], recorded, layer, head)


_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>$title</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; font-family: sans-serif }
body { margin: 1.5rem }
.chart { background: white; color: black; color-scheme: light; display: block;
 width: fit-content; max-width: 100%; overflow-x: auto; margin: 1rem 0; padding: 8px }
.vega-bind { display: inline-block; margin-right: 1rem }
</style>
<h1>$title</h1>
$body
<script>$program</script>
<script>
const draw = (spec, i) => vegaEmbed("#chart" + i, spec,
  {renderer: "svg", actions: {export: true, source: false, compiled: false,
   editor: false}});
const drawn = Promise.all($charts.map(draw)).then(all => all.map(one => one.view));
</script>
</html>
""")


def attention_page(title: str, lines: list[str], charts: list) -> str:
    """Return a web page with lines of text and charts that needs no network."""
    bundle = optional_import("vl_convert").javascript_bundle()
    parts = [f"<p>{html.escape(line)}</p>" for line in lines]
    parts += [f'<div class="chart" id="chart{i}"></div>' for i in range(len(charts))]
    drawn = [chart.to_dict() | theme() for chart in charts]
    return _PAGE.substitute(
        title=html.escape(title),
        body="\n".join(parts),
        program="(() => {" + bundle.replace("</script", "<\\/script") + "})();",
        charts=json.dumps(drawn, ensure_ascii=False).replace("<", "\\u003c"),
    )


def readable(tokens: list[str], tokenizer: Any) -> list[str]:
    """Return labels: words as they are, subwords as text, with ``+`` inside a word."""
    subwords = isinstance(tokenizer, BytePairEncoding)
    labels: list[str] = []
    for i, token in enumerate(tokens):
        text = tokenizer.tokenizer.decoder.decode([token]) if subwords else token
        shown = "".join(c if c.isprintable() else "␣" for c in text.strip()) or "␣"
        inside = text[:1].isalnum() or text[:1] == "\ufffd"  # part of a letter's bytes
        begins = i == 0 or not {token, tokens[i - 1]}.isdisjoint(SPECIALS)
        labels.append("+" * (subwords and inside and not begins) + shown)
    return labels


@dataclass
class Explanation:
    """Greedy translations of sentences, and the attention behind them."""

    sentences: list[str]
    translations: list[str]
    recordings: list[Recording]

    def charts(self) -> list[altair.LayerChart]:
        """Return the explorer, cross-attention first, and the chart of lines."""
        order = sorted(self.recordings, key=lambda r: -KINDS.index(r.kind))
        cross = [r for r in order if r.kind == KINDS[-1]]
        sharpness = cross[0].weights.amax(-1).mean(-1)  # (N, h)
        layer, head = divmod(int(sharpness.argmax()), sharpness.size(1))
        first = {"layer": layer, "head": head}
        return [explorer(*order, **first), sentence_pair(*cross, **first)]

    def save(self, path: str | Path) -> None:
        """Write both charts as a page that opens in any browser, offline."""
        pairs = zip(self.sentences, self.translations, strict=True)
        lines = [" → ".join(pair) for pair in pairs]
        page = attention_page("What the model looks at", lines, self.charts())
        write_atomically(path, page.encode())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.charts()[0]._repr_mimebundle_(include, exclude)


def explain(translator: Translator | str | Path, *sentences: str) -> Explanation:
    """Translate sentences greedily and keep the model's attention.

    A note says which translations not to rely on (see ``calibrate``).
    Takes a translator or its folder. Raises DataError for a blank sentence, and
    TypeError for a model without its vocabularies.
    """
    if isinstance(translator, EncoderDecoder):
        raise TypeError("a model knows no words: give the Translator it belongs to")
    if not isinstance(translator, Translator):
        translator = load_translator(translator)
    explanation = Explanation(list(sentences), [], [])
    for number, sentence in enumerate(sentences, 1):
        if not tidied(sentence):
            raise DataError("sentence", "is blank", "Give one with words.")
        ids = translator.encode(sentence)
        [(words, confidence)] = translator.decode([ids], 1, 1.0)  # greedily
        if doubt := translator.doubt(confidence, translator.fault(ids, words)):
            log(f"sentence {number}: {doubt}")
        src = torch.tensor([ids], device=translator.device)
        tgt = torch.tensor([[START, *words]], device=translator.device)
        _, maps = record(translator.model, src, tgt)
        text = translator.text
        explanation.translations.append(text.decode(words))
        source = readable(text.vocab_src.tokens(ids), text.tokenizer_src)
        read = readable(text.vocab_tgt.tokens([START, *words]), text.tokenizer_tgt)
        for kind, rows, columns in zip(
            KINDS, (source, read, read), (source, read, source), strict=True
        ):
            weights = maps[kind][:, 0]
            recording = Recording(kind, sentence, rows, columns, weights)
            explanation.recordings.append(recording)
    return explanation
