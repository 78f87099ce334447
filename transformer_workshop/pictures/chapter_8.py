"""How are the charts of chapter 8 drawn, of its text and of a reader's own?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from annotated_transformer import (
    GPT,
    attn_map,
    in_mode,
    knock_out,
    optional_import,
    plain_attention,
)
from transformer_workshop.pictures.controls import BLUE, ORANGE

if TYPE_CHECKING:
    import altair

GRAY = "#888888"


def cuts_chart(
    whole: float,
    cuts: dict[int, float],
    controls: dict[int, list[float]],
    single: dict[int, float],
) -> altair.LayerChart:
    """Draw the loss on repeated ids without some heads, and without their controls.

    ``cuts`` and ``controls`` are by the number of heads. ``single`` heads, i for head
    i % 9 of layer i // 9, begin with layer 16; what follows looks one back, too.
    """
    alt = optional_import("altair")
    cut, control = "these heads", "controls: others of their layers"
    rows = []
    for number, loss in cuts.items():
        name = f"{number} best induction head{'s' * (number > 1)}"
        rows.append({"what": name, "loss": loss, "kind": cut})
        for each in controls[number]:
            rows.append({"what": name, "loss": each, "kind": control})
    for i, loss in single.items():
        here, elsewhere = "16.0, which looks one back", "others that look one back"
        name = here if i // 9 == 16 else elsewhere
        kind = cut if i == 144 or i // 9 != 16 else control
        rows.append({"what": name, "loss": loss, "kind": kind})
    order = list(dict.fromkeys(row["what"] for row in rows))
    base = alt.Chart(alt.Data(values=rows), width=360, height=alt.Step(34))
    color = alt.Color("kind:N", title=None, sort=[cut, control])
    dots = base.mark_point(filled=True, size=80, opacity=0.8).encode(
        alt.X("loss:Q", title="loss on repeated ids, in nats").scale(zero=True),
        alt.Y("what:N", title=None, sort=order),
        color.scale(range=[ORANGE, BLUE]).legend(orient="top"),
    )
    rule = alt.Chart(alt.Data(values=[{"loss": whole}])).mark_rule(
        strokeDash=[4, 3], color=GRAY
    )
    return alt.layer(rule.encode(alt.X("loss:Q")), dots).properties(
        title=alt.Title(
            "What the model knows of repeated ids without some heads",
            subtitle=f"dashed: the whole model, {whole:.1f}",
        ),
        description="Losses without induction heads, without the previous-token head, "
        "and without as many other heads of the same layers.",
    )


def lengths_chart(lengths: Tensor) -> altair.Chart:
    """Draw the length of vectors after each block: of first tokens, and of others.

    ``lengths`` is (N, B, L).
    """
    alt = optional_import("altair")
    rows = []
    for block, (first, others) in enumerate(
        zip(lengths[:, :, 0].tolist(), lengths[:, :, 1:].mean(-1).tolist())
    ):
        for text, (one, rest) in enumerate(zip(first, others)):
            for name, value in (("first token", one), ("mean of the others", rest)):
                rows.append(
                    {"block": block, "text": text, "of": name, "length": round(value)}
                )
    return (
        alt.Chart(alt.Data(values=rows), width=440, height=240)
        .mark_line(strokeWidth=2)
        .encode(
            alt.X("block:Q", title="after block"),
            alt.Y("length:Q", title="length of the vector (logarithmic)").scale(
                type="log"
            ),
            alt.Color("of:N", title=None)
            .scale(range=[ORANGE, BLUE])
            .legend(orient="top"),
            alt.Detail("text:N"),
        )
        .properties(
            title="The first token's vector is long for most of the way",
            description="The length of the residual vectors after each of 30 blocks, "
            "for four texts.",
        )
    )


def riddle_chart(
    riddles: list[tuple[str, str, str]], told: list[float], alone: list[float]
) -> altair.LayerChart:
    """Draw what a model prefers with a sentence against what it prefers without.

    ``riddles`` are (animal, dish, adjective), those of dishes and of animals in turn.
    """
    alt = optional_import("altair")
    rows = [
        {
            "told": round(with_it, 2),
            "alone": round(without, 2),
            "fits": "an animal" if i % 2 else "a dish",
            "riddle": f"{animal}, {dish}, {word}",
        }
        for i, ((animal, dish, word), with_it, without) in enumerate(
            zip(riddles, told, alone, strict=True)
        )
    ]
    extent = 1.0 + max(map(abs, [*told, *alone]))
    domain = alt.Scale(domain=(-extent, extent), nice=False)
    dots = (
        alt.Chart(alt.Data(values=rows), width=320, height=320)
        .mark_point(filled=True, size=90, opacity=0.8)
        .encode(
            alt.X("alone:Q", title="prefers the animal without the sentence, in nats")
            .scale(domain),
            alt.Y("told:Q", title="with the sentence").scale(domain),
            alt.Color("fits:N", title="the adjective fits")
            .scale(range=[BLUE, ORANGE])
            .legend(orient="right"),
            tooltip=["riddle:N", "alone:Q", "told:Q"],
        )
    )  # fmt: skip
    zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(color=GRAY)
    return alt.layer(
        zero.encode(alt.X("at:Q")), zero.encode(alt.Y("at:Q")), dots
    ).properties(
        title="What the words suggest, with and without something to understand",
        description="Each dot is a riddle: how much the model prefers the animal over "
        "the dish, without the sentence across, and with it upward.",
    )


def _tokens(tokenizer: Any, text: str) -> tuple[Tensor, list[str]]:
    """Return a text's ids (1, L), and its tokens as they are shown."""
    ids = tokenizer.encode(text).ids
    if len(ids) < 2:
        raise ValueError("the text is too short; write a sentence or two")
    return torch.tensor([ids]), [tokenizer.decode([i]) for i in ids]


