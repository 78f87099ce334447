"""Chapter 5: the theme, recordings, and charts with the right numbers in place."""

from __future__ import annotations

import base64
import html
import json
import re
import struct
import sys
import zlib

import altair as alt
import pytest
import torch

import annotated_transformer as at

SENTENCES = ["Ein Hund läuft.", "A dog runs.", "Eine Katze schläft dort."]
GETTERS = {
    "encoder": at.get_encoder,
    "decoder_self": at.get_decoder_self,
    "decoder_src": at.get_decoder_src,
}


@pytest.fixture(autouse=True)
def charts():
    at.use_charts()


@pytest.fixture
def translator() -> at.Translator:
    return some_translator()


def some_translator(N=2, h=4, seed=0) -> at.Translator:
    """An untrained translator over subwords; its decisions are not too close."""
    torch.manual_seed(seed)
    bpe = at.BytePairEncoding.train(SENTENCES, 280)
    vocab = at.Vocabulary(bpe.get_itos())
    model = at.make_model(len(vocab), len(vocab), N, 32, 64, h, dropout=0.3).eval()
    for p in model.parameters():
        p.data += 0.2 * torch.randn_like(p)
    config = at.TrainingConfig(max_tokens=24, bpe_size=280, N=N, d_model=32, h=h)
    return at.Translator(model, vocab, vocab, bpe, bpe, config)


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
    assert config["range"]["category"] == at.CHART_COLOURS


def test_packing_keeps_every_pixel():
    import vl_convert

    before = vl_convert.vegalite_to_png(dot().to_dict())
    after = at.packed_tightly(before)
    assert len(after) < len(before) / 2
    assert pixels(after) == pixels(before)


def pixels(png: bytes) -> tuple[bytes, bytes]:
    """Header and unpacked pixels of a PNG; its check sums must be right."""
    kinds: dict[bytes, bytes] = {}
    place = 8
    while place < len(png):
        size, kind = struct.unpack_from(">I4s", png, place)
        content = png[place + 8 : place + 8 + size]
        (check,) = struct.unpack_from(">I", png, place + 8 + size)
        assert check == zlib.crc32(kind + content)
        kinds[kind] = kinds.get(kind, b"") + content
        place += size + 12
    assert place == len(png)
    return kinds[b"IHDR"], zlib.decompress(kinds[b"IDAT"])


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
    model, vocab = translator.model, translator.vocab_tgt
    source, read = at.record_translation(translator, SENTENCES[0])
    ids = translator.check(SENTENCES[0])
    assert source == translator.vocab_src.tokens(ids)
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
    """The generator's bias makes every output end after the start symbol."""
    translator.model.generator.proj.bias.data[at.END] = 1e4
    _, read = at.record_translation(translator, SENTENCES[0])
    assert read == ["<s>"]
    assert at.get_decoder_src(translator.model, 0).size(2) == 1


def test_recordings_are_distributions_and_repeat_in_training_mode(translator):
    model = translator.model
    at.record_translation(translator, SENTENCES[0])
    first = every_recording(model)
    for weights in first:
        assert torch.allclose(weights.sum(-1), torch.ones(1), atol=1e-5)
        assert (weights >= 0).all() and not weights.requires_grad
    for i in range(2):
        assert at.get_decoder_self(model, i).triu(1).count_nonzero() == 0
    model.train()  # dropout is 0.3, so a recording made with it would differ
    at.record_translation(translator, SENTENCES[0])
    assert model.training
    for before, after in zip(first, every_recording(model), strict=True):
        assert torch.equal(before, after)


def test_masked_keys_get_no_weight(translator):
    model = translator.model
    long, short = (translator.check(text) for text in (SENTENCES[2], SENTENCES[1]))
    assert len(long) > len(short)
    src = torch.tensor([long, short + [at.PAD] * (len(long) - len(short))])
    with at.record_attention(model):
        mask = (src != at.PAD).unsqueeze(1)
        at.greedy_decode(model, src, mask, 8, at.START, end_symbol=at.END)
    for i in range(2):
        for weights in (at.get_encoder(model, i), at.get_decoder_src(model, i)):
            assert weights[1, :, :, len(short) :].count_nonzero() == 0
            assert weights[0, :, :, len(short) :].count_nonzero() > 0


@pytest.mark.parametrize("getter", GETTERS.values(), ids=GETTERS)
def test_without_a_recording_the_missing_line_is_named(getter):
    model = some_translator().model
    with pytest.raises(ValueError, match="with record_attention"):
        getter(model, 0)


def plant(model) -> None:
    """A different single large weight in each kind, layer and head."""
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


def drawn(chart) -> str:
    """The chart as Vega draws it, in SVG."""
    import vl_convert

    return vl_convert.vegalite_to_svg(chart.to_dict())


CELL = re.compile(r'<path aria-label="([^"]*)" role="graphics-symbol"[^>]* d="M(.*?)h')


def drawn_cells(chart) -> list[dict]:
    """Each rectangle that is drawn: what it says of itself, and where it lies."""
    cells = []
    for label, place in CELL.findall(drawn(chart)):
        # weight: 0.5; … row_token: "a"; the tokens may hold anything but "; "
        fields = dict(part.split(": ", 1) for part in html.unescape(label).split("; "))
        cell = {name: int(fields[name]) for name in ("row", "column")}
        cell |= {name: fields[name] for name in ("row_token", "col_token")}
        x, y = map(float, place.split(","))
        cells.append(cell | {"value": float(fields["value"]), "x": x, "y": y})
    return cells


