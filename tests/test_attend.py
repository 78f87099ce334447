"""`attend` and its page: by the command, by its text, and in a real browser."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import annotated_transformer as at
from transformer_workshop.charts import _chart_theme

MODULE = Path(at.__file__)
SENTENCE = "Ein Hund läuft über die Wiese."


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def attend(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit status, standard output, and standard error."""
    errors = io.StringIO()
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = at.main(["attend", *arguments])
    return status, output.buffer.getvalue().decode(), errors.getvalue()


# --- the command ---------------------------------------------------------------


def test_it_prints_the_translation_and_writes_the_page():
    status, printed, said = attend(SENTENCE, "--out", "page.html")
    assert status == 0 and said.startswith("page.html: ")
    translator = at.load_translator(at.project_folder() / at.DEFAULT_MODEL, "cpu")
    assert printed == translator.translate([SENTENCE], 1)[0] + "\n"
    page = Path("page.html").read_text(encoding="utf-8")
    assert f"<p>{SENTENCE} → {printed.strip()}</p>" in page


def test_one_translation_a_line_in_the_order_of_the_sentences():
    sentences = ["Eine Frau liest.", SENTENCE, "Eine Frau liest."]
    status, printed, _ = attend(*sentences)
    assert status == 0 and Path("attention.html").exists()
    lines = printed.splitlines()
    assert len(lines) == 3 and lines[0] == lines[2] != lines[1]


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ((" ",), "is blank"),
        ((), "the following arguments are required: sentences"),
        ((SENTENCE, "--model", "nowhere"), "is not a folder"),
        ((SENTENCE, "--out", "/proc/page.html"), "can't be written"),
        ((SENTENCE, "--out", "page.pdf"), "Let it end in .html"),
        (("Hund " * 200,), "has 203 tokens, the model takes 128"),
        (("Hund \udcff",), "is not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, complaint):
    status, printed, said = attend(*arguments)
    assert status == 2 and printed == ""
    assert complaint in said and said.count("\n") == 1
    assert not Path("attention.html").exists()


@pytest.mark.slow
def test_it_works_as_a_program():
    command = [sys.executable, str(MODULE), "attend", SENTENCE, "--out", "a/b.html"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dog" in done.stdout and Path("a/b.html").stat().st_size < 2_000_000


# --- the page's text -------------------------------------------------------------


def planted() -> at.Explanation:
    """Make an explanation whose kinds, sentences, layers, and heads all differ."""
    torch.manual_seed(0)
    labels = [["<s>", "a", "</script>", "a"], ["Ein", "Hund", "Ein", "läuft", "</s>"]]
    found = []
    for number, sentence in enumerate(["Ein <b>Hund</b>", "zwei"]):
        for kind, (rows, columns) in zip(at.KINDS, [(1, 1), (0, 0), (0, 1)]):
            rows, columns = labels[rows][number:], labels[columns]
            weights = torch.randn(2, 3, len(rows), len(columns)).mul(2).softmax(-1)
            found.append(at.Recording(kind, sentence, rows, columns, weights))
    return at.Explanation(["Ein <b>Hund</b>", "zwei"], ["A </script>", "two"], found)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    planted().save(path)
    return path


def own_part(text: str) -> str:
    """Return the page without vl-convert's programs."""
    first, last = text.index("<script>") + 8, text.index("</script>")
    return text[:first] + text[last:]


def test_the_page_leads_nowhere(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<script>") == text.count("</script>") == 2
    own = own_part(text)
    assert not re.search(r"\b(src|href|action)\s*=|@import|url\(", own)
    assert "default-src 'none'" in own
    assert "connect-src" not in own and "unpkg" not in own and "cdn" not in own
    assert "<p>Ein &lt;b&gt;Hund&lt;/b&gt; → A &lt;/script&gt;</p>" in own


def test_the_page_holds_the_charts_as_they_are(page):
    own = own_part(page.read_text(encoding="utf-8"))
    held = json.JSONDecoder().raw_decode(own[own.index("Promise.all(") + 12 :])[0]
    charts = [chart.to_dict() for chart in planted().charts()]
    for ours, theirs in zip(held, charts, strict=True):
        assert ours.pop("config") == _chart_theme()["config"]
        theirs.pop("config", None)
        assert ours == theirs
    assert len({chart["description"] for chart in held}) == 1
    records = held[0]["data"]["values"]
    assert [record["kind"] for record in records[::2]] == at.KINDS[::-1]


# --- in a browser ----------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-extensions "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--hide-scrollbars --remote-debugging-pipe"
).split()


class Browser:
    """Headless Chromium without a network, controlled through a pair of pipes."""

    def __init__(self, profile: Path):
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        resolve = "--host-resolver-rules=MAP * ~NOTFOUND"
        program = [CHROMIUM, *FLAGS, resolve, f"--user-data-dir={profile}"]
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *program, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.input = os.fdopen(ours_out, "wb"), ours_in
        self.rest, self.number, self.session = b"", 0, None
        self.events: list[dict] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params) -> dict:
        """Return the answer to one command; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        self.out.flush()
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def receive(self) -> dict:
        """Return the next message, waiting a minute at most."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.input], [], [], 60)
            assert ready, "the browser says nothing"
            data = os.read(self.input, 1 << 16)
            assert data, "the browser has ended"
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path) -> None:
        """Load a page and wait until its charts are drawn."""
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive())
        self.run("drawn.then(() => 0)")

    def run(self, expression: str):
        """Return the value of a JavaScript expression, after awaiting promises."""
        done = self.ask(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def complaints(self) -> list:
        """Return what a page has logged, thrown, or fetched from elsewhere."""
        found = []
        for event in self.events:
            method, params = event["method"], event["params"]
            if method in ("Log.entryAdded", "Runtime.exceptionThrown"):
                found.append(params)
            elif method == "Runtime.consoleAPICalled":
                found.append([each.get("value") for each in params["args"]])
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:")):
                    found.append(url)
        return found

    def point(self, selector: str) -> None:
        """Move the pointer away, then rest it on the middle of an element."""
        place = self.run(
            f"(() => {{const b = {selector}.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]})()"
        )
        for x, y in ([1, 1], place):
            self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.run("new Promise(done => setTimeout(done, 100))")

    def close(self) -> None:
        self.out.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.input)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not CHROMIUM:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


