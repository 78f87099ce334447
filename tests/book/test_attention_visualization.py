"""Chapter 5: the theme, recordings, and charts with the right numbers in place."""

import base64
import html
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
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import data_file, project_folder
from transformer_workshop.base.shipped_models import CAPTIONS_MODEL
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.names_of_2022 import (
    viz_decoder_self,
    viz_decoder_src,
    viz_encoder_self,
)
from transformer_workshop.pictures import CHART_COLORS, _with_palette, use_charts
from transformer_workshop.pictures.attention_maps import (
    Explanation,
    _described,
    _record,
    attention_grid,
    explain,
    explorer,
    readable,
    sentence_pair,
)

SENTENCES = ["Ein Hund läuft.", "A dog runs.", "Eine Katze schläft dort."]
FOLDER = project_folder() / CAPTIONS_MODEL
VEGA = "application/vnd.vegalite.v5+json"
GETTERS = [at.get_encoder, at.get_decoder_self, at.get_decoder_src]  # as in KINDS
N, H = 2, 4


@pytest.fixture(autouse=True, scope="module")
def charts():
    use_charts()


def some_translator(seed=0) -> Translator:
    """Return an untrained subword translator whose decisions are not too close."""
    torch.manual_seed(seed)
    bpe = at.BytePairEncoding.train(SENTENCES, 280)
    vocab = at.Vocabulary(bpe.get_itos())
    model = at.make_model(len(vocab), len(vocab), N, 32, 64, H, dropout=0.3).eval()
    for p in model.parameters():
        p.data += 0.2 * torch.randn_like(p)
    config = TrainingConfig(max_tokens=24, bpe_size=280, N=N, d_model=32, h=H)
    return Translator(model, at.Text(vocab, vocab, bpe, bpe), config)


@pytest.fixture
def translator() -> Translator:
    return some_translator()


@pytest.fixture(scope="module")
def shipped() -> tuple[Translator, list[str]]:
    """Return the captions model, to be left as it is, and sentences it knows."""
    sentences = read_lines(data_file("captions", "test.de"))[:6]
    return load_translator(FOLDER, "cpu"), sentences


def record(translator: Translator, sentence: str) -> tuple[list[str], list[str]]:
    """Record a translation; return the source's tokens and those that were read."""
    src = torch.tensor([translator.text.encode(sentence)])
    most = translator.config.max_tokens
    read, _ = at.record(translator.model, src, max_len=most)
    vocabularies = translator.text.vocab_src, translator.text.vocab_tgt
    source, read = (
        vocab.tokens(ids[0].tolist())
        for vocab, ids in zip(vocabularies, (src, read), strict=True)
    )
    return source, read


def every_recording(model) -> list[torch.Tensor]:
    return [get(model, i) for get in GETTERS for i in range(N)]


# --- the look of all charts --------------------------------------------------


def stored(chart) -> dict:
    bundle = chart._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def dot() -> alt.Chart:
    return alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q")


def test_a_chart_stores_a_specification_and_a_picture(monkeypatch):
    bundle = stored(dot())
    assert bundle.keys() == {VEGA, "image/png", "text/plain"}
    png = base64.b64decode(bundle["image/png"])
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and png[-8:-4] == b"IEND"
    config = bundle[VEGA]["config"]
    assert config["background"] == "white"
    assert config["range"]["category"] == CHART_COLORS
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # the picture is optional
    assert stored(dot()).keys() == {VEGA, "text/plain"}


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def test_a_palette_changes_colors_by_less_than_the_eye_sees():
    """Keep a chart of few colors as it is; 900 weights are off by at most 12 of 255."""
    few = vl_convert.vegalite_to_png(dot().to_dict())
    assert len(_with_palette(few)) < len(few) / 2
    assert (pixels(_with_palette(few)) == pixels(few)).all()
    torch.manual_seed(0)
    tokens = [str(i) for i in range(30)]
    chart = at.attn_map(torch.rand(1, 1, 30, 30), 0, 0, tokens, tokens)
    many = vl_convert.vegalite_to_png(chart.to_dict())
    assert len(np.unique(pixels(many).reshape(-1, 3), axis=0)) > 256
    assert 0 < np.abs(pixels(_with_palette(many)) - pixels(many)).max() <= 12


