"""What the chapters, the glossary, and the other pages say is true."""

import ast
import functools
import json
import re
import runpy
from pathlib import Path

import chapters as tools
import jupytext
import pytest
from chapters import MODULE, NOTEBOOKS, ROOT, WORKSHOP, chapters, sources, tags
from links import anchors, dead

from transformer_workshop.base.files import read_json

read = functools.cache(tools.read)  # the cells of a chapter
MAIN = [path for path in chapters() if not path.name.startswith("9")]
PAGES = [
    *sources(),
    NOTEBOOKS / "glossary.md",
    *(ROOT / f"{name}.md" for name in "README CONTRIBUTING CHANGELOG TEACHING".split()),
    *ROOT.glob("[drm]*/**/README.md"),
]
TAGS = {"nbval-ignore-output", "nbval-skip", "raises-exception", "hide-input"}
TAGS |= {"export", "rung", "summary", "exercise", "llm"}
IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^)\s]+)[^)]*\)")
Definition = ast.FunctionDef | ast.ClassDef


def prose(path: Path) -> str:
    """Return the text of a chapter without its code."""
    texts = [cell.source for cell in read(path) if cell.cell_type == "markdown"]
    return "\n\n".join(texts)


def sections(path: Path) -> dict[str, list]:
    """Return the cells of a chapter by the `##` heading that they stand under."""
    found: dict[str, list] = {}
    title = ""
    for cell in read(path):
        if cell.cell_type == "code":
            found.setdefault(title, []).append(cell)
            continue
        for title in re.findall(r"(?m)^## (.*)", cell.source):
            found[title] = []
    return found


def test_one_title_at_the_head():
    for path in sources():
        titles = re.findall("(?m)^# .*", re.sub("(?s)```.*?```", "", prose(path)))
        assert len(titles) == 1, path
        assert path.read_text(encoding="utf-8").startswith(titles[0])


def test_images_exist_and_say_what_they_show():
    for path in sources():
        text = path.read_text(encoding="utf-8")
        assert "<img" not in text, "an image is written ![what it shows](../images/…)"
        for image in IMAGE.finditer(text):
            file = (path.parent / image["path"]).resolve()
            assert file.is_relative_to(ROOT / "images") and file.is_file(), image[0]
            assert image["alt"], image[0]


def test_tags_are_known():
    for path in sources():
        assert not {tag for cell in read(path) for tag in tags(cell)} - TAGS, path


