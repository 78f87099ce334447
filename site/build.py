"""Build the web site from the executed notebooks, without executing anything.

    python site/build.py [--url https://example.org/transformer/]
        [--solutions no|DATE] [--translator no]

For each language, this gathers its pages in build/site-source/, turns their charts and
exercises into HTML, and calls Sphinx. The site is written to build/site/, the Chinese
edition, if there is one, to build/site/zh/. Without solutions, or before a date such as
2027-01-31, the exercises stand alone. Without the translator, whose weights are for
research and education only, the front page has stored examples.
"""

import argparse
import base64
import datetime
import hashlib
import html
import json
import os
import re
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import api
import drawings
import live
import nbformat
import riddles
import style
import vl_convert
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.cmd.build import main as sphinx

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent
sys.path += [str(ROOT / "tools"), str(ROOT / "teaching")]

import answers  # noqa: E402
import contents  # noqa: E402
import exercises  # noqa: E402
import questions  # noqa: E402
import wording  # noqa: E402

BUILD = ROOT / "build"
VEGA = "application/vnd.vegalite.v5+json"
FOLDERS = {"en": "notebooks", "zh": "notebooks-zh"}
WORDS = {
    "en": ("Solution", "{} minutes to read, {} for the exercises, {} to run"),
    "zh": ("答案", "阅读 {} 分钟，练习 {} 分钟，运行 {} 分钟"),
}
THEME = {  # what furo says in English on every page
    "Auto light/dark, in dark mode": "自动，现为深色",
    "Auto light/dark, in light mode": "自动，现为浅色",
    "Back to top": "回到顶部", "Chart": "图表", "Contents": "目录", "Dark mode": "深色",
    "Expand": "展开", "Home": "首页", "Light mode": "浅色", "Menu": "菜单",
    "Next": "下一页", "On this page": "本页目录", "Previous": "上一页",
    "Skip to content": "跳到正文",
    "Toggle Light / Dark / Auto color theme": "切换浅色、深色或自动",
    "Toggle hidden content": "展开或收起",
    "Toggle site navigation sidebar": "打开或关闭导航",
    "Toggle table of contents sidebar": "打开或关闭本页目录",
}  # fmt: skip
CAPTIONS = {"en": ("Chapters", "Appendices", "More"), "zh": ("各章", "附录", "其他")}

# --- charts ----------------------------------------------------------------------


def ink_on_cells(spec: object) -> None:
    """Make text that lies on rectangles black, whatever the page's color is."""
    if isinstance(spec, list):
        for each in spec:
            ink_on_cells(each)
    elif isinstance(spec, dict):
        cells = False
        for layer in spec.get("layer", []):
            mark, places = layer.get("mark"), layer.get("encoding", {})
            mark = mark if isinstance(mark, dict) else {"type": mark}
            kind, shape = mark["type"], mark.get("shape", "")
            cells |= kind in ("rect", "bar") or shape.startswith("M")  # an SVG path
            inside = all("field" in places.get(axis, {}) for axis in "xy")
            if kind == "text" and cells and inside and "color" not in places:
                layer["mark"] = {"color": "black", **mark}
        for key, each in spec.items():
            if key not in ("data", "datasets"):
                ink_on_cells(each)


def picture(spec: str) -> bytes:
    """Return a PNG of a specification, which is drawn only once and then kept."""
    kept = BUILD / "site-pictures" / hashlib.sha256(spec.encode()).hexdigest()[:20]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(vl_convert.vegalite_to_png(spec))
    return kept.read_bytes()


