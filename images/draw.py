"""Draw the figures of the chapters as SVG, in one style.

    python images/draw.py

Boxes are placed by hand on a grid of pixels; everything else (arrows, colors,
letters) comes from the few helpers below, which refuse text that leaves its box or
touches other text or a line. The chapters say which section builds what.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER.parent / "tools"))

from chapters import NOTEBOOKS, section_numbers  # noqa: E402

WIDTH = 720  # about that of a notebook's column
INK, LINE, PAPER = "#1a1a1a", "#4d4d4d", "#ffffff"
OPEN, HIDDEN = "#0072b2", "#e3e3e3"  # may attend, may not; the colors of the charts
FADED = "#d3d9de"  # arrows that are not the point
FILL = {
    "attention": "#cfe6f5",
    "feed": "#fbe3c0",
    "norm": "#e9e9e9",
    "embed": "#cdebe0",
    "output": "#f6d9e6",
    "plain": "#ffffff",
    "group": "#f7f7f7",
    "layer": "#efefef",
}
HEADS = ("#56b4e9", "#e69f00", "#009e73")  # color-blind readers can tell them apart
SECTION = section_numbers(NOTEBOOKS / "01_architecture.md")
NARROW = frozenset("ijlt.,:;|!()[]{}' fr-Ił·")


def text_width(words: str, size: float, bold: bool = False) -> float:
    """Estimate how wide words are, in pixels; rather too wide than too narrow."""
    plain = re.sub(
        r"[_^]\{([^}]*)\}", lambda m: m[1][: (2 * len(m[1]) + 2) // 3], words
    )
    letters = sum(0.34 if c in NARROW else 0.82 if c in "mwMW" else 0.6 for c in plain)
    return letters * size * (1.16 if bold else 1.0)


class Figure:
    """An SVG drawing on a white panel, so that it can be read on a dark page.

    Words may hold `_{…}` for an index and `^{…}` for an exponent.
    """

    def __init__(self, name: str, height: int, title: str):
        self.path = FOLDER / f"{name}.svg"
        self.height = height
        self.title = title
        self.parts: list[str] = []
        self.written: list[tuple[float, float, float, float, str]] = []
        self.drawn: list[tuple[tuple[float, float], tuple[float, float]]] = []

    def box(self, x, y, w, h, text="", fill="plain", size=14, bold=False, dash=False):
        """Draw a rounded box with centered lines of text."""
        style = ' stroke-dasharray="5 4"' if dash else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" '
            f'fill="{FILL.get(fill, fill)}" stroke="{LINE}" stroke-width="1.3"{style}/>'
        )
        lines = text.split("\n") if text else []
        for i, line in enumerate(lines):
            middle = y + h / 2 + (i - (len(lines) - 1) / 2) * size * 1.25
            heavy = bold and i == 0
            if text_width(line, size, heavy) > w - 6:
                raise ValueError(f"{self.path.stem}: {line!r} is wider than its box")
            self.text(x + w / 2, middle, line, size, "middle", heavy, ground=True)

    def text(
        self, x, y, words, size=13, anchor="middle", bold=False, color=INK,
        ground=False,
    ):  # fmt: skip
        """Write words vertically centered at y; a ``ground`` below them hides lines."""
        width = text_width(words, size, bold)
        left = x - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
        self.occupy(left, y - 0.45 * size, left + width, y + 0.45 * size, words)
        self.refuse_crossing([] if ground else self.drawn, self.written[-1:])
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y + 0.35 * size:g}" font-size="{size}" '
            f'text-anchor="{anchor}" fill="{color}"{weight}>{marked(words, size)}'
            "</text>"
        )

    def occupy(self, left, top, right, bottom, words) -> None:
        """Reserve the space of words, which no others may touch."""
        if left < 4 or right > WIDTH - 4 or top < 4 or bottom > self.height - 4:
            raise ValueError(f"{self.path.stem}: {words!r} leaves the panel")
        for x, y, x_end, y_end, other in self.written:
            if left < x_end and x < right and top < y_end and y < bottom:
                raise ValueError(f"{self.path.stem}: {words!r} touches {other!r}")
        self.written.append((left, top, right, bottom, words))

    def refuse_crossing(self, segments, written) -> None:
        """Refuse vertical and horizontal lines that run through words."""
        for (x, y), (x_end, y_end) in segments:
            for left, top, right, bottom, words in written:
                beside = max(x, x_end) < left or right < min(x, x_end)
                over = max(y, y_end) < top or bottom < min(y, y_end)
                if (x == x_end or y == y_end) and not (beside or over):
                    raise ValueError(f"{self.path.stem}: a line crosses {words!r}")

    def part(self, kind, **attributes):
        """Add any other SVG element; `stroke_width` stands for `stroke-width`."""
        listed = (f'{key.replace("_", "-")}="{v}"' for key, v in attributes.items())
        self.parts.append(f"<{kind} {' '.join(listed)}/>")

    def slanted(self, x, y, words, size=13):
        """Write words rising to the right from (x, y), as heads of narrow columns."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{INK}" '
            f'transform="rotate(-45 {x:g} {y:g})">{escape(words)}</text>'
        )

    def badge(self, x, y, name):
        """Draw the number of the section that builds a class, centered on (x, y)."""
        number = SECTION[name]
        width = 32 if len(number) < 4 else 40
        self.parts.append(
            f'<rect x="{x - width / 2:g}" y="{y - 10:g}" width="{width}" height="20" '
            f'rx="10" fill="{INK}"/>'
        )
        self.text(x, y, number, 13, bold=True, color=PAPER, ground=True)

    def named(self, x, y, w, h, name, below="", fill="plain"):
        """Draw a box with a class's name, and the number of its section at a corner."""
        self.box(x, y, w, h, name + (f"\n{below}" if below else ""), fill, 14, True)
        self.badge(x + 4, y - 3, name)

    def line(self, *points, arrow=True, dash=False):
        """Draw a path through points, with an arrow at its end."""
        segments = list(itertools.pairwise(points))
        self.refuse_crossing(segments, self.written)
        self.drawn += segments
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        head = ' marker-end="url(#arrow)"' if arrow else ""
        style = ' stroke-dasharray="5 4"' if dash else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"'
            f"{head}{style}/>"
        )

    def grid(self, x, y, fills, cell=16, stroke=LINE):
        """Draw a matrix as small squares; `fills` holds their colors, row by row."""
        for i, row in enumerate(fills):
            for j, fill in enumerate(row):
                self.parts.append(
                    f'<rect x="{x + j * cell:g}" y="{y + i * cell:g}" width="{cell}" '
                    f'height="{cell}" fill="{fill}" stroke="{stroke}" '
                    'stroke-width="0.8"/>'
                )

    def plus(self, x, y):
        """Draw the circle where a residual is added."""
        self.parts.append(
            f'<circle cx="{x}" cy="{y}" r="10" fill="{PAPER}" stroke="{LINE}" '
            'stroke-width="1.3"/>'
        )
        self.line((x - 5, y), (x + 5, y), arrow=False)
        self.line((x, y - 5), (x, y + 5), arrow=False)

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
            f'{self.height}" width="{WIDTH}" height="{self.height}" role="img" '
            "font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', "
            'sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs>\n'
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" '
            f'rx="10" fill="{PAPER}" stroke="#d0d0d0"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def marked(words: str, size: float) -> str:
    """Set words as SVG, with indices lowered and exponents raised."""
    small, drop = round(size * 0.72, 1), round(size * 0.25, 1)
    text, shift = "", 0.0
    for piece in filter(None, re.split(r"([_^]\{[^}]*\})", words)):
        if piece[:2] in ("_{", "^{"):
            down = drop if piece[0] == "_" else -1.4 * drop
            size_here = f' font-size="{small}"'
            piece = piece[2:-1]
        else:
            down, size_here = 0.0, ""
        move = f' dy="{down - shift:g}"' if down != shift else ""
        tag = f"<tspan{move}{size_here}>" if move or size_here else ""
        text += tag + escape(piece) + ("</tspan>" if tag else "")
        shift = down
    return text


