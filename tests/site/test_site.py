"""The web site: links and sizes, and every page in a real browser without a network."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import lxml.html
import nbformat
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "site"))
from chromium import installed  # noqa: E402

VEGA = "application/vnd.vegalite.v5+json"
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
LECTURES = sorted(path.stem for path in (ROOT / "teaching/lectures").glob("*.md"))
PAGES = [
    "index", "TEACHING", "results/README", "search", "figures", "api",
    "notebooks/glossary", "take-a-part-away",
    "self-test", "teaching/projects", "teaching/sample_project",
    "teaching/sample_project_b",
    *(f"teaching/lectures/{name}" for name in LECTURES),
    *(f"notebooks/{name}" for name in CHAPTERS),
    *(f"notebooks/solutions/{name}" for name in CHAPTERS if name[0] == "0"),
]  # fmt: skip
IN_CHINESE = sorted(path.stem for path in (ROOT / "notebooks-zh").glob("[0-9]*.ipynb"))
CHINESE_PAGES = [
    "zh/index", "zh/search", "zh/figures",
    "zh/notebooks/glossary", "zh/notebooks/TEACHING",
    *(f"zh/notebooks/{name}" for name in IN_CHINESE),
    *(f"zh/notebooks/solutions/{name}" for name in IN_CHINESE),
]  # fmt: skip
COLORS_MEASURED = ["index", "notebooks/glossary", "notebooks/01_architecture"]
URL = "https://example.org/book/"

# The whole site takes minutes to build.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site in a copy of the tree."""
    pytest.importorskip("myst_nb", reason="make site installs it")
    root = tmp_path_factory.mktemp("tree")
    folders = "site notebooks notebooks-zh images tools transformer_workshop teaching"
    models = "models/multi30k-2026 models/captions-gpt"
    for name in f"{folders} {models}".split():
        shutil.copytree(ROOT / name, root / name)
    files = "README.md TEACHING.md results/README.md constraints.txt"
    for name in f"{files} annotated_transformer.py".split():
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for kept in ("build/site-pictures", "build/site-heights"):  # by `make site`
        if (ROOT / kept).exists():
            shutil.copytree(ROOT / kept, root / kept)
    program = [sys.executable, "site/build.py", "--url", URL]
    done = subprocess.run(program, cwd=root, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "build" / "site"


# --- without a browser -------------------------------------------------------------


def test_a_site_without_solutions_has_none(site):
    """Gather its pages, without building them again."""
    root = site.parent.parent
    program = "import build; print(build.gather('en', with_solutions=False))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "site")},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    gathered = Path(done.stdout.strip())
    chapters = sorted(gathered.glob("notebooks/**/*.ipynb"))
    assert [path.stem for path in chapters] == CHAPTERS
    for path in chapters:
        text = path.read_text(encoding="utf-8")
        assert 'class=\\"solution' not in text and "solutions/" not in text


def test_solutions_are_shown_from_their_day_on():
    build = pytest.importorskip("build", reason="make site installs it")
    today = datetime.date.today()
    assert build.solutions_shown(today.isoformat())
    assert not build.solutions_shown(str(today + datetime.timedelta(days=1)))


@functools.cache
def tree(page: Path):
    return lxml.html.fromstring(page.read_bytes())


@pytest.mark.parametrize("name", CHINESE_PAGES)
def test_what_can_be_pressed_or_heard_is_chinese(site, name):
    page = tree(site / f"{name}.html")
    seen = [e.text_content() for e in page.iter("button", "summary", "label")]
    for attribute in ("aria-label", "title", "placeholder"):
        seen += page.xpath(f"//@{attribute}")
    for words in filter(re.compile("[A-Za-z]{3}").search, seen):
        assert re.search("[一-鿿]", words) or "The Annotated" in words, words


def pages(site: Path) -> list[Path]:
    return sorted(site.glob("**/*.html"))


@functools.cache
def ids(page: Path) -> set[str]:
    return set(tree(page).xpath("//@id"))


def test_every_page_is_there(site):
    found = {p.relative_to(site).with_suffix("").as_posix() for p in pages(site)}
    assert found == {*PAGES, *CHINESE_PAGES}


def test_every_link_and_anchor_leads_somewhere(site):
    dead, count = [], 0
    for page in pages(site):
        for link in tree(page).xpath("//a/@href | //link/@href | //*/@src"):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            count += 1
            path, anchor = unquote(parts.path), unquote(parts.fragment)
            target = (page.parent / path).resolve() if path else page
            known = target.exists()
            state = anchor.startswith("learn?")  # which switches are set
            if known and anchor and not state and target.suffix == ".html":
                known = anchor in ids(target)
            if not known:
                dead.append((page.relative_to(site), link))
    assert not dead and count > 3000


def test_nothing_is_loaded_from_elsewhere(site):
    for page in pages(site):
        loaded = tree(page).xpath("//*/@src | //link[@rel!='canonical']/@href")
        assert not [
            link for link in loaded if urlsplit(link).scheme not in ("", "data")
        ]
    for style in site.glob("**/*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text())


def test_the_zip_file_is_the_site(site):
    with zipfile.ZipFile(site.parent / "annotated-transformer-site.zip") as packed:
        names = packed.namelist()
        assert names == sorted(names, key=Path)
        front = packed.read("annotated-transformer-site/index.html")
        times = {each.date_time for each in packed.infolist()}
    assert front == (site / "index.html").read_bytes()
    assert len(names) == sum(path.is_file() for path in site.rglob("*"))
    assert times == {(1980, 1, 1, 0, 0, 0)}  # the time of building leaves no trace
    assert (site.parent / "annotated-transformer-site.zip").stat().st_size < 25e6


def stored_charts(name: str, folder: str = "notebooks") -> list[dict]:
    cells = nbformat.read(ROOT / folder / f"{name}.ipynb", 4).cells
    outputs = [each for cell in cells for each in cell.get("outputs", [])]
    return [o.data[VEGA] for o in outputs if VEGA in o.get("data", {})]


def test_charts_hold_the_data_of_the_notebook(site):
    for name in CHAPTERS:
        page = tree(site / "notebooks" / f"{name}.html")
        charts = page.xpath("//*[@class='chart']/script/text()")
        for ours, theirs in zip(
            map(json.loads, charts), stored_charts(name), strict=True
        ):
            for part in ("data", "datasets", "transform"):
                assert ours["spec"].get(part) == theirs.get(part), name


def test_each_chart_has_room_on_a_phone_and_on_a_wide_screen(site):
    """Chromium has drawn it at all widths, while the site was built."""
    try:
        installed()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    rooms = [
        each.get("style", "")
        for page in pages(site)
        for each in tree(page).xpath("//*[@class='chart']")
    ]
    height = r"[1-9]\d+px"
    room = re.compile(rf"--phone: {height}; --grows: -?\d+\.\d+; --wide: {height}")
    assert len(rooms) > 100 and all(map(room.fullmatch, rooms))


@pytest.mark.parametrize("name", [n for n in CHAPTERS if n[0] == "0"])
def test_each_exercise_has_its_solution_behind_a_click(site, name):
    page = tree(site / "notebooks" / f"{name}.html")
    text = (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8")
    exercises = re.findall(r"^### Exercise (\d\.\d+): ", text, re.M)
    found = page.xpath("//details[@class='solution']")
    numbers = [each.findtext("summary").split()[-1] for each in found]
    assert exercises and sorted(exercises) == sorted(numbers)
    for each in found:
        assert "check(" in each.text_content() and not each.xpath(".//h2 | .//h3")


def test_the_front_page_tells_what_a_chapter_takes(site):
    front = tree(site / "index.html").text_content()
    for name in CHAPTERS:
        assert tree(site / "notebooks" / f"{name}.html").findtext(".//h1") in front
    assert front.count("minutes to read, ") == sum(n[0] == "0" for n in CHAPTERS)
    hours = r"about \d+ hours to read, and \d+ more"
    assert re.search(hours, " ".join(front.split()))


def test_descriptions_and_addresses(site):
    for page in pages(site):
        name = page.relative_to(site).as_posix()
        [canonical] = tree(page).xpath("//link[@rel='canonical']/@href")
        assert canonical == URL + name
        if page.name != "search.html":
            [text] = tree(page).xpath("//meta[@name='description']/@content")
            assert len(text) > 20, name
    places = (site / "sitemap.xml").read_text(encoding="utf-8")
    assert places.count("<loc>") == len(pages(site))
    for page in pages(site):
        [picture] = tree(page).xpath("//meta[@property='og:image']/@content")
        assert (site / picture.removeprefix(URL)).stat().st_size > 10_000


def test_the_map_of_the_front_page_is_the_models():
    import front_page_map

    stored = json.loads(
        (ROOT / "site" / "front_page_map.json").read_text(encoding="utf-8")
    )
    fresh = front_page_map.specification()
    assert fresh["data"]["values"][0].keys() == stored["data"]["values"][0].keys()
    for ours, theirs in zip(stored["data"]["values"], fresh["data"]["values"]):
        for key, value in ours.items():
            if key != "layers":
                assert value == theirs[key]
        numbers = [list(map(float, re.findall(r"\d+", str(x["layers"])))) for x in
                   (ours, theirs)]  # fmt: skip
        assert numbers[0] == pytest.approx(numbers[1], abs=2)  # in thousandths


@pytest.mark.parametrize("program", ["exit 1", "exec sleep 60"])
def test_a_site_is_whole_where_chromium_fails_or_hangs(tmp_path, program):
    fake = tmp_path / "chromium"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    chart = '<div class="chart" id><script type="application/json">{}</script></div>'
    page = tmp_path / "site/index.html"
    page.parent.mkdir()
    page.write_text(chart)
    place = "heights.PATIENCE = 3; heights.place(Path('site'), Path('kept'))"
    done = subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path; import heights; {place}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "site"),
             "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    assert line.startswith("Chromium measured no charts")
    assert page.read_text() == chart and not any((tmp_path / "kept").iterdir())


# --- in a browser ------------------------------------------------------------------

FOCUSED = "each => each === document.activeElement"
PAPER = "getComputedStyle(document.body).backgroundColor"


@contextlib.contextmanager
def chromium():
    """Launch the browser that is installed; skip where there is none."""
    try:
        program = installed()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**program)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser(site):
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(site, browser):
    """Return a function that opens a page; in the end, nobody may have complained."""
    complaints, contexts = [], []

    def opened(name: str, width=1400, theme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme,
            offline=True, **options,
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: message.type == "error" and complaints.append(message.text),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on("request", lambda request: complaints.append(request.url)
                if request.url.startswith("http") else None)  # fmt: skip
        name, _, anchor = name.partition("#")
        page.goto((site / f"{name}.html").as_uri() + (anchor and f"#{anchor}"))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def settle(page) -> None:
    """Wait until every chart is drawn in its place."""
    page.evaluate("""async () => {
        for (const chart of document.querySelectorAll(".chart")) {
            chart.scrollIntoView();
            for (let i = 0; !chart.view && i < 500; i++)
                await new Promise(done => setTimeout(done, 20));
        }
        scrollTo(0, 0);
    }""")


def place(locator) -> dict:
    """Return where a part of a page is, once it stays there."""
    locator.page.evaluate("document.fonts.ready.then(() => undefined)")
    seen = []
    for _ in range(100):  # ten seconds
        seen.append(locator.bounding_box())
        if len(seen) > 3 and all(box == seen[-1] for box in seen[-4:]):
            return seen[-1]
        locator.page.wait_for_timeout(100)
    pytest.fail("it doesn't stay in its place")


def violations(page, contrast: bool = True) -> list:
    """Return what axe-core finds wrong for people who use a keyboard or hear a page."""
    from axe_playwright_python.sync_playwright import Axe

    options = {
        "resultTypes": ["violations"],
        "preload": False,  # files fetch nothing
        "rules": {"color-contrast": {"enabled": contrast}},
    }
    found = Axe().run(page, options=options)
    return [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found.response["violations"]
    ]


# A Chinese chapter has the formulas, charts, and programs of an English one.
OF_EACH_KIND = [x for x in CHINESE_PAGES if "/0" not in x or "/01" in x or "/05" in x]


@pytest.mark.parametrize("name", [*PAGES, *OF_EACH_KIND])
def test_a_page_on_a_wide_screen_and_on_a_phone_in_the_dark(visit, name):
    page = visit(name)
    settle(page)
    formulas = page.evaluate("document.querySelectorAll('.math').length")
    drawn = page.evaluate("document.querySelectorAll('.math > svg').length")
    assert drawn == formulas
    notebook = name.removeprefix("zh/").removeprefix("notebooks/")
    charts = 2 * (notebook == "index")
    if notebook in CHAPTERS:
        folder = "notebooks-zh" if name.startswith("zh/") else "notebooks"
        charts = len(stored_charts(notebook, folder))
    if name.startswith("teaching/lectures/"):
        charts = (ROOT / f"{name}.md").read_text(encoding="utf-8").count("\n@chart ")
    assert page.locator(".chart .drawn svg").count() == charts
    empty = "d => d.view.scenegraph().root.items[0].items.length === 0"
    assert not page.evaluate(f"[...document.querySelectorAll('.chart')].some({empty})")
    blank = "i => i.offsetWidth && !i.naturalWidth"
    assert not page.evaluate(f"[...document.images].some({blank})")
    cells = page.locator("div.cell_input pre, div.highlight-console pre").count()
    assert page.locator("button.copybtn").count() == cells
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400
    # axe takes a minute for thousands of colored tokens, glyphs, and marks; it sees
    # those of the small pages below. Charts are pictures again, with their controls:
    # that each can be drawn on a phone is known from its height.
    page.evaluate("""() => {
        document.querySelectorAll("pre").forEach(p => { p.textContent += "" });
        document.querySelectorAll(".math > *, .drawn svg, .drawing svg")
            .forEach(each => each.remove());
        document.querySelectorAll(".drawn")
            .forEach(each => each.classList.remove("drawn"));
    }""")
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(PAPER) == "rgb(19, 20, 22)"
    if name.removeprefix("zh/notebooks/") in IN_CHINESE:
        return  # axe has nothing to add to what it says of the English chapter
    # All pages have the colors of one stylesheet; to measure them takes the longest.
    assert violations(page, contrast=name in COLORS_MEASURED) == []


@pytest.mark.parametrize(
    ("name", "theme"),
    [("notebooks/solutions/06_since_2017", "dark"), ("index", "light")],
)
def test_small_pages_in_both_themes(visit, name, theme):
    """Measure the colors of both themes, at a width between the others."""
    page = visit(name, 800, theme)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    assert violations(page) == []


FIELDS = {
    "01_architecture": [
        ("division", "64, 4, 128, 31", "(d) is not 31. Hint: divided by their"),
        ("division", "64, 4, 128", "give four numbers"),
        ("division", "(64, 4, 128, 32)", "Right."),
        ("one_row", ".09 .24 .67, 4.2 5.8, 0.27 0.73 0", "Right."),
        ("one_row", "([.02, .12, .87], [4.2, 5.8], [.27, .73, 0])", "not [.02"),
        ("which_outputs", "[2] [0, 1, 2, 3] [0, 1, 2, 3] [2]", "(a) is not [2]. Hint"),
        ("which_outputs", "[3, 2] 0, 1, 2, 3 · 0, 1, 2, 3 · 2", "Right."),
        ("shapes", "(2, 8, 4, 7), (2, 8, 4, 64), (7, 2, 512)", "memory is not [7, 2"),
    ],
    "02_training": [
        ("how_sure", "b and c", "look again at f: the loss is the avoidable part"),
        ("how_sure", "f, b, c", "Right."),
    ],
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_checks_an_answer_that_needs_no_pytorch(visit, name):
    page = visit(f"notebooks/{name}")
    for exercise, answer, said in FIELDS[name]:
        form = page.locator(f"form.answer:has([name='{exercise}'])")
        form.locator("input").fill(answer)
        form.locator("input").press("Enter")
        form.get_by_text(said).wait_for()


def test_a_link_from_before_numbers_moved_leads_to_the_heading(visit):
    page = visit("notebooks/01_architecture#Exercise-1.9:-What-the-division-is-for")
    page.wait_for_function("location.hash.includes('1.2')")
    page = visit("notebooks/01_architecture#1.7-Masks")
    page.wait_for_function("location.hash == '#1.4-Masks'")


MOVED = json.loads((ROOT / "site/moved.json").read_text(encoding="utf-8"))


def test_each_heading_of_before_is_gone_and_the_page_knows_its_successor(site):
    for old, new in MOVED.items():
        (name, _, before), (there, _, now) = old.partition("#"), new.partition("#")
        chapter = site / "notebooks" / f"{name}.html"
        [held] = tree(chapter).xpath("//script[@id='moved']/text()")
        link = json.loads(held)[re.sub(r"\d+\.\d+", "", before)]
        assert link == ("" if there == name else f"{there}.html") + f"#{now}"
        assert before not in ids(chapter)
        assert now in ids(site / "notebooks" / f"{there}.html"), old


def test_a_link_to_a_heading_of_before_leads_to_what_it_is_called_now(visit):
    inside = {old.partition("#")[0] == new.partition("#")[0]: (old, new)
              for old, new in MOVED.items()}  # fmt: skip
    for old, new in inside.values():  # one that stays in its chapter, one that doesn't
        page = visit(f"notebooks/{old}")
        name, _, spot = new.partition("#")
        there = "to => decodeURIComponent(location.href).endsWith(to)"
        page.wait_for_function(there, arg=f"{name}.html#{spot}")


def test_the_explorer_follows_its_lists_and_the_theme(visit):
    page = visit("notebooks/05_attention_visualization#5.5-An-explorer")
    settle(page)
    chart = page.locator(".chart:has(select[name=Kind])").first
    squares = chart.locator(".mark-rect path[fill^=rgb]")

    def colors() -> list[str]:
        return squares.evaluate_all("all => all.map(p => p.getAttribute('fill'))")

    before = colors()
    chart.locator("select[name=Head]").select_option(index=3)
    page.wait_for_timeout(300)
    chosen = colors()
    assert len(before) > 50 and before != chosen
    squares.nth(3).scroll_into_view_if_needed()
    squares.nth(3).hover(force=True)
    page.wait_for_timeout(300)
    assert page.locator("#vg-tooltip-element").is_visible()
    fills = "[...document.querySelectorAll('.drawn svg')]"
    fills += ".map(each => each.style.backgroundColor)"
    assert set(page.evaluate(fills)) == {"white"}
    page.mouse.move(1, 1)
    page.evaluate("document.body.dataset.theme = 'dark'")
    page.wait_for_function(f"{fills}.every(fill => fill === 'rgb(19, 20, 22)')")
    page.wait_for_timeout(300)
    assert colors() == chosen  # the reader's choice is kept


LIVING = {  # figures with controls
    "index": 1,
    "notebooks/01_architecture": 4,
    "notebooks/04_additional_components": 2,
    "notebooks/06_since_2017": 2,
}


@pytest.mark.parametrize("name", LIVING)
@pytest.mark.parametrize("width", [1400, 390])
def test_living_figures_follow_each_control_by_keyboard(visit, name, width):
    page = visit(name, width, has_touch=width < 400)
    settle(page)
    charts = page.locator(".chart:has(input)")
    assert charts.count() == LIVING[name]
    marks = "c => c.view.toSVG()"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for chart in charts.all():
        for control in chart.locator("input").all():
            before = chart.evaluate(marks)
            kind = control.get_attribute("type")
            if kind == "radio" and control.is_checked():
                continue
            control.focus()
            low = control.input_value() == control.get_attribute("min")
            press = {"range": "ArrowRight" if low else "ArrowLeft"}.get(kind, "Space")
            for _ in range(3):
                page.keyboard.press(press)
            for _ in range(50):  # five seconds, on a busy machine
                page.wait_for_timeout(100)
                if chart.evaluate(marks) != before:
                    break
            else:
                pytest.fail(f"{control.get_attribute('name')} changes nothing")
            if kind == "checkbox":  # three times is once
                assert control.is_checked()


def test_a_lecture_is_shown_slide_by_slide(visit):
    page = visit("teaching/lectures/1_attention")
    page.get_by_role("button", name="Present").click()
    slides = page.locator("article section section")
    shown = "xs => xs.map((x, n) => x.checkVisibility() ? n : -1).filter(n => n >= 0)"
    assert slides.evaluate_all(shown) == [0]
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert slides.evaluate_all(shown) == [2]
    notes = slides.nth(2).locator("blockquote")
    assert not notes.is_visible()
    page.keyboard.press("n")
    assert notes.is_visible()
    slider = slides.nth(2).locator("input[type=range]").first
    before = slider.input_value()
    slider.focus()
    page.keyboard.press("ArrowLeft")  # the figure's, not the lecture's
    assert slider.input_value() != before and slides.evaluate_all(shown) == [2]
    page.keyboard.press("Escape")
    assert len(slides.evaluate_all(shown)) == slides.count() > 8


def test_dragging_the_query_moves_the_weights(visit):
    page = visit("index")
    settle(page)
    chart = page.locator(".chart:has(input)").first
    chart.scroll_into_view_if_needed()
    shown = chart.locator(".drawn svg")
    assert "0.79" in shown.text_content()
    box = place(chart.get_by_text("too full", exact=True))
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(middle, box["y"] - 6, steps=4)
    page.mouse.up()
    page.wait_for_timeout(200)
    key = torch.tensor([[0.1, 1.6], [1.6, -0.4], [0.2, 0.7], [0.9, 0.1]])
    query = torch.tensor([
        float(chart.locator(f"input[aria-label*='{name}']").input_value())
        for name in ("can be eaten", "is an animal")
    ])  # fmt: skip
    assert query.tolist() == pytest.approx([-0.5, 1.5], abs=0.11)
    for weight in (key @ query).softmax(dim=0).tolist():
        assert f"{weight:.2f}" in shown.text_content()


def test_a_finger_drags_the_query_too(visit):
    page = visit("index", 390, has_touch=True, is_mobile=True)
    settle(page)
    chart = page.locator(".chart:has(input)").first
    chart.get_by_text("too full", exact=True).scroll_into_view_if_needed()
    box = place(chart.get_by_text("too full", exact=True))
    x, y = box["x"] + box["width"] / 2, box["y"] - 6
    fingers = page.context.new_cdp_session(page)
    for step in range(9):
        fingers.send("Input.dispatchTouchEvent", {
            "type": "touchMove" if step else "touchStart",
            "touchPoints": [{"x": x + 40 - 5 * step, "y": y + 64 - 8 * step}],
        })  # fmt: skip
        page.wait_for_timeout(30)
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    eaten = chart.locator("input[aria-label*='can be eaten']")
    assert float(eaten.input_value()) == pytest.approx(-0.5, abs=0.11)
    now = chart.get_by_text("too full", exact=True).bounding_box()
    assert now["y"] == pytest.approx(box["y"], abs=2)  # the page didn't scroll with it


def test_formulas_are_whole_and_a_page_without_contents_has_no_button(visit):
    page = visit("notebooks/01_architecture")
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).length"
    assert page.locator("div.math").evaluate_all(cut) == 0
    page = visit("index", 390)
    assert not page.locator(".toc-overlay-icon").first.is_visible()


def test_a_tap_shows_the_number_of_a_cell(visit):
    page = visit("notebooks/05_attention_visualization", 390, has_touch=True)
    settle(page)
    chart = page.locator(".chart:has(select[name=Head])")
    cell = chart.locator(".drawn svg .mark-rect path[fill^=rgb]").nth(30)
    cell.scroll_into_view_if_needed()
    cell.tap(force=True)
    assert "weight" in page.locator("#vg-tooltip-element.visible").text_content()


ANSWERED = """() => {
    const text = document.querySelector(".live-text");
    return text.ariaBusy === "false" && text.textContent.includes("butterfly");
}"""


@pytest.mark.parametrize(
    ("name", "doubt"), [("index", "don't rely"), ("zh/index", "靠不住")]
)
def test_the_front_page_translates_what_one_writes(visit, name, doubt):
    page = visit(name)
    figure = page.locator(".live[data-figure=translate]")
    text = page.locator(".live-text")
    assert text.text_content() == "The cat is sleeping on the piano."
    figure.locator(".live-curves path").nth(7).wait_for(state="attached")
    figure.get_by_role("button", name="Klaviwr").click()
    page.get_by_text(doubt).wait_for()
    assert not page.evaluate("'makeTransformer' in window")  # it needs no weights yet
    figure.locator("input").fill("Ein Schmetterling liest die Zeitung.")
    page.wait_for_function(ANSWERED)
    assert text.text_content() == "A butterfly is reading the newspaper."
    assert " 0.8" in figure.locator(".live-sure").text_content()
    assert figure.locator(".live-beam circle.live-wins").count() == 1


def test_what_belongs_to_another_sentence_is_dim_and_an_empty_box_shows_nothing(visit):
    page = visit("index")
    figure = page.locator(".live[data-figure=translate]")
    page.locator(".live-curves path").first.wait_for(state="attached")
    page.evaluate("""() => {
        const [text, ...others] = [".live-text", ".live-sure", ".live-ribbons"]
            .map(each => document.querySelector(each));
        window.states = [];
        new MutationObserver(() => states.push([
            text.textContent, others[0].textContent,
            ...others.map(each => getComputedStyle(each).opacity),
        ])).observe(text, { childList: true });
    }""")
    figure.locator("input").fill("Ein Schmetterling liest die Zeitung.")
    assert figure.evaluate("each => each.classList.contains('live-waits')")
    page.wait_for_function("states.some(each => each.at(-1) === '1')")
    *before, (text, confidence, *_) = page.evaluate("states")
    assert text == "A butterfly is reading the newspaper."
    assert before and all(dim == ["0.35", "0.35"] for _, _, *dim in before)
    assert " 0.8" in confidence
    figure.get_by_role("button", name="Clear").click()
    for part in (".live-text", ".live-sure", ".live-ribbons", ".live-beam"):
        assert not page.locator(part).is_visible()
    assert figure.locator("input").evaluate(FOCUSED)
    assert not figure.get_by_role("button", name="Clear").is_visible()
    figure.get_by_role("button", name="Elefant").click()
    page.get_by_text("An elephant is drinking coffee").wait_for()


def test_a_box_of_the_drawing_opens_on_the_sentence(visit):
    page = visit("index")
    figure = page.locator(".live[data-figure=inside]")
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="Compute what is in each box").wait_for()
    page.locator(".drawing text", has_text="Generator").click()
    table = figure.locator("table")
    table.get_by_text("cat 0.99").wait_for()
    figure.get_by_role("button", name="src_attn").press("Enter")
    figure.get_by_role("button", name="weights (8, 9, 9)").wait_for()
    assert figure.get_by_role("button", name="src_attn").evaluate(FOCUSED)
    rows = [row.split() for row in table.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in rows][1:3] == ["The", "cat"]
    for _, *weights in rows:
        assert sum(map(float, weights)) == pytest.approx(1, abs=0.05)
    assert figure.locator("pre").text_content().startswith("def attention(")
    frame = page.locator(".frame:has([data-figure=inside])")
    frame.get_by_role("button", name="Enlarge").click()
    page.keyboard.press("Escape")
    # Two figures ask one translator, and both are answered.
    page.locator(".live input").fill("Ein Schmetterling liest die Zeitung.")
    page.locator(".drawing text", has_text="Generator").click()
    figure.get_by_text("“Ein Schmetterling liest die Zeitung.”").wait_for()
    page.wait_for_function(ANSWERED)


def test_a_tap_shows_the_threads_of_a_word_until_one_taps_elsewhere(visit):
    page = visit("index", 390, has_touch=True, is_mobile=True)
    words, dim = page.locator(".live-word"), page.locator(".live-curves .live-dim")
    words.first.wait_for()
    place(words.nth(1))
    threads = page.locator(".live-curves path").count()
    words.nth(1).tap()
    dim.first.wait_for(state="attached")
    assert 0 < dim.count() < threads
    words.nth(1).tap()  # the same
    dim.first.wait_for(state="detached")
    words.nth(1).tap()
    dim.first.wait_for(state="attached")
    page.locator(".lead").tap()
    dim.first.wait_for(state="detached")


def test_the_threads_of_a_word_follow_mouse_and_keyboard(visit):
    page = visit("index")
    page.locator(".live-curves path").first.wait_for(state="attached")
    words, dim = page.locator(".live-word"), page.locator(".live-curves .live-dim")
    place(words.nth(1))
    words.nth(1).hover()
    dim.first.wait_for(state="attached")
    hovered = dim.count()
    page.mouse.move(0, 0)
    dim.first.wait_for(state="detached")
    words.first.focus()
    page.keyboard.press("ArrowRight")
    dim.nth(hovered - 1).wait_for(state="attached")
    assert dim.count() == hovered
    page.keyboard.press("Tab")
    dim.first.wait_for(state="detached")


def test_a_sentence_is_there_when_one_comes_back(visit):
    page = visit("index")
    page.locator(".live-curves path").first.wait_for(state="attached")
    page.locator(".live input").fill("Zwei Hunde spielen im Schnee.")
    done = "document.querySelector('.live-text').textContent.startsWith('Two dogs')"
    page.wait_for_function(done)
    page.wait_for_function("!document.querySelector('.live [aria-busy=true]')")
    figures = page.url.replace("index.html", "figures.html")
    page.goto(figures, wait_until="networkidle")
    page.go_back()
    page.wait_for_function(done)
    sentence = page.locator(".live input").input_value()
    assert sentence == "Zwei Hunde spielen im Schnee."
    assert not page.evaluate("'makeTransformer' in window")  # the answer is kept, too


def test_over_a_slow_network_one_types_first_and_is_asked_before_it_loads(
    site, browser
):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    late = []
    page.route("**/live.js", lambda route: late.append(route))
    with page.expect_request("**/live.js"):
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
    sentence = page.locator(".live input")
    sentence.press_sequentially(" J")
    late.pop().continue_()
    page.get_by_role("button", name="Clear").wait_for()
    page.keyboard.type("a")  # the box still has the focus
    assert " Ja" in sentence.input_value()
    page.get_by_role("button", name="Load the model (6 MB)").click()
    sentence.fill("Zwei Hunde spielen im Schnee.")
    done = "document.querySelector('.live-text').textContent.startsWith('Two dogs')"
    page.wait_for_function(done)
    context.close()
    server.shutdown()


def test_a_beam_for_a_sentence_of_ones_own(visit):
    page = visit("notebooks/04_additional_components")
    figure = page.locator(".live[data-figure=beam]")
    figure.scroll_into_view_if_needed()
    figure.get_by_text("takes “hooked”").wait_for()
    assert figure.locator("tr").count() == 6
    width = figure.get_by_label("beam size")
    width.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")  # to a beam of one
    figure.get_by_text("Greedy decoding writes the same.").wait_for()
    assert figure.locator(".live-text").text_content() == (
        "The fisherman is hooked his net by the dock."
    )


def test_a_word_is_cut_from_the_attention(visit):
    page = visit("notebooks/05_attention_visualization", 390)
    figure = page.locator(".live[data-figure=cut]")
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="mit", exact=True).click()
    figure.get_by_text("A girl watches an old man play a guitar.").wait_for()
    assert figure.get_by_role("button", name="mit", pressed=True).count() == 1


