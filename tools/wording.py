"""Put what is seen but isn't prose into another language: charts, figures, comments.

words.toml in the folder of a language has a table for each: the English, and the
translation; `font` is the one in its folder fonts/ that has its letters. Nothing is
computed again: the words of a stored chart are replaced in its specification, and those
of a figure in its SVG. Of two texts that differ in measured numbers (0.57), the table
needs one. Code stays the same code: only comments and the docstrings of exercises
change. The list `same` names what stays English, such as names of classes; everything
else has to be in its table.
"""

import ast
import io
import re
import tokenize
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHART = "application/vnd.vegalite."  # how its type begins in a notebook
SHOWN = ("title", "subtitle", "text", "description")  # keys of what a chart says
LISTS = ("domain", "sort", "oneOf", "labels", "options", "range")
QUOTED = re.compile(r"'([^']*)'")  # in an expression
SVG_TEXT = re.compile(r"(<(?:text|title)\b[^>]*>)(.*?)(</(?:text|title)>)", re.S)
LETTERS = re.compile(r"[A-Za-z]{2}")
MEASURED = re.compile(r"\d+\.\d+")
COMMAND = re.compile(r"# (?:fmt|noqa|type|ruff)\b")


@dataclass
class Words:
    """The tables of a language, and what they lack."""

    tables: dict[str, Any]
    missing: set[tuple[str, str]] = field(default_factory=set)  # table, text

    @classmethod
    def of(cls, folder: Path) -> "Words":
        return cls(tomllib.loads((folder / "words.toml").read_text(encoding="utf-8")))

    def find(self, table: str, text: str, needed: bool = True) -> str:
        """Return the translation of a text; note it if it is needed and missing."""
        if text in self.tables[table]:
            return self.tables[table][text]
        if numbers := MEASURED.findall(text):
            found = self._measured(table).get(MEASURED.sub("#", text))
            if found:
                each = iter(numbers)
                return MEASURED.sub(lambda _: next(each), found)
        if needed and LETTERS.search(text) and text not in self.tables["same"]:
            self.missing.add((table, text))
        return text

    def _measured(self, table: str) -> dict[str, str]:
        """Return the translations of texts with numbers, # standing for each."""
        rows = self.tables[table].items()
        found = {MEASURED.sub("#", text): words for text, words in rows}
        return {text: words for text, words in found.items() if "#" in text}


def not_in_font(folder: Path) -> list[str]:
    """Return the letters of its charts that the font of a translation lacks."""
    from PIL import ImageFont

    charts = Words.of(folder).tables["charts"].values()
    letters, lacking = set(re.findall("[⺀-￯]", "".join(charts))), set()
    for file in (folder / "fonts").glob("*.otf"):
        font = ImageFont.truetype(str(file), 20)
        unknown = bytes(font.getmask("\U0010fffe"))
        lacking |= {c for c in letters if bytes(font.getmask(c)) == unknown}
    return sorted(lacking)


def chart(
    spec: Any,
    words: Words,
    key: str = "",
    data: bool = False,
    titled: frozenset[str] = frozenset(),
) -> Any:
    """Return a specification of Vega-Lite with its words replaced.

    What a chart says has to be in the table. Values of its data are replaced where the
    table has them, in rows, lists of categories and expressions alike.
    """
    if isinstance(spec, list):
        return [chart(part, words, key, data, titled) for part in spec]
    if isinstance(spec, dict):
        inside = data or key in ("datasets", "values")
        for layer in spec.get("layer", ()) if not inside else ():
            # in layers, Vega-Lite prefers a title that is given to a field's name
            channels = layer.get("encoding", {}).items()
            titled |= {
                k for k, it in channels if isinstance(it, dict) and it.get("title")
            }
        translated = {k: chart(v, words, k, inside, titled) for k, v in spec.items()}
        if "input" in spec and "name" in spec:  # a control
            translated["name"] = words.find("charts", spec["name"])
        name = spec.get("field")
        if (
            not inside
            and isinstance(name, str)
            and "title" not in spec
            and key not in titled
        ):
            if (title := words.find("charts", name, needed=False)) != name:
                translated["title"] = title  # Vega-Lite would show the field's name
        return translated
    if not isinstance(spec, str):
        return spec
    if data or key in (*LISTS, "value"):
        return words.find("charts", spec, needed=False)
    if key in ("expr", "calculate", "test", "filter", "labelExpr"):
        # formats and names of fields have no blank
        return QUOTED.sub(
            lambda it: f"'{words.find('charts', it[1], ' ' in it[1].strip())}'", spec
        )
    return words.find("charts", spec) if key in SHOWN else spec


def figure(svg: str, words: Words) -> str:
    """Return an SVG figure with its words replaced."""

    def one(match: re.Match) -> str:
        return match[1] + words.find("figures", match[2]) + match[3]

    return SVG_TEXT.sub(one, svg)


def code(source: str, words: Words, docstrings: bool) -> str:
    """Return code with its comments replaced and, if asked for, its docstrings."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return source
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not COMMAND.match(token.string):
            text = token.string.removeprefix("#").strip()
            start = starts[token.start[0] - 1] + token.start[1]
            new = f"# {words.find('code', text)}" if text else token.string
            spans.append((start, start + len(token.string), new))
    for node in ast.walk(tree) if docstrings else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            it: Any = node.body[0]
            start, end = (  # columns are counted in bytes
                starts[row - 1] + len(lines[row - 1].encode()[:column].decode())
                for row, column in (
                    (it.lineno, it.col_offset), (it.end_lineno, it.end_col_offset)
                )
            )  # fmt: skip
            inner = source[start:end].strip('"')
            spans.append((start, end, f'"""{words.find("code", inner)}"""'))
    for start, end, new in sorted(spans, reverse=True):
        source = source[:start] + new + source[end:]
    return source


def picture(spec: dict, folder: Path, font: str) -> str:
    """Draw a chart with a font of the language; return the PNG of a notebook."""
    import altair
    import vl_convert

    from transformer_workshop.pictures import use_charts

    use_charts()
    vl_convert.register_font_directory(str(folder / "fonts"))
    config = spec.get("config", {}) | {"font": font}
    return altair.renderers.get()(spec | {"config": config})["image/png"]
