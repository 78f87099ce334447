"""Draw the figures of the chapters as SVG, in one style.

    python images/draw.py

Boxes are placed by hand on a grid of pixels; everything else (arrows, colours,
letters) comes from the few helpers below. Standard library only.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
INK, LINE, PAPER = "#1a1a1a", "#4d4d4d", "#ffffff"
FILL = {
    "attention": "#cfe6f5",
    "feed": "#fbe3c0",
    "norm": "#e9e9e9",
    "embed": "#cdebe0",
    "output": "#f6d9e6",
    "plain": "#ffffff",
    "group": "#f7f7f7",
}


class Figure:
    """An SVG drawing on white ground, so that it can be read on a dark page."""

    def __init__(self, name: str, width: int, height: int, title: str):
        self.path = FOLDER / f"{name}.svg"
        self.size = width, height
        self.title = title
        self.parts: list[str] = []

    def box(self, x, y, w, h, text="", fill="plain", size=14, bold=False, dash=False):
        """A rounded box with centred lines of text."""
        style = ' stroke-dasharray="5 4"' if dash else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" '
            f'fill="{FILL.get(fill, fill)}" stroke="{LINE}" stroke-width="1.3"{style}/>'
        )
        lines = text.split("\n") if text else []
        for i, line in enumerate(lines):
            middle = y + h / 2 + (i - (len(lines) - 1) / 2) * size * 1.25
            self.text(x + w / 2, middle, line, size, "middle", bold and i == 0)

    def text(self, x, y, words, size=13, anchor="middle", bold=False, colour=INK):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" '
            f'dominant-baseline="central" fill="{colour}"{weight}>'
            f"{escape(words)}</text>"
        )

    def line(self, *points, arrow=True, dash=False):
        """A path through points, with an arrow at its end."""
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        head = ' marker-end="url(#arrow)"' if arrow else ""
        style = ' stroke-dasharray="5 4"' if dash else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"'
            f"{head}{style}/>"
        )

    def plus(self, x, y):
        """The circle where a residual is added."""
        self.parts.append(
            f'<circle cx="{x}" cy="{y}" r="10" fill="{PAPER}" stroke="{LINE}" '
            'stroke-width="1.3"/>'
        )
        self.text(x, y, "+", 16)

    def save(self) -> None:
        width, height = self.size
        self.path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            'font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n",
            encoding="utf-8",
        )


def transformer() -> None:
    """The whole model, each box with the name of its class."""
    f = Figure("transformer", 760, 560, "The Transformer with its class names")
    f.box(40, 130, 290, 290, fill="group")
    f.text(52, 150, "Encoder", 14, "start", bold=True)
    f.text(52, 170, "N × EncoderLayer", 13, "start")
    f.box(430, 130, 290, 290, fill="group")
    f.text(442, 150, "Decoder", 14, "start", bold=True)
    f.text(442, 168, "N × DecoderLayer", 13, "start")
    # encoder, from below
    f.box(85, 340, 200, 54, "MultiHeadedAttention\nself_attn", "attention")
    f.box(85, 212, 200, 54, "PositionwiseFeedForward\nfeed_forward", "feed")
    f.line((185, 340), (185, 268))
    # decoder, from below
    f.box(475, 350, 200, 50, "MultiHeadedAttention\nself_attn (masked)", "attention")
    f.box(475, 266, 200, 50, "MultiHeadedAttention\nsrc_attn", "attention")
    f.box(475, 182, 200, 50, "PositionwiseFeedForward\nfeed_forward", "feed")
    f.line((575, 350), (575, 318))
    f.line((575, 266), (575, 234))
    # embeddings and inputs
    for x, name, ids in (
        (85, "src_embed", "src (B, S)"),
        (475, "tgt_embed", "tgt (B, T)"),
    ):
        f.box(x, 446, 200, 50, f"Embeddings + positions\n{name}", "embed")
        f.line((x + 100, 446), (x + 100, 396 if x == 85 else 402))
        f.text(x + 100, 532, ids, 14)
        f.line((x + 100, 520), (x + 100, 498))
    # memory
    f.line((185, 212), (185, 106), (380, 106), (380, 291), (473, 291))
    f.text(282, 92, "memory (B, S, D)", 14)
    # generator
    f.box(475, 56, 200, 44, "Generator", "output")
    f.line((575, 182), (575, 102))
    f.line((575, 56), (575, 34))
    f.text(575, 20, "log-probabilities (B, T, V)", 14)
    f.text(40, 36, "EncoderDecoder", 18, "start", bold=True)
    words = "each attention and feed-forward in a SublayerConnection"
    f.text(40, 62, words, 12, "start", colour=LINE)
    f.save()


def attention() -> None:
    """Scaled dot-product attention as shapes."""
    f = Figure("attention", 760, 250, "Scaled dot-product attention")
    f.box(20, 40, 90, 50, "Q\n(T, K)", "embed")
    f.box(20, 150, 90, 50, "K\n(S, K)", "embed")
    f.box(160, 95, 110, 50, "Q Kᵀ\n(T, S)", "attention")
    f.line((110, 65), (158, 108))
    f.line((110, 175), (158, 132))
    f.box(305, 95, 80, 50, "÷ √d_k", "plain")
    f.box(420, 95, 80, 50, "mask", "plain", dash=True)
    f.box(535, 95, 90, 50, "softmax\nalong S", "attention")
    for a, b in ((270, 303), (385, 418), (500, 533)):
        f.line((a, 120), (b, 120))
    f.box(535, 185, 90, 50, "V\n(S, K)", "embed")
    f.box(660, 95, 80, 50, "output\n(T, K)", "output")
    f.line((625, 120), (658, 120))
    f.line((625, 210), (700, 210), (700, 147))
    f.text(580, 76, "weights (T, S)", 13, colour=LINE)
    f.text(460, 76, "if given", 13, colour=LINE)
    f.text(380, 25, "softmax(Q Kᵀ / √d_k) V", 17, bold=True)
    f.save()


def multi_head() -> None:
    """Multi-head attention: how the shapes flow."""
    f = Figure("multi_head", 760, 300, "Multi-head attention as shapes")
    rows = (("query", 40, "(B, T, D)", "T"), ("key", 120, "(B, S, D)", "S"))
    rows += (("value", 200, "(B, S, D)", "S"),)
    for i, (name, y, shape, length) in enumerate(rows):
        f.box(16, y, 92, 50, f"{name}\n{shape}", "embed", 13)
        f.box(146, y, 104, 50, f"linears[{i}]", "plain", 13)
        for k in (12, 6, 0):
            f.box(290 + k, y - k, 120, 50, "", "attention")
        f.text(350, y + 25, f"(B, H, {length}, K)", 13)
        f.line((108, y + 25), (144, y + 25))
        f.line((250, y + 25), (288, y + 25))
        f.line((424, y + 22), (462, 145 + 12 * (i - 1)))
    for k in (12, 6, 0):
        f.box(466 + k, 115 - k, 100, 60, "", "attention")
    f.text(516, 137, "attend", 14, bold=True)
    f.text(516, 157, "H heads", 13)
    f.box(610, 40, 134, 50, "join the heads\n(B, T, H·K = D)", "plain", 13)
    f.box(610, 120, 134, 50, "linears[3]", "plain", 13)
    f.box(610, 200, 134, 50, "output\n(B, T, D)", "output", 13)
    f.line((580, 130), (594, 130), (594, 65), (608, 65))
    f.line((677, 90), (677, 118))
    f.line((677, 170), (677, 198))
    for x, word in ((198, "project"), (350, "cut into heads"), (677, "merge")):
        f.text(x, 276, word, 14, bold=True)
    f.save()


def one_layer(
    f: Figure, x: int, title: str, parts: list[str], norm_first: bool
) -> None:
    """One layer from below to above, with its residuals, at column x."""
    f.text(x + 70, 22, title, 14, bold=True)
    y, step = 400, 345 // len(parts)
    f.line((x + 70, 425), (x + 70, 44))
    for name in parts:
        kind = "feed" if name == "feed_forward" else "attention"
        first, second = (y - 36, y - 76) if norm_first else (y - 46, y - step + 8)
        if norm_first:
            f.box(x + 14, first, 112, 24, "norm", "norm", 12)
            f.box(x + 14, second, 112, 32, name, kind, 13)
            joint = second - 18
        else:
            f.box(x + 14, first, 112, 32, name, kind, 13)
            joint = first - 18
            f.box(x + 14, joint - 42, 112, 24, "norm", "norm", 12)
        f.line((x + 70, y - 2), (x - 12, y - 2), (x - 12, joint), (x + 58, joint))
        f.plus(x + 70, joint)
        y -= step
    f.text(x + 70, 440, "x", 14)


def layers() -> None:
    """Encoder and decoder layer, pre-norm and post-norm."""
    f = Figure("layers", 760, 456, "Encoder and decoder layer in both norm manners")
    encoder, decoder = (
        ["self_attn", "feed_forward"],
        ["self_attn", "src_attn", "feed_forward"],
    )
    one_layer(f, 40, "EncoderLayer, pre-norm", encoder, True)
    one_layer(f, 225, "post-norm", encoder, False)
    one_layer(f, 410, "DecoderLayer, pre-norm", decoder, True)
    one_layer(f, 595, "post-norm", decoder, False)
    f.save()


def teacher_forcing() -> None:
    """What the decoder reads and what it is asked for."""
    f = Figure("teacher_forcing", 760, 236, "Teacher forcing: tgt against tgt_y")
    tgt = ["<s>", "A", "dog", "runs", "."]
    tgt_y = ["A", "dog", "runs", ".", "</s>"]
    f.text(20, 185, "tgt: read", 14, "start", bold=True)
    f.text(20, 45, "tgt_y: asked", 14, "start", bold=True)
    f.text(20, 115, "may see", 14, "start", bold=True)
    for i, (below, above) in enumerate(zip(tgt, tgt_y, strict=True)):
        x = 150 + 120 * i
        f.box(x, 165, 90, 40, below, "embed", 15)
        f.box(x, 25, 90, 40, above, "output", 15)
        f.line((x + 45, 163), (x + 45, 67))
        for j in range(5):
            fill = "#0072b2" if j <= i else "#e6e6e6"
            f.box(x - 2 + 19 * j, 106, 17, 17, "", fill)
    f.text(
        400,
        222,
        "position t reads tgt up to t and is asked for the next word",
        13,
        colour=LINE,
    )
    f.save()


def main() -> None:
    for draw in (transformer, attention, multi_head, layers, teacher_forcing):
        draw()


if __name__ == "__main__":
    main()