def figure(spec: dict, png: bytes | None, folder: Path, up: str) -> str:
    """Return the HTML of a chart: a picture for each theme, and the specification.

    Writes the pictures into the folder, which the page reaches through ``up``.
    """
    ink_on_cells(spec)
    config = spec["config"]
    config["font"] = style.SANS
    dark = {k: {**config.get(k, {}), **v} if isinstance(v, dict) else v
            for k, v in style.CHARTS.items()}  # fmt: skip
    text = json.dumps({**spec, "config": {**config, **dark}}, ensure_ascii=False)
    for old, new in style.GRAYS.items():
        text = text.replace(old, new)
    pictures = []
    for theme, data in (
        ("light", png or picture(json.dumps(spec))),
        ("dark", picture(text)),
    ):
        name = hashlib.sha256(data).hexdigest()[:16] + ".png"
        (folder / name).write_bytes(data)
        width, height = struct.unpack(">II", data[16:24])
        title = spec.get("title") or ""
        title = title.get("text", "") if isinstance(title, dict) else title
        said = spec.get("description") or (title if isinstance(title, str) else "")
        alt = html.escape(said or "Chart", quote=True)
        pictures.append(
            f'<img class="only-{theme}" src="{up}{name}" alt="{alt}" '
            f'width="{width}" height="{height}" loading="lazy">'
        )
    held = json.dumps(
        {"spec": spec, "dark": {**config, **dark}, "swap": style.GRAYS},
        ensure_ascii=False,
    ).replace("<", "\\u003c")
    return (
        f'<div class="chart" tabindex="0" role="group" aria-label="{alt}">'
        f"{''.join(pictures)}"
        f'<script type="application/json">{held}</script></div>'
    )


# --- notebooks -------------------------------------------------------------------


CHECK = re.compile(r'^check\("(\w+)"', re.M)  # names the exercise


def solutions(path: Path) -> dict[str, tuple[str, list[NotebookNode]]]:
    """Return the number and the cells of each solution by its exercise's name."""
    found: dict[str, list[NotebookNode]] = {}
    number = ""
    for cell in nbformat.read(path, 4).cells if path.exists() else []:
        if cell.cell_type == "code":
            found.setdefault(number, []).append(cell)
            continue
        # A cell can end one solution and begin the next one.
        for part in re.split(r"(?m)^(?=#{1,3} )", cell.source):
            if heading := re.match(r"#+ (?:\D*(\d+\.\d+)(?: ·|:) )?.*", part):
                number, part = heading[1] or "", part[heading.end() :]
            if part.strip():
                found.setdefault(number, []).append(new_markdown_cell(part.strip()))
    return {
        check[1]: (number, cells)
        for number, cells in found.items()
        for cell in cells
        if (check := CHECK.search(cell.source))
    }


def without_solutions(text: str) -> str:
    """Return Markdown in which links to solutions are plain words."""
    return re.sub(r"\[([^]]+)\]\((?:en:)?[^()\s]*\bsolutions/[^()\s]*\)", r"\1", text)


# Where a chapter has a live figure, its notebook has a paragraph that says so.
LIVE = re.compile(r"<!-- live (\w+) -->(?:\n.+)*")