def transformer() -> Figure:
    """Draw the whole model like the paper's Figure 1, with a class name in each box."""
    f = Figure("transformer", 760, "The Transformer with the names of its classes")
    f.badge(40, 34, "EncoderDecoder")
    f.text(66, 34, "EncoderDecoder", 19, "start", bold=True)
    f.text(24, 62, "is put together by", 13, "start")
    f.badge(44, 86, "make_model")
    f.text(70, 86, "make_model", 14, "start", bold=True)
    f.text(24, 124, "an arrow around a box, and Add & Norm:", 13, "start")
    f.badge(44, 148, "SublayerConnection")
    f.text(70, 148, "SublayerConnection", 14, "start", bold=True)
    f.badge(44, 174, "LayerNorm")
    f.text(70, 174, "LayerNorm", 14, "start", bold=True)
    f.text(24, 208, "The norm is where the paper puts it;", 13, "start", color=LINE)
    place = f"{SECTION['SublayerConnection']} shows the other place for it."
    f.text(24, 226, place, 13, "start", color=LINE)
    # the two stacks
    for x, top, stack in ((20, 294, "Encoder"), (396, 186, "Decoder")):
        f.box(x, top, 304, 614 - top, fill="group")
        f.badge(x + 22, top + 18, stack)
        f.text(x + 43, top + 18, stack, 14, "start", bold=True)
        f.box(x + 8, top + 36, 288, 568 - top, fill="layer")
        f.badge(x + 28, top + 54, f"{stack}Layer")
        f.text(x + 48, top + 54, f"{stack}Layer", 13, "start", bold=True)
        f.text(x + 176, top + 54, "N times", 14, "start")
    attention, feed = "MultiHeadedAttention", "PositionwiseFeedForward"
    y = sublayer(f, 184, 590, attention, "self_attn, with src_mask", "attention", -1)
    y = sublayer(f, 184, y, feed, "feed_forward", "feed", -1)
    f.line((184, y), (184, 272), (362, 272), (362, 435), (440, 435))
    f.text(272, 258, "memory (B, S, d_model)", 14)
    y = sublayer(f, 556, 590, attention, "self_attn, with tgt_mask", "attention", 1)
    y = sublayer(f, 556, y, attention, "src_attn, with src_mask", "attention", 1)
    y = sublayer(f, 556, y, feed, "feed_forward", "feed", 1)
    # what goes in
    for middle, ids in ((184, "src (B, S)"), (556, "tgt (B, L)")):
        x = middle - 114
        f.line((middle, 626), (middle, 590), arrow=False)
        f.named(x, 626, 228, 36, "PositionalEncoding", fill="embed")
        f.line((middle, 678), (middle, 664))
        f.named(x, 678, 228, 36, "Embeddings", fill="embed")
        f.line((middle, 732), (middle, 716))
        f.text(middle, 744, f"token ids {ids}", 14)
    # what comes out
    f.line((556, y), (556, 142))
    f.named(442, 98, 228, 42, "Generator", fill="output")
    f.line((556, 98), (556, 66))
    f.text(556, 50, "log-probabilities (B, L, vocab)", 14)
    return f


