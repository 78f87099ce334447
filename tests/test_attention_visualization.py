"""Chapter 5: the theme, recordings, and charts with the right numbers in place."""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import json
import re
import sys

import altair as alt
import numpy as np
import pytest
import torch
import vl_convert
from PIL import Image

import annotated_transformer as at
from transformer_workshop.charts import _described, _record, _with_palette

SENTENCES = ["Ein Hund läuft.", "A dog runs.", "Eine Katze schläft dort."]
SPLITS = ("valid", "test")
GETTERS = {
    "encoder": at.get_encoder,
    "decoder_self": at.get_decoder_self,
    "decoder_src": at.get_decoder_src,
}


def record(translator: at.Translator, sentence: str) -> tuple[list[str], list[str]]:
    most = translator.config.max_tokens
    return at.record_translation(translator.model, translator.text, sentence, most)


@pytest.fixture(autouse=True)
def charts():
    at.use_charts()


@pytest.fixture
def translator() -> at.Translator:
    return some_translator()


def some_translator(N=2, h=4, seed=0) -> at.Translator:
    """Return an untrained subword translator whose decisions are not too close."""
    torch.manual_seed(seed)
    bpe = at.BytePairEncoding.train(SENTENCES, 280)
    vocab = at.Vocabulary(bpe.get_itos())
    model = at.make_model(len(vocab), len(vocab), N, 32, 64, h, dropout=0.3).eval()
    for p in model.parameters():
        p.data += 0.2 * torch.randn_like(p)
    config = at.TrainingConfig(max_tokens=24, bpe_size=280, N=N, d_model=32, h=h)
    return at.Translator(model, at.Text(vocab, vocab, bpe, bpe), config)


# --- the look of all charts --------------------------------------------------


def stored(chart) -> dict:
    bundle = chart._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def dot() -> alt.Chart:
    return alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q")


def test_a_chart_stores_a_specification_and_a_picture():
    bundle = stored(dot())
    assert set(bundle) == {
        "application/vnd.vegalite.v5+json",
        "image/png",
        "text/plain",
    }
    png = base64.b64decode(bundle["image/png"])
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and png[-8:-4] == b"IEND"
    config = bundle["application/vnd.vegalite.v5+json"]["config"]
    assert config["background"] == "white"
    assert config["range"]["category"] == at.CHART_COLORS


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def test_a_palette_keeps_every_pixel_of_a_chart_of_few_colors():
    before = vl_convert.vegalite_to_png(dot().to_dict())
    after = _with_palette(before)
    assert len(after) < len(before) / 2
    assert (pixels(after) == pixels(before)).all()


def test_a_palette_of_many_colors_is_off_by_less_than_the_eye_sees():
    """Draw a heat map of 900 values; colors are off by at most 12 out of 255."""
    torch.manual_seed(0)
    weights = torch.rand(1, 1, 30, 30)
    tokens = [str(i) for i in range(30)]
    before = vl_convert.vegalite_to_png(
        at.attn_map(weights, 0, 0, tokens, tokens).to_dict()
    )
    colors = len(np.unique(pixels(before).reshape(-1, 3), axis=0))
    off = np.abs(pixels(_with_palette(before)) - pixels(before))
    assert colors > 256 and 0 < off.max() <= 12


def test_a_chart_is_stored_without_the_picture_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert set(stored(dot())) == {"application/vnd.vegalite.v5+json", "text/plain"}


def test_without_altair_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match="pip install .*altair"):
        at.use_charts()


# --- recordings --------------------------------------------------------------


def every_recording(model) -> list[torch.Tensor]:
    layers = range(len(model.encoder.layers))
    return [getter(model, i) for getter in GETTERS.values() for i in layers]


@pytest.mark.parametrize("seed", range(4))
def test_labels_are_what_the_model_read(seed):
    translator = some_translator(seed=seed)
    model, vocab = translator.model, translator.text.vocab_tgt
    source, read = record(translator, SENTENCES[0])
    ids = translator.check(SENTENCES[0])
    assert source == translator.text.vocab_src.tokens(ids)
    assert source[0] == "<s>" and source[-1] == "</s>"
    mask = torch.ones(1, 1, len(ids))
    written = at.greedy_decode(model, torch.tensor([ids]), mask, 24, 0, end_symbol=1)
    assert read == vocab.tokens(written[0].tolist())[:-1]
    assert "</s>" not in read and read[0] == "<s>"
    S, T = len(source), len(read)
    for i in range(2):
        assert at.get_encoder(model, i).shape == (1, 4, S, S)
        assert at.get_decoder_self(model, i).shape == (1, 4, T, T)
        assert at.get_decoder_src(model, i).shape == (1, 4, T, S)


def test_an_output_that_ends_is_cut_before_its_end(translator):
    """Make every output end after the start symbol, by the generator's bias."""
    translator.model.generator.proj.bias.data[at.END] = 1e4
    _, read = record(translator, SENTENCES[0])
    assert read == ["<s>"]
    assert at.get_decoder_src(translator.model, 0).size(2) == 1


def test_recordings_are_distributions_and_repeat_in_training_mode(translator):
    model = translator.model
    record(translator, SENTENCES[0])
    first = every_recording(model)
    for weights in first:
        assert torch.allclose(weights.sum(-1), torch.ones(1), atol=1e-5)
        assert (weights >= 0).all() and not weights.requires_grad
    for i in range(2):
        assert at.get_decoder_self(model, i).triu(1).count_nonzero() == 0
    model.train()  # dropout is 0.3, so a recording made with it would differ
    record(translator, SENTENCES[0])
    assert model.training
    for before, after in zip(first, every_recording(model), strict=True):
        assert torch.equal(before, after)