def stage(
    source: Path,
    target: Path,
    language: str,
    pictures: Path,
    with_solutions: bool,
    with_translator: bool,
) -> None:
    """Copy a notebook, with charts and live figures, and solutions behind a click."""
    notebook = nbformat.read(source, 4)
    if source.parent == ROOT / FOLDERS[language]:
        first = notebook.cells[0]
        title, _, rest = first.source.partition("\n")
        known = {each.path.stem: each for each in contents.entries(FOLDERS[language])}
        above = takes(known[source.stem], language)
        above = above and f'<p class="takes">{above}</p>\n\n'
        first.source = f"{title}\n\n{above}\n{rest}"
    solved, section = solutions(solutions_of(source)), ""
    up = "../" * len(target.relative_to(BUILD / "site-source" / language).parts[:-1])
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            section = (re.findall(r"(?m)^## (.+)$", cell.source) or [section])[-1]
            cell.source = redirected(cell.source, source, target, language)
            cell.source = LIVE.sub(
                lambda found: live.figure(
                    found[1], language, up + "_static/", with_translator
                ),
                cell.source,
            )
            if not with_solutions:
                cell.source = without_solutions(cell.source)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VEGA in data:
                png = base64.b64decode(data["image/png"])
                there = up + "_static/charts/"
                output.data = {"text/html": figure(data[VEGA], png, pictures, there)}
        check = CHECK.search(cell.source)
        if "exercise" not in cell.metadata.get("tags", []) or not check:
            continue
        field = answers.field(check[1], source, section, language)
        cells.append(new_markdown_cell(field))
        if with_solutions:
            number, answer = solved[check[1]]
            summary = f"<summary>{WORDS[language][0]} {number}</summary>"
            opening = f'<details class="solution">{summary}'
            cells += [
                new_markdown_cell(opening),
                *answer,
                new_markdown_cell("</details>"),
            ]
    if language == "en" and (found := moved(source.stem)):
        held = json.dumps(found, ensure_ascii=False)
        script = f'<script id="moved" type="application/json">{held}</script>'
        cells.append(new_markdown_cell(script))
    notebook.cells = cells
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def moved(chapter: str) -> dict[str, str]:
    """Return where sections are that a chapter no longer has, by their old headings.

    Numbers don't count; moved.json has them, as they were in links.
    """
    found = {}
    moves = json.loads((SITE / "moved.json").read_text(encoding="utf-8"))
    for old, new in moves.items():
        page, _, spot = old.partition("#")
        if page == chapter:
            where, _, anchor = new.partition("#")
            there = "" if where == chapter else f"{where}.html"
            found[re.sub(r"\d+\.\d+", "", spot)] = f"{there}#{anchor}"
    return found


def solutions_of(source: Path) -> Path:
    """Return the solutions of a chapter, in English if not in its own language."""
    own = source.parent / "solutions" / source.name
    return own if own.exists() else ROOT / "notebooks" / "solutions" / source.name


def redirected(text: str, source: Path, target: Path, language: str) -> str:
    """Return Markdown in which links to what is not translated lead to English."""
    if language == "en":
        return text
    edition = ROOT / FOLDERS[language]

    def lead(match: re.Match) -> str:
        name, anchor = match["to"], match["anchor"] or ""
        english = (source.parent / name).resolve()
        if english.exists() and english.is_relative_to(edition):
            return match[0]
        if not english.exists():
            folder = ROOT / "notebooks" / source.parent.relative_to(edition)
            english = (folder / name).resolve()
        page = BUILD / "site" / english.relative_to(ROOT).with_suffix(".html")
        here = BUILD / "site" / target.relative_to(BUILD / "site-source").parent
        return f"](en:{os.path.relpath(page, here)}{anchor})"

    link = r"\]\((?P<to>[^\s:()#]+\.(?:ipynb|md))(?P<anchor>#[^\s)]*)?\)"
    return re.sub(link, lead, text)


# --- pages -----------------------------------------------------------------------


def takes_of(entry: contents.Entry) -> list[int]:
    """Return the minutes it takes to read, to solve the exercises, and to run."""
    found = exercises.exercises(ROOT / "notebooks" / entry.path.name)
    practice = sum(each.minutes for each in found)
    return [entry.read, practice, entry.run[0]] if entry.lesson else []


def takes(entry: contents.Entry, language: str) -> str:
    """Return what a chapter takes, in words; nothing for an appendix."""
    minutes = takes_of(entry)
    return WORDS[language][1].format(*minutes) if minutes else ""


def listed(digit: str, language: str) -> str:
    """Return the front page's list of the chapters, with what each takes.

    Chapters that aren't translated lead to English.
    """
    lines = []
    for entry in contents.entries(FOLDERS[language]):
        stem = entry.path.stem
        if stem[0] != digit:
            continue
        link = f"notebooks/{stem}.ipynb"
        if not (ROOT / FOLDERS[language] / f"{stem}.ipynb").exists():
            link = f"en:../notebooks/{stem}.html"
        what = entry.about.removeprefix("appendix: ").removeprefix("附录：")
        colon = "：" if language == "zh" else ": "
        lines.append(f"- **[{entry.title}]({link})**{colon}{what}")
        if words := takes(entry, language):
            lines[-1] += f'<br>\n  <small class="takes">{words}</small>'
    text = "\n".join(lines)
    return f'<div class="chapters">\n\n{text}\n\n</div>'


