"""How high each chart will be on a phone and on a wide screen, so that no page jumps.

A chart is a picture until one comes near it. Drawn on a phone, its views stand below
each other, and it can be twice as high; controls need room, too. Chromium says how high
each chart becomes, once; the page leaves that room.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

CHART = re.compile(
    r'<div class="chart" (?P<rest>[^>]*>(?:(?!<script).)*'
    r'<script type="application/json">(?P<held>.*?)</script>)',
    re.S,
)
PHONES, WIDE = (360, 430), 1400  # in pixels; between two phones, a line connects them
ALONE = """() => document.querySelector("article").replaceChildren(
    ...document.querySelectorAll(".chart"))"""
MEASURE = """async () => {
    const heights = [];
    for (const chart of document.querySelectorAll(".chart")) {
        await draw(chart);
        heights.push(chart.offsetHeight);
    }
    return heights;
}"""


def place(site: Path, kept: Path) -> None:
    """Give each chart of the site's pages the room that it will need.

    Charts are drawn by the page itself, in Chromium; ``kept`` is the folder of what was
    measured before. Without Chromium, only those charts have their room.
    """
    pages = {page: page.read_text(encoding="utf-8") for page in site.glob("**/*.html")}
    kept.mkdir(parents=True, exist_ok=True)
    unknown = {
        page: found
        for page, text in pages.items()
        if (found := [name(chart) for chart in CHART.finditer(text)])
        and not all((kept / each).exists() for each in found)
    }
    if unknown:
        measure(unknown, kept)

    def roomy(chart: re.Match[str]) -> str:
        known = kept / name(chart)
        if not known.exists():
            return chart[0]
        small, large, wide = map(int, known.read_text().split())
        grows = (large - small) / (PHONES[1] - PHONES[0])
        room = f"--phone: {small}px; --grows: {grows:.3f}; --wide: {wide}px"
        return f'<div class="chart" style="{room}" {chart["rest"]}'

    for page, text in pages.items():
        if (with_room := CHART.sub(roomy, text)) != text:
            page.write_text(with_room, encoding="utf-8")


def name(chart: re.Match[str]) -> str:
    return hashlib.sha256(chart["held"].encode()).hexdigest()[:20]


def measure(charts: dict[Path, list[str]], kept: Path) -> None:
    """Draw the charts of each page, and keep their heights under their names."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        print("Chromium isn't installed: on phones, pages move while charts are drawn.")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        for path, names in charts.items():
            page = browser.new_page()
            page.set_default_timeout(0)
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            page.evaluate(ALONE)
            columns = []
            for width in (*PHONES, WIDE):
                page.set_viewport_size({"width": width, "height": 900})
                columns.append(page.evaluate(MEASURE))
            for each, heights in zip(names, zip(*columns)):
                (kept / each).write_text(" ".join(map(str, heights)))
            page.close()
        browser.close()