def test_masked_keys_get_no_weight(translator):
    model = translator.model
    long, short = (translator.check(text) for text in (SENTENCES[2], SENTENCES[1]))
    assert len(long) > len(short)
    src = torch.tensor([long, short + [at.PAD] * (len(long) - len(short))])
    with at.plain_attention(model):
        mask = (src != at.PAD).unsqueeze(1)
        at.greedy_decode(model, src, mask, 8, at.START, end_symbol=at.END)
    for i in range(2):
        for weights in (at.get_encoder(model, i), at.get_decoder_src(model, i)):
            assert weights[1, :, :, len(short) :].count_nonzero() == 0
            assert weights[0, :, :, len(short) :].count_nonzero() > 0


@pytest.mark.parametrize("getter", GETTERS.values(), ids=GETTERS)
def test_without_a_recording_the_missing_line_is_named(getter):
    model = some_translator().model
    with pytest.raises(ValueError, match="with plain_attention"):
        getter(model, 0)


def plant(model) -> None:
    """Plant a different single large weight in each kind, layer, and head."""
    for i, layer in enumerate([*model.encoder.layers, *model.decoder.layers]):
        for k, name in enumerate(("self_attn", "src_attn")):
            if hasattr(layer, name):
                attention = getattr(layer, name)
                attention.attn = torch.zeros(1, attention.h, 6, 6)
                for head in range(attention.h):
                    attention.attn[0, head, (i + k) % 6, head % 6] = 0.5 + 0.01 * i


@pytest.mark.parametrize("getter", GETTERS.values(), ids=GETTERS)
def test_each_getter_takes_its_own_module(getter):
    model = some_translator().model
    plant(model)
    for i in range(2):
        kind = model.encoder if getter is at.get_encoder else model.decoder
        name = "src_attn" if getter is at.get_decoder_src else "self_attn"
        assert getter(model, i) is getattr(kind.layers[i], name).attn
    with pytest.raises(IndexError):
        getter(model, 2)


# --- from a matrix to a chart ------------------------------------------------

ROWS = ["<s>", "a", 'say "hi"', "a", "🐕\\"]
COLUMNS = ["Ein", "Hund", "Ein", "</s>"]


def test_the_table_has_each_cell_at_its_place():
    matrix = torch.arange(20.0).view(5, 4)
    table = at.mtx2df(matrix, 9, 9, ROWS, COLUMNS)
    assert list(table.columns) == ["row", "column", "value", "row_token", "col_token"]
    assert len(table) == 20
    for cell in table.itertuples():
        assert cell.value == matrix[cell.row, cell.column]
        assert cell.row_token == ROWS[cell.row]
        assert cell.col_token == COLUMNS[cell.column]


def test_the_table_is_cut_to_its_limits_and_to_its_tokens():
    matrix = torch.arange(20.0).view(5, 4)
    cut = at.mtx2df(matrix, 3, 2, ROWS, COLUMNS)
    assert (cut.row.max(), cut.column.max(), len(cut)) == (2, 1, 6)
    padded = at.mtx2df(matrix, 9, 9, ROWS[:2], COLUMNS[:3])
    assert (padded.row.max(), padded.column.max()) == (1, 2)


@pytest.mark.parametrize("rows, columns", [(5, 3), (4, 4)])
def test_more_labels_than_cells_is_an_error(rows, columns):
    with pytest.raises(ValueError, match="do not fit"):
        at.mtx2df(torch.zeros(rows, columns), 9, 9, ROWS, COLUMNS)


def drawn(chart: alt.TopLevelMixin | dict) -> str:
    """Return a chart, or its specification, as Vega draws it, in SVG."""
    specification = chart if isinstance(chart, dict) else chart.to_dict()
    return vl_convert.vegalite_to_svg(specification)


def texts(svg: str) -> list[str]:
    return [html.unescape(t) for t in re.findall(r"<text[^>]*>([^<]*)<", svg)]


CELL = re.compile(r'<path aria-label="([^"]*)" role="graphics-symbol"[^>]* d="M(.*?)h')


def drawn_cells(chart: alt.TopLevelMixin | dict) -> list[dict]:
    """Return what each rectangle that is drawn says of itself, and where it is."""
    cells = []
    for label, place in CELL.findall(drawn(chart)):
        # weight: 0.5; … row_token: "a"; the tokens may hold anything but "; "
        fields = dict(part.split(": ", 1) for part in html.unescape(label).split("; "))
        if "row" in fields:
            cell = {name: int(fields[name]) for name in ("row", "column")}
            cell |= {name: fields[name] for name in ("row_token", "col_token")}
            x, y = map(float, place.split(","))
            cells.append(cell | {"value": float(fields["value"]), "x": x, "y": y})
    return cells


def matrix(cells: list[dict], rows: list[str], columns: list[str]) -> torch.Tensor:
    """Return drawn cells as (L, S): each of them once, and with the right words."""
    found = torch.full((len(rows), len(columns)), torch.nan)
    for cell in cells:
        row, column = cell["row"], cell["column"]
        assert found[row, column].isnan()
        found[row, column] = cell["value"]
        assert (cell["row_token"], cell["col_token"]) == (rows[row], columns[column])
    return found