def test_without_altair_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match="pip install .*altair"):
        use_charts()


# --- recordings --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_labels_are_what_the_model_read(seed):
    translator = some_translator(seed)
    model, vocab = translator.model, translator.text.vocab_tgt
    source, read = record(translator, SENTENCES[0])
    ids = translator.encode(SENTENCES[0])
    assert source == translator.text.vocab_src.tokens(ids)
    assert source[0] == "<s>" and source[-1] == "</s>"
    mask = torch.ones(1, 1, len(ids))
    written = at.greedy_decode(model, torch.tensor([ids]), mask, 24, 0, end_symbol=1)
    assert read == vocab.tokens(written[0].tolist())[:-1]
    assert "</s>" not in read and read[0] == "<s>"
    S, T = len(source), len(read)
    shapes = [tuple(weights.shape) for weights in every_recording(model)]
    assert shapes == [(1, H, S, S)] * N + [(1, H, T, T)] * N + [(1, H, T, S)] * N


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
    for i in range(N):
        assert at.get_decoder_self(model, i).triu(1).count_nonzero() == 0
    model.train()  # dropout is 0.3, so a recording made with it would differ
    record(translator, SENTENCES[0])
    assert model.training
    for before, after in zip(first, every_recording(model), strict=True):
        assert torch.equal(before, after)


def test_each_getter_takes_its_own_module_and_names_a_missing_recording(translator):
    encoder, decoder = translator.model.encoder.layers, translator.model.decoder.layers
    for get in GETTERS:
        with pytest.raises(ValueError, match="with plain_attention"):
            get(translator.model, 0)
    record(translator, SENTENCES[0])
    modules = [layer.self_attn for layer in [*encoder, *decoder]]
    modules += [layer.src_attn for layer in decoder]
    for weights, module in zip(every_recording(translator.model), modules, strict=True):
        assert weights is module.attn


def test_a_given_translation_is_recorded_as_it_is_written(shipped):
    translator, sentences = shipped
    model, text = translator.model, translator.text
    src = torch.tensor([text.encode(sentences[0])])
    read, own = at.record(model, src)
    given, maps = at.record(model, src, read)
    assert torch.equal(given, read) and list(maps) == at.KINDS
    for kind, get in zip(at.KINDS, GETTERS, strict=True):
        assert torch.equal(maps[kind], own[kind]) and not maps[kind].requires_grad
        assert torch.equal(maps[kind][1], get(model, 1))
    short = torch.tensor([[at.START, *text.vocab_tgt(["A", "dog"])]])
    _, maps = at.record(model, src, short)
    assert maps["cross-attention"].shape == (N, 1, H, 3, src.size(1))


def test_a_batch_is_recorded_as_its_sentences_are(shipped):
    """Padding takes no weight, and changes no other."""
    translator, sentences = shipped
    pairs = [translator.text.encode_pair(s, "A dog .") for s in sentences[:3]]
    batch = at.make_batch(pairs, range(3), "cpu")
    _, together = at.record(translator.model, batch.src, batch.tgt)
    assert len({len(src) for src, _ in pairs}) > 1
    for b, (src, tgt) in enumerate(pairs):
        ids = torch.tensor([src]), torch.tensor([tgt[:-1]])
        for kind, alone in at.record(translator.model, *ids)[1].items():
            L, S = alone.shape[-2:]
            found = together[kind][:, b]
            torch.testing.assert_close(found[..., :L, :S], alone[:, 0])
            assert found[..., :L, S:].count_nonzero() == 0


# --- from a matrix to a chart ------------------------------------------------

ROWS = ["<s>", "a", 'say "hi"', "a", "🐕\\"]
COLUMNS = ["Ein", "Hund", "Ein", "</s>"]


def test_the_table_has_each_cell_at_its_place_within_its_limits():
    matrix = torch.arange(20.0).view(5, 4)
    table = at.mtx2df(matrix, 9, 9, ROWS, COLUMNS)
    assert list(table.columns) == ["row", "column", "value", "row_token", "col_token"]
    assert len(table) == 20
    for cell in table.itertuples():
        assert cell.value == matrix[cell.row, cell.column]
        assert cell.row_token == ROWS[cell.row]
        assert cell.col_token == COLUMNS[cell.column]
    for limits in ((3, 2, ROWS, COLUMNS), (9, 9, ROWS[:3], COLUMNS[:2])):
        cut = at.mtx2df(matrix, *limits)
        assert (cut.row.max(), cut.column.max(), len(cut)) == (2, 1, 6)


