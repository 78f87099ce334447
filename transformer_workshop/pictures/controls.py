"""What can readers move? Sliders and choices, computed in the page by Vega."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
from transformer_workshop.pictures import CHART_COLORS

if TYPE_CHECKING:
    import altair


BLUE, ORANGE, GREEN = CHART_COLORS[:3]


def slider(
    name: str, label: str, value: float, low: float, high: float, step: float
) -> altair.Parameter:
    """Return a number that readers set with a slider."""
    alt = optional_import("altair")
    bind = alt.binding_range(min=low, max=high, step=step, name=f"{label} ")
    return alt.param(name=name, value=value, bind=bind)


def choices(
    name: str, label: str, value: Any, options: Sequence[Any], **labels: list[str]
) -> altair.Parameter:
    """Return a value that readers choose from a few."""
    alt = optional_import("altair")
    bind = alt.binding_radio(options=list(options), name=f"{label} ", **labels)
    return alt.param(name=name, value=value, bind=bind)


def live_title(expression: str, **options: Any) -> altair.Title:
    """Return a title that Vega computes."""
    alt = optional_import("altair")
    return alt.Title(alt.ExprRef(expression), **options)


def one_record() -> altair.Chart:
    """Return a chart of a single, empty record, for what is drawn once."""
    alt = optional_import("altair")
    return alt.Chart(alt.Data(values=[{}]))
