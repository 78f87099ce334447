"""Type and color of pages, charts, and figures: what two of them share is said here.

Furo writes PAGE into each page, as variables; the spacing is in static/site.css. Charts
and figures have the light colors of transformer_workshop/pictures/ and images/.
"""

SERIF = '"Source Serif 4", "serif until then", "Noto Serif", serif'
SANS = "'Source Sans 3', 'sans until then', sans-serif"
MONO = 'SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace'
CHINESE = (  # what macOS and iOS, Windows, Android and Linux have
    '-apple-system, "Segoe UI", Helvetica, Arial, "PingFang SC", "Microsoft YaHei", '
    '"Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Zen Hei", '
    "sans-serif"
)
INK, GRID, PAPER = "#d0d2d4", "#3c3f42", "#131416"  # of the dark theme


def page(language: str) -> tuple[dict, dict]:
    """Return the variables of a page's light theme, and of its dark one."""
    serif, sans = (CHINESE, CHINESE) if language == "zh" else (SERIF, SANS)
    light = {
        "font-stack": serif,
        "font-stack--headings": serif,
        "font-stack--monospace": MONO,
        "sans": sans,
        "color-brand-primary": "#005a8f",
        "color-brand-content": "#005a8f",
        "color-brand-visited": "#6a3d9a",
        "code": "#8a3b00",
        "gone": "#a12626",
        "new": "#0b6b35",
        "focus": "#d55e00",
    }
    dark = {
        "color-background-primary": PAPER,
        "color-brand-primary": "#79c0ee",
        "color-brand-content": "#79c0ee",
        "color-brand-visited": "#c9a6ee",
        "code": "#f0b27a",
        "gone": "#ff9d94",
        "new": "#7fdc9c",
    }
    return light, dark


# --- charts on a dark page ---

_LABELS = {"labelColor": INK, "titleColor": INK}
CHARTS = {
    "background": PAPER,
    "title": {"color": INK, "subtitleColor": INK},
    "axis": {**_LABELS, "gridColor": GRID, "domainColor": "#888", "tickColor": "#888"},
    "legend": _LABELS,
    "header": _LABELS,
    "text": {"color": INK},
    "rule": {"color": INK},
    "view": {"stroke": GRID},
}
GRAYS = {  # grays of lines and dots
    "#444444": "#c4c6c8",
    "#555555": "#b4b6b8",
    "#d0d0d0": "#4a4d50",
    "#efefef": "#2a2d30",
}

# --- figures on a dark page: what the colors of images/ become ---

FIGURES = {
    "#ffffff": PAPER, "#1a1a1a": "#e8e8e8", "#4d4d4d": "#b4b8bc",
    "#f7f7f7": "#1b1d20", "#f4f4f4": "#1e2023", "#efefef": "#24272a",
    "#e9e9e9": "#34383c", "#e3e3e3": "#3a3e42", "#d0d0d0": "#3a3e42",
    "#d3d9de": "#4a5056", "#cdebe0": "#15503f", "#cfe6f5": "#164a6b",
    "#cce3f0": "#164a6b", "#bfdcec": "#1b5378", "#e6f1f7": "#18344a",
    "#a6cde4": "#1f6390", "#99c7e0": "#1f6390", "#fbe3c0": "#5f4510",
    "#f6d9e6": "#65294a", "#e6dcf4": "#423262", "#0072b2": "#2f9be0",
    "#4c9cc9": "#2f86bd", "#66aad1": "#2a77a8", "#56b4e9": "#1f78ab",
    "#e69f00": "#9c6a00", "#009e73": "#007a58",
}  # fmt: skip
