"""Draw how our speed compares, from results/bench.json, in the style of draw.py.

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
    ("training small", "against ours, float32"): "Training, small",
    ("training base", "against ours, float32"): "Training, base",
    ("decoding", "greedy"): "Greedy, batches of 100",
    ("decoding", "beam 5"): "Beam of 5, batches of 50",
    ("decoding", "one sentence"): "One sentence, greedy",
}
LEFT, RIGHT, LOWEST, HIGHEST = 300, 590, 0.25, 1024.0


def place(ratio: float) -> float:
    """Return where a ratio stands: each doubling is as wide as any other."""
    share = math.log(ratio / LOWEST) / math.log(HIGHEST / LOWEST)
    return LEFT + share * (RIGHT - LEFT)


def compared(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of a table that are not ours and use both cores."""
    return {
        name: row
        for name, row in table.items()
        if isinstance(row, dict)
        and not name.startswith("ours")
        and not name.endswith("1 thread")
    }


def short(processor: str) -> str:
    """Return a processor's maker, family and vectors, such as Intel Xeon, AVX512."""
    name, _, vectors = processor.partition(", ")
    return " ".join(name.replace("(R)", "").split()[:2]) + f", {vectors}"


def speed() -> Figure:
    """Draw how many times as fast ours is: the median as a bar, the range as a line."""
    bench = json.loads(BENCH.read_text(encoding="utf-8"))
    tables = {
        f"{title}: {short(processor)}": compared(parts[part][table])
        for (part, table), title in TABLES.items()
        for processor, parts in bench.items()
        if table in parts.get(part, {})
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
            color = HEADS[0] if row["ours_is"] >= 1 else HEADS[1]
            f.part(
                "rect", x=f"{min(one, x):g}", y=y - 7, width=f"{abs(x - one):g}",
                height=14, fill=color,
            )  # fmt: skip
            line = f"M{low:g} {y} L{high:g} {y}"
            f.part("path", d=line, stroke=LINE, stroke_width=2)
            f.text(704, y, f"{row['ours_is']:.3g} times", 13, "end")
            y += 24
        y += 14
    return f


FIGURES = (speed,)


if __name__ == "__main__":
    write(FIGURES)