def differ(cells: list[dict], recording: at.Recording, weights: torch.Tensor) -> bool:
    """Return whether drawn cells are further from weights than by rounding."""
    found = matrix(cells, recording.rows, recording.columns)
    return not (found - weights).abs().max() < 0.0006  # true for a missing cell, too


def test_a_planted_weight_is_drawn_where_it_belongs():
    attn = torch.zeros(1, 2, 5, 4)
    attn[0, 1, 3, 2] = 0.75
    attn[0, 1, 0, 1] = 0.0004  # less than is drawn
    chart = at.attn_map(attn, 7, 1, ROWS, COLUMNS)
    cells = drawn_cells(chart)
    assert len(cells) == 20
    [cell] = [cell for cell in cells if cell["value"] > 0]
    assert (cell["row"], cell["column"], cell["value"]) == (3, 2, 0.75)
    assert (cell["row_token"], cell["col_token"]) == ("a", "Ein")
    assert cell["y"] == 3 * 20 and cell["x"] == 2 * 20  # rows go down
    assert not matrix(cells, ROWS, COLUMNS).isnan().any()
    for cell in cells:
        assert (cell["x"], cell["y"]) == (20 * cell["column"], 20 * cell["row"])
    other = drawn_cells(at.attn_map(attn, 7, 0, ROWS, COLUMNS))
    assert len(other) == 20 and not any(cell["value"] for cell in other)
    assert chart.to_dict()["encoding"]["color"]["scale"]["domain"] == [0, 1]
    assert chart.title == "layer 7, head 1"


def test_the_axes_show_every_token_also_repeated_and_odd_ones():
    attn = torch.zeros(1, 1, 5, 4)
    svg = drawn(at.attn_map(attn, 0, 0, ROWS, COLUMNS))
    labels = texts(svg)
    for tokens in (ROWS, COLUMNS):
        runs = (labels[i : i + len(tokens)] for i in range(len(labels)))
        assert tokens in runs


def test_long_sentences_are_cut_and_stay_small():
    tokens = [f"token{i}" for i in range(60)]
    attn = torch.rand(1, 1, 60, 60)
    chart = at.attn_map(attn, 0, 0, tokens, tokens)
    assert len(drawn_cells(chart)) == 900
    assert len(json.dumps(chart.to_dict())) < 100_000
    assert chart.to_dict()["width"]["step"] * 30 <= 300
    whole = at.attn_map(attn, 0, 0, tokens, tokens, max_dim=80)
    assert len(drawn_cells(whole)) == 3600
    assert whole.to_dict()["width"]["step"] >= 1


def titled_maps(chart: alt.TopLevelMixin) -> list[tuple[str, list[dict]]]:
    """Return (title, cells) of each map of a composed chart, in order."""
    specification = chart.to_dict()

    def walk(part, data):
        data = part.get("data", data)  # data that several maps share is moved up
        if "mark" in part:
            yield part["title"], specification["datasets"][data["name"]]
        for inner in part.get("vconcat", part.get("concat", [])):
            yield from walk(inner, data)

    return list(walk(specification, None))


@pytest.mark.parametrize("N, h", [(1, 1), (2, 4), (3, 8)])
def test_all_heads_of_a_layer_are_drawn(N, h):
    model = some_translator(N=N, h=h).model
    plant(model)
    tokens = [f"t{i}" for i in range(6)]
    for getter in GETTERS.values():
        for i in range(N):
            maps = titled_maps(at.visualize_layer(model, i, getter, 30, tokens, tokens))
            titles = [title for title, _ in maps]
            assert titles == [f"layer {i}, head {head}" for head in range(h)]
            for (_, cells), weights in zip(maps, getter(model, i)[0], strict=True):
                found = matrix(cells, tokens, tokens)
                assert (found - weights).abs().max() < 0.0006
                assert found.count_nonzero() == 1
    few = titled_maps(at.visualize_layer(model, N - 1, getter, 4, tokens, tokens))
    assert [len(cells) for _, cells in few] == [16] * h


def test_the_three_old_views_show_the_first_test_sentence(monkeypatch, translator):
    folders = []

    def load(folder, optimize):
        assert not optimize  # so that .attn is filled
        folders.append(folder)
        return translator

    names = "transformer_workshop.names_of_2022"
    monkeypatch.setattr(names + ".load_translator", load)
    monkeypatch.setattr(names + ".load_pairs", lambda c, split: [(SENTENCES[2], split)])
    source, read = record(translator, SENTENCES[2])
    views = {
        at.viz_encoder_self: (source, source, at.get_encoder),
        at.viz_decoder_self: (read, read, at.get_decoder_self),
        at.viz_decoder_src: (read, source, at.get_decoder_src),
    }
    places = [(i, head) for i in range(2) for head in range(4)]
    for view, (rows, columns, getter) in views.items():
        maps = titled_maps(view())
        titles = [title for title, _ in maps]
        assert titles == [f"layer {i}, head {head}" for i, head in places]
        for (i, head), (_, cells) in zip(places, maps, strict=True):
            expected = getter(translator.model, i)[0, head]
            found = matrix(cells, rows, columns)
            assert (found - expected).abs().max() < 0.0006
    assert folders == [at.project_folder() / at.CAPTIONS_MODEL] * 3


# --- recordings of all layers and heads --------------------------------------


