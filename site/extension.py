"""What the pages have beyond Sphinx: cards for terms, and two languages."""

import html
import json
import re
from pathlib import Path
from urllib.parse import quote

from docutils import nodes
from sphinx.util.osutil import relative_uri

ENGLISH_PAGES = {"notebooks/TEACHING": "TEACHING"}  # else they have the same names


def slug(heading: str) -> str:
    """Return the anchor of a heading as Jupyter makes it."""
    return heading.replace(" ", "-")


# --- glossary --------------------------------------------------------------------

GLOSSARY = "notebooks/glossary"
NO_TERM = (nodes.literal, nodes.reference, nodes.title, nodes.math, nodes.raw,
           nodes.literal_block, nodes.math_block, nodes.table)  # fmt: skip


def terms(app, docname: str, source: list[str]) -> None:
    """Give each term of the glossary an anchor, and remember what it means.

    A Chinese entry, 词、别名（English term）, is known by its first name; its anchor
    is made of the English term.
    """
    if docname != GLOSSARY:
        return
    app.env.site_terms = {}
    app.env.site_homes = []  # for the search: names, meaning, section

    def anchor(match: re.Match) -> str:
        term, rest = match[1], match[2]
        names, _, english = term.rstrip("）").partition("（")
        name = names.partition("、")[0]
        spot = nodes.make_id(f"term-{english or name}")
        home = re.search(r"\]\((?:en:)?([^)]*)\)", rest)
        meaning = re.sub(r"\[[^\]]*\]\([^)]*\)", "", rest.partition(" · ")[2])
        meaning = re.sub(r"[`*]", "", " ".join(meaning.split()))
        app.env.site_terms[name] = (spot, meaning, home[1] if home else "")
        if home and (address := home[1].replace(".ipynb#", ".html#")):
            app.env.site_homes.append([term, meaning, f"notebooks/{address}"])
        return f"- []{{#{spot}}}**{term}** {rest}"

    source[0] = re.sub(r"(?ms)^- \*\*(.+?)\*\* (.*?)(?=^- |\Z|\n\n)", anchor, source[0])


def link_terms(app, doctree: nodes.document, docname: str) -> None:
    """Link the first occurrence of each term in a section to the glossary.

    A section that introduces a term doesn't need it.
    """
    if not docname.startswith("notebooks/0"):
        return
    chinese = app.config.language == "zh_CN"
    known = getattr(app.env, "site_terms", {})
    glossary = relative_uri(app.builder.get_target_uri(docname),
                            app.builder.get_target_uri(GLOSSARY))  # fmt: skip
    patterns = {
        term: re.compile(re.escape(term) if chinese else
                         rf"(?<![\w-]){re.escape(term)}s?(?![\w-])",
                         0 if term[1:].lower() != term[1:] else re.I)
        for term in sorted(known, key=len, reverse=True)
        if len(term) > 1  # 头 and 值 are parts of too many other words
    }  # fmt: skip
    page = docname.rpartition("/")[2]
    for section in doctree.children[0].findall(nodes.section):
        if section.parent.parent is not doctree:
            continue
        heading = section.next_node(nodes.title).astext().replace(" ", "-")
        left = {t: p for t, p in patterns.items()
                if not known[t][2].endswith(f"{page}.ipynb#{heading}")}  # fmt: skip
        for paragraph in list(section.findall(nodes.paragraph)):
            for text in list(paragraph.findall(nodes.Text)):
                if not _inside(text, NO_TERM):
                    text.parent.replace(text, _linked(str(text), left, known, glossary))


def _inside(node: nodes.Node, kinds: tuple) -> bool:
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


def _linked(text: str, left: dict, known: dict, glossary: str) -> list[nodes.Node]:
    """Return a text as nodes, in which terms are links; they leave ``left``."""
    for term, pattern in left.items():
        if found := pattern.search(text):
            del left[term]
            link = nodes.reference("", found[0], internal=True, classes=["term"],
                                   refuri=f"{glossary}#{known[term][0]}")  # fmt: skip
            before, after = text[: found.start()], text[found.end() :]
            return [*_linked(before, left, known, glossary), link,
                    *_linked(after, left, known, glossary)]  # fmt: skip
    return [nodes.Text(text)]


# --- figures ---------------------------------------------------------------------


def draw_figures(app, doctree: nodes.document, docname: str) -> None:
    """Put our figures into the page itself, where they have its typeface."""
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir) / image["uri"]
        if path.suffix != ".svg" or "images" not in path.parts[-3:-1]:
            continue
        svg = path.read_text(encoding="utf-8")
        svg = svg.replace('"arrow"', f'"arrow-{path.stem}"')
        svg = svg.replace("#arrow)", f"#arrow-{path.stem})")
        label = html.escape(image.get("alt", ""), quote=True)
        svg = svg[svg.index("<svg ") :].replace("<svg ", '<svg aria-hidden="true" ', 1)
        opening = f'<div class="drawing" role="img" aria-label="{label}">'
        image.replace_self(nodes.raw("", f"{opening}{svg}</div>", format="html"))


# --- pages -----------------------------------------------------------------------


def describe(app, pagename, templatename, context, doctree) -> None:
    """Tell the template a page's description, and where its other language is."""
    for part in ("furo_navigation_tree", "body"):
        if part in context:  # Sphinx leaves out the level, which readers of pages need
            context[part] = context[part].replace(
                'class="caption" role="heading"',
                'class="caption" role="heading" aria-level="2"',
            )
            # The corner of a table heads nothing.
            empty = r"<th\b[^>]*>(?:<p></p>)?</th>"
            context[part] = re.sub(empty, "<td></td>", context[part])
    if doctree is not None:
        first = next((p.astext() for p in doctree.findall(nodes.paragraph)), "")
        context["description"] = " ".join(first.split())[:200]
    stem = pagename.rpartition("/")[2]
    chapter = pagename.startswith("notebooks/") and stem[0].isdigit()
    context["site_url"] = app.config.html_baseurl
    context["preview"] = stem if chapter else "index"
    chinese = app.config.language == "zh_CN"
    edition, other = ("zh", "en") if chinese else ("en", "zh")
    names = ENGLISH_PAGES if chinese else {v: k for k, v in ENGLISH_PAGES.items()}
    name = names.get(pagename, pagename)
    gathered = Path(app.srcdir).parent / other
    there = (gathered / name).with_suffix
    if there(".ipynb").exists() or there(".md").exists() or (
        name == "search" and gathered.exists()
    ):  # fmt: skip
        folder = {"en": "", "zh": "zh/"}
        link = relative_uri(
            f"{folder[edition]}{pagename}.html", f"{folder[other]}{name}.html"
        )
        context["other_language"] = quote(link)


def write_terms(app, exception: Exception | None) -> None:
    """Write the meanings of the terms, as a program: pages from disk can't fetch."""
    if exception:
        return
    meanings = {spot: meaning for spot, meaning, _ in
                getattr(app.env, "site_terms", {}).values()}  # fmt: skip
    text = "const GLOSSARY = " + json.dumps(meanings, ensure_ascii=False) + ";\n"
    (Path(app.outdir) / "_static" / "glossary.js").write_text(text, encoding="utf-8")


def setup(app) -> dict:
    app.connect("source-read", terms)
    app.connect("doctree-resolved", link_terms)
    app.connect("doctree-resolved", draw_figures)
    app.connect("html-page-context", describe, priority=900)  # after the theme
    app.connect("build-finished", write_terms)
    return {"version": "1"}
