"""How do all charts look, and what does a notebook store of them?"""

from __future__ import annotations

import base64
import contextlib
import io

from annotated_transformer import optional_import

CHART_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


_CHART_RAMP = ["#f7fbff", "#6baed6", "#08306b"]  # from low to high


# The site makes charts narrower on a phone, but not those that hold running text.
KEEPS_WIDTH = {"keepsWidth": True}


def theme() -> dict:
    """Return the theme of all charts: colors, text sizes, a white background."""
    text = {"labelFontSize": 12, "titleFontSize": 13, "labelLimit": 320}
    return {
        "config": {
            "background": "white",
            "padding": 10,
            "font": "sans-serif",
            "title": {"fontSize": 15, "subtitleFontSize": 12, "anchor": "start"},
            "axis": {**text, "gridColor": "#e6e6e6"},
            "legend": {**text, "symbolStrokeWidth": 2},
            "header": {"labelFontSize": 13, "titleFontSize": 13},
            "view": {"continuousWidth": 520, "continuousHeight": 260},
            "mark": {"color": CHART_COLORS[0]},
            "line": {"strokeWidth": 2.5},
            "range": {"category": CHART_COLORS, "heatmap": _CHART_RAMP},
        }
    }


def _chart_bundle(spec: dict, **options: object) -> dict:
    """Return what a notebook stores for a chart: the specification and a PNG."""
    bundle = {"application/vnd.vegalite.v5+json": spec, "text/plain": "<chart>"}
    with contextlib.suppress(ImportError):  # the picture is optional
        import vl_convert

        png = _with_palette(vl_convert.vegalite_to_png(spec))
        bundle["image/png"] = base64.b64encode(png).decode()
    return bundle


def _with_palette(png: bytes) -> bytes:
    """Return a picture with at most 256 colors, in about an eighth of the bytes."""
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    packed = io.BytesIO()
    few = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def use_charts() -> None:
    """Register our theme and our renderer with Altair; call this once."""
    alt = optional_import("altair")
    alt.theme.register("annotated_transformer", enable=True)(theme)
    alt.renderers.register("annotated_transformer", _chart_bundle)
    alt.renderers.enable("annotated_transformer")