@pytest.mark.parametrize("rows, columns", [(5, 3), (4, 4)])
def test_more_labels_than_cells_is_an_error(rows, columns):
    weights = torch.zeros(1, 1, rows, columns)
    with pytest.raises(ValueError, match="do not fit"):
        at.mtx2df(weights[0, 0], 9, 9, ROWS, COLUMNS)
    with pytest.raises(ValueError, match="do not fit"):
        _record(at.Recording("", "", ROWS, COLUMNS, weights))


def drawn(chart: alt.TopLevelMixin | dict) -> str:
    """Return a chart, or its specification, as Vega draws it, in SVG."""
    specification = chart if isinstance(chart, dict) else chart.to_dict()
    return vl_convert.vegalite_to_svg(specification)


def texts(svg: str) -> list[str]:
    return [html.unescape(t) for t in re.findall(r"<text[^>]*>([^<]*)<", svg)]


CELL = re.compile(r'<path aria-label="([^"]*)" role="graphics-symbol"[^>]* d="M(.*?)h')


def drawn_cells(svg: str) -> list[dict]:
    """Return what each rectangle that is drawn says of itself, and where it is."""
    cells = []
    for label, corner in CELL.findall(svg):
        # weight: 0.5; … query: "a"; the tokens may hold anything but "; "
        fields = dict(part.split(": ", 1) for part in html.unescape(label).split("; "))
        if "row" in fields:
            cell = {name: int(fields[name]) for name in ("row", "column")}
            # Chapter 5's own chart shows its columns' names.
            cell["row_token"] = fields.get("query") or fields["row_token"]
            cell["col_token"] = fields.get("key") or fields["col_token"]
            x, y = map(float, corner.split(","))
            value = float(fields.get("value") or fields["weight"])
            cells.append(cell | {"value": value, "x": x, "y": y})
    return cells


def assert_cells(cells: list[dict], rows, columns, weights: torch.Tensor) -> None:
    """Assert that cells show each weight once, with the right words."""
    found = torch.full((len(rows), len(columns)), torch.nan)
    for cell in cells:
        row, column = cell["row"], cell["column"]
        assert found[row, column].isnan()
        found[row, column] = cell["value"]
        assert (cell["row_token"], cell["col_token"]) == (rows[row], columns[column])
    assert (found - weights).abs().max() < 0.0006  # false for a missing cell, too


def test_a_planted_weight_is_drawn_where_it_belongs():
    attn = torch.zeros(1, 2, 5, 4)
    attn[0, 1, 3, 2] = 0.75
    chart = at.attn_map(attn, 7, 1, ROWS, COLUMNS)
    svg = drawn(chart)
    cells = drawn_cells(svg)
    assert_cells(cells, ROWS, COLUMNS, attn[0, 1])
    for cell in cells:  # rows go down
        assert (cell["x"], cell["y"]) == (20 * cell["column"], 20 * cell["row"])
    assert chart.to_dict()["encoding"]["color"]["scale"]["domain"] == [0, 1]
    assert chart.title == "layer 7, head 1"
    labels = texts(svg)
    for tokens in (ROWS, COLUMNS):  # every one, also where it is repeated or odd
        assert tokens in (labels[i : i + len(tokens)] for i in range(len(labels)))


def test_long_sentences_are_cut_and_stay_small():
    tokens = [f"token{i}" for i in range(60)]
    attn = torch.rand(1, 1, 60, 60)
    for most, step in ((30, 10), (80, 5)):
        chart = at.attn_map(attn, 0, 0, tokens, tokens, max_dim=most)
        assert len(drawn_cells(drawn(chart))) == min(most, 60) ** 2
        assert 1 <= chart.to_dict()["width"]["step"] <= step
    assert len(json.dumps(at.attn_map(attn, 0, 0, tokens, tokens).to_dict())) < 100_000


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
        viz_encoder_self: (source, source, at.get_encoder),
        viz_decoder_self: (read, read, at.get_decoder_self),
        viz_decoder_src: (read, source, at.get_decoder_src),
    }
    places = [(i, head) for i in range(N) for head in range(H)]
    for view, (rows, columns, getter) in views.items():
        maps = titled_maps(view())
        titles = [title for title, _ in maps]
        assert titles == [f"layer {i}, head {head}" for i, head in places]
        for (i, head), (_, cells) in zip(places, maps, strict=True):
            assert_cells(cells, rows, columns, getter(translator.model, i)[0, head])
    assert folders == [FOLDER] * 3