def planted(N=2, h=3, T=5, S=4, kind="cross-attention", sentence="a b") -> at.Recording:
    """Return a recording in which each layer and head has weights of its own."""
    torch.manual_seed(N * h)
    weights = torch.randn(N, h, T, S).mul(2).softmax(-1)
    return at.Recording(kind, sentence, ROWS[:T], COLUMNS[:S], weights)


def test_recordings_carry_their_own_labels(translator):
    source, read = record(translator, SENTENCES[0])
    found = at.recordings(translator.model, source, read, SENTENCES[0])
    assert [each.kind for each in found] == at.KINDS
    labels = [(each.rows, each.columns) for each in found]
    assert labels == [(source, source), (read, read), (read, source)]
    for each, getter in zip(found, GETTERS.values(), strict=True):
        assert each.sentence == SENTENCES[0]
        for i in range(2):
            assert torch.equal(each.weights[i], getter(translator.model, i)[0])


def test_a_given_translation_is_recorded_as_it_is_written(translator):
    source, read = record(translator, SENTENCES[0])
    first = every_recording(translator.model)
    text = translator.text.tokenizer_tgt.detokenize(read[1:])
    again = at.record_pair(translator.model, translator.text, SENTENCES[0], text)
    if again[1] == read:  # bytes that form no character are not read back
        for a, b in zip(first, every_recording(translator.model), strict=True):
            assert torch.allclose(a, b, atol=1e-5)
    source, read = at.record_pair(translator.model, translator.text, *SENTENCES[:2])
    assert read[0] == "<s>" and "</s>" not in read
    assert translator.text.tokenizer_tgt.detokenize(read[1:]) == SENTENCES[1]
    shape = at.get_decoder_src(translator.model, 1).shape
    assert shape == (1, 4, len(read), len(source))
    assert not at.get_decoder_src(translator.model, 1).requires_grad


@pytest.mark.parametrize("rows, columns", [(4, 5), (6, 4)])
def test_a_recording_with_wrong_labels_is_refused(rows, columns):
    weights = torch.zeros(1, 1, 5, 4)
    labels = [str(i) for i in range(6)]
    with pytest.raises(ValueError, match="do not fit"):
        _record(at.Recording("", "", labels[:rows], labels[:columns], weights))


def test_a_recording_travels_in_thousandths():
    each = planted()
    record = _record(each)
    assert (record["rows"], record["columns"]) == (each.rows, each.columns)
    maps = [[list(map(int, text.split())) for text in row] for row in record["layers"]]
    expected = each.weights.flatten(2).mul(1000)
    assert (torch.tensor(maps) - expected).abs().max() < 0.501


def test_a_map_is_described_in_words():
    weights = torch.tensor([[0.2, 0.8, 0.0], [0.5, 0.1, 0.4]])
    text = _described(weights, ["one", "two"], ["a", "b"])  # the third is padding
    assert text.endswith("one to b 80%, two to a 50%")


# --- the explorer ------------------------------------------------------------


def value_of(specification: dict, name: str, value) -> dict:
    """Make another choice in one of the specification's lists; return it."""
    [param] = [p for p in specification["params"] if p["name"] == name]
    if "bind" in param:
        assert value in param["bind"]["options"]
    param["value"] = value
    return specification


@pytest.mark.parametrize("N, h", [(1, 1), (2, 4), (3, 8)])
def test_each_choice_draws_its_own_map(N, h):
    each = planted(N, h)
    means = each.weights.mean(1)
    specification = at.explorer(each).to_dict()
    assert not differ(drawn_cells(specification), each, means[0])
    for layer in range(N):
        value_of(specification, "Layer", layer)
        for head in range(-1, h):
            value_of(specification, "Head", head)
            weights = means[layer] if head < 0 else each.weights[layer, head]
            assert not differ(drawn_cells(specification), each, weights)


def test_kind_and_sentence_choose_among_recordings():
    kinds, sentences = at.KINDS[:2], ["a", "b"]
    several = [planted(2 - i, 3 - i, 5 - i, 4 - j, kind, sentence)
               for i, kind in enumerate(kinds)
               for j, sentence in enumerate(sentences)]  # fmt: skip
    specification = at.explorer(*several, layer=0, head=1).to_dict()
    for each in several:
        value_of(specification, "Kind", each.kind)
        value_of(specification, "Sentence", each.sentence)
        assert not differ(drawn_cells(specification), each, each.weights[0, 1])
        words = texts(drawn(specification))
        assert f"{each.kind}, layer 0, head 1" in words
        assert set(each.rows) | set(each.columns) <= set(words)
    value_of(specification, "Head", 2)  # which the kind now shown doesn't have
    assert drawn_cells(specification) == []
    value_of(value_of(specification, "Head", 1), "Layer", 1)
    assert drawn_cells(specification) == []


def test_where_nothing_can_be_chosen_there_is_no_list():
    bound = [
        p["name"] for p in at.explorer(planted(1, 1)).to_dict()["params"] if "bind" in p
    ]
    assert bound == ["Head"]  # the head or the mean
    params = at.explorer(planted(2, 3)).to_dict()["params"]
    [head] = [p["bind"] for p in params if p["name"] == "Head"]
    assert head["options"] == [-1, 0, 1, 2] and head["labels"] == ["mean", *"012"]


