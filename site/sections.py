"""Search by section: which sections are there, and what do they say?

The pages' own words, without code, outputs and solutions, become a file that the page
of the search reads; it also works on a page opened from disk, which can fetch nothing.
"""

import json
import re
from pathlib import Path

from docutils import nodes

SKIPPED = ("notebooks/solutions/", "results/", "search", "index")
NOT_PROSE = (nodes.literal_block, nodes.raw, nodes.image, nodes.comment)
SIGNS = {
    r"\sqrt": "√", r"\alpha": "α", r"\beta": "β", r"\epsilon": "ε", r"\theta": "θ",
    r"\tau": "τ", r"\cdot": "·", r"\times": "×", r"\sum": "Σ", r"\log": "log ",
    r"\infty": "∞", r"\le": "≤", r"\approx": "≈", r"\top": "ᵀ", r"\sin": "sin ",
    r"\cos": "cos ",
}  # fmt: skip


def plain(tex: str) -> str:
    """Return a formula as text that can be read and found."""
    for sign, text in SIGNS.items():
        tex = re.sub(re.escape(sign) + r"(?![a-zA-Z])", text, tex)
    tex = re.sub(r"\\(mathrm|text|mathtt|mathbf|mathcal|operatorname)\b", "", tex)
    tex = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2", tex)
    tex = re.sub(r"\\[a-zA-Z]+|\\.|[{}$&]", " ", tex)
    return " ".join(tex.split()).replace("√ ", "√")


def words(node: nodes.Node) -> str:
    """Return the prose under a node, up to the sections below it."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, (nodes.math, nodes.math_block)):
        return plain(node.astext())
    if isinstance(node, (nodes.section, nodes.title, *NOT_PROSE)):
        return ""
    if "cell" in node.get("classes", ()):  # code and its output
        return ""
    between = "" if isinstance(node, nodes.TextElement) else " "
    return between.join(words(child) for child in node.children)


def remember(app, pagename, templatename, context, doctree) -> None:
    """Remember the sections of a page: address, title, page's title, text."""
    if doctree is None or pagename.startswith(SKIPPED):
        return
    found = app.__dict__.setdefault("sections", [])
    page = app.builder.get_target_uri(pagename)
    top = next(doctree.findall(nodes.title), None)
    for section in doctree.findall(nodes.section):
        title = section.next_node(nodes.title)
        text = " ".join(" ".join(words(child) for child in section.children).split())
        anchor = "" if title is top else "#" + section["ids"][-1]
        found.append([page + anchor, title.astext(), top.astext(), text])


def store(app, exception: Exception | None) -> None:
    """Write the sections, and those that the glossary names, as a program."""
    if not exception:
        found = {"SECTIONS": sorted(app.sections), "HOMES": app.env.site_homes}
        path = Path(app.outdir) / "_static" / "sections.js"
        text = [f"const {name} = {json.dumps(value, ensure_ascii=False)};\n"
                for name, value in found.items()]  # fmt: skip
        path.write_text("".join(text), encoding="utf-8")


def setup(app) -> dict:
    app.connect("html-page-context", remember)
    app.connect("build-finished", store)
    return {"version": "1"}
