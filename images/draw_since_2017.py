"""Draw the figures of chapter 6 as SVG, in the style of draw.py.

python images/draw_since_2017.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import draw  # noqa: E402
from draw import (  # noqa: E402
    FILL,
    LINE,
    OPEN,
    PAPER,
    Figure,
    pill,
    text_width,
    write,
)

CHANGED = FILL["attention"]
PRE_NORM = draw.SECTION["SublayerConnection"]
SECTION = draw.section_numbers(draw.NOTEBOOKS / "06_since_2017.md")
MODELS = SECTION["Where models still differ"]
FILE = SECTION["Reading a real file"]
AFTER = SECTION["From here to an assistant"]
DEEPER = SECTION["Going deeper"]
QUERY_KEY_NORM = SECTION["Query–key norm"]


def changed(f: Figure, x, y, w, h, text, name="") -> None:
    """Draw a box in the accent color, with the number of a section at its corner."""
    f.box(x, y, w, h, text, CHANGED, 13)
    f.part(
        "rect", x=x, y=y, width=w, height=h, rx=7, fill="none", stroke=OPEN,
        stroke_width=2.4,
    )  # fmt: skip
    if name:
        pill(f, x, y + h / 2, SECTION[name])


def frame(f: Figure, c: int, title: str, norm: str, new: bool) -> None:
    """Draw what both blocks share around column c: frames, sums, embeddings."""
    f.text(c, 24, title, 18, bold=True)
    f.text(c + 14 * new, 48, norm, 14)
    f.box(c - 168, 104, 336, 598, fill="layer")
    f.text(c + 158, 118, "N times", 13, "end")
    f.box(c - 126, 186, 252, 144, fill="plain")
    f.box(c - 126, 422, 252, 226, fill="plain")
    f.line((c, 186), (c, 176), arrow=False)
    f.plus(c, 166)
    f.line((c, 422), (c, 412), arrow=False)
    f.plus(c, 402)
    above = 378 if new else 344  # the second residual leaves before or after a norm
    f.line((c, 692), (c - 152, 692), (c - 152, 402), (c - 12, 402))
    f.line((c, above), (c - 152, above), (c - 152, 166), (c - 12, 166))
    f.box(c - 60, 740, 120, 26, "embeddings", "norm", 13)
    f.line((c, 780), (c, 768))
    f.text(c, 788, "token ids", 13)


def attention_part(f: Figure, c: int, names: str, heads: tuple[int, int]) -> None:
    """Draw attention's linear maps, its softmax, and how the heads are joined."""
    for i, words in enumerate(names.split("\n")):
        f.text(c - 118, 436 + 17 * i, words, 13, "start", bold=True)
    f.line((c, 446), (c, 422), arrow=False)
    f.box(c - 34, 446, 68, 24, "linear", "norm", 13)
    f.line((c, 484), (c, 472))
    f.box(c - 110, 484, 220, 28, "softmax(q · k / √d_{k}) · v", "norm", 13)
    f.line((c, 640), (c - 76, 640), (c - 76, 630))
    f.line((c, 640), (c + 76, 640), (c + 76, 630))
    f.line((c, 640), (c, 630))
    for x, name in ((c - 76, "queries"), (c, "keys"), (c + 76, "values")):
        count = heads[0] if name == "queries" else heads[1]
        words = f"{name}\n{count} heads"
        if count == heads[0]:
            f.box(x - 34, 592, 68, 36, words, "norm", 13)
        else:
            changed(f, x - 34, 592, 68, 36, words)
    f.line((c + 76, 592), (c + 76, 514))