def navigation(source: Path, language: str) -> str:
    """Return what Sphinx needs to know of the order of the pages."""
    found = [*source.glob("*/**/*.ipynb"), *source.glob("**/*.md")]
    pages = [p.relative_to(source).with_suffix("").as_posix() for p in found]
    groups: tuple[list[str], ...] = ([], [], [])
    for page in sorted(pages, key=lambda page: ("/solutions/" in page, page)):
        groups[{"0": 0, "9": 1}.get(page.removeprefix("notebooks/")[0], 2)].append(page)
    return "\n\n".join(
        "\n".join(
            ["```{toctree}", ":hidden:", f":caption: {caption}", "", *group, "```"]
        )
        for caption, group in zip(CAPTIONS[language], groups)
        if group
    )


def gather(
    language: str, with_solutions: bool = True, with_translator: bool = True
) -> Path:
    """Gather the pages of a language in a folder, and return that folder."""
    source = BUILD / "site-source" / language
    shutil.rmtree(source, ignore_errors=True)
    static = source / "_static"
    (static / "charts").mkdir(parents=True)
    shutil.copytree(ROOT / "images", source / "images")
    workshop = ROOT / "transformer_workshop"  # which the appendices link to
    shutil.copytree(
        workshop, source / workshop.name, ignore=shutil.ignore_patterns("__pycache__")
    )
    edition = ROOT / FOLDERS[language]
    for notebook in sorted(edition.glob("**/*.ipynb")):
        left_out = notebook.parent.name == "solutions" and not with_solutions
        if ".ipynb_checkpoints" not in notebook.parts and not left_out:
            target = source / "notebooks" / notebook.relative_to(edition)
            charts = static / "charts"
            stage(notebook, target, language, charts, with_solutions, with_translator)
    pages = [edition / "glossary.md"]
    if language == "en":
        pages += [ROOT / "TEACHING.md", ROOT / "results" / "README.md"]
        projects = ("projects", "sample_project", "sample_project_b")
        pages += [ROOT / f"teaching/{name}.md" for name in projects]
    else:
        pages += [edition / "TEACHING.md"]
    for page in filter(Path.exists, pages):
        folder = (
            "notebooks" if page.parent == edition else page.parent.relative_to(ROOT)
        )
        target = source / folder / page.name
        target.parent.mkdir(exist_ok=True)
        text = redirected(page.read_text(encoding="utf-8"), page, target, language)
        text = text if with_solutions else without_solutions(text)
        target.write_text(text, encoding="utf-8")
    if language == "en":
        (source / "api.md").write_text(api.page(), encoding="utf-8")
        (source / "self-test.md").write_text(self_test(), encoding="utf-8")
        for path in sorted((ROOT / "teaching" / "lectures").glob("*.md")):
            target = source / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            slides = lecture(path.read_text(encoding="utf-8"), static / "charts")
            target.write_text(slides, encoding="utf-8")
    programs(static, edition)
    if language == "en":  # Chinese pages use it, too
        live.place(static / "live", with_translator)
        (static / "riddles.js").write_text(riddles.script(), encoding="utf-8")
        page = (SITE / "learn.md").read_text(encoding="utf-8")
        page = page.replace("@LEARN@", riddles.figure("_static/"))
        (source / "take-a-part-away.md").write_text(page, encoding="utf-8")
    figures = drawings.page(edition, language, static)
    (source / "figures.md").write_text(figures, encoding="utf-8")
    arcs = json.loads((SITE / "front_page_map.json").read_text(encoding="utf-8"))
    hand = chart("01_architecture", "attention_by_hand")
    if language != "en":
        words = wording.Words.of(edition)
        hand, arcs = (wording.chart(spec, words) for spec in (hand, arcs))
        del arcs["description"]  # a sentence with all its weights
    front = (SITE / f"index.{language}.md").read_text(encoding="utf-8")
    times = filter(None, map(takes_of, contents.entries()))
    hours = [round(sum(each) / 60) for each in zip(*times)]
    for mark, text in {
        "LEARN": riddles.figure("_static/", "front"),
        "LIVE": live.figure("translate", language, "_static/", with_translator),
        "HAND": figure(hand, None, static / "charts", "_static/charts/"),
        "READING": str(hours[0]),
        "EXERCISES": str(hours[1]),
        "ATTENTION": figure(arcs, None, static / "charts", "_static/charts/"),
        "CHAPTERS": listed("0", language),
        "APPENDICES": listed("9", language),
        "TOCTREES": navigation(source, language),
    }.items():
        front = front.replace(f"@{mark}@", text)
    (source / "index.md").write_text(front, encoding="utf-8")
    return source