@pytest.mark.parametrize(
    "layer, head, expected", [(0, -1, "mean"), (1, 2, "layer 1, head 2")]
)
def test_charts_speak(layer, head, expected):
    each = planted()
    weights = each.weights[layer].mean(0) if head < 0 else each.weights[layer, head]
    for draw in (at.explorer, at.sentence_pair):
        text = draw(each, layer=layer, head=head).to_dict()["description"]
        assert _described(weights, each.rows, each.columns) in text
        assert expected in text and each.kind in text
    assert each.kind in at.attention_grid(each, layer).to_dict()["description"]


@pytest.mark.parametrize("sharpness", [0, 1, 4])
def test_six_layers_of_eight_heads_stay_small(sharpness):
    torch.manual_seed(sharpness)
    weights = torch.randn(6, 8, 30, 30).mul(sharpness).softmax(-1)
    tokens = [f"Fußgängerampel{i}" for i in range(30)]
    each = at.Recording(at.KINDS[0], " ".join(tokens), tokens, tokens, weights)
    for chart in (
        at.explorer(each),
        at.sentence_pair(each),
        at.attention_grid(each, 5),
    ):
        text = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert len(text.encode()) <= 150_000


def test_the_grid_holds_every_head_of_its_layer():
    each = planted(2, 3)
    for layer in range(2):
        grid = at.attention_grid(each, layer)
        cells = drawn_cells(grid)
        assert len(cells) == 3 * 20
        for head in range(3):
            some = cells[20 * head : 20 * head + 20]
            assert not differ(some, each, each.weights[layer, head])
        words = texts(drawn(grid))
        names = [word for word in words if word.startswith("head ")]
        assert names == ["head 0", "head 1", "head 2"]
        assert set(each.rows) | set(each.columns) <= set(words)


def test_a_grid_without_room_for_words_has_none():
    tokens = [f"token{i}" for i in range(40)]
    weights = torch.full((1, 2, 40, 40), 1 / 40)
    each = at.Recording(at.KINDS[0], "", tokens, tokens, weights)
    words = texts(drawn(at.attention_grid(each, 0)))
    assert not set(tokens) & set(words) and "head 1" in words


LINE = re.compile(
    r'<line aria-label="([^"]*)" role="graphics-symbol"[^>]*'
    r'transform="translate\(([-\d.]+),([-\d.]+)\)" x2="([-\d.]+)" y2="([-\d.]+)"'
)


def test_lines_join_the_tokens_they_belong_to():
    each = planted(2, 3)
    each.weights[1, 2] = 0.0
    each.weights[1, 2, 3, 1] = 0.75
    each.weights[1, 2, 3, 2] = 0.25  # not the largest of its row
    each.weights[1, 2, 0, 2] = 0.04  # too little for a line
    svg = drawn(at.sentence_pair(each, layer=1, head=2))
    [(label, x, y, across, down)] = LINE.findall(svg)
    assert "0.75" in label and f"row_token: {ROWS[3]}" in html.unescape(label)
    assert f"col_token: {COLUMNS[1]}" in html.unescape(label)
    assert float(across) == 260 and float(down) < 0  # from the fourth to the second
    step = -float(down) / 2
    assert float(y) == pytest.approx(3.5 * step)
    assert [t for t in texts(svg) if t in ROWS] == ROWS + [
        t for t in COLUMNS if t in ROWS
    ]


def test_pytorchs_own_weights_can_be_drawn():
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(1, 4, 8)
    _, weights = module(x, x, x, need_weights=True, average_attn_weights=False)
    cells = drawn_cells(at.attn_map(weights.detach(), 0, 1, COLUMNS, COLUMNS))
    for cell in cells:
        true = weights[0, 1, cell["row"], cell["column"]].item()
        assert cell["value"] == pytest.approx(true, abs=0.0006)


# --- your own sentence -------------------------------------------------------


def test_words_are_their_own_labels():
    de, _ = at.load_tokenizers()
    assert at.readable(["<s>", "Ein", ".", "</s>"], de) == ["<s>", "Ein", ".", "</s>"]
    assert at.readable(["a\x00b"], de) == ["a␣b"]  # which no picture could show


def test_subwords_read_well():
    bpe = at.BytePairEncoding.train(SENTENCES, 280)
    for text in ("Ein Übergrößenträger läuft.", 'say "hi", no\tno', "🐕 </s>"):
        tokens = ["<s>", *bpe.tokenize(text), "</s>"]
        labels = at.readable(tokens, bpe)
        assert len(labels) == len(tokens)
        assert labels[0] == "<s>" and labels[-1] == "</s>"
        assert not any(re.search(r"\s|Ġ|Ã", label) or not label for label in labels)
    labels = at.readable(["<s>", *bpe.tokenize("Ein Eintopf, ein")], bpe)
    assert labels[1] == "Ein" and labels[2] == "Ein" and labels[3].startswith("+")
    assert "," in labels and labels[-1] != "+ein"
    coarse = at.BytePairEncoding.train(["der"], 260)  # an ä is two pieces to it
    assert "".join(at.readable(coarse.tokenize("Bäume"), coarse)).count("+�") == 2


