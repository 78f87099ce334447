"""Draw the figures of chapter 4 as SVG, in the style of draw.py.

python images/draw_decoding.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from draw import FILL, HEADS, LINE, Figure, write  # noqa: E402


def cache() -> Figure:
    """Draw one step of decoding: what is computed, and what is only read."""
    f = Figure("cache", 330, "One step of decoding with a cache")
    f.text(120, 26, "computed: position t alone", 14, bold=True)
    f.text(530, 26, "stored: two pairs for each layer", 14, bold=True)
    names = ("generator", "feed-forward", "attention to the source", "self-attention")
    fills = ("output", "feed", "attention", "attention")
    for i, (name, fill) in enumerate(zip(names, fills, strict=True)):
        f.box(24, 46 + 56 * i, 192, 38, name, fill)
        f.line((120, 102 + 56 * i), (120, 86 + 56 * i))
    f.box(24, 270, 192, 38, "newest word, position t", "embed")
    # the source: computed once
    f.grid(334, 166, [[FILL["embed"]] * 7] * 2, 19)
    f.line((330, 185), (218, 185))
    f.text(274, 172, "read", 13)
    f.text(484, 178, "keys, values of the source:", 13, "start")
    f.text(484, 196, "computed once", 13, "start")
    # the target: one column per step
    stored = [FILL["attention"]] * 5 + [HEADS[1]]
    f.grid(334, 222, [stored] * 2, 19)
    f.line((330, 234), (218, 234))
    f.text(274, 218, "read", 13)
    f.line((218, 246), (274, 282), (438, 282), (438, 264))
    f.text(356, 298, "the new key and value are added", 13)
    f.text(484, 232, "keys, values up to position t:", 13, "start")
    f.text(484, 250, "one more in each step", 13, "start")
    f.text(500, 120, "Queries are not stored: each is used once.", 13, color=LINE)
    return f


def tables() -> Figure:
    """Draw three tables of vectors, and the one table that takes their place."""
    f = Figure("tables", 262, "Three tables become one")
    f.text(226, 26, 'tie="none": three tables', 14, bold=True)
    f.text(586, 26, 'tie="all": one table', 14, bold=True)
    parts = ("source embedding", "target embedding", "generator")
    fills = (FILL["embed"], FILL["attention"], FILL["output"])
    below = (
        ("read in", "the source"),
        ("read in", "the target"),
        ("compared with", "the output"),
    )

    def table(middle: int, fill: str, words: tuple[str, str]) -> None:
        rows = [[HEADS[2] if row == 2 else fill] * 6 for row in range(6)]
        f.grid(middle - 54, 76, rows, 18)
        for y, line in zip((206, 223), words, strict=True):
            f.text(middle, y, line, 13)

    for i, (name, fill, words) in enumerate(zip(parts, fills, below, strict=True)):
        f.text(86 + 140 * i, 58, name, 13)
        table(86 + 140 * i, fill, words)
    f.line((432, 130), (524, 130))
    f.text(478, 112, "share", 13)
    table(586, FILL["feed"], ("read twice,", "and compared"))
    note = "green: one token's row; shared, it learns in all three places"
    f.text(360, 246, note, 13, color=LINE)
    return f


FIGURES = (cache, tables)


if __name__ == "__main__":
    write(FIGURES)