def test_exported_definitions_have_docstrings():
    tree = ast.parse(MODULE.read_text(encoding="utf-8"))
    exported = [n for n in tree.body if isinstance(n, Definition) and n.name[0] != "_"]
    assert [node.name for node in exported if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("path", MAIN, ids=lambda path: path.stem)
def test_sections_are_numbered_in_order(path):
    numbers = [title.split()[0] for title in sections(path) if title]
    chapter, first = int(path.name[:2]), int(numbers[0].split(".")[1])
    assert first in (0, 1)
    assert numbers == [f"{chapter}.{first + i}" for i in range(len(numbers))]


# Links, glossary, figures


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert dead(path) == []


def test_dead_links_are_found(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "01_a.md"
    other.write_text("# 1 · A `b`\n\n## C (1.2)\n\n```python\n# no heading\n```\n")
    jupytext.write(jupytext.read(other), tmp_path / "01_a.ipynb")
    page.write_text(
        "# Top, of it\n[x](01_a.md) [x](01_a.ipynb#1-·-A-b) [x](01_a.md#1--a-b) "
        "[x](#top-of-it) [x](01_a.ipynb#C-(1.2)) [x](https://a.b) `[x](no)`\n"
        "```text\n[x](no)\n```\n"
        "[x](gone.md) [x](01_a.ipynb#1-a) [x](#Top) [x](01_a.ipynb#no-heading)\n"
    )
    assert dead(page) == ["gone.md", "01_a.ipynb#1-a", "#Top", "01_a.ipynb#no-heading"]


ENTRY = re.compile(
    r"- \*\*(?P<term>[^*]+)\*\* · `(?P<code>[^`]+)` · .*?"
    r"\[(?P<number>\S+)[^\]]*\]\((?P<target>[^)]+)\)",
    re.S,
)


def test_headings_that_have_moved_lead_to_one_that_there_is():
    """Links from outside still lead to the old one; a title changes in moved.json."""
    moves = json.loads((ROOT / "site/moved.json").read_text(encoding="utf-8"))
    for old, new in moves.items():
        (was, gone), (now, here) = old.split("#"), new.split("#")
        assert gone not in anchors(NOTEBOOKS / f"{was}.ipynb"), old
        assert here in anchors(NOTEBOOKS / f"{now}.ipynb"), new


def test_glossary():
    text = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    entries = [ENTRY.match(part) for part in re.split(r"\n(?=- )", text)[1:]]
    assert entries and all(entries)
    terms = [entry["term"] for entry in entries]
    assert terms == sorted(set(terms), key=str.casefold)
    files = [MODULE, *WORKSHOP.rglob("*.py")]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for entry in entries:
        assert re.search(rf"\b{entry['code']}\b", code), entry["term"]
        chapter, dot, _ = entry["number"].partition(".")
        assert entry["target"].startswith(f"{chapter:0>2}"), entry["term"]
        assert not dot or f"#{entry['number']}-" in entry["target"], entry["term"]


def figures(program: str) -> dict:
    return runpy.run_path(str(ROOT / "images" / f"{program}.py"))


PROGRAMS = "draw", "draw_decoding", "draw_speed", "draw_since_2017"
DRAWN = [draw for program in PROGRAMS for draw in figures(program)["FIGURES"]]


@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
def test_figures_are_those_that_the_program_draws(draw):
    """Draw it again; the program refuses words that leave their box or touch others."""
    figure = draw()
    assert figure.path.read_text(encoding="utf-8") == figure.svg()
    assert figure.path.stem == draw.__name__


def test_every_figure_is_shown():
    names = {draw.__name__ for draw in DRAWN}
    assert {path.stem for path in (ROOT / "images").glob("*.svg")} == names
    shown = "\n".join(map(prose, chapters()))
    assert [name for name in names if f"../images/{name}.svg" not in shown] == []


def test_the_module_says_which_section_defines_what():
    lines = MODULE.read_text(encoding="utf-8").splitlines()
    section = lines[
        lines.index("# 1.4 Masks") : lines.index("# 1.5 Multi-head attention")
    ]
    assert any(line.startswith("def subsequent_mask(") for line in section)


# Measured figures


def measured_speed(part: str, table: str, system: str) -> list[float]:
    """Return how many times as fast ours is as a system, on each processor timed."""
    bench = read_json(ROOT / "results" / "bench.json")
    tables = [parts.get(part, {}).get(table, {}) for parts in bench.values()]
    return sorted(rows[system]["ours_is"] for rows in tables if system in rows)


def test_what_chapter_93_says_of_speed_was_measured():
    """Find ours behind the C++ engine on two batches, ahead of the Python libraries."""
    engine = "CTranslate2 float32"
    for kind in ("greedy", "beam 5", "one sentence"):
        for threads in ("1 thread", "2 threads"):
            library = f"generate of transformers, {threads}"
            assert all(x > 1 for x in measured_speed("decoding", kind, library))
        two = measured_speed("decoding", kind, f"{engine}, 2 batches at once")
        assert two and max(two) < 1
    alone = measured_speed("decoding", "one sentence", f"{engine}, 1 thread")
    assert 0.25 < min(alone) and max(alone) < 0.5


def test_what_the_readme_says_of_quality_was_measured():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in ("small", "diversified", "en-de"):
        found = read_json(ROOT / f"results/multi30k-{folder}/evaluate.json")
        low, high = found["interval"]
        said = f"{found['bleu']:.1f} sacreBLEU ({low:.1f}–{high:.1f})"
        assert f"{said}, {found['chrf']:.1f} chrF" in page
        assert found["signature"] in page
    found = read_json(ROOT / "results" / "captions.json")
    card = (ROOT / "models" / "captions" / "README.md").read_text(encoding="utf-8")
    for part in ("seen", "combination", "order"):
        low, high = found[part]["interval"]
        bleu = f"{found[part]['bleu']:.1f}"
        assert f"{bleu} sacreBLEU ({low:.1f}–{high:.1f})" in page
        assert f"{bleu} ({low:.1f}–{high:.1f}) | {found[part]['chrf']:.1f}" in card


# The order of a chapter's cells


def mentioned(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


@pytest.mark.parametrize("source", MAIN, ids=lambda path: path.stem)
def test_a_chapter_defines_before_it_uses(source):
    """Follow what cells use, even indirectly, to the cells that define it.

    In the tests, exported names are the module's, which has all of them at once; for
    a reader they come cell by cell.
    """
    cells = [cell for cell in read(source) if cell.cell_type == "code"]
    trees = [ast.parse(cell.source) for cell in cells]
    defined: dict[str, tuple[int, set[str]]] = {}  # name -> cell, names it mentions
    for number, tree in enumerate(trees):
        for node in tree.body:
            if isinstance(node, Definition):
                defined.setdefault(node.name, (number, mentioned(node)))
    known: set[str] = set()  # what is imported
    for number, tree in enumerate(trees):
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name for alias in node.names}
        called = [node for node in tree.body if not isinstance(node, Definition)]
        used: set[str] = set()
        new = set().union(*map(mentioned, called)) & defined.keys() - known
        while new:
            used |= new
            new = set().union(*(defined[name][1] for name in new))
            new &= defined.keys() - known - used
        assert {name for name in used if defined[name][0] > number} == set(), number