def test_explain_is_the_greedy_translation_with_its_recordings(translator):
    found = at.explain(translator, *SENTENCES[:2])
    assert found.sentences == SENTENCES[:2]
    greedy = [" ".join(t.split()) for t in translator.translate(SENTENCES[:2], 1)]
    ours = [" ".join(t.split()) for t in found.translations]
    assert ours == greedy
    for sentence, each in zip(SENTENCES, found.recordings[2::3], strict=False):
        _, read = record(translator, sentence)  # less the last word of a cut output
        for i in range(2):
            expected = at.get_decoder_src(translator.model, i)[0]
            weights = each.weights[i, :, : len(read)]
            torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-5)
    assert [each.kind for each in found.recordings] == at.KINDS * 2
    bundle = stored(found)
    assert set(bundle) >= {"application/vnd.vegalite.v5+json", "image/png"}
    sentence = next(
        p for p in bundle["application/vnd.vegalite.v5+json"]["params"]
        if p["name"] == "Sentence"
    )  # fmt: skip
    assert sentence["bind"]["options"] == SENTENCES[:2]


def test_explain_records_what_greedy_decoding_attends_to():
    translator = at.load_translator(at.project_folder() / at.CAPTIONS_MODEL, "cpu")
    found = at.explain(translator, SENTENCES[0])
    at.record_translation(translator.model, translator.text, SENTENCES[0])
    getters = (at.get_encoder, at.get_decoder_self, at.get_decoder_src)
    for each, get in zip(found.recordings, getters, strict=True):
        for layer, weights in enumerate(each.weights):
            torch.testing.assert_close(weights, get(translator.model, layer)[0])


def test_an_explanation_opens_at_the_sharpest_head():
    soft, sharp = planted(2, 3, kind=at.KINDS[0]), planted(2, 3)
    sharp.weights[1, 2] = torch.eye(5)[:, :4]
    found = at.Explanation(["a b"], ["c"], [soft, sharp])
    for chart in found.charts():
        params = chart.to_dict()["params"]
        params = {p["name"]: p["value"] for p in params if "value" in p}
        assert (params["Kind"], params["Layer"], params["Head"]) == (at.KINDS[2], 1, 2)


def test_explain_takes_the_folder_of_a_model():
    folder = at.project_folder() / at.CAPTIONS_MODEL
    [text] = at.explain(folder, "Ein Hund läuft.").translations
    assert (
        text == at.load_translator(folder, "cpu").translate(["Ein Hund läuft."], 1)[0]
    )


def test_explain_refuses_in_words(translator):
    with pytest.raises(TypeError, match="Translator"):
        at.explain(translator.model, "Ein Hund.")
    with pytest.raises(at.DataError, match="is blank"):
        at.explain(translator, "Ein Hund.", " ")


# --- alignments --------------------------------------------------------------


def test_links_found_counts_rows_whose_largest_weight_is_on_a_link():
    weights = torch.zeros(3, 4, 5)  # <s> and three words, three words between two
    weights[0, [0, 1, 2], [1, 2, 3]] = 0.9
    weights[1, [0, 1, 2], [1, 4, 0]] = 0.9  # two rows on no word
    weights[2, :, 2] = 0.9
    weights[:, 3, 1] = 1.0  # the row that writes </s>
    weights[:, :, 2] += 0.05  # a smaller weight elsewhere changes nothing
    found = at.links_found(weights)
    assert found.shape == (3, 3, 3) and found.dtype == torch.bool
    expected = torch.zeros(3, 3, 3, dtype=torch.bool)
    expected[0] = torch.eye(3)
    expected[1, 0, 0] = True
    expected[2, :, 1] = True
    assert torch.equal(found, expected)
    assert torch.equal(at.links_found(weights, 0.5), expected)
    reads = at.links_found(weights, shift=1)
    assert reads[0].nonzero().tolist() == [[0, 1], [1, 2], [2, 0]]
    everything = at.links_found(weights, 0.05)
    assert everything[1, 1].tolist() == [False, True, False]


def test_error_rates_of_known_links():
    gold = at.gold_links("0-0 1-2 2-1 2-0", 3, 4)
    assert gold.nonzero().tolist() == [[0, 0], [0, 2], [1, 2], [2, 1]]
    found = torch.zeros(3, 3, 4, dtype=torch.bool)
    found[0] = gold
    found[1, 0, 0] = found[1, 0, 3] = True  # one of two is right
    counts = at.count_links(found, gold)
    assert counts.tolist() == [[4, 4, 4], [1, 2, 4], [0, 0, 4]]
    rates = at.alignment_error_rate(counts)
    assert rates.tolist() == pytest.approx([0, 1 - 2 / 6, 1])
    precision, recall = 1 / 2, 1 / 4
    f = 2 * precision * recall / (precision + recall)
    assert rates[1].item() == pytest.approx(1 - f)


def test_guesses_without_a_model():
    gold = at.gold_links("0-0 1-1 2-2 2-0", 3, 3)
    guess = at.guessed_links(gold)
    assert guess["diagonal"].tolist() == [3, 3, 4]
    assert guess["one link per row"].tolist() == [3, 3, 4]
    torch.manual_seed(0)
    drawn = torch.rand(5000, 4, 5)  # weights without any preference
    drawn[..., 0] = drawn[..., 4] = 0
    counts = at.count_links(at.links_found(drawn), gold).double().mean(0)
    assert counts.tolist() == pytest.approx(guess["uniform"].tolist(), abs=0.05)
    wide = at.guessed_links(torch.ones(1, 7, dtype=torch.bool))
    assert wide["diagonal"].tolist() == [1, 1, 7]