def test_the_gpt_goes_on_with_a_word_that_one_clicks(visit):
    page = visit("notebooks/06_since_2017")
    figure = page.locator(".live[data-figure=next]")
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="bone").click()
    text = figure.locator("input").first.input_value()
    assert text == "A man is giving the dog a bone"
    top_p = figure.get_by_label("top-p")
    top_p.focus()
    page.keyboard.press("Home")
    assert figure.locator(".live-gone").count() == 7  # only the best is left
    figure.get_by_role("button", name="Draw the rest").click()
    assert "A man is giving the dog a bone." in figure.text_content()


def test_a_cell_of_the_mask_opens_by_a_tap(visit):
    page = visit("notebooks/01_architecture#1.4-Masks", 390, has_touch=True)
    settle(page)
    chart = page.locator(".chart:has(input[type=radio])").first
    numbers = chart.locator(".drawn svg text").filter(
        has_text=re.compile(r"^\d\.\d\d$")
    )
    assert numbers.count() == 15 + 5
    chart.locator("path[aria-label$=hidden]").nth(3).tap()  # the first query's last key
    page.wait_for_timeout(200)
    assert numbers.count() == 16 + 5
    assert numbers.filter(has_text="1.00").count() >= 5


def test_cells_of_the_mask_open_by_keyboard_and_the_change_is_heard(visit):
    page = visit("notebooks/01_architecture#1.4-Masks")
    settle(page)
    chart = page.locator(".chart:has(input[type=radio])").first
    chart.get_by_role("button", name="dog, dog, open").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    chart.get_by_role("button", name="soup, child, open").wait_for()
    heard = "document.querySelector('.chart:has(input[type=radio]) output').textContent"
    page.wait_for_function(f"/0[.]\\d\\d/.test({heard})")