def thousandths(specification: dict) -> list[tuple[str, list[int]]]:
    """(title, weights row by row) of each map of a composed chart, in order."""

    def walk(part, data):
        data = part.get("data", data)  # that of a single map is moved upwards
        if "mark" in part:
            [record] = data["values"]
            yield part["title"], [int(w) for w in record["weights"].split()]
        for inner in part.get("vconcat", part.get("concat", [])):
            yield from walk(inner, data)

    return list(walk(specification, None))


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
    assert cell["y"] == 3 * 20 and cell["x"] == 2 * 20  # rows downwards
    for cell in cells:
        assert cell["row_token"] == ROWS[cell["row"]]
        assert cell["col_token"] == COLUMNS[cell["column"]]
        assert (cell["x"], cell["y"]) == (20 * cell["column"], 20 * cell["row"])
    other = drawn_cells(at.attn_map(attn, 7, 0, ROWS, COLUMNS))
    assert len(other) == 20 and not any(cell["value"] for cell in other)
    assert chart.to_dict()["encoding"]["color"]["scale"]["domain"] == [0, 1]
    assert chart.title == "layer 7, head 1"


def test_the_axes_show_every_token_also_repeated_and_odd_ones():
    attn = torch.zeros(1, 1, 5, 4)
    svg = drawn(at.attn_map(attn, 0, 0, ROWS, COLUMNS))
    labels = [html.unescape(t) for t in re.findall(r"<text[^>]*>([^<]*)<", svg)]
    for tokens in (ROWS, COLUMNS):
        runs = (labels[i : i + len(tokens)] for i in range(len(labels)))
        assert tokens in runs


def test_long_sentences_are_cut_and_stay_small():
    tokens = [f"token{i}" for i in range(60)]
    attn = torch.rand(1, 1, 60, 60)
    chart = at.attn_map(attn, 0, 0, tokens, tokens)
    assert len(drawn_cells(chart)) == 900
    assert len(json.dumps(chart.to_dict())) < 10_000
    assert chart.to_dict()["width"]["step"] * 30 <= 300
    whole = at.attn_map(attn, 0, 0, tokens, tokens, max_dim=80)
    assert len(drawn_cells(whole)) == 3600
    assert whole.to_dict()["width"]["step"] >= 1


@pytest.mark.parametrize("N, h", [(1, 1), (2, 4), (3, 8)])
def test_all_layers_and_heads_are_drawn(N, h):
    model = some_translator(N=N, h=h).model
    plant(model)
    tokens = [f"t{i}" for i in range(6)]
    for getter in GETTERS.values():
        specification = at.visualize_model(model, getter, tokens, tokens).to_dict()
        titles, maps = zip(*thousandths(specification), strict=True)
        places = [(i, head) for i in range(N) for head in range(h)]
        assert list(titles) == [f"layer {i}, head {head}" for i, head in places]
        for (i, head), weights in zip(places, maps, strict=True):
            expected = getter(model, i)[0, head].flatten().mul(1000).round()
            assert weights == expected.int().tolist()
            assert sum(weight > 0 for weight in weights) == 1
    one = at.visualize_layer(model, N - 1, at.get_encoder, 4, tokens, tokens)
    assert [len(weights) for _, weights in thousandths(one.to_dict())] == [16] * h


def test_the_three_old_views_show_the_first_test_sentence(monkeypatch, translator):
    folders = []

    def load(folder):
        folders.append(folder)
        return translator

    monkeypatch.setattr(at, "load_translator", load)
    monkeypatch.setattr(at, "load_pairs", lambda config, split: [(SENTENCES[2], split)])
    source, read = at.record_translation(translator, SENTENCES[2])
    views = {
        at.viz_encoder_self: (source, source, at.get_encoder),
        at.viz_decoder_self: (read, read, at.get_decoder_self),
        at.viz_decoder_src: (read, source, at.get_decoder_src),
    }
    for view, (rows, columns, getter) in views.items():
        chart = view()
        title, weights = thousandths(chart.to_dict())[1 * 4 + 3]
        assert title == "layer 1, head 3"
        expected = getter(translator.model, 1)[0, 3]
        assert expected.shape == (len(rows), len(columns))
        assert weights == [round(1000 * value) for value in expected.flatten().tolist()]
        for cell in drawn_cells(chart.vconcat[1].concat[3]):
            assert cell["row_token"] == rows[cell["row"]]
            assert cell["col_token"] == columns[cell["column"]]
    assert folders == [at.project_folder() / at.DEFAULT_MODEL] * 3


# --- alignments --------------------------------------------------------------


def test_links_found_counts_rows_whose_largest_weight_is_on_a_link():
    weights = torch.zeros(3, 3, 4)
    weights[0, [0, 1, 2], [1, 2, 3]] = 0.9  # all three
    weights[1, [0, 1, 2], [1, 0, 0]] = 0.9  # the first alone
    weights[2, :, 0] = 0.9  # none
    weights[:, :, 2] += 0.1  # a smaller weight elsewhere changes nothing
    links = {0: {1}, 1: {2, 3}, 2: {3}}
    assert at.links_found(weights, links).tolist() == [3, 1, 0]
    assert at.links_found(weights, {1: {0}}).tolist() == [0, 1, 1]
    assert at.links_found(weights, {}).tolist() == [0, 0, 0]