def test_resampled_rates_spread_as_the_binomial_does():
    """Resample 400 sentences of one link, 300 right: the spread is √(p(1 − p)/n)."""
    counts = torch.ones(400, 2, 3)
    counts[:100, 0, 0] = 0
    counts[300:, 1, 0] = 0
    rates = at.resampled_error_rates(counts)
    assert rates.shape == (1000, 2)
    expected = (0.25 * 0.75 / 400) ** 0.5
    assert rates.std(0).tolist() == pytest.approx([expected] * 2, rel=0.1)
    assert rates.mean(0).tolist() == pytest.approx([0.25] * 2, abs=0.005)
    assert torch.equal(rates, at.resampled_error_rates(counts))
    twice = at.resampled_error_rates(counts[:, [0, 0]])
    assert torch.equal(twice[:, 0], twice[:, 1])  # the same draws for both
    sure = at.resampled_error_rates(torch.ones(5, 3))
    assert (sure == 0).all()


# --- roles and importance ----------------------------------------------------


def test_roles_of_planted_heads():
    tokens = ["<s>", "a", ",", "b", ".", "</s>"]
    keys = at.role_keys(tokens, tokens)
    assert list(keys) == ["previous", "same", "next", "<s>", "</s>", "punctuation"]
    heads = {
        "previous": torch.eye(6).roll(-1, 1),
        "same": torch.eye(6),
        "next": torch.eye(6).roll(1, 1),
        "<s>": torch.eye(6)[[0] * 6],
        "</s>": torch.eye(6)[[5] * 6],
        "punctuation": (torch.eye(6)[[2] * 6] + torch.eye(6)[[4] * 6]) / 2,
    }
    for role, weights in heads.items():
        scores = {
            name: at.role_scores(weights, key).item() for name, key in keys.items()
        }
        assert scores[role] == pytest.approx(1)
        assert max(s for name, s in scores.items() if name != role) < 0.5
    stack = torch.stack(list(heads.values())).view(2, 3, 6, 6)
    assert at.role_scores(stack, keys["same"]).shape == (2, 3)
    none = at.role_keys(["a", "b"], ["a", "b"])["punctuation"]
    assert at.role_scores(torch.eye(2), none).isnan()


def test_a_silent_head_is_silent_in_every_path(translator):
    model = translator.model
    module = model.decoder.layers[0].src_attn
    x, memory = torch.randn(2, 3, 32), torch.randn(2, 5, 32)
    whole = module(x, memory, memory)
    inputs = zip(module.linears, (x, memory, memory))
    heads, _ = at.attention(*(module.split(linear(each)) for linear, each in inputs))
    heads[:, 2] = 0
    with at.zeroed(at.head_output_weight(module, 2)):
        silent = module.linears[3](module.join(heads))
        assert torch.allclose(module(x, memory, memory), silent, atol=1e-6)
        masked = translator.translate(SENTENCES, 1)
    assert torch.equal(module(x, memory, memory), whole)
    module.linears[3].weight.data[:, 16:24] = 0
    assert translator.translate(SENTENCES, 1) == masked


# There is one decoder: what is changed in a loaded model changes what it writes.


@pytest.fixture
def loaded():
    folder = at.project_folder() / at.CAPTIONS_MODEL
    translator = at.load_translator(folder, "cpu")
    sentences = at.read_lines(at.data_file("captions", "test.de"))[:8]
    return translator, sentences, translator.translate(sentences)


@pytest.mark.parametrize("beam_size", [1, 5])
def test_silencing_heads_changes_what_is_translated(loaded, beam_size):
    translator, sentences, _ = loaded
    before = translator.translate(sentences, beam_size)
    layers = translator.model.decoder.layers
    parts = [
        at.head_output_weight(layer.src_attn, head)
        for layer in layers
        for head in range(layer.src_attn.h - 1)
    ]
    with at.zeroed(*parts):
        assert translator.translate(sentences, beam_size) != before
    assert translator.translate(sentences, beam_size) == before


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_deaf_layer_changes_what_is_translated(loaded, beam_size):
    """Take cross-attention away: sources of one length then get the same output."""
    translator, *_ = loaded
    maps = [layer.src_attn.linears[3] for layer in translator.model.decoder.layers]
    pair = ["Ein Hund schläft.", "Eine Frau kocht."]
    first, second = translator.translate(pair, beam_size)
    assert first != second
    with at.zeroed(*(p for each in maps for p in each.parameters())):
        first, second = translator.translate(pair, beam_size)
        assert first == second


@pytest.mark.parametrize("beam_size", [1, 5])
def test_another_attention_function_changes_what_is_translated(loaded, beam_size):
    translator, sentences, _ = loaded
    before = translator.translate(sentences, beam_size)

    def everywhere(query, key, value, mask=None, dropout=None):
        return value.mean(-2, keepdim=True).expand_as(query), None

    module = translator.model.decoder.layers[-1].src_attn
    module.attention_function = everywhere
    assert translator.translate(sentences, beam_size) != before
    module.attention_function = at.attention
    assert translator.translate(sentences, beam_size) == before


