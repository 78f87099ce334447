"""How high each chart will be on a phone and on a wide screen, so that no page jumps.

A chart is a picture until one comes near it. Drawn on a phone, its views stand below
each other, and it can be twice as high; controls need room, too. Chromium says how high
each chart becomes, once; the page leaves that room.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path

import chromium
from playwright.async_api import Browser, Error, async_playwright

CHART = re.compile(
    r'<div class="chart" (?P<rest>[^>]*>(?:(?!<script).)*'
    r'<script type="application/json">(?P<held>.*?)</script>)',
    re.S,
)
# in pixels: two phones, between which a line leads, and a wide screen
SMALL, LARGE, WIDE = WIDTHS = (360, 430, 1400)
PATIENCE = 600  # seconds, for all charts
# Each chart is alone on the page: others would be laid out with it.
MEASURE = """async charts => {
    const place = document.querySelector("article"), heights = [];
    place.style.clear = "both"; // the theme's buttons float beside the first lines
    for (const html of charts) {
        place.innerHTML = html;
        const chart = place.firstElementChild;
        await draw(chart);
        heights.push(chart.offsetHeight);
        chart.view.finalize();
    }
    return heights;
}"""


def place(site: Path, kept: Path) -> None:
    """Give each chart of the site's pages the room that it will need.

    Charts are drawn as the pages draw them, in Chromium; ``kept`` is the folder of what
    was measured before. Where Chromium isn't installed, fails, or takes longer than
    PATIENCE, a line says so, and only the charts measured before have their room.
    """
    pages = {page: page.read_text(encoding="utf-8") for page in site.glob("**/*.html")}
    unknown = {
        name(chart): chart[0]
        for text in pages.values()
        for chart in CHART.finditer(text)
        if not (kept / name(chart)).exists()
    }
    kept.mkdir(parents=True, exist_ok=True)
    if unknown:
        try:
            measured = asyncio.run(measure(site / "api.html", list(unknown.values())))
        except (Error, OSError) as error:  # one of them is TimeoutError, which is mute
            why = str(error).partition("\n")[0] or f"it took more than {PATIENCE} s"
            print(f"Chromium measured no charts ({why}): text will move around them.")
        else:
            for each, heights in zip(unknown, measured, strict=True):
                (kept / each).write_text(" ".join(map(str, heights)))

    def roomy(chart: re.Match[str]) -> str:
        known = kept / name(chart)
        if not known.exists():
            return chart[0]
        small, large, wide = map(int, known.read_text().split())
        grows = (large - small) / (LARGE - SMALL)
        room = f"--phone: {small}px; --grows: {grows:.3f}; --wide: {wide}px"
        return f'<div class="chart" style="{room}" {chart["rest"]}'

    for page, text in pages.items():
        if (with_room := CHART.sub(roomy, text)) != text:
            page.write_text(with_room, encoding="utf-8")


def name(chart: re.Match[str]) -> str:
    return hashlib.sha256(chart["held"].encode()).hexdigest()[:20]


async def measure(page: Path, charts: list[str]) -> list[tuple[int, ...]]:
    """Return the heights of charts, given as HTML, drawn on a page at each of WIDTHS.

    Raises TimeoutError after PATIENCE seconds, and Playwright's Error.
    """

    async def at(width: int, browser: Browser) -> list[int]:
        tab = await browser.new_page(viewport={"width": width, "height": 900})
        await tab.goto(page.as_uri())
        heights: list[int] = await tab.evaluate(MEASURE, charts)
        return heights

    async with asyncio.timeout(PATIENCE), async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium.installed())
        columns = await asyncio.gather(*(at(width, browser) for width in WIDTHS))
    return list(zip(*columns, strict=True))
