"""How are the charts of chapter 3 drawn? Each is one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotated_transformer import optional_import

if TYPE_CHECKING:
    import altair


def batching_chart(
    lengths: Sequence[int], groupings: dict[str, list[list[int]]], fixed: int
) -> altair.Chart:
    """Draw each batch's rows: tokens in blue, the padding after them in gray.

    Columns: way (a panel), row, from, to, positions. The first panel pads the batches
    of the first grouping to a fixed length; the others to each batch's longest row.
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    first = next(iter(groupings.values()))
    panels = {f"padded to {fixed}": first} | groupings
    bars: list[dict[str, object]] = []
    for way, groups in panels.items():
        top = 0
        for group in groups:
            end = fixed if way not in groupings else max(lengths[i] for i in group)
            for row, i in enumerate(group, start=top):
                for start, stop, kind in (
                    (0, lengths[i], "tokens"),
                    (lengths[i], end, "padding"),
                ):
                    bar = {"way": way, "row": row, "end": row + 0.8}
                    bars.append(bar | {"from": start, "to": stop, "positions": kind})
            top += len(group) + 2
    title = f"The same {len(lengths)} sentences, batched in four ways"
    return (
        alt.Chart(pd.DataFrame(bars), width=140, height=320, title=title)
        .mark_rect()
        .encode(
            alt.X("from:Q", title="position").scale(domain=[0, fixed]),
            alt.X2("to"),
            alt.Y("row:Q", title=None).axis(None).scale(reverse=True),
            alt.Y2("end"),
            alt.Color("positions:N", title=None, sort=None)
            .scale(range=["#0072b2", "#d0d0d0"])
            .legend(orient="top"),
            alt.Column("way:N", title=None, sort=list(panels)),
        )
    )


def learning_curves(records: list[dict[str, float]]) -> altair.Chart:
    """Draw a run's two losses over its epochs.

    Columns: epoch, figure (a line), nats; from a run's records (``read_metrics``).
    """
    alt, pd = optional_import("altair"), optional_import("pandas")
    names = {
        "train_criterion": "loss on training pairs",
        "valid_nll": "NLL, validation",
    }
    curves = pd.DataFrame(records).rename(columns=names)
    curves = curves.melt("epoch", list(names.values()), "figure", "nats")
    title = "Late in training, the validation curve hardly falls"
    return (
        alt.Chart(curves, title=title, width=520, height=230)
        .mark_line(point=True)
        .encode(
            alt.X("epoch:Q"),
            alt.Y("nats:Q", title="nats per token"),
            alt.Color("figure:N", title=None, sort=None).legend(orient="top"),
        )
    )
