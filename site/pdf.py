"""Print each chapter and lecture of the built site to build/pdf/.

    python site/pdf.py [chapter …]

This needs Chromium. Charts are printed as pictures; solutions are left out.
"""

import sys
from pathlib import Path

import chromium
from playwright.sync_api import sync_playwright
from tqdm import tqdm

BUILD = Path(__file__).resolve().parent.parent / "build"
PAGE = {
    "format": "A4",
    "margin": {"top": "20mm", "bottom": "20mm", "left": "18mm", "right": "18mm"},
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": '<div style="width: 100%; text-align: center; font: 8pt '
    'sans-serif"><span class="pageNumber"></span></div>',
    "outline": True,  # the reader's list of sections
    "tagged": True,  # for screen readers
}
PICTURES = """() => Promise.all([...document.querySelectorAll(".chart > .only-light")]
    .map(each => { each.loading = "eager"; return each.decode(); }))"""


def main(names: list[str]) -> None:
    pages = sorted((BUILD / "site").glob("**/notebooks/[0-9]*.html"))
    pages += sorted((BUILD / "site").glob("teaching/lectures/*.html"))
    if names:
        pages = [page for page in pages if page.stem in names]
    if not pages:
        sys.exit("build/site has no such chapter: run make site first")
    try:
        program = chromium.installed()
    except FileNotFoundError as error:
        sys.exit(str(error))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**program)
        page = browser.new_page(color_scheme="light", offline=True)
        for source in tqdm(pages, unit="chapter"):
            page.goto(source.as_uri())
            page.evaluate(PICTURES)
            folder = source.parent.relative_to(BUILD / "site").parent
            target = BUILD / "pdf" / folder / f"{source.stem}.pdf"
            target.parent.mkdir(parents=True, exist_ok=True)
            page.pdf(path=target, landscape=source.parent.name == "lectures", **PAGE)
        browser.close()
    print(f"{len(pages)} files are in {BUILD / 'pdf'}")


if __name__ == "__main__":
    main(sys.argv[1:])