CELLS = """drawn.then(views => {
  const name = Object.keys(views[%d]._runtime.data).find(n => {
    const rows = views[%d].data(n);
    return rows.length && "row_token" in rows[0] && "value" in rows[0]
      && !("weights" in rows[0]);
  });
  return views[%d].data(name).map(d =>
    [d.row, d.column, d.row_token, d.col_token, d.value]);
})"""


def choose(browser: Browser, chart: int, name: str, label: str) -> None:
    """Choose an entry of a list, as a person does."""
    browser.run(
        f"drawn.then(views => {{"
        f"const list = document.querySelector('#chart{chart} select[name={name}]');"
        f"list.selectedIndex = [...list.options].findIndex(o => o.text == {label!r});"
        f"list.dispatchEvent(new Event('input', {{bubbles: true}}));"
        f"list.dispatchEvent(new Event('change', {{bubbles: true}}));"
        f"return views[{chart}].runAsync().then(() => 0)}})"
    )


def compare(browser: Browser, chart: int, each: at.Recording, weights) -> None:
    cells = browser.run(CELLS % (chart, chart, chart))
    assert len(cells) == weights.numel()
    for row, column, row_token, col_token, value in cells:
        assert abs(value - weights[row, column].item()) < 0.0006
        assert (row_token, col_token) == (each.rows[row], each.columns[column])


@pytest.mark.slow
def test_the_browser_draws_the_planted_weights(page, browser):
    browser.open(page)
    explanation = planted()
    for kind in at.KINDS:
        choose(browser, 0, "Kind", kind)
        for sentence in explanation.sentences:
            choose(browser, 0, "Sentence", sentence)
            [each] = [
                r
                for r in explanation.recordings
                if (r.kind, r.sentence) == (kind, sentence)
            ]
            for layer in range(2):
                choose(browser, 0, "Layer", str(layer))
                for head in range(3):
                    choose(browser, 0, "Head", str(head))
                    compare(browser, 0, each, each.weights[layer, head])
                choose(browser, 0, "Head", "mean")
                compare(browser, 0, each, each.weights[layer].mean(0))
    assert browser.complaints() == []


@pytest.mark.slow
def test_pointing_shows_weights(page, browser):
    browser.open(page)
    cross = [r for r in planted().recordings if r.kind == at.KINDS[-1]][0]
    choose(browser, 0, "Layer", "0")
    choose(browser, 0, "Head", "1")
    weights = cross.weights[0, 1]
    squares = "[...document.querySelectorAll('#chart0 .layer_0_marks path')]"
    number = 2 * len(cross.columns) + 3
    browser.point(f"{squares}[{number}]")
    tooltip = browser.run("document.getElementById('vg-tooltip-element').innerText")
    for text in (cross.rows[2], cross.columns[3], f"{weights[2, 3]:.3f}".rstrip("0")):
        assert text in tooltip
    words = "[...document.querySelectorAll('#chart0 .mark-text text')]"
    percent = f"{words}.map(t => t.textContent).filter(t => /^[0-9]+$/.test(t))"
    assert browser.run(percent) == []
    browser.point(f"{words}.filter(t => t.textContent == 'a')[1]")
    expected = [f"{100 * value:.0f}" for value in weights[3].tolist()]
    found = browser.run(percent)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert abs(int(a) - int(b)) <= 1  # of thousandths
    faded = f"{squares}.filter(p => +p.getAttribute('opacity') < 0.5).length"
    assert browser.run(faded) == weights.numel() - weights.size(1)
    assert browser.complaints() == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1400])
def test_the_page_fits_its_window(page, browser, width, scheme):
    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        width=width, height=900, deviceScaleFactor=1, mobile=False,
    )  # fmt: skip
    feature = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.ask("Emulation.setEmulatedMedia", features=feature)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width
    style = "getComputedStyle(document.querySelector('{}')).{}".format
    assert browser.run(style(".chart", "backgroundColor")) == "rgb(255, 255, 255)"
    ink = browser.run(style("h1", "color"))
    assert ink == {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[scheme]
    label = "document.querySelector('#chart0 [aria-label]').getAttribute('aria-label')"
    assert "largest in each row" in browser.run(label)
    assert browser.complaints() == []