# --- the explorer ------------------------------------------------------------


def planted(N=2, h=3, T=5, S=4, kind="cross-attention", sentence="a b") -> at.Recording:
    """Return a recording in which each layer and head has weights of its own."""
    torch.manual_seed(N * h)
    weights = torch.randn(N, h, T, S).mul(2).softmax(-1)
    return at.Recording(kind, sentence, ROWS[:T], COLUMNS[:S], weights)


def drawn_is(
    specification: dict, recording: at.Recording, weights: torch.Tensor
) -> None:
    assert_cells(
        drawn_cells(drawn(specification)), recording.rows, recording.columns, weights
    )


def value_of(specification: dict, name: str, value) -> dict:
    """Make another choice in one of the specification's lists; return it."""
    [param] = [p for p in specification["params"] if p["name"] == name]
    if "bind" in param:
        assert value in param["bind"]["options"]
    param["value"] = value
    return specification


@pytest.mark.parametrize("N, h", [(1, 1), (2, 3)])
def test_each_choice_draws_its_own_map(N, h):
    recording = planted(N, h)
    specification = explorer(recording).to_dict()
    drawn_is(specification, recording, recording.weights[0].mean(0))
    for layer in range(N):
        value_of(specification, "Layer", layer)
        for head in range(-1, h):
            value_of(specification, "Head", head)
            weights = recording.weights[layer]
            drawn_is(
                specification, recording, weights.mean(0) if head < 0 else weights[head]
            )


def test_kind_and_sentence_choose_among_recordings():
    kinds, sentences = at.KINDS[:2], ["a", "b"]
    several = [
        planted(2 - i, 3 - i, 5 - i, 4 - j, kind, sentence)
        for i, kind in enumerate(kinds)
        for j, sentence in enumerate(sentences)
    ]
    specification = explorer(*several, layer=0, head=1).to_dict()
    for recording in several:
        value_of(specification, "Kind", recording.kind)
        value_of(specification, "Sentence", recording.sentence)
        svg = drawn(specification)
        assert_cells(
            drawn_cells(svg), recording.rows, recording.columns, recording.weights[0, 1]
        )
        assert f"{recording.kind}, layer 0, head 1" in texts(svg)
        assert {*recording.rows, *recording.columns} <= set(texts(svg))
    value_of(specification, "Head", 2)  # which the kind now shown doesn't have
    assert drawn_cells(drawn(specification)) == []
    value_of(value_of(specification, "Head", 1), "Layer", 1)
    assert drawn_cells(drawn(specification)) == []


def test_charts_speak():
    recording = planted()
    weights = torch.tensor([[0.2, 0.8, 0.0], [0.5, 0.1, 0.4]])
    text = _described(weights, ["one", "two"], ["a", "b"])  # the third is padding
    assert text.endswith("one to b 80%, two to a 50%")
    for chart, which, shown in (
        (explorer(recording), "mean", recording.weights[0].mean(0)),
        (sentence_pair(recording, layer=1, head=2), "head 2", recording.weights[1, 2]),
    ):
        text = chart.to_dict()["description"]
        assert _described(shown, recording.rows, recording.columns) in text
        assert which in text and recording.kind in text
    assert recording.kind in attention_grid(recording, 1).to_dict()["description"]


def test_six_layers_of_eight_heads_stay_small():
    torch.manual_seed(0)
    weights = torch.randn(6, 8, 30, 30).softmax(-1)
    tokens = [f"Fußgängerampel{i}" for i in range(30)]
    recording = at.Recording(at.KINDS[0], " ".join(tokens), tokens, tokens, weights)
    for draw in (explorer, sentence_pair):
        text = json.dumps(draw(recording).to_dict(), ensure_ascii=False)
        assert len(text.encode()) <= 150_000