def copying(model: GPT, tokenizer: Any, text: str) -> altair.Chart:
    """Draw the head that copies most in a text in which something occurs twice.

    Of all heads, it is the one with the largest weight on tokens that followed an
    earlier occurrence of the token just read.
    """
    ids, tokens = _tokens(tokenizer, text)
    with plain_attention(model), in_mode(model, training=False):
        model(ids)
    attn: Any = [block.self_attn for block in model.blocks]  # type: ignore
    maps = torch.cat([module.attn for module in attn])  # (N, h, L, L)
    same = (ids[0].unsqueeze(1) == ids[0]).tril(-1)
    after = F.pad(same[:, :-1], (1, 0)).tril()  # one place on
    if not after.any():
        raise ValueError("nothing occurs twice in this text, so nothing can be copied")
    seen = after.any(dim=-1)
    score = (maps * after).sum(-1)[..., seen].mean(-1)
    layer, head = divmod(int(score.argmax()), score.size(1))
    p = model(ids)[0, -1].softmax(dim=-1)
    best = tokenizer.decode([int(p.argmax())])
    chart = attn_map(maps[layer : layer + 1], layer, head, tokens, tokens)
    return chart.properties(
        title=alt_title(
            f"Head {layer}.{head} copies",
            f"the model's next token: {best!r}, with probability {p.max():.2f}",
        )
    )


def alt_title(title: str, subtitle: str) -> altair.Title:
    """Return a title of two lines."""
    return optional_import("altair").Title(title, subtitle=subtitle)


def without_first(
    model: GPT, tokenizer: Any, text: str, after: int = 5
) -> altair.Chart:
    """Draw each token's loss, and what it is if the first token is hidden.

    It is hidden, in all heads, from the queries at place ``after`` and later.
    """
    alt = optional_import("altair")
    ids, tokens = _tokens(tokenizer, text)
    place = torch.arange(ids.size(1) - 1)
    hidden = (place.unsqueeze(1) >= after) & (place == 0)

    def losses() -> list[float]:
        logits = model(ids[:, :-1])[0]
        return F.cross_entropy(logits, ids[0, 1:], reduction="none").tolist()

    with plain_attention(model), in_mode(model, training=False):
        whole = losses()
        for block in model.blocks:
            module: Any = block.self_attn
            knock_out(module, hidden)
        without = losses()
    rows = [
        {"place": i, "first token": name, "loss": round(loss, 3)}
        for i in range(len(whole))
        for name, loss in (("seen", whole[i]), ("hidden", without[i]))
    ]
    label = f"{tokens[1:]!r}[datum.value]"
    return (
        alt.Chart(alt.Data(values=rows), width=alt.Step(20), height=220)
        .mark_bar()
        .encode(
            alt.X("place:O", title=None).axis(
                labelExpr=label, labelAngle=-60, labelOverlap=False
            ),
            alt.Y("loss:Q", title="loss in nats"),
            alt.Color("first token:N", sort=["seen", "hidden"]).scale(
                range=[BLUE, ORANGE]
            ),
            alt.XOffset("first token:N", sort=["seen", "hidden"]),
        )
        .properties(title="What each token costs, and costs without the first")
    )
