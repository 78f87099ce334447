"""Draw what results/bench.json holds, in the style of draw.py: how we compare.

python images/draw_speed.py
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from draw import FILL, HEADS, LINE, Figure, write  # noqa: E402

BENCH = Path(__file__).parent.parent / "results" / "bench.json"
TABLES = {  # part and table of bench.json, and what it is called
    ("training small", "against ours, float32"): "Training, small, float32",
    ("training small", "against ours, bfloat16"): "Training, small, bfloat16 for ours",
    ("training base", "against ours, float32"): "Training, base, float32",
    ("training base", "against ours, bfloat16"): "Training, base, bfloat16 for ours",
    ("decoding", "greedy"): "Greedy decoding, batches of 100",
    ("decoding", "beam 5"): "Beam search, 5 hypotheses, batches of 50",
    ("decoding", "one sentence"): "One sentence at a time, greedy",
}
LEFT, RIGHT, LOWEST, HIGHEST = 300, 590, 0.25, 1024.0


def place(ratio: float) -> float:
    """Where a ratio stands: each doubling is as wide as any other."""
    share = math.log(ratio / LOWEST) / math.log(HIGHEST / LOWEST)
    return LEFT + share * (RIGHT - LEFT)


def compared(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a table that are not ours."""
    return {
        name: row
        for name, row in table.items()
        if isinstance(row, dict) and not name.startswith("ours")
    }


def speed() -> Figure:
    """How many times as fast ours is: a bar to the median, a line over all rounds."""
    bench = json.loads(BENCH.read_text(encoding="utf-8"))
    tables = {
        title: compared(bench[part][table])
        for (part, table), title in TABLES.items()
        if table in bench.get(part, {})
    }
    height = 70 + sum(40 + 24 * len(rows) for rows in tables.values())
    f = Figure("speed", height, "How many times as fast ours is")
    one, bottom = place(1), height - 26
    for ratio in (0.25, 1, 4, 16, 64, 256, 1024):
        x = place(ratio)
        f.text(x, height - 14, f"{ratio:g}", 12)
        f.part("path", d=f"M{x:g} 44 L{x:g} {bottom}", stroke=FILL["norm"])
    f.part("path", d=f"M{one:g} 44 L{one:g} {bottom}", stroke=LINE, stroke_width=1.5)
    f.text(one, 30, "equal", 13)
    f.text(one + 60, 30, "ours is faster", 13, "start")
    f.text(one - 40, 30, "slower", 13, "end")
    y = 58
    for title, rows in tables.items():
        f.text(16, y, title, 14, "start", bold=True)
        y += 26
        for name, row in rows.items():
            x, (low, high) = place(row["ours_is"]), map(place, row["ours_is_range"])
            f.text(32, y, name, 13, "start")
            colour = HEADS[0] if row["ours_is"] >= 1 else HEADS[1]
            f.part(
                "rect", x=f"{min(one, x):g}", y=y - 7, width=f"{abs(x - one):g}",
                height=14, fill=colour,
            )  # fmt: skip
            line = f"M{low:g} {y} L{high:g} {y}"
            f.part("path", d=line, stroke=LINE, stroke_width=2)
            f.text(704, y, f"{row['ours_is']:.2f} times", 13, "end")
            y += 24
        y += 14
    return f


FIGURES = (speed,)


if __name__ == "__main__":
    write(FIGURES)