def block_of_2017(f: Figure, c: int) -> None:
    """Draw a layer of the paper around column c, from the bottom up."""
    frame(f, c, "2017", "post-norm: a norm after each sum", new=False)
    f.line((c, 740), (c, 731), arrow=False)
    f.plus(c, 721)
    f.box(c + 46, 709, 100, 24, "sinusoids", "norm", 13)
    f.line((c + 46, 721), (c + 12, 721))
    f.line((c, 711), (c, 640), arrow=False)
    attention_part(f, c, "multi-head\nattention", (8, 8))
    for x in (c - 76, c):
        f.line((x, 592), (x, 514))
    f.line((c, 392), (c, 382))
    f.box(c - 60, 356, 120, 24, "LayerNorm", "norm", 13)
    f.line((c, 356), (c, 318))
    f.text(c - 118, 200, "feed-forward", 13, "start", bold=True)
    f.box(c - 34, 292, 68, 24, "linear", "norm", 13)
    f.line((c, 292), (c, 279))
    f.box(c - 34, 253, 68, 24, "ReLU", "norm", 13)
    f.line((c, 253), (c, 240))
    f.box(c - 34, 214, 68, 24, "linear", "norm", 13)
    f.line((c, 214), (c, 186), arrow=False)
    f.line((c, 156), (c, 146))
    f.box(c - 60, 120, 120, 24, "LayerNorm", "norm", 13)
    f.line((c, 120), (c, 64))
    f.box(c - 100, 803, 200, 24, "linear maps add a bias", "norm", 13)


def block_of_today(f: Figure, c: int) -> None:
    """Draw a layer of today around column c, from the bottom up."""
    frame(f, c, "today", "pre-norm: a norm before each part", new=True)
    pill(f, c - 122, 48, PRE_NORM)
    f.line((c, 740), (c, 682))
    changed(f, c - 60, 656, 120, 24, "RMSNorm", "RMSNorm")
    f.line((c, 656), (c, 640), arrow=False)
    attention_part(f, c, "grouped-query\nattention", (8, 2))
    pill(f, c + 126, 610, SECTION["GroupedQueryAttention"])
    for x in (c - 76, c):
        f.line((x, 592), (x, 582))
        changed(f, x - 34, 558, 68, 22, "RMSNorm")
        f.line((x, 558), (x, 548))
        changed(f, x - 34, 524, 68, 22, "rotate")
        f.line((x, 524), (x, 514))
    pill(f, c - 126, 569, QUERY_KEY_NORM)
    pill(f, c - 126, 535, SECTION["RotaryEmbedding"])
    f.line((c, 392), (c, 368))
    changed(f, c - 60, 342, 120, 24, "RMSNorm", "RMSNorm")
    f.text(c - 118, 200, "SwiGLU", 13, "start", bold=True)
    f.line((c, 342), (c, 323), arrow=False)
    for x in (c - 66, c + 66):
        f.line((c, 323), (x, 323), (x, 315))
    changed(f, c - 100, 289, 68, 24, "gate", "SwiGLU")
    f.box(c + 32, 289, 68, 24, "linear", "norm", 13)
    f.line((c - 66, 289), (c - 66, 277))
    changed(f, c - 100, 251, 68, 24, "SiLU")
    f.line((c - 32, 263), (c - 12, 263))
    f.line((c + 66, 289), (c + 66, 263), (c + 12, 263))
    times(f, c, 263)
    f.line((c, 253), (c, 240))
    f.box(c - 34, 214, 68, 24, "linear", "norm", 13)
    f.line((c, 214), (c, 186), arrow=False)
    f.line((c, 156), (c, 92))
    f.box(c - 60, 66, 120, 24, "RMSNorm", CHANGED, 13, dash=True)
    f.text(c + 70, 78, "after layer N", 13, "start")
    changed(f, c - 100, 803, 200, 24, "no linear map has a bias", "RMSNorm")


def times(f: Figure, x: int, y: int) -> None:
    """Draw the circle where values are multiplied by their gate."""
    f.part("circle", cx=x, cy=y, r=10, fill=CHANGED, stroke=OPEN, stroke_width=2.4)
    f.line((x - 4, y - 4), (x + 4, y + 4), arrow=False)
    f.line((x - 4, y + 4), (x + 4, y - 4), arrow=False)


def blocks() -> Figure:
    """Draw a layer of 2017 and one of today, side by side."""
    f = Figure("blocks", 866, "A layer of 2017 and a layer of today")
    block_of_2017(f, 184)
    block_of_today(f, 544)
    changed(f, 252, 841, 20, 14, "")
    f.text(282, 848, "blue: changed, with its section", 13, "start", color=LINE)
    return f