def test_sliders_stay_beside_a_picture_that_is_taller_than_a_phone(visit):
    page = visit("notebooks/01_architecture", 390, has_touch=True, is_mobile=True)
    settle(page)
    chart = page.locator(".chart:has([name=log_base])")
    chart.evaluate("each => each.scrollIntoView()")
    box = chart.locator("[name=log_base]").bounding_box()
    assert chart.bounding_box()["height"] > 900 >= box["y"] + box["height"]


def test_a_drawing_opens_large_and_closes(visit):
    page = visit("notebooks/01_architecture", 390, has_touch=True)
    page.locator(".drawing + button.enlarge").first.tap()
    large = page.locator("#large svg")
    assert 370 < large.bounding_box()["width"] <= 390
    large.tap()
    assert large.bounding_box()["width"] >= 720
    page.get_by_role("button", name="Close").tap()
    page.locator("#large").wait_for(state="hidden")
    assert page.locator(".drawing").first.is_visible()


LETTERS = """() => Math.min(...[...large.querySelectorAll("svg text")]
    .map(each => each.getBoundingClientRect().height).filter(Boolean))"""


@pytest.mark.parametrize(
    "name", ["index", "take-a-part-away", "teaching/lectures/4_since_2017"]
)
def test_every_figure_fills_a_projector_and_goes_back(visit, name):
    page = visit(name)
    settle(page)
    page.set_viewport_size({"width": 1920, "height": 1080})
    places = page.locator("article .frame")
    figures = "all => all.map(each => each.firstElementChild.className)"
    before = places.evaluate_all(figures)
    for frame in places.all():
        frame.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        height = page.evaluate("document.documentElement.scrollHeight")
        frame.locator("button.enlarge").click()
        page.wait_for_timeout(300)
        box = page.locator("#large").bounding_box()
        assert box["width"] > 0.93 * 1920 or box["height"] > 0.93 * 1080, before
        assert page.evaluate("large.scrollWidth <= innerWidth")
        assert page.evaluate(LETTERS) > 20  # pixels, with ascent and descent
        page.keyboard.press("Escape")
        page.locator("#large").wait_for(state="hidden")
        now = page.evaluate("document.documentElement.scrollHeight")
        assert abs(now - height) < 30
    assert places.evaluate_all(figures) == before and before