def sublayer(f, middle, y, name, below, fill, side) -> int:
    """Draw a sub-layer and its residual connection from y up; return where it ends."""
    f.line((middle, y), (middle, y - 22))
    f.named(middle - 114, y - 70, 228, 46, name, below, fill)
    f.line((middle, y - 70), (middle, y - 82))
    f.box(middle - 60, y - 108, 120, 24, "Add & Norm", "norm", 13)
    around = middle + side * 129
    f.line(
        (middle, y - 10),
        (around, y - 10),
        (around, y - 96),
        (middle + side * 62, y - 96),
    )
    return y - 108


def attention() -> Figure:
    """Draw scaled dot-product attention with the numbers of section 1.1."""
    f = Figure("attention", 424, "Scaled dot-product attention, in numbers")
    f.text(360, 26, "Attention(Q, K, V) = softmax(Q K^{T} / √d_{k}) V", 18, bold=True)
    words, asks = ("dog", "soup", "child", "cooked"), ("too hot", "too full")
    queries, keys = [(1.5, -1.0), (-0.5, 1.5)], [(0.1, 1.6), (1.6, -0.4)]
    keys += [(0.2, 0.7), (0.9, 0.1)]
    scores = [[a * c + b * d for c, d in keys] for a, b in queries]
    powers = [[math.exp(score / 2**0.5) for score in row] for row in scores]
    weights = [[each / sum(row) for each in row] for row in powers]
    output = [row[:3] for row in weights]  # each value votes for one pronoun
    votes = [[int(i == j) for j in range(3)] for i in range(4)]
    plain, embed = FILL["plain"], FILL["embed"]

    def matrix(x, y, rows, name, shape, digits=2, fill=plain):
        """Draw numbers in cells, with a name and a shape above them."""
        width, height = (48, 34) if digits else (40, 30)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                color = shade(value) if fill is None else fill
                left, top = x + j * width, y + i * height
                f.part("rect", x=left, y=top, width=width, height=height, fill=color,
                       stroke=LINE)  # fmt: skip
                ink = PAPER if fill is None and value > 0.5 else INK
                number = f"{value:.{digits}f}".replace("-", "−")
                middle = left + width / 2, top + height / 2
                f.text(*middle, number, 15, color=ink, ground=True)
        f.text(x + len(rows[0]) * width / 2, y - 44, name, 15, bold=True)
        f.text(x + len(rows[0]) * width / 2, y - 25, shape, 13, color=LINE)

    def heads(x, y, names, width=48):
        for j, name in enumerate(names):
            f.text(x + (j + 0.5) * width, y, name, 13)

    for y in (112, 318):
        for i, name in enumerate(asks):
            f.text(76, y + 17 + 34 * i, name, 14, "end")
    matrix(84, 112, queries, "Q", "(L, d_k)", 1, embed)
    f.text(197, 146, "·", 20, bold=True)
    matrix(212, 112, list(zip(*keys)), "K, transposed", "(d_k, S)", 1, embed)
    f.text(424, 146, "=", 20, bold=True)
    matrix(444, 112, scores, "scores", "(L, S)")
    for x in (212, 444):
        heads(x, 102, words)
    f.line((540, 184), (540, 222), (180, 222), (180, 258))
    f.text(360, 206, "÷ √d_k, then a softmax in each row", 15)
    matrix(84, 318, weights, "weights", "(L, S)", 2, None)
    heads(84, 308, words)
    f.text(294, 352, "·", 20, bold=True)
    matrix(360, 292, votes, "V", "(S, d_v)", 0, embed)
    for i, name in enumerate(words):
        f.text(352, 307 + 30 * i, name, 13, "end")
    f.text(500, 352, "=", 20, bold=True)
    matrix(520, 318, output, "output", "(L, d_v)", 2, FILL["output"])
    heads(520, 308, ("er", "sie", "es"))
    return f