def test_the_grid_draws_the_heads_it_is_given():
    recording = planted(2, 3)
    svg = drawn(attention_grid(recording, 1, heads=[2, 0]))
    names = [word for word in texts(svg) if word.startswith("head ")]
    assert names == ["head 2", "head 0"]
    cells = drawn_cells(svg)
    for i, head in enumerate((2, 0)):
        some = cells[20 * i : 20 * i + 20]
        assert_cells(
            some, recording.rows, recording.columns, recording.weights[1, head]
        )


def test_the_grid_holds_every_head_of_its_layer():
    recording = planted(2, 3)
    svg = drawn(attention_grid(recording, 1))
    cells = drawn_cells(svg)
    assert len(cells) == 3 * 20
    for head in range(3):
        some = cells[20 * head : 20 * head + 20]
        assert_cells(
            some, recording.rows, recording.columns, recording.weights[1, head]
        )
    names = [word for word in texts(svg) if word.startswith("head ")]
    assert names == ["head 0", "head 1", "head 2"]
    assert {*recording.rows, *recording.columns} <= set(texts(svg))


LINE = re.compile(
    r'<line aria-label="([^"]*)" role="graphics-symbol"[^>]*'
    r'transform="translate\(([-\d.]+),([-\d.]+)\)" x2="([-\d.]+)" y2="([-\d.]+)"'
)


def test_lines_join_the_tokens_they_belong_to():
    recording = planted(2, 3)
    recording.weights[1, 2] = 0.0
    recording.weights[1, 2, 3, 1] = 0.75
    recording.weights[1, 2, 3, 2] = 0.25  # not the largest of its row
    recording.weights[1, 2, 0, 2] = 0.04  # too little for a line
    svg = drawn(sentence_pair(recording, layer=1, head=2))
    [(label, x, y, across, down)] = LINE.findall(svg)
    assert "0.75" in label and f"query: {ROWS[3]}" in html.unescape(label)
    assert f"key: {COLUMNS[1]}" in html.unescape(label)
    assert float(across) == 260 and float(down) < 0  # from the fourth to the second
    step = -float(down) / 2
    assert float(y) == pytest.approx(3.5 * step)
    assert set(ROWS + COLUMNS) <= set(texts(svg))


# --- your own sentence -------------------------------------------------------


def test_words_are_their_own_labels(shipped):
    tokenizer = shipped[0].text.tokenizer_src
    assert readable(["<s>", "Ein", ".", "</s>"], tokenizer) == [
        "<s>",
        "Ein",
        ".",
        "</s>",
    ]
    assert readable(["a\x00b"], tokenizer) == ["a␣b"]  # which no picture could show


def test_subwords_read_well():
    bpe = at.BytePairEncoding.train(SENTENCES, 280)
    for text in ("Ein Übergrößenträger läuft.", 'say "hi", no\tno', "🐕 </s>"):
        tokens = ["<s>", *bpe.tokenize(text), "</s>"]
        labels = readable(tokens, bpe)
        assert len(labels) == len(tokens)
        assert labels[0] == "<s>" and labels[-1] == "</s>"
        assert not any(re.search(r"\s|Ġ|Ã", label) or not label for label in labels)
    labels = readable(["<s>", *bpe.tokenize("Ein Eintopf, ein")], bpe)
    assert labels[1] == "Ein" and labels[2] == "Ein" and labels[3].startswith("+")
    assert "," in labels and labels[-1] != "+ein"
    coarse = at.BytePairEncoding.train(["der"], 260)  # an ä is two pieces to it
    assert "".join(readable(coarse.tokenize("Bäume"), coarse)).count("+�") == 2


def test_a_doubtful_sentence_is_named_by_its_number(shipped, monkeypatch, capsys):
    translator, sentences = shipped
    doubts = iter([None, "don't rely on it"])
    monkeypatch.setattr(Translator, "doubt", lambda *_: next(doubts))
    explain(translator, *sentences[:2])
    assert capsys.readouterr().err == "sentence 2: don't rely on it\n"


