"""Our figures on the site: light and dark, on a page of their own, and as previews."""

import re
from pathlib import Path

import vl_convert
from style import FIGURES

ROOT = Path(__file__).resolve().parent.parent
COLOR = re.compile(r'(fill|stroke)="(#[0-9a-f]{6})"')


def darkened(svg: str) -> str:
    """Return a figure in the colors of a dark page."""
    return COLOR.sub(lambda m: f'{m[1]}="{FIGURES.get(m[2], m[2])}"', svg)


def style() -> str:
    """Return the style sheet that shows figures in dark colors on a dark page."""
    rules = [
        f':is(.drawing, #large) svg [{part}="{old}"] {{ {part}: {new}; }}'
        for old, new in FIGURES.items()
        for part in ("fill", "stroke")
    ]
    chosen = "".join(f'body[data-theme="dark"] {rule}\n' for rule in rules)
    wished = "".join(f'body:not([data-theme="light"]) {rule}\n' for rule in rules)
    dark = f"@media (prefers-color-scheme: dark) {{\n{wished}}}\n"
    return f"@media not print {{\n{chosen}{dark}}}\n"


def used(edition: Path) -> dict[str, tuple[str, str, str]]:
    """Return for each figure its words, and the chapter and section that show it.

    The name of one in the edition's language begins with the language's folder.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for chapter in sorted(edition.glob("[0-9]*.md")):
        heading = ""
        pattern = r"(?ms)^#{2,3} ([^\n]*)$|!\[(.*?)\]\(\.\./images/([\w/]+)\.svg\)"
        for match in re.finditer(pattern, chapter.read_text(encoding="utf-8")):
            if match[1]:
                heading = match[1]
            elif match[3] not in found:
                words = " ".join(match[2].split())
                found[match[3]] = words, chapter.stem, heading
    return found


WORDS = {
    "en": (
        "Figures",
        "All figures of the series, for your own pages and slides. Each is an SVG in "
        "light and in dark colors. They are free to use under the [MIT "
        "license](https://opensource.org/license/mit); please name *The Annotated "
        "Transformer* as the source.",
        ("light", "dark"),
    ),
    "zh": (
        "图",
        "本系列的全部插图，可用于你自己的网页和幻灯片。每张有浅色、深色两个 SVG 文件，"
        "按 [MIT 许可证](https://opensource.org/license/mit)自由使用，"
        "请注明出自 *The Annotated Transformer*。",
        ("浅色", "深色"),
    ),
}


def page(edition: Path, language: str, static: Path) -> str:
    """Return a page of all figures, and write them in both colors."""
    title, says, (light, dark) = WORDS[language]
    folder = static / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"# {title}", says]
    for name, (words, chapter, heading) in used(edition).items():
        svg = (ROOT / "images" / f"{name}.svg").read_text(encoding="utf-8")
        stem = name.rpartition("/")[2]
        (folder / f"{stem}.svg").write_text(svg, encoding="utf-8")
        (folder / f"{stem}-dark.svg").write_text(darkened(svg), encoding="utf-8")
        text = (edition / f"{chapter}.md").read_text(encoding="utf-8")
        name_of_chapter = re.search(r"(?m)^# (.*)$", text)[1]
        where = f"notebooks/{chapter}.ipynb#{heading.replace(' ', '-')}".rstrip("#")
        parts += [
            f"![{words}](images/{name}.svg)",
            f"[{heading or name_of_chapter}]({where}) · "
            f'<a href="_static/figures/{stem}.svg" download>{light}</a> · '
            f'<a href="_static/figures/{stem}-dark.svg" download>{dark}</a>',
        ]
    return "\n\n".join(parts) + "\n"


def preview(card: str, figure: str, title: str) -> bytes:
    """Return the picture that a link to a page shows: its title and a figure."""
    svg = (ROOT / "images" / f"{figure}.svg").read_text(encoding="utf-8")
    width, height = map(int, re.search(r'width="(\d+)" height="(\d+)"', svg).groups())
    scale = min(560 / width, 580 / height)
    place = f'<svg x="{610 + (560 - width * scale) / 2:.0f}" '
    place += f'y="{(630 - height * scale) / 2:.0f}" '
    svg = svg[svg.index("<svg ") :].replace("<svg ", place, 1)
    size = f'width="{width * scale:.0f}" height="{height * scale:.0f}"'
    svg = svg.replace(f'width="{width}" height="{height}"', size, 1)
    lines, line = [], ""
    for word in title.split():
        if len(line) + len(word) > 17 and line:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    lines.append(line)
    words = "".join(
        f'<text x="60" y="{300 + 62 * i}" font-size="52" font-weight="700" '
        f'fill="#0072b2">{each}</text>'
        for i, each in enumerate(lines)
    )
    card = card.replace("@TITLE@", words).replace("@FIGURE@", svg)
    return vl_convert.svg_to_png(card)
