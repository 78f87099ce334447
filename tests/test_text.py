"""The chapters keep to the sizes and forms that make them readable."""

import ast
import re
from pathlib import Path

import jupytext
import pytest
from chapters import ROOT, chapters, code_only, name, read, sources, tags

CHAPTERS = [pytest.param(path, id=name(path)) for path in chapters()]
SOURCES = [pytest.param(path, id=name(path)) for path in sources()]
EXEMPT = {"nbval-ignore-output", "nbval-skip"}
TAGS = EXEMPT | {"export", "summary", "raises-exception"}
IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^)\s]+)[^)]*\)")


def code_lines(cell) -> int:
    """Lines of code; docstrings, comments and blank lines don't count."""
    return len(code_only(cell.source).splitlines())


def words(cell) -> int:
    """Words of prose; listings, equations, images and links' targets don't count."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$|<!--.*?-->", " ", cell.source, flags=re.S)
    text = re.sub(r"\$[^$]*\$", " ", IMAGE.sub(" ", text))
    text = re.sub(r"\]\([^)]*\)", " ", text)
    return len(re.findall(r"\b[^\W\d_][\w'’-]*", text))


def oversizes(cells, words_per_line: float) -> list[str]:
    """Which limits a chapter breaks."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    sizes = [code_lines(cell) for cell in code]
    prose = sum(words(cell) for cell in cells if cell.cell_type == "markdown")
    after_prose, row, longest_row, before = 0, 0, 0, None
    for cell in cells:
        row = row + 1 if cell.cell_type == "code" else 0
        longest_row = max(longest_row, row)
        after_prose += cell.cell_type == "code" and before == "markdown"
        before = cell.cell_type
    found = []
    if (total := sum(sizes)) > 600:
        found.append(f"{total} lines of code, limit 600")
    if prose < words_per_line * total:
        ratio = prose / total
        found.append(f"{ratio:.1f} words a line of code, at least {words_per_line}")
    for cell, size in zip(code, sizes, strict=True):
        if size > 40:
            start = cell.source.split("\n")[0]
            found.append(f"a cell of {size} lines, limit 40: {start}")
    if (long := sum(size > 25 for size in sizes)) * 10 > len(code):
        found.append(f"{long} of {len(code)} cells have more than 25 lines, limit 10 %")
    if longest_row > 3:
        found.append(f"{longest_row} code cells in a row, limit 3")
    if after_prose < 0.8 * len(code):
        found.append(f"{after_prose} of {len(code)} code cells follow prose, 80 % must")
    return found


def sample(*blocks: str) -> list:
    """Cells of a chapter written as words (prose) and numbers (lines of code)."""
    text = "\n\n".join(
        "```python\n" + "\n".join(["x = 1"] * int(block)) + "\n```"
        if block.isdigit()
        else block
        for block in blocks
    )
    return jupytext.reads(text, "md").cells


@pytest.mark.parametrize(
    "blocks, complaint",
    [
        (["four words of prose", "1"], None),
        (["three words only", "1"], "3.0 words a line of code, at least 4"),
        (["word " * 200, "40"], "1 of 1 cells have more than 25 lines"),
        (["word " * 200, "41"], "a cell of 41 lines, limit 40"),
        (["word " * 9999, *["why", "20"] * 31], "620 lines of code, limit 600"),
        (["word " * 99, "1", "1", "1", *["why", "1"] * 7], None),
        (
            ["word " * 99, "1", "1", "1", "1", *["why", "1"] * 19],
            "4 code cells in a row",
        ),
        (["word " * 99, "1", "1", "1", *["why", "1"] * 6], "7 of 9 code cells follow"),
        (["four words of $e=m c$ prose", "1"], None),
        (["![a b c d e](x.svg) $a b$ <!-- a b c d -->", "1"], "0.0 words a line"),
        (["word\n\n```text\na b c d e f\n```", "1"], "1.0 words a line"),
    ],
)
def test_the_measure_measures(blocks, complaint):
    found = oversizes(sample(*blocks), 4)
    if complaint is None:
        assert not found
    else:
        assert any(complaint in fault for fault in found), found


@pytest.mark.parametrize("path", CHAPTERS)
def test_sizes(path):
    is_appendix = path.name.startswith("9")
    found = oversizes(read(path), 2 if is_appendix else 4)
    assert found == []


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
        assert len(image["alt"].split()) >= 3, image[0]


@pytest.mark.parametrize("path", SOURCES)
def test_tags_are_known(path):
    assert not {tag for cell in read(path) for tag in tags(cell)} - TAGS


def test_few_cells_are_exempt_from_comparison():
    code = [c for path in sources() for c in read(path) if c.cell_type == "code"]
    exempt = [c for c in code if EXEMPT & set(tags(c)) or "# NBVAL" in c.source]
    assert len(exempt) <= 0.15 * len(code)


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


def test_there_are_chapters():
    names = [path.stem for path in chapters()]
    assert names[0] == "01_architecture"
    assert all(isinstance(path, Path) for path in sources())
