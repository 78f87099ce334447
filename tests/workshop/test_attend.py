"""`attend` and its page: by the command, by its text, and in a real browser."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.shipped_models import DEFAULT_MODEL
from transformer_workshop.cli.terminal import main
from transformer_workshop.models.translator import load_translator
from transformer_workshop.pictures import theme
from transformer_workshop.pictures.attention_maps import Explanation

SENTENCE = "Ein Hund läuft über die Wiese."
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


# --- the command ---------------------------------------------------------------


def attend(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit status, standard output, and standard error."""
    errors = io.StringIO()
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(["attend", *arguments])
    return status, output.buffer.getvalue().decode(), errors.getvalue()


def test_it_prints_a_translation_a_line_and_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences = ["Eine Frau liest.", SENTENCE, "Eine Frau liest."]
    status, printed, said = attend(*sentences, "--out", "a/b.html")
    assert status == 0 and said.startswith("a/b.html: ")
    translator = load_translator(project_folder() / DEFAULT_MODEL, "cpu")
    assert printed.splitlines() == translator.translate(sentences, 1)
    page = Path("a/b.html").read_text(encoding="utf-8")
    for sentence, translation in zip(sentences, printed.splitlines(), strict=True):
        assert f"<p>{sentence} → {translation}</p>" in page
    assert len(page) < 2_000_000


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ((" ",), "is blank"),
        ((), "the following arguments are required: sentences"),
        ((SENTENCE, "--model", "nowhere"), "is not a folder"),
        ((SENTENCE, "--out", "/proc/page.html"), "can't be written"),
        ((SENTENCE, "--out", "page.pdf"), "Let it end in .html"),
        (("Hund " * 200,), "has 202 tokens, the model takes 128"),
        (("Hund \udcff",), "is not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    status, printed, said = attend(*arguments)
    assert status == 2 and printed == ""
    assert complaint in said and said.count("\n") == 1
    assert not Path("attention.html").exists()


# --- the page's text -------------------------------------------------------------


def planted() -> Explanation:
    """Make an explanation whose kinds, sentences, layers, and heads all differ."""
    torch.manual_seed(0)
    labels = [["<s>", "a", "</script>", "a"], ["Ein", "Hund", "Ein", "läuft", "</s>"]]
    found = []
    for number, sentence in enumerate(["Ein <b>Hund</b>", "zwei"]):
        for kind, (rows, columns) in zip(at.KINDS, [(1, 1), (0, 0), (0, 1)]):
            rows, columns = labels[rows][number:], labels[columns]
            weights = torch.randn(2, 3, len(rows), len(columns)).mul(2).softmax(-1)
            found.append(at.Recording(kind, sentence, rows, columns, weights))
    return Explanation(["Ein <b>Hund</b>", "zwei"], ["A </script>", "two"], found)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    planted().save(path)
    return path


@pytest.fixture(scope="module")
def own_part(page) -> str:
    """Return the page without vl-convert's programs."""
    text = page.read_text(encoding="utf-8")
    assert text.count("<script>") == text.count("</script>") == 2
    before, _, rest = text.partition("<script>")
    return before + rest.partition("</script>")[2]


def test_the_page_leads_nowhere(own_part):
    assert not re.search(r"\b(src|href|action)\s*=|@import|url\(", own_part)
    assert "default-src 'none'" in own_part and "connect-src" not in own_part
    assert "unpkg" not in own_part and "cdn" not in own_part
    assert "<p>Ein &lt;b&gt;Hund&lt;/b&gt; → A &lt;/script&gt;</p>" in own_part


def test_the_page_holds_the_charts_as_they_are(own_part):
    start = own_part.index("Promise.all(") + len("Promise.all(")
    held, _ = json.JSONDecoder().raw_decode(own_part[start:])
    charts = [chart.to_dict() for chart in planted().charts()]
    for ours, theirs in zip(held, charts, strict=True):
        assert ours == theirs | theme()
    records = held[0]["data"]["values"]
    assert [record["kind"] for record in records[::2]] == at.KINDS[::-1]


# --- in a browser ----------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="make site installs it"
    )
    if not CHROMIUM:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(page, browser):
    """Return a function that opens the page; in the end, nobody may have complained."""
    complaints, contexts = [], []

    def opened(width=1400, theme="light"):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=theme, offline=True)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: complaints.append(request.url)
               if request.url.startswith("http") else None)  # fmt: skip
        tab.goto(page.as_uri())
        tab.evaluate("drawn.then(() => 0)")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def choose(tab, name: str, label: str) -> None:
    """Choose an entry of a list of the first chart."""
    tab.select_option(f"#chart0 select[name={name}]", label=label)
    tab.evaluate("drawn.then(views => views[0].runAsync()).then(() => 0)")


def shown(tab) -> list[dict]:
    """Return the cells of the first chart."""
    return tab.evaluate("""drawn.then(([view]) => {
        const squares = view.scenegraph().root.items[0].items
            .find(each => each.name == "layer_0_marks").items;
        return squares.map(({datum}) => datum);
    })""")


@pytest.mark.slow
def test_pointing_shows_weights(visit):
    tab = visit()
    choose(tab, "Layer", "0")
    choose(tab, "Head", "1")
    [cross, _] = [r for r in planted().recordings if r.kind == at.KINDS[-1]]
    weights = cross.weights[0, 1]
    squares = tab.locator("#chart0 .layer_0_marks path")
    percentages = tab.locator("#chart0 text").get_by_text(re.compile("^[0-9]+$"))
    squares.nth(2 * len(cross.columns) + 3).hover(force=True)
    tooltip = tab.locator("#vg-tooltip-element").inner_text()
    for text in (cross.rows[2], cross.columns[3], f"{weights[2, 3]:.3f}"):
        assert text in tooltip
    assert percentages.count() == 0
    words = tab.locator("#chart0 .mark-text text")
    words.get_by_text("a", exact=True).nth(1).hover(force=True)  # the fourth row's
    percentages.first.wait_for()
    found = [int(text) for text in percentages.all_text_contents()]
    assert found == pytest.approx((100 * weights[3]).tolist(), abs=1)
    faded = squares.evaluate_all("all => all.filter(p => p.getAttribute('opacity')<.5)")
    assert len(faded) == weights.numel() - weights.size(1)


@pytest.mark.slow
@pytest.mark.parametrize("width, theme", [(800, "dark"), (1400, "light")])
def test_the_page_fits_its_window(visit, width, theme):
    tab = visit(width, theme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    style = "getComputedStyle(document.querySelector('{}')).{}".format
    assert tab.evaluate(style(".chart", "backgroundColor")) == "rgb(255, 255, 255)"
    ink = {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[theme]
    assert tab.evaluate(style("h1", "color")) == ink
    label = tab.locator("#chart0 [aria-label]").first.get_attribute("aria-label")
    assert "largest in each row" in label