def test_explain_is_the_greedy_translation_with_its_recordings(shipped):
    translator, sentences = shipped
    found = explain(FOLDER, *sentences[:2])
    assert found.sentences == sentences[:2]
    assert found.translations == translator.translate(sentences[:2], 1)
    assert [recording.kind for recording in found.recordings] == at.KINDS * 2
    for i, sentence in enumerate(sentences[:2]):
        source, read = record(translator, sentence)
        own = found.recordings[3 * i : 3 * i + 3]
        labels = [(recording.rows, recording.columns) for recording in own]
        assert labels == [(source, source), (read, read), (read, source)]
        for recording, get in zip(own, GETTERS, strict=True):
            assert recording.sentence == sentence
            for layer, weights in enumerate(recording.weights):
                torch.testing.assert_close(weights, get(translator.model, layer)[0])


def test_an_explanation_opens_at_the_sharpest_head():
    soft, sharp = planted(2, 3, kind=at.KINDS[0]), planted(2, 3)
    sharp.weights[1, 2] = torch.eye(5)[:, :4]
    found = Explanation(["a b"], ["c"], [soft, sharp])
    assert stored(found)[VEGA] == found.charts()[0].to_dict()
    for chart in found.charts():
        params = chart.to_dict()["params"]
        values = {p["name"]: p["value"] for p in params if "value" in p}
        assert (values["Kind"], values["Layer"], values["Head"]) == (at.KINDS[2], 1, 2)


def test_explain_refuses_in_words(translator):
    with pytest.raises(TypeError, match="Translator"):
        explain(translator.model, "Ein Hund.")
    with pytest.raises(at.DataError, match="is blank"):
        explain(translator, "Ein Hund.", " ")


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
    reads = at.links_found(weights, shift=1)
    assert reads[0].nonzero().tolist() == [[0, 1], [1, 2], [2, 0]]


def test_error_rates_of_known_links():
    gold = at.gold_links("0-0 1-2 2-1 2-0", 3, 4)
    assert gold.nonzero().tolist() == [[0, 0], [0, 2], [1, 2], [2, 1]]
    found = torch.zeros(3, 3, 4, dtype=torch.bool)
    found[0] = gold
    found[1, 0, 0] = found[1, 0, 3] = True  # one of two is right
    counts = at.count_links(found, gold)
    assert counts.tolist() == [[4, 4, 4], [1, 2, 4], [0, 0, 4]]
    precision, recall = 1 / 2, 1 / 4
    f = 2 * precision * recall / (precision + recall)
    assert at.alignment_error_rate(counts).tolist() == pytest.approx([0, 1 - f, 1])


# --- roles and importance ----------------------------------------------------


def test_roles_of_planted_heads():
    one, keys = torch.eye(4), torch.eye(4, dtype=torch.bool)
    keys[0] = False  # a row without keys doesn't count
    assert torch.equal(at.role_scores(one, keys), torch.tensor(1.0))
    heads = torch.stack([one, one.roll(1, 1), torch.full((4, 4), 0.25)])
    assert at.role_scores(heads, keys).tolist() == [1.0, 0.0, 0.25]
    assert at.role_scores(one, torch.zeros_like(keys)).isnan()


def test_an_ablated_head_is_silent_in_every_path(translator):
    model = translator.model
    module = model.decoder.layers[0].src_attn
    x, memory = torch.randn(2, 3, 32), torch.randn(2, 5, 32)
    whole = module(x, memory, memory)
    with at.plain_attention(model):
        at.ablate(module, 2)
        silent = module(x, memory, memory)
        translated = translator.translate(SENTENCES, 1)
    assert torch.allclose(module(x, memory, memory), whole, atol=1e-6)
    module.linears[3].weight.data[:, 16:24] = 0  # head 2's part of the projection
    assert torch.allclose(module(x, memory, memory), silent, atol=1e-6)
    assert translator.translate(SENTENCES, 1) == translated


