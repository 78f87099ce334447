"""What the chapters, the glossary, and the other pages say is true."""

import ast
import re
import runpy
from pathlib import Path

import jupytext
import pytest
from chapters import (
    NOTEBOOKS,
    ROOT,
    chapters,
    name,
    read,
    sources,
    tags,
)
from links import dead

import annotated_transformer

CHAPTERS = [pytest.param(path, id=name(path)) for path in chapters()]
MAIN = [path for path in chapters() if not path.name.startswith("9")]
PAGES = [
    *sources(),
    NOTEBOOKS / "glossary.md",
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "TEACHING.md")
    ),
    *(ROOT.glob("[drm]*/**/README.md")),
]
SOURCES = [pytest.param(path, id=name(path)) for path in sources()]
EXEMPT = {"nbval-ignore-output", "nbval-skip"}
TAGS = EXEMPT | {"export", "rung", "summary", "raises-exception", "exercise"}
IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^)\s]+)[^)]*\)")


@pytest.mark.parametrize("path", SOURCES)
def test_one_title_at_the_head(path):
    prose = [cell.source for cell in read(path) if cell.cell_type == "markdown"]
    listings = re.compile(r"```.*?```", re.S)
    titles = [
        title
        for text in prose
        for title in re.findall("(?m)^# .*", listings.sub("", text))
    ]
    assert len(titles) == 1
    assert path.read_text(encoding="utf-8").startswith(titles[0])


@pytest.mark.parametrize("path", SOURCES)
def test_images_exist_and_say_what_they_show(path):
    text = path.read_text(encoding="utf-8")
    assert "<img" not in text, "an image is written ![what it shows](../images/…)"
    for image in IMAGE.finditer(text):
        file = (path.parent / image["path"]).resolve()
        assert file.is_relative_to(ROOT / "images") and file.is_file(), image[0]
        assert image["alt"], image[0]


@pytest.mark.parametrize("path", SOURCES)
def test_tags_are_known(path):
    assert not {tag for cell in read(path) for tag in tags(cell)} - TAGS


@pytest.mark.parametrize("path", CHAPTERS)
def test_exported_definitions_have_docstrings(path):
    bare = []
    for cell in read(path):
        if "export" in tags(cell):
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    if not ast.get_docstring(node):
                        bare.append(node.name)
    assert not bare


def prose(path: Path) -> list[str]:
    return [cell.source for cell in read(path) if cell.cell_type == "markdown"]


def sections(cells) -> dict[str, list]:
    """Return cells by the `##` heading they stand under, cutting text at headings."""
    found: dict[str, list] = {}
    title = ""
    for cell in cells:
        if cell.cell_type == "code":
            found.setdefault(title, []).append(cell)
            continue
        for part in re.split(r"(?m)^(?=## )", cell.source):
            if part.startswith("## "):
                title = part.partition("\n")[0][3:].strip()
            if part.strip():
                found.setdefault(title, []).extend(jupytext.reads(part, "md").cells)
    return found


@pytest.mark.parametrize("path", MAIN[:5], ids=name)
def test_sections_are_numbered_in_order(path):
    titles = [title for title in sections(read(path)) if title]
    assert [title.split()[0] for title in titles] == [
        f"{int(path.name[:2])}.{number}" for number in range(1, len(titles) + 1)
    ]


# Links, glossary, figures


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert dead(path) == []