def test_a_slide_gives_a_figure_the_room_that_it_has(visit):
    page = visit("teaching/lectures/1_attention")
    page.set_viewport_size({"width": 1920, "height": 1080})
    settle(page)
    page.get_by_role("button", name="Present").click()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    chart = page.locator("section.now .chart .drawn svg")
    page.wait_for_function(
        "document.querySelector('section.now .drawn svg').getBoundingClientRect()"
        ".width > 1300"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 1920
    assert chart.bounding_box()["y"] > 0
    page.keyboard.press("Escape")
    page.wait_for_function("!document.querySelector('.chart').style.zoom")


@pytest.mark.parametrize("width", [390, 1400])
def test_a_chart_has_the_height_of_the_place_that_was_left_for_it(visit, width):
    page = visit("notebooks/05_attention_visualization", width)
    heights = "all => all.map(each => each.offsetHeight)"
    charts = page.locator(".chart")
    before = charts.evaluate_all(heights)
    settle(page)
    after = charts.evaluate_all(heights)
    assert len(before) > 8
    for left, needed in zip(before, after, strict=True):
        assert needed == pytest.approx(left, abs=12)


def test_the_pill_leads_to_the_section_before_and_the_next(visit):
    page = visit("notebooks/01_architecture")
    pill = page.locator("#where")
    # Until the fonts are there and the charts drawn, the text moves.
    page.wait_for_function("""() => {
        document.getElementById("1.4-Masks").scrollIntoView();
        return document.querySelector("#where").innerText.includes("1.4");
    }""")
    here = pill.inner_text()
    pill.locator("a").last.click()
    page.wait_for_function(
        "here => document.querySelector('#where').innerText !== here", arg=here
    )
    page.wait_for_function("!!window.vegaEmbed")  # it isn't on its way any more
    page.goto(page.url.partition("/notebooks/")[0] + "/index.html")
    assert page.locator(".chapters meter").count() == 1  # how far one has read


def test_the_pill_says_the_whole_heading(visit):
    page = visit("notebooks/05_attention_visualization#Is-<s>-a-sink?")
    said = "document.querySelector('#where').innerText.includes('Is <s> a sink?')"
    page.wait_for_function(said)


@pytest.mark.parametrize("width", [390, 1400])
def test_a_link_leads_to_its_section(visit, width):
    """Charts that are drawn meanwhile don't shift it, and table and pill agree."""
    page = visit("notebooks/01_architecture", width)
    page.evaluate("location.hash = '#Three-uses'")
    page.wait_for_timeout(2500)  # a smooth jump would still draw and shift
    top = page.locator("#Three-uses").evaluate(
        "each => each.getBoundingClientRect().top"
    )
    assert 0 <= top < 120
    page.mouse.move(200, 400)
    page.mouse.wheel(0, 10)
    page.wait_for_timeout(300)
    current = page.locator(".toc-tree .scroll-current > a").last.text_content()
    assert current == page.locator("#where a").nth(1).text_content()


@pytest.mark.parametrize(
    "folder, words, where",
    [("", "label smoothing", "02_training.html#2.9-Label-smoothing"),
     ("", "why divide by sqrt", "01_architecture.html#Why-divide-by-√dₖ"),
     ("", "beam search", "04_additional_components.html#4.5-Beam-search"),
     ("", "positional encodings", "#1.10-Embeddings-and-positions"),
     ("", "dropout", "01_architecture.html#1.4-Masks"),
     ("", "KV cache", "04_additional_components.html#4.4-Decoding-step-by-step"),
     ("", "residul connections", "#1.8-Residual-connections"),
     ("", "hallucinations", "#"),
     ("", "queries", "01_architecture.html#1.1-Attention-by-hand"),
     ("zh/", "残差连接", "01_architecture.html#1.8-"),
     ("zh/", "标签平滑", "02_training.html#2.9-"),
     ("zh/", "注意力头", "#")],
)  # fmt: skip
def test_search_finds_the_section_first(visit, folder, words, where):
    page = visit(f"{folder}search")
    page.fill("article input[name=q]", words)
    page.press("article input[name=q]", "Enter")
    first = page.locator("ul.search a").first
    assert where in unquote(first.get_attribute("href"))
    results = page.locator("ul.search").inner_text()
    assert "\\" not in results and "olution" not in results.partition("\n")[0]
    assert page.locator("ul.search a[href*='/solutions/']").count() == 0
    if not folder:  # an excerpt ends where a word does
        last = page.locator("ul.search p").first.text_content().split()[-2:]
        whole = "last => SECTIONS.some(each => `${each[3]} …`.includes(last))"
        assert page.evaluate(whole, last[0] + " ")


def test_a_term_shows_its_meaning_to_pointer_and_keyboard(visit):
    page = visit("notebooks/02_training")
    card, term = page.locator("#term-card"), page.locator("a.term").first
    term.hover()
    assert card.is_visible() and len(card.inner_text()) > 30
    page.keyboard.press("Escape")
    assert card.is_hidden()
    page.mouse.move(1, 1)
    term.focus()
    assert card.is_visible() and term.get_attribute("aria-describedby") == "term-card"
    term.blur()
    assert card.is_hidden()
    assert term.get_attribute("href").startswith("glossary.html#term-")


def test_a_tap_on_a_term_shows_its_meaning_and_stays(visit):
    page = visit("notebooks/02_training", 390, has_touch=True, is_mobile=True)
    here = page.url
    page.locator("a.term").first.tap()
    assert page.locator("#term-card").is_visible() and page.url == here
    page.wait_for_load_state("networkidle")  # a chart's programs may be on their way
    page.locator("#term-card a").tap()
    page.wait_for_url("**/glossary.html#*")


def test_the_languages_lead_to_each_other(visit):
    page = visit("notebooks/glossary")
    page.click("a.language")
    page.wait_for_load_state()  # its programs aren't on their way any more
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert "/zh/notebooks/glossary.html" in page.url
    page.click("a.language")
    page.wait_for_load_state()
    assert "/zh/" not in page.url and page.url.endswith("glossary.html")
    page = visit("notebooks/90_keeping_a_run_safe")
    assert page.locator("a.language").count() == 0
    page = visit("zh/notebooks/08_a_real_model", 400)
    link = page.locator("article a[href*='90_keeping_a_run_safe.html']").first
    english = "../../notebooks/90_keeping_a_run_safe.html"
    assert link.get_attribute("href").startswith(english)


def test_without_programs_the_pictures_are_there(visit):
    name = "notebooks/05_attention_visualization"
    page = visit(name, java_script_enabled=False)
    pictures = page.locator(".chart img.only-light")
    cells = nbformat.read(ROOT / f"{name}.ipynb", 4).cells
    outputs = [o for cell in cells for o in cell.get("outputs", ())]
    charts = sum("image/png" in o.get("data", {}) for o in outputs)
    assert pictures.count() == charts > 5
    assert all(pictures.nth(i).is_visible() for i in range(charts))


def test_a_chapter_prints_as_a_book_does(visit):
    page = visit("notebooks/95_squeezing_out_bleu", theme="dark")
    settle(page)
    page.emulate_media(media="print", color_scheme="light")
    assert page.locator(".chart img.only-light").first.is_visible()
    for hidden in (".chart .drawn", ".copybtn", ".related-pages", ".skip-to-content",
                   ".run", ".toc-drawer", ".sidebar-drawer"):  # fmt: skip
        assert page.locator(hidden).first.is_hidden(), hidden
    # On a page as wide as the paper's text, no line of code is broken.
    page.set_viewport_size({"width": round((210 - 2 * 18) / 25.4 * 96), "height": 900})
    broken = """all => all.filter(pre => {
        const line = parseFloat(getComputedStyle(pre).lineHeight);
        const lines = pre.textContent.trimEnd().split("\\n").length;
        return pre.clientHeight > (lines + 2.5) * line;
    }).map(pre => pre.textContent)"""
    assert page.locator("div.cell_input pre").evaluate_all(broken) == []


def test_make_pdf_prints_a_chapter(site, browser):
    root, name = site.parents[1], "96_checked_against_pytorch"
    program = [sys.executable, "site/pdf.py", name]
    subprocess.run(program, cwd=root, check=True, capture_output=True)
    printed = (root / "build" / "pdf" / f"{name}.pdf").read_bytes()
    assert printed.startswith(b"%PDF") and len(printed) > 100_000
