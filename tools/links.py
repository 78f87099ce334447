"""Links in Markdown files, and whether they lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import jupytext

CODE = r"```.*?```|`[^`\n]*`"
LINK = re.compile(CODE + r"|!?\[(?P<words>[^\[\]]*)\]\((?P<to>[^)\s]+)\)", re.S)


def links(text: str) -> Iterator[str]:
    """Where the links of a text lead; what stands in code is none."""
    for found in LINK.finditer(text):
        if found["to"]:
            yield found["to"]


def prose(path: Path) -> str:
    """A Markdown file, or the text of a notebook, from its source where it has one."""
    path = path.with_suffix(".md") if path.with_suffix(".md").exists() else path
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = jupytext.read(path).cells
    return "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def headings(path: Path) -> list[str]:
    """The headings of a file as a reader sees them, without marks of code."""
    text = re.sub(r"(?ms)^```.*?^```", "", prose(path))
    found = re.findall(r"(?m)^#{1,6} +(.+?) *$", text)
    return [
        re.sub(r"[`*]", "", LINK.sub(lambda m: m["words"] or m[0], h)) for h in found
    ]


def anchors(path: Path) -> set[str]:
    """What can stand behind the # of a link to a file.

    Jupyter only replaces blanks; GitHub makes its Markdown's lower-case and leaves
    punctuation out.
    """
    if path.suffix == ".ipynb":
        return {heading.replace(" ", "-") for heading in headings(path)}
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings(path))
    return {heading.replace(" ", "-") for heading in kept}


def dead(path: Path) -> list[str]:
    """The links of a file that lead to no file, or to no heading of it.

    A notebook that is only waiting to be executed counts as a file.
    """
    found = []
    for link in links(prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / unquote(name) if name else path.with_suffix(".ipynb")
        if not name and not target.exists():
            target = path  # plain Markdown that points into itself
        if not (target.exists() or target.with_suffix(".md").exists()):
            found.append(link)
        elif anchor and unquote(anchor) not in anchors(target):
            found.append(link)
    return found