def test_a_recording_keeps_what_was_cut():
    """Its maps are those of a model whose heads are silent in another way."""
    translator = load_translator(FOLDER, "cpu")  # with fused attention
    model, text, pair = translator.model, translator.text, (SENTENCES[0], "A dog.")
    module = model.encoder.layers[0].self_attn
    hidden = torch.zeros(module.h, 1, 1, dtype=torch.bool)
    src, tgt = (torch.tensor([ids]) for ids in text.encode_pair(*pair))
    for given in ((src, tgt[:, :-1]), (src,)):
        _, whole = at.record(model, *given)
        with at.plain_attention(model):
            for head in range(module.h):
                at.ablate(module, head)
            at.knock_out(module, hidden)  # nothing, and the ablation stays
            _, found = at.record(model, *given)
        with at.hooked(module.linears[2], lambda values: 0 * values):
            _, silent = at.record(model, *given)
        _, after = at.record(model, *given)
        for kind, maps in found.items():
            assert torch.allclose(maps, silent[kind], atol=1e-6)
            assert torch.equal(after[kind], whole[kind])
        found, whole = found[at.KINDS[2]], whole[at.KINDS[2]]
        assert found.shape != whole.shape or (found - whole).abs().max() > 0.01


def test_cuts_of_one_module_add_up():
    torch.manual_seed(0)
    module, x = at.MultiHeadedAttention(2, 8).eval(), torch.randn(1, 3, 8)
    cells = torch.zeros(2, 3, 3, 3, dtype=torch.bool)
    cells[0, :, 2, 0] = cells[1, :, 2, 1] = True
    with at.plain_attention(module):
        for hidden in cells[:, :2]:
            at.knock_out(module, hidden)
        at.ablate(module, 0)
        at.ablate(module, 1)
        out = module(x, x, x)
    assert torch.equal(module.attn[0, :, 2], torch.tensor([[0.0, 0, 1]] * 2))
    assert torch.allclose(out, module.linears[3].bias.expand(1, 3, 8))


@pytest.mark.parametrize("tokens", [250, 251, 300])
def test_a_map_of_hundreds_of_tokens_has_squares(tokens):
    words = [f"w{i}" for i in range(tokens)]
    weights = torch.eye(tokens)[None, None]
    chart = at.attn_map(weights, 0, 0, words[:3], words, tokens).to_dict()
    assert chart["width"]["step"] == chart["height"]["step"] == 1


def test_the_mean_of_a_head_is_over_the_rows_that_count():
    torch.manual_seed(0)
    module = at.MultiHeadedAttention(2, 8).eval()
    x, rows = torch.randn(2, 3, 8), torch.tensor([[True, True, False], [True] * 3])
    q, k, v = (module.split(linear(x)) for linear in list(module.linears)[:3])
    outputs, _ = at.attention(q, k, v)
    mean = torch.stack([outputs[b, 1, t] for b, t in rows.nonzero().tolist()]).mean(0)
    outputs[:, 1] = mean
    with at.plain_attention(module):
        at.ablate(module, 1, rows)
        found = module(x, x, x)
    assert torch.allclose(found, module.linears[3](module.join(outputs)), atol=1e-6)


def test_a_hidden_cell_gets_nothing_and_its_row_still_sums_to_one():
    torch.manual_seed(0)
    module = at.MultiHeadedAttention(2, 8).eval()
    x, mask = torch.randn(1, 4, 8), torch.tensor([[[True, True, True, False]]])
    module(x, x, x, mask)
    before, hidden = module.attn, torch.zeros(2, 4, 4, dtype=torch.bool)
    hidden[1, 2, 0] = True
    hidden[0, 3, :3] = True  # with the mask: the whole row
    with at.plain_attention(module):
        at.knock_out(module, hidden)
        module(x, x, x, mask)
    kept = before.masked_fill(hidden, 0)
    expected = kept / kept.sum(-1, keepdim=True).clamp_min(1e-9)
    assert torch.allclose(module.attn, expected, atol=1e-6)
    assert module.attn[0, 0, 3].sum() == 0


def test_a_hook_looks_or_replaces_and_is_gone_after_an_error():
    linear, x, seen = torch.nn.Linear(3, 3), torch.randn(2, 3), []
    before = linear(x)
    with at.hooked(linear, seen.append):
        assert torch.equal(linear(x), before)
    assert len(seen) == 1 and torch.equal(seen[0], before)
    with pytest.raises(RuntimeError, match="stop"):
        with at.hooked(linear, lambda output: 0 * output):
            assert linear(x).count_nonzero() == 0
            raise RuntimeError("stop")
    assert torch.equal(linear(x), before)


# There is one decoder: what is changed in a loaded model changes what it writes.