def test_planted_maps_are_what_the_model_predicts_from(loaded):
    """Check that its own maps change nothing, and uniform ones pass on mean values."""
    translator, sentences, _ = loaded
    model = translator.model.requires_grad_(False)
    source, read = record(translator, sentences[0])
    src = torch.tensor([translator.text.vocab_src(source)])
    tgt = torch.tensor([translator.text.vocab_tgt(read)])
    masks = torch.ones(1, 1, len(source)), at.subsequent_mask(len(read))
    modules = [layer.src_attn for layer in model.decoder.layers]
    own = [at.get_decoder_src(model, i) for i in range(len(modules))]

    def predict():
        return model.generator(model(src, tgt, *masks)).exp()

    def predict_from(maps):
        with at.plain_attention(model):
            for module, weights in zip(modules, maps, strict=True):
                module.attention_function = lambda q, k, v, *_, w=weights: (w @ v, w)
            return predict()

    before = predict()
    assert torch.allclose(predict_from(own), before, atol=1e-5)
    planted = predict_from([torch.full_like(w, 1 / len(source)) for w in own])
    assert (planted - before).abs().max() > 0.1
    assert torch.equal(predict(), before)
    for module in modules:  # the same again, without any attention
        _, _, values, output = module.linears
        memory = model.encode(src, masks[0])
        mean = output(values(memory).mean(1, keepdim=True))
        module.forward = lambda x, *_, mean=mean: mean.expand_as(x)
    assert torch.allclose(predict(), planted, atol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_replaced_output_layer_is_used(loaded, beam_size):
    translator, sentences, _ = loaded
    proj = translator.model.generator.proj
    other = torch.nn.Linear(proj.in_features, proj.out_features)
    other.weight.data.zero_()
    other.bias.data.zero_()
    other.bias.data[[7, at.END]] = torch.tensor([9.0, 8.0])
    translator.model.generator.proj = other
    word = translator.text.vocab_tgt.tokens([7])[0]
    found = translator.translate(sentences[:2], beam_size, length_penalty=3.0)
    assert all(set(text.split()) == {word} for text in found)


def test_without_queries_every_key_gets_the_same():
    torch.manual_seed(0)
    module = at.MultiHeadedAttention(2, 8).eval()
    x = torch.randn(1, 4, 8)
    mask = torch.tensor([[[True, True, False, True]]])
    with at.zeroed(*at.query_parameters(module)):
        module(x, x, x, mask)
    row = torch.tensor([1 / 3, 1 / 3, 0, 1 / 3])
    assert torch.allclose(module.attn, row.expand(1, 2, 4, 4))


def test_weights_come_back_after_an_error():
    linear = torch.nn.Linear(3, 3)
    before = linear.weight.detach().clone()
    with pytest.raises(RuntimeError, match="stop"):
        with at.zeroed(linear.weight[:, 1:], linear.bias):
            assert linear.weight[:, 1:].count_nonzero() == 0
            assert linear.weight[:, 0].count_nonzero() == 3
            assert linear.bias.count_nonzero() == 0
            raise RuntimeError("stop")
    assert torch.equal(linear.weight, before) and linear.weight.requires_grad


def test_results_are_those_of_the_shipped_model():
    """Run `make heads` again after models/captions is retrained."""
    file = at.project_folder() / "results" / "heads.json"
    assert "NaN" not in file.read_text(encoding="utf-8")
    results = at.read_json(file)
    folder = at.project_folder() / at.CAPTIONS_MODEL
    assert results["weights"] == at.fingerprint(
        (folder / "model.safetensors").read_bytes()
    )
    config = at.load_config(folder)
    for kind in at.KINDS:
        assert torch.tensor(results["masked"][kind]).shape == (config.N, config.h)
        assert len(results["uniform"][kind]) == config.N
        losses = results["bleu"] - torch.tensor(results["masked"][kind])
        low, high = torch.tensor(results["interval of the loss"][kind]).unbind(-1)
        assert ((low <= losses) & (losses <= high)).all()
        for scores in results["roles"][kind].values():
            assert torch.tensor(scores).shape == (config.N, config.h)
    rates = torch.tensor(results["alignment"]["largest weight"])
    assert rates.shape == (config.N, config.h + 1)
    low, high = torch.tensor(results["alignment"]["interval"]).unbind(-1)
    assert ((low < rates) & (rates < high)).all()
    guesses = results["alignment"]["guesses"]
    assert guesses["one link per row"] <= rates.min() < guesses["diagonal"]
    assert guesses["diagonal"] < guesses["uniform"]


def test_make_heads_measures_every_head(monkeypatch, tmp_path):
    """Run the program on six sentences; it must write what the chapter reads."""
    file = at.project_folder() / "benchmarks" / "heads.py"
    specification = importlib.util.spec_from_file_location("heads", file)
    heads = importlib.util.module_from_spec(specification)
    monkeypatch.syspath_prepend(str(file.parent))
    specification.loader.exec_module(heads)
    few = {split: at.load_pairs(at.TrainingConfig(), split)[:6] for split in SPLITS}
    monkeypatch.setattr(at, "load_pairs", lambda config, split: few[split])
    gold = {split: at.data_file("captions", f"{split}.align") for split in SPLITS}
    six = {path: at.read_lines(path)[:6] for path in gold.values()}
    read_lines = at.read_lines
    monkeypatch.setattr(
        at, "read_lines", lambda path: six.get(path) or read_lines(path)
    )
    out = tmp_path / "heads.json"
    monkeypatch.setattr(sys, "argv", ["heads.py", "--out", str(out)])
    heads.main()
    found = at.read_json(out)
    stored = at.read_json(at.project_folder() / "results" / "heads.json")
    assert found.keys() == stored.keys() and found["sentences"] == 6
    for name in ("masked", "uniform", "alignment", "roles"):
        assert found[name].keys() == stored[name].keys()
    assert found["weights"] == stored["weights"]