def self_test() -> str:
    """Return the page of the multiple-choice questions, with links to the sections."""
    links = {}
    for path in sorted((ROOT / "notebooks").glob("0*.md")):
        heading = r"(?m)^## ((\d+\.\d+) .*)$"
        for title, number in re.findall(heading, path.read_text(encoding="utf-8")):
            anchor = title.replace(" ", "-")
            links[number] = f"notebooks/{path.stem}.ipynb#{anchor}"
    source = questions.SOURCE.read_text(encoding="utf-8")
    return questions.page(questions.questions(source), links)


def chart(chapter: str, drawn_by: str) -> dict:
    """Return the specification of the first chart that a function draws."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", 4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if f"{drawn_by}(" in cell.source and VEGA in output.get("data", {}):
                return output.data[VEGA]
    raise ValueError(f"{chapter} has no chart that {drawn_by} draws")


def lecture(text: str, pictures: Path) -> str:
    """Return a lecture with its charts, and a place for the button."""

    def drawn(name: re.Match) -> str:
        spec = chart(name["chapter"], name["by"])
        return figure(spec, None, pictures, "../../_static/charts/")

    title, _, rest = text.partition("\n")
    rest = re.sub(r"(?m)^@chart (?P<chapter>\w+) (?P<by>\w+)@$", drawn, rest)
    return f'{title}\n\n<p class="lecture"></p>\n{rest}'


def programs(static: Path, edition: Path) -> None:
    """Write the program that draws charts, the style of figures, and previews."""
    # Its names stay its own: the theme has others.
    vega = "(() => {" + vl_convert.javascript_bundle() + "})();"
    (static / "vega.js").write_text(vega, encoding="utf-8")
    (static / "figures.css").write_text(drawings.style(), encoding="utf-8")
    card = (SITE / "preview.svg").read_text(encoding="utf-8")
    figures = {c: name for name, (_, c, _) in reversed(drawings.used(edition).items())}
    pages = {path.stem: figures.get(path.stem) for path in edition.glob("[0-9]*.md")}
    for name, figure in {"index": "transformer", **pages}.items():
        title = "" if name == "index" else name.partition("_")[2].replace("_", " ")
        png = drawings.preview(card, figure or "transformer", title.capitalize())
        (static / f"preview-{name}.png").write_bytes(png)


def pack(site: Path, archive: Path) -> None:
    """Write the site as one file to hand on; the same site gives the same bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(p for p in site.rglob("*") if p.is_file()):
            name = Path(archive.stem) / path.relative_to(site)
            packed.writestr(zipfile.ZipInfo(name.as_posix()), path.read_bytes(),
                            zipfile.ZIP_DEFLATED)  # fmt: skip


