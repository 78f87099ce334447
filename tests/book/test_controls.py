"""The figures that readers move: at rest, they show what the text computes."""

from __future__ import annotations

import html
import math
import re

import nbformat
import pytest
import torch

import annotated_transformer as at
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.pictures import chapter_1, chapter_6, controls

VEGA = "application/vnd.vegalite.v5+json"
vl_convert = pytest.importorskip("vl_convert")


def stored(chapter: str, call: str) -> dict:
    """Return the specification that a chapter's cell with this call has stored."""
    path = project_folder() / "notebooks" / f"{chapter}.ipynb"
    [cell] = [
        c
        for c in nbformat.read(path, 4).cells
        if c.cell_type == "code" and f"{call}(" in c.source
    ]
    return cell.outputs[-1].data[VEGA]


def texts(spec: dict, fill: str = "", **chosen: object) -> list[str]:
    """Return the texts of a figure, with its controls set; of one color, if given."""
    spec = spec | {
        "params": [
            each | {"value": chosen.get(each["name"], each.get("value"))}
            for each in spec.get("params", [])
        ]
    }
    assert set(chosen) <= {each["name"] for each in spec["params"]}
    svg = vl_convert.vegalite_to_svg(spec)
    found = re.findall(rf"<text[^>]*{fill and f'fill=.{fill}'}[^>]*>(.*?)</text>", svg)
    plain = [html.unescape(re.sub(r"<[^>]*>", " ", each)) for each in found]
    return [each.replace("\N{MINUS SIGN}", "-").strip() for each in plain]


def test_attention_by_hand_shows_the_numbers_of_the_text():
    spec = stored("01_architecture", "attention_by_hand")
    key = torch.tensor([[0.1, 1.6], [1.6, -0.4], [0.2, 0.7], [0.9, 0.1]])
    for query in ([1.5, -1.0], [-0.5, 1.5], [-2.0, -2.0]):
        score = key @ torch.tensor(query)
        shown = texts(spec, query=[dict(zip("xy", query))])
        for numbers in (score, score.exp(), score.softmax(dim=0)):
            for number in numbers.tolist():
                assert f"{number:.2f}" in shown


@pytest.mark.parametrize("log_width, divide", [(0, False), (6, True), (10, False)])
def test_softmax_by_width(log_width, divide):
    scores = torch.randn(16, generator=torch.Generator().manual_seed(0))
    spec = chapter_1.softmax_by_width(scores.tolist()).to_dict()
    shown = texts(spec, log_width=log_width, divide=divide)
    largest = (scores * (1 if divide else 2 ** (log_width / 2))).softmax(dim=0).max()
    assert f"{largest:.2f}" in shown
    many = torch.randn(20_000, 16, generator=torch.Generator().manual_seed(1))
    top = (many * (1 if divide else 2 ** (log_width / 2))).softmax(dim=-1).amax(dim=-1)
    numbers = [float(each) for each in shown if re.fullmatch(r"0\.\d\d", each)]
    for mean in (top.mean(), (top * (1 - top)).mean()):
        assert any(abs(number - mean) < 0.02 for number in numbers)
    assert any(f"d_k = {2**log_width}" in each for each in shown)


MASKS = {
    "the future": torch.ones(5, 5).tril(),
    "the last two words": torch.tensor([1.0, 1, 1, 0, 0]).expand(5, 5),
    "everything": torch.zeros(5, 5),
}


@pytest.mark.parametrize("hides", MASKS)
def test_mask_by_hand_agrees_with_attention(hides):
    scores = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    spec = chapter_1.mask_by_hand(list("abcde"), scores).to_dict()
    shown = texts(spec, hides=hides)
    mask = MASKS[hides]
    width = math.sqrt(5)
    _, weights = at.attention(scores * width, torch.eye(5), torch.eye(5), mask)
    for weight in weights[mask > 0].tolist():
        assert f"{weight:.2f}" in shown
    assert shown.count("1.00" if mask.any() else "0.00") >= 5


def test_position_clocks_count_on_from_the_position():
    spec = chapter_1.position_clocks(8, 60, [0, 1]).to_dict()
    shown = texts(spec, position=44)
    assert "44" in shown and "49" in shown


def test_beam_steps_show_the_searches_of_the_chapter():
    spec = stored("04_additional_components", "beam_steps")
    shown = texts(spec)
    assert "The boy is carrying an elephant ." in shown and "-1.57" in shown
    for alpha, winner in ((0.6, "juice"), (3.0, "cold water")):
        shown = texts(spec, controls.GREEN, sentence=1, alpha=alpha)
        assert f"The boy is drinking {winner} ." in shown and len(shown) == 2
    boxes = [re.findall(r"\S+  -\d", "\n".join(texts(spec, step=s))) for s in (3, 4, 8)]
    assert len(boxes[1]) - len(boxes[0]) == 6 and len(boxes[2]) > len(boxes[1])


@pytest.mark.parametrize(
    "m, n, score", [(3, 1, "0.34"), (7, 5, "0.34"), (8, 5, "0.00")]
)
def test_rotary_hands_show_the_scores_of_the_chapter(m, n, score):
    shown = texts(chapter_6.rotary_hands(45, 15, 24).to_dict(), m=m, n=n)
    assert any(each.endswith(f"score {score}") for each in shown), shown


@pytest.mark.parametrize(
    "temperature, top_k, top_p",
    [(1, 30, 1), (0.4, 30, 1), (2, 3, 1), (1, 4, 0.8), (1, 30, 0.6)],
)
def test_next_word_draws_from_what_restrict_leaves(temperature, top_k, top_p):
    logits = torch.randn(40, generator=torch.Generator().manual_seed(3)) * 2
    log_p = logits.log_softmax(dim=0).sort(descending=True).values
    words = [f"w{i}" for i in range(40)]
    spec = chapter_6.next_word(words, log_p.tolist(), {1.0: ["a sample"]}).to_dict()
    shown = texts(spec, temperature=temperature, top_k=top_k, top_p=top_p)
    k = None if top_k == 30 else top_k
    p = at.restrict((log_p / temperature).log_softmax(-1), k, top_p).softmax(-1)
    drawn = [f"{each:.2f}" for each in p[:12].tolist()]
    numbers = [each for each in shown if re.fullmatch(r"\d\.\d\d", each)]
    assert sorted(numbers)[-12:] == sorted(drawn)
    assert ("a sample" in shown) == (temperature == 1)