def shade(weight: float) -> str:
    """Return the blue of a weight: the larger, the darker."""
    light, dark = (0xFF, 0xFF, 0xFF), (0x00, 0x72, 0xB2)
    mixed = (round(a + (b - a) * weight) for a, b in zip(light, dark, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def multi_head() -> Figure:
    """Draw multi-head attention: how the shapes flow."""
    f = Figure("multi_head", 356, "Multi-head attention as shapes")
    cell, heads = 13, [color for color in HEADS for _ in range(2)]

    def cut(x, y, length):
        """Draw three heads of width two, side by side."""
        for h, color in enumerate(HEADS):
            f.grid(x + 34 * h, y, [[color] * 2] * length, cell)

    inputs = (("query", "L", 3), ("key", "S", 4), ("value", "S", 4))
    for i, (name, length, rows) in enumerate(inputs):
        y = 56 + 94 * i
        middle = y + cell * rows / 2
        f.text(20, y - 12, f"{name} (B, {length}, d_model)", 13, "start")
        f.grid(20, y, [[FILL["embed"]] * 6] * rows, cell)
        f.line((102, middle), (122, middle))
        f.box(124, middle - 17, 84, 34, f"linears[{i}]")
        f.line((208, middle), (226, middle))
        f.grid(230, y, [heads] * rows, cell)
        f.line((312, middle), (334, middle))
        f.text(386, y - 12, f"(B, h, {length}, d_k)", 13)
        cut(338, y, rows)
        f.line((436, middle), (466, middle))
    f.text(268, 44, "one color per head", 13, color=LINE)
    f.box(468, 44, 88, 260, "h\nattentions\nat once", "attention")
    f.line((558, 82), (588, 82))
    f.text(640, 44, "(B, h, L, d_k)", 13)
    cut(593, 62, 3)
    f.line((640, 105), (640, 126))
    f.grid(601, 130, [heads] * 3, cell)
    f.line((640, 173), (640, 192))
    f.box(594, 194, 92, 34, "linears[3]", "plain", 14)
    f.line((640, 228), (640, 246))
    f.grid(601, 250, [[FILL["output"]] * 6] * 3, cell)
    f.text(640, 303, "(B, L, d_model)", 13)
    for left, right, words in (
        (120, 436, "1  project and split"),
        (468, 556, "2  attend"),
        (590, 690, "3  join, mix"),
    ):
        f.line((left, 316), (left, 322), (right, 322), (right, 316), arrow=False)
        f.text((left + right) / 2, 338, words, 14, bold=True)
    return f


def one_layer(f: Figure, c: int, manner: str, parts: tuple[str, ...]) -> None:
    """Draw one layer from the bottom up around column c, with its residuals."""
    f.text(c, 50, manner, 14)
    y, end = 514, 514 - 124 * len(parts)
    f.line((c, 532), (c, end - 20))
    f.text(c, 544, "x", 15, bold=True)
    for name in parts:
        kind = "feed" if name == "feed_forward" else "attention"
        top = y - 88 if manner == "pre-norm" else y - 52
        f.box(c - 54, top, 108, 38, name, kind, 13, True)
        if name == "src_attn":
            f.line((c + 108, top + 19), (c + 56, top + 19))
            f.text(c + 83, top + 7, "memory", 13)
        if manner == "pre-norm":
            f.box(c - 54, y - 38, 108, 24, "LayerNorm", "norm", 13)
            joint = y - 110
        else:
            joint = y - 74
            f.box(c - 54, y - 118, 108, 24, "LayerNorm", "norm", 13)
        f.line((c, y), (c - 70, y), (c - 70, joint), (c - 12, joint))
        f.plus(c, joint)
        y -= 124
    if manner == "pre-norm":
        f.box(c - 54, end - 46, 108, 24, "LayerNorm", "norm", 13, dash=True)
        f.text(c, end - 60, "after layer N", 13)
    else:
        f.text(c, end - 34, "to the next layer", 13)


def shapes() -> Figure:
    """Draw the soup sentence's way through the base model, in shapes."""
    f = Figure("shapes", 560, "The shape of every tensor on the way of one sentence")
    wide = 190
    sides = ((130, 17, "end"), (400, 16, "start"))  # left edge, words, side of shapes

    def stage(y, side, words, shape, fill):
        """Draw a box, an arrow that leaves it, and the shape of what it returns."""
        x, _, anchor = side
        f.box(x, y, wide, 30, words, fill, 13)
        beside = x - 16 if anchor == "end" else x + wide + 16
        f.text(beside, y + 15, shape, 13, anchor, ground=True)

    def up(side, start, end):
        f.line((side[0] + wide / 2, start), (side[0] + wide / 2, end))

    encoder, decoder = sides
    f.box(118, 268, 214, 130, "", "group")
    f.box(388, 172, 214, 226, "", "group")
    f.text(114, 256, "6 layers", 13, "end", color=LINE)
    f.text(606, 160, "6 layers", 13, "start", color=LINE)
    for side, first in ((encoder, "The dog wouldn’t …"), (decoder, "<s> Der Hund …")):
        x, n, _ = side
        f.text(x + wide / 2, 540, first, 13)
        stage(486, side, "ids", f"(1, {n})", "plain")
        up(side, 486, 460)
        stage(430, side, "embedding + positions", f"(1, {n}, 512)", "embed")
        up(side, 430, 392)
        stage(362, side, "queries, keys, values", f"(1, 8, {n}, 64)", "attention")
        up(side, 362, 346)
        stage(316, side, "self-attention weights", f"(1, 8, {n}, {n})", "attention")
    up(encoder, 316, 304)
    stage(274, encoder, "feed-forward, inside", "(1, 17, 2048)", "feed")
    up(encoder, 274, 238)
    stage(208, encoder, "memory", "(1, 17, 512)", "norm")
    up(decoder, 316, 304)
    stage(274, decoder, "queries", "(1, 8, 16, 64)", "attention")
    up(decoder, 274, 256)
    stage(226, decoder, "cross-attention weights", "(1, 8, 16, 17)", "attention")
    f.line((encoder[0] + wide, 223), (360, 223), (360, 241), (400, 241))
    f.text(352, 197, "keys, values", 13, "end", ground=True)
    f.text(352, 180, "(1, 8, 17, 64)", 13, "end", ground=True)
    up(decoder, 226, 208)
    stage(178, decoder, "feed-forward, inside", "(1, 16, 2048)", "feed")
    up(decoder, 178, 142)
    stage(112, decoder, "output", "(1, 16, 512)", "norm")
    up(decoder, 112, 86)
    stage(56, decoder, "log-probabilities", "(1, 16, 21)", "output")
    f.text(encoder[0] + wide / 2, 26, "Encoder, 17 words", 15, bold=True)
    f.text(decoder[0] + wide / 2, 26, "Decoder, 16 words", 15, bold=True)
    return f


def layers() -> Figure:
    """Draw the encoder and decoder layers, pre-norm and post-norm."""
    f = Figure("layers", 568, "Encoder and decoder layer, pre-norm and post-norm")
    encoder = ("self_attn", "feed_forward")
    decoder = ("self_attn", "src_attn", "feed_forward")
    for x, width, name in ((8, 308, "EncoderLayer"), (324, 388, "DecoderLayer")):
        f.box(x, 8, width, 552, fill="group")
        f.text(x + width / 2, 26, name, 16, bold=True)
    for y, words in (
        (96, "Follow the residual line up from x:"),
        (118, "with pre-norm it meets sums only,"),
        (140, "with post-norm a norm after each sum."),
    ):
        f.text(162, y, words, 13)
    one_layer(f, 92, "pre-norm", encoder)
    one_layer(f, 240, "post-norm", encoder)
    one_layer(f, 408, "pre-norm", decoder)
    one_layer(f, 596, "post-norm", decoder)
    return f


def three_uses() -> Figure:
    """Draw the three uses of attention: which positions ask which."""
    f = Figure("three_uses", 366, "The three uses of attention")
    src = ["Ein", "Hund", "läuft", "."]
    tgt = ["<s>", "A", "dog", "runs", "."]
    panels = (
        ("Encoder self-attention", "EncoderLayer.self_attn", src, src),
        ("Decoder self-attention", "DecoderLayer.self_attn", tgt, tgt),
        ("Cross-attention", "DecoderLayer.src_attn", tgt, src),
    )
    origin = (
        ("source", "source", "src_mask (B, 1, S)"),
        ("target", "target", "tgt_mask (B, L, L)"),
        ("target", "memory", "src_mask (B, 1, S)"),
    )
    for i, (title, code, rows, columns) in enumerate(panels):
        x = 10 + 236 * i
        f.box(x, 8, 228, 318, fill="group")
        f.text(x + 114, 28, title, 15, bold=True)
        f.text(x + 114, 50, code, 13)
        may = [
            [i != 1 or s <= t for s in range(len(columns))] for t in range(len(rows))
        ]
        token_grid(f, x + 74, 116, may, columns, rows, 24)
        queries, keys, mask = origin[i]
        f.text(x + 14, 268, f"queries: {queries}", 13, "start")
        f.text(x + 14, 288, f"keys, values: {keys}", 13, "start")
        f.text(x + 14, 308, f"mask: {mask}", 13, "start")
    f.text(
        360,
        346,
        "a row for each query, a column for each key",
        13,
        color=LINE,
    )
    return f


def token_grid(f, x, y, may, columns, rows, cell) -> None:
    """Draw a mask with its tokens: blue where a row may read a column."""
    f.grid(x, y, [[OPEN if ok else HIDDEN for ok in row] for row in may], cell, PAPER)
    for j, token in enumerate(columns):
        f.slanted(x + cell * (j + 0.45), y - 6, token)
    for i, token in enumerate(rows):
        f.text(x - 8, y + cell * (i + 0.5), token, 13, "end")


def masks() -> Figure:
    """Draw a padded batch and its two masks."""
    f = Figure("masks", 434, "Batches and masks")
    src = [["Ein", "Hund", "läuft", ".", "</s>"], ["Eine", "Katze", "</s>"]]
    f.text(20, 26, "src (B, S)", 14, "start", bold=True)
    f.text(420, 26, "src_mask (B, 1, S)", 14, "start", bold=True)
    for i, row in enumerate(src):
        for j in range(5):
            token = row[j] if j < len(row) else "<blank>"
            fill = FILL["embed"] if j < len(row) else HIDDEN
            x, y = 20 + 60 * j, 44 + 30 * i
            f.part("rect", x=x, y=y, width=60, height=30, fill=fill, stroke=LINE)
            f.grid(420 + 30 * j, 44 + 30 * i, [[OPEN if j < len(row) else HIDDEN]], 30)
            f.text(50 + 60 * j, 59 + 30 * i, token, 12)
    f.line((326, 74), (412, 74))
    f.text(368, 58, "src != pad", 13)
    for y, fill, words in ((59, OPEN, "visible"), (89, HIDDEN, "hidden")):
        f.grid(592, y - 8, [[fill]], 16)
        f.text(616, y, words, 13, "start")
    f.text(
        20, 140, "tgt_mask (B, L, L), for the second sentence", 14, "start", bold=True
    )
    tgt = ["<s>", "A", "cat", "</s>", "<blank>"]
    real = [token != "<blank>" for token in tgt]
    causal = [[s <= t for s in range(5)] for t in range(5)]
    both = [[ok and real[s] for s, ok in enumerate(row)] for row in causal]
    paler = [["#a6cde4" if ok else "#f4f4f4" for ok in real]] * 4
    token_grid(f, 34, 220, [real], tgt, [], 26)
    f.grid(34, 246, paler, 26, PAPER)
    token_grid(f, 252, 220, causal, tgt, tgt, 26)
    token_grid(f, 474, 220, both, tgt, tgt, 26)
    f.text(176, 285, "&", 20, bold=True)
    f.text(398, 285, "=", 20, bold=True)
    f.text(99, 370, "tgt != pad", 14)
    f.text(99, 390, "(B, 1, L)", 13)
    pale = "pale: the same row, repeated for every query"
    f.text(20, 414, pale, 13, "start", color=LINE)
    f.text(317, 370, "subsequent_mask", 14)
    f.text(317, 390, "(1, L, L)", 13)
    f.text(539, 370, "tgt_mask", 14)
    f.text(539, 390, "(B, L, L)", 13)
    note = ("No one", "attends to", "padding; its", "own row is", "ignored.")
    for i, words in enumerate(note):
        f.text(616, 270 + 18 * i, words, 13, "start", color=LINE)
    return f


def schedule() -> Figure:
    """Draw the paper's learning rate, explained in words."""
    f = Figure("schedule", 396, "The learning rate: warm-up, peak, decay")

    def at(u):
        """Return the point of the rate at u times the warm-up; the peak is at u = 1."""
        return 60 + 125 * u, round(250 - 180 * min(u, max(u, 1e-9) ** -0.5), 1)

    left, base = at(0)
    peak_x, peak_y = at(1)
    f.part("rect", x=left, y=50, width=125, height=200, fill=FILL["feed"])
    f.part("rect", x=peak_x, y=50, width=505, height=200, fill=FILL["embed"])
    half_x, half_y = at(4)
    f.line((left, half_y), (half_x, half_y), arrow=False, dash=True)
    points = [at(0), at(1), *(at(1 + i / 20) for i in range(1, 79))]
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    f.part("path", d=path, fill="none", stroke=OPEN, stroke_width=3)
    f.line((left, base), (left, 44))
    f.line((left, base), (698, base))
    for u in (0.5, 1, 4):
        x, y = at(u)
        f.part("circle", cx=x, cy=y, r=5, fill=INK)
    f.text(60, 28, "learning rate", 13)
    for u, words in (
        (0.5, "½"),
        (1, "warmup"),
        (2, "2 ×"),
        (3, "3 ×"),
        (4, "4 × warmup"),
    ):
        x, _ = at(u)
        f.line((x, base), (x, base + 5), arrow=False)
        f.text(x, base + 16, words, 13)
    f.text(654, base + 16, "update", 13)
    f.text(peak_x + 14, peak_y - 6, "2  the peak, at step = warmup", 14, "start", True)
    f.text(70, 62, "1  warm-up", 14, "start", True)
    f.text(420, 128, "3  decay, with 1 / √step", 14, "start", True)
    f.text(400, half_y + 14, "half the peak", 13, color=LINE)
    words = """\
1  Straight up
Adam has seen few gradients:
small steps keep its first,
rough averages harmless.
2  The height of the peak
d_{model}^{−0.5} · warmup^{−0.5} · factor:
wider models and longer
warm-ups have lower peaks.
3  Down with 1 / √step
Ever smaller steps, without
an end that would have to be
fixed beforehand.""".split("\n")
    for i, line in enumerate(words):
        column, row = divmod(i, 4)
        size = 13 if row else 14
        f.text(18 + 236 * column, 302 + 21 * row, line, size, "start", not row)
    return f


def teacher_forcing() -> Figure:
    """Draw what the decoder reads and must predict, with one position picked out."""
    f = Figure("teacher_forcing", 252, "Teacher forcing: tgt against tgt_y")
    tgt = ["<s>", "weil", "sie", "zu", "heiß", "war"]
    tgt_y = [*tgt[1:], "</s>"]
    picked = 3
    centers = [158 + 101 * i for i in range(len(tgt))]
    for y, code, words in ((45, "tgt_y", "to predict"), (185, "tgt", "to read")):
        f.text(20, y - 9, code, 15, "start", bold=True)
        f.text(20, y + 10, words, 13, "start")
    pairs = [(s, t) for t in range(len(tgt)) for s in range(t + 1)]
    for s, t in sorted(pairs, key=lambda pair: pair[1] == picked):
        if t == picked:
            f.line((centers[s], 165), (centers[t], 67))
        else:
            f.part("line", x1=centers[s], y1=165, x2=centers[t], y2=65, stroke=FADED)
    for i, (x, below, above) in enumerate(zip(centers, tgt, tgt_y, strict=True)):
        f.box(x - 42, 165, 84, 40, below, "embed" if i <= picked else "plain", 15)
        f.box(x - 42, 25, 84, 40, above, "output" if i == picked else "plain", 15)
    f.text(
        360,
        230,
        "to predict “heiß”, the decoder reads <s> weil sie zu, nothing to the right",
        14,
        color=LINE,
    )
    return f


def text_to_score() -> Figure:
    """Draw the path of the data from two files to a score, with section numbers."""
    f = Figure("text_to_score", 292, "From two files to a score")

    section = section_numbers(NOTEBOOKS / "03_real_world_example.md")

    def station(x, y, title, name, below, fill):
        f.box(x, y, 122, 62, f"{name}\n{below}", fill, 13, True)
        pill(f, x + 6, y, section[title])

    forth = (
        ("Pairs and tokens", "pairs", "x^{(i)}, y^{(i)}"),
        ("Pairs and tokens", "tokens", "Ein · Hund · ."),
        ("Ids, and sentences that are too long", "ids", "0 10 64 4 1"),
        ("Batches of a fixed number of tokens", "batches", "rows + blanks"),
    )
    for i, (title, name, below) in enumerate(forth):
        station(22 + 138 * i, 40, title, name, below, "embed")
        f.line((144 + 138 * i, 71), (158 + 138 * i, 71))
    f.box(574, 40, 124, 204, "", "attention")
    pill(f, 580, 40, section["Training"])
    f.text(636, 96, "the model", 15, bold=True)
    f.text(636, 120, "learns from", 13)
    f.text(636, 138, "pairs,", 13)
    f.text(636, 176, "then reads", 13)
    f.text(636, 194, "one side alone", 13)
    back = (
        ("Scoring", "score", "BLEU, interval"),
        ("Translating", "text", "A dog."),
        ("Pairs and tokens", "tokens", "A · dog · ."),
        ("Ids, and sentences that are too long", "ids", "0 11 52 4 1"),
    )
    for i, (title, name, below) in enumerate(back):
        station(22 + 138 * i, 182, title, name, below, "output")
        f.line((158 + 138 * i, 213), (146 + 138 * i, 213))
    f.text(22, 17, "in training, both sides go in", 13, "start", color=LINE)
    f.text(22, 158, "in translating, the other side comes out", 13, "start", color=LINE)
    f.text(
        22,
        270,
        "the text is compared with the reference translation",
        13,
        "start",
        color=LINE,
    )
    return f


def pill(f, x, y, number) -> None:
    """Draw the number of a section at a corner of a box."""
    width = 34 if len(number) < 4 else 42
    f.part("rect", x=x - width // 2, y=y - 10, width=width, height=20, rx=10, fill=INK)
    f.text(x, y, number, 13, bold=True, color=PAPER)


def one_update() -> Figure:
    """Draw what makes up one update: a window of batches, two precisions, a step."""
    f = Figure("one_update", 372, "One update from a window of batches")
    f.text(20, 24, "a window of three batches", 13, "start", color=LINE)
    for i, (rows, columns) in enumerate(((7, 4), (5, 6), (3, 9))):
        x, middle = 62 + 222 * i, 78
        fills = [
            [
                FILL["embed"] if c < columns - (r == 0) else HIDDEN
                for c in range(columns)
            ]
            for r in range(rows)
        ]
        f.grid(x + 66 - 6 * columns, middle - 6 * rows, fills, 12)
        words = rows * columns - 1
        f.text(x + 66, 136, f"n_{{{i + 1}}} = {words} words", 13)
        f.line((x + 66, 146), (x + 66, 160))
        f.box(
            x - 24,
            162,
            180,
            44,
            "forward, backward\nproducts in 16 bits",
            "attention",
            13,
        )
        f.line((x + 66, 206), (x + 66, 226))
        f.text(x + 84, 217, "∇ / n", 13, "start")
    f.box(38, 228, 624, 34, "gradients add up, in 32 bits", "feed", 14, True)
    f.line((350, 262), (350, 282))
    f.box(
        218,
        284,
        264,
        46,
        "one step of Adam\nweights and averages in 32 bits",
        "norm",
        13,
        True,
    )
    f.line((482, 307), (560, 307))
    f.text(570, 298, "gradients cleared,", 13, "start")
    f.text(570, 316, "next window", 13, "start")
    f.text(200, 298, "n = 27 + 29 + 26", 13, "end")
    f.text(200, 316, "= 82 words", 13, "end")
    f.text(350, 352, "one batch's activations are in memory at a time", 13, color=LINE)
    return f


FIGURES = (
    transformer,
    attention,
    multi_head,
    shapes,
    layers,
    three_uses,
    masks,
    schedule,
    teacher_forcing,
    text_to_score,
    one_update,
)


def write(figures: Iterable[Callable[[], Figure]]) -> None:
    """Draw each figure into its file."""
    for draw in figures:
        figure = draw()
        figure.path.write_text(figure.svg(), encoding="utf-8")


if __name__ == "__main__":
    write(FIGURES)