EVENTS = (  # year, section, name, first author or company, the part it changes
    (2017, "1", "Attention Is All You Need", "Vaswani", "whole model"),
    (2017, AFTER, "Learning from preferences", "Christiano", "training"),
    (2017, MODELS, "Mixture of experts", "Shazeer", "feed-forward"),
    (2018, SECTION["GPT"], "GPT", "Radford", "whole model"),
    (2019, SECTION["RMSNorm"], "RMSNorm", "Zhang & Sennrich", "norms"),
    (2019, SECTION["GroupedQueryAttention"], "Multi-query attention", "Shazeer",
     "attention"),
    (2019, SECTION["restrict"], "Top-p sampling", "Holtzman", "decoding"),
    (2020, SECTION["SwiGLU"], "SwiGLU", "Shazeer", "feed-forward"),
    (2020, QUERY_KEY_NORM, "Query–key norm", "Henry", "attention"),
    (2020, AFTER, "GPT-3", "Brown", "whole model"),
    (2021, SECTION["RotaryEmbedding"], "Rotary positions", "Su", "positions"),
    (2022, AFTER, "InstructGPT", "Ouyang", "whole model"),
    (2022, FILE, "FlashAttention", "Dao", "attention"),
    (2023, SECTION["GroupedQueryAttention"], "Grouped-query attention", "Ainslie",
     "attention"),
    (2023, DEEPER, "Attention sinks", "Xiao", "attention"),
    (2024, AFTER, "Llama 3", "Grattafiori", "whole model"),
    (2024, MODELS, "Latent attention", "DeepSeek-AI", "attention"),
    (2024, DEEPER, "Muon", "Jordan", "training"),
    (2024, MODELS, "DeepSeek-V3", "DeepSeek-AI", "whole model"),
    (2025, AFTER, "DeepSeek-R1", "DeepSeek-AI", "whole model"),
    (2025, DEEPER, "Gemma 3", "Gemma Team", "whole model"),
    (2025, MODELS, "Gated attention", "Qiu", "attention"),
    (2025, FILE, "Qwen3", "Yang", "whole model"),
    (2025, DEEPER, "Kimi K2", "Kimi Team", "whole model"),
    (2025, DEEPER, "gpt-oss", "OpenAI", "whole model"),
    (2026, DEEPER, "Qwen3.5", "Qwen Team", "whole model"),
    (2026, DEEPER, "DeepSeek-V4", "DeepSeek-AI", "whole model"),
)  # fmt: skip
PARTS = {  # what changes, and its color
    "whole model": FILL["plain"],
    "norms": FILL["norm"],
    "attention": FILL["attention"],
    "feed-forward": FILL["feed"],
    "positions": FILL["embed"],
    "decoding": FILL["output"],
    "training": "#e6dcf4",
}


def timeline() -> Figure:
    """Draw the changes that the chapter teaches, each in the year it appeared."""
    row, top, wide = 27, 62, 69
    bottom = top + row * len(EVENTS)
    f = Figure("timeline", bottom + 62, "The Transformer's changes from 2017 to 2026")
    for i, year in enumerate(range(2017, 2027)):
        x = 18 + wide * i
        fill = FILL["group"] if i % 2 else PAPER
        f.part("rect", x=x, y=40, width=wide, height=bottom - 34, fill=fill)
        f.text(x + wide / 2, 24, str(year), 14, bold=True)
    for i, (year, section, name, author, part) in enumerate(EVENTS):
        x, y = 18 + wide * (year - 2016.5), top + row * i
        width = text_width(name, 13, bold=True) + 7
        side = -1 if x + 40 + width + text_width(author, 13) > 700 else 1
        anchor = "start" if side == 1 else "end"
        f.box(x + 29 * side - 6, y - 6, 12, 12, fill=PARTS[part])
        f.text(x + 40 * side, y, name, 13, anchor, bold=True)
        f.text(x + side * (40 + width), y, author, 13, anchor, color=LINE)
        pill(f, x, y, section)
    key = ("label: the section, in the year", "of the first public version")
    for i, words in enumerate(key):
        f.text(28, bottom - 3 * row + 20 * i, words, 13, "start", color=LINE)
    x = 18.0
    for part, fill in PARTS.items():
        f.box(x, bottom + 25, 18, 14, fill=fill)
        f.text(x + 24, bottom + 32, part, 13, "start")
        x += text_width(part, 13) + 38
    return f


FIGURES = (blocks, timeline)


if __name__ == "__main__":
    write(FIGURES)