def test_dead_links_are_found(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "01_a.md"
    other.write_text("# 1 · A `b`\n\n```python\n# no heading\n```\n")
    jupytext.write(jupytext.read(other), tmp_path / "01_a.ipynb")
    page.write_text(
        "# Top, of it\n[x](01_a.md) [x](01_a.ipynb#1-·-A-b) [x](01_a.md#1--a-b) "
        "[x](#top-of-it) [x](https://a.b) `[x](no)`\n```text\n[x](no)\n```\n"
        "[x](gone.md) [x](01_a.ipynb#1-a) [x](#Top) [x](01_a.ipynb#no-heading)\n"
    )
    assert dead(page) == ["gone.md", "01_a.ipynb#1-a", "#Top", "01_a.ipynb#no-heading"]


ENTRY = re.compile(
    r"- \*\*(?P<term>[^*]+)\*\* · `(?P<code>[^`]+)` · (?P<text>.*)", re.S
)


def test_glossary():
    text = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    entries = [ENTRY.match(part) for part in re.split(r"\n(?=- )", text)[1:]]
    assert all(entries)
    terms = [entry["term"] for entry in entries]
    assert terms == sorted(terms, key=str.casefold) and len(set(terms)) == len(terms)
    files = [
        annotated_transformer.__file__,
        *(ROOT / "transformer_workshop").glob("*.py"),
    ]
    code = "\n".join(Path(file).read_text(encoding="utf-8") for file in files)
    for entry in entries:
        assert re.search(rf"\b{entry['code']}\b", code), entry["term"]
        number, target = re.search(
            r"\[(\S+)[^\]]*\]\(([^)]+)\)", entry["text"]
        ).groups()
        assert target.startswith(f"{number.partition('.')[0]:0>2}"), entry["term"]
        if "." in number:
            assert f"#{number}-" in target, entry["term"]


FIGURES = runpy.run_path(str(ROOT / "images" / "draw.py"))
DECODING = runpy.run_path(str(ROOT / "images" / "draw_decoding.py"))
SPEED = runpy.run_path(str(ROOT / "images" / "draw_speed.py"))
SINCE = runpy.run_path(str(ROOT / "images" / "draw_since_2017.py"))
DRAWN = tuple(
    draw for program in (FIGURES, DECODING, SPEED, SINCE) for draw in program["FIGURES"]
)


@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
def test_figures_are_those_that_the_program_draws(draw):
    """Draw it again; the program refuses words that leave their box or touch others."""
    figure = draw()
    assert figure.path.read_text(encoding="utf-8") == figure.svg()
    assert figure.path.stem == draw.__name__


GREEDY = ("decoding", "greedy")


def measured_speed(part: str, table: str, system: str) -> list[float]:
    """Return how many times as fast ours is as a system, on each processor timed."""
    bench = annotated_transformer.read_json(ROOT / "results" / "bench.json")
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


def test_what_the_readme_says_was_measured():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in ("small", "diversified", "en-de"):
        found = annotated_transformer.read_json(
            ROOT / "results" / f"multi30k-{folder}" / "evaluate.json"
        )
        low, high = found["interval"]
        said = f"{found['bleu']:.1f} sacreBLEU ({low:.1f}–{high:.1f})"
        assert f"{said}, {found['chrf']:.1f} chrF" in page
        assert found["signature"] in page
    found = annotated_transformer.read_json(ROOT / "results" / "captions.json")
    card = (ROOT / "models" / "captions" / "README.md").read_text(encoding="utf-8")
    for part in ("seen", "combination", "order"):
        low, high = found[part]["interval"]
        bleu = f"{found[part]['bleu']:.1f}"
        assert f"{bleu} sacreBLEU ({low:.1f}–{high:.1f})" in page
        assert f"{bleu} ({low:.1f}–{high:.1f}) | {found[part]['chrf']:.1f}" in card
    small = ("training small", "against ours, float32")
    for table, system, form, said in (
        (small, "torch.nn.Transformer", ".1f", "{} times `nn.Transformer`"),
        (small, "MarianMTModel", ".1f", "{} times MarianMTModel"),
        (small, "the 2022 post's way", ".1f", "{} times the 2022 code"),
        (
            GREEDY,
            "CTranslate2 float32, 2 batches at once",
            ".1f",
            "{} times CTranslate2",
        ),
        (
            GREEDY,
            "generate of transformers, 2 threads",
            ".1f",
            "{} times `generate`",
        ),
        (GREEDY, "the 2022 post's greedy_decode", ".0f", "{} times the 2022 code"),
    ):
        found = measured_speed(*table, system)
        ends = dict.fromkeys(format(ratio, form) for ratio in (found[0], found[-1]))
        assert said.format(" to ".join(ends)) in page, (system, *ends)


def test_every_figure_is_shown():
    shown = "\n".join("\n".join(prose(path)) for path in chapters())
    for draw in DRAWN:
        assert f"../images/{draw.__name__}.svg" in shown
    files = {path.stem for path in (ROOT / "images").glob("*.svg")}
    assert files == {draw.__name__ for draw in DRAWN}


@pytest.mark.parametrize(
    ("path", "numbers"),
    [(MAIN[0], FIGURES["SECTION"]), (MAIN[5], SINCE["SECTION"])],
    ids=["of the whole", "since 2017"],
)
def test_numbers_in_the_figures_are_those_of_the_sections(path, numbers):
    places = {}
    for title, cells in sections(read(path)).items():
        for cell in cells:
            if "export" in tags(cell):
                for node in ast.parse(cell.source).body:
                    if isinstance(node, ast.FunctionDef | ast.ClassDef):
                        places[node.name] = title.split()[0]
    assert numbers == {name: places[name] for name in numbers}


# The page for teachers

ROW = re.compile(r"^\| (?P<number>\d\.\d) · (?P<title>[^|]+?) \| (?P<kind>[^|]+?) \| "
                 r"(?P<minutes>\d+) \|", re.M)  # fmt: skip
STATED = re.compile(
    r"^### Exercise (?P<number>\d\.\d) · (?P<title>.+?)\n+"
    r"\*(?P<kind>[^·*]+) · (?P<minutes>\d+) minutes\*$",
    re.M,
)


def test_teachers_see_the_exercises_as_the_chapters_state_them():
    page = (ROOT / "TEACHING.md").read_text(encoding="utf-8")
    stated = [
        e.groups()
        for path in MAIN[:6]
        for e in STATED.finditer("\n\n".join(prose(path)))
    ]
    assert [row.groups() for row in ROW.finditer(page)] == sorted(stated)


def undefined_yet(source: Path) -> set[str]:
    """Return what a chapter's cells use, even indirectly, before a cell defines it.

    In the tests, exported names are the module's, which has all of them at once; for
    a reader they come cell by cell. (make_model looks up LearnedPositions on request.)
    """
    cells = [c for c in jupytext.read(source).cells if c.cell_type == "code"]
    trees = [ast.parse(cell.source) for cell in cells]
    kinds = ast.FunctionDef | ast.ClassDef

    def mentioned(node: ast.AST) -> set[str]:
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}

    defined: dict[str, tuple[int, set[str]]] = {}  # name -> cell, names it mentions
    for number, tree in enumerate(trees):
        for node in tree.body:
            if isinstance(node, kinds):
                defined.setdefault(node.name, (number, mentioned(node)))
    found: set[str] = set()
    known: set[str] = {"LearnedPositions"}
    for number, tree in enumerate(trees):
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name for alias in node.names}
        called = (node for node in tree.body if not isinstance(node, kinds))
        new, used = set().union(*map(mentioned, called)), set()
        while new := {n for n in new - used - known if n in defined}:
            used |= new
            found |= {n for n in new if defined[n][0] > number}
            new = set().union(*(defined[n][1] for n in new))
    return found


@pytest.mark.parametrize("source", MAIN, ids=lambda path: path.stem)
def test_a_chapter_defines_before_it_uses(source):
    assert undefined_yet(source) == set()
