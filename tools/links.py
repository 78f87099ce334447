"""Links in Markdown files, and whether they lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import jupytext

CODE = r"```.*?```|`[^`\n]*`"
TO = r"(?:[^()\s]|\([^()\s]*\))+"  # parentheses may stand in it in pairs
LINK = re.compile(CODE + rf"|!?\[(?P<words>[^\[\]]*)\]\((?P<to>{TO})\)", re.S)


def links(text: str) -> Iterator[str]:
    """Yield where the links of a text lead; those in code don't count."""
    for link in LINK.finditer(text):
        if link["to"]:
            yield link["to"]


def prose(path: Path) -> str:
    """Return a Markdown file, or a notebook's text, from its source if it has one."""
    path = path.with_suffix(".md") if path.with_suffix(".md").exists() else path
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = jupytext.read(path).cells
    return "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def titles(text: str) -> list[str]:
    """Return the headings of a text as a reader sees them, without code marks."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    headings = re.findall(r"(?m)^#{1,6} +(.+?) *$", text)
    return [
        re.sub(r"[`*]", "", LINK.sub(lambda m: m["words"] or m[0], h)) for h in headings
    ]


def anchor(title: str) -> str:
    """Return what leads to a heading of a notebook: Jupyter only replaces spaces."""
    return title.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Return what can follow the # in a link to a file.

    GitHub, which shows the Markdown, also makes headings lowercase and leaves out
    punctuation.
    """
    headings = titles(prose(path))
    if path.suffix == ".ipynb":
        return set(map(anchor, headings))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def dead(path: Path) -> list[str]:
    """Return the links of a file that lead to no file, or to no heading in it.

    A notebook that is yet to be executed counts as a file.
    """
    lost = []
    for link in links(prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / unquote(name) if name else path.with_suffix(".ipynb")
        if not name and not target.exists():
            target = path  # plain Markdown that links to itself
        if not (target.exists() or target.with_suffix(".md").exists()):
            lost.append(link)
        elif anchor and unquote(anchor) not in anchors(target):
            lost.append(link)
    return lost