def join_styles(site: Path) -> None:
    """Put the style sheets into one: a page waits for one file, not for seven."""
    link = re.compile(
        r'\s*<link rel="stylesheet"[^>]* href="([./]*_static/)([^"?]+)[^>]*>'
    )
    pages = {page: page.read_text(encoding="utf-8") for page in site.glob("**/*.html")}
    [names] = {tuple(m[2] for m in link.finditer(text)) for text in pages.values()}
    sheets = [(site / "_static" / name).read_text(encoding="utf-8") for name in names]
    whole = "\n".join(sheets)
    (site / "_static" / "pages.css").write_text(whole, encoding="utf-8")
    version = hashlib.sha256(whole.encode()).hexdigest()[:8]
    for page, text in pages.items():
        static = link.search(text)[1]
        one = f'<link rel="stylesheet" href="{static}pages.css?v={version}">'
        text = link.sub("", text).replace("<title>", f"{one}<title>", 1)
        page.write_text(text, encoding="utf-8")


def translate_theme(site: Path) -> None:
    """Put the words of the theme on Chinese pages into Chinese."""
    words = "|".join(map(re.escape, THEME))
    pattern = re.compile(rf'(?<=[>"])(\s*)({words})(\s*)(?=[<"])')
    system, theme = r"(.*?Sphinx</a>) and(.*?@pradyunsg</a>)", r"(.*?Furo</a>)"
    made = re.compile(f"(?s)Made with{system}'s{theme}")
    for page in site.glob("**/*.html"):
        text = page.read_text(encoding="utf-8")
        text = pattern.sub(lambda m: m[1] + THEME[m[2]] + m[3], text)
        text = made.sub(r"网页由\1 和\2 的\3 生成", text)
        page.write_text(text, encoding="utf-8")


def solutions_shown(given: str) -> bool:
    """Return whether --solutions, yes, no, or their first day, shows them today."""
    if given in ("yes", "no"):
        return given == "yes"
    try:
        return datetime.date.fromisoformat(given) <= datetime.date.today()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{given!r} is neither yes nor no, nor a date such as 2027-01-31"
        ) from None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="", help="where the site will be published")
    parser.add_argument(
        "--solutions",
        type=solutions_shown,
        default="yes",
        help="yes, no, or from a date such as 2027-01-31 on",
    )
    parser.add_argument(
        "--translator", default="yes", choices=("yes", "no"), help="with its weights"
    )
    given = parser.parse_args()
    url = given.url and given.url.rstrip("/") + "/"
    site = BUILD / "site"
    shutil.rmtree(site, ignore_errors=True)
    languages = ["en"]
    if any((ROOT / FOLDERS["zh"]).glob("[0-9]*.ipynb")):
        languages.append("zh")
    with_translator = given.translator == "yes"
    sources = {
        each: gather(each, given.solutions, with_translator) for each in languages
    }
    for language, source in sources.items():
        out = site if language == "en" else site / language
        os.environ["SITE_LANGUAGE"], os.environ["SITE_URL"] = language, url
        doctrees = str(BUILD / "site-doctrees" / language)
        shutil.rmtree(doctrees, ignore_errors=True)
        options = ["-q", "-W", "--keep-going", "-c", str(SITE), "-d", doctrees]
        if status := sphinx([*options, str(source), str(out)]):
            return status
        if language == "zh":
            translate_theme(out)
        join_styles(out)
    if url:
        pages = sorted(p.relative_to(site).as_posix() for p in site.glob("**/*.html"))
        places = "".join(f"<url><loc>{url}{page}</loc></url>" for page in pages)
        (site / "sitemap.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>\n<urlset '
            f'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>\n',
            encoding="utf-8",
        )
    pack(site, BUILD / "annotated-transformer-site.zip")
    print(f"Open {site / 'index.html'} in a browser, or run "
          f"python -m http.server --directory {site.relative_to(ROOT)}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
