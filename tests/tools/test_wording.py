"""What is seen beside prose is in the language of its edition (tools/wording.py)."""

import json
import shutil

import pytest
from chapters import ROOT
from wording import Words, chart, code, figure, not_in_font

CHINESE = ROOT / "notebooks-zh"
WORDS = {
    "charts": {
        "loss": "损失", "kept": "保留", "mean over ": "平均：", "step ": "步 ",
        "weight": "权重",
    },
    "figures": {"d<tspan>k</tspan> wide": "d<tspan>k</tspan> 维", "A layer": "一层"},
    "code": {
        "back again": "再变回来",
        "Return x.\n\n    Twice.": "返回 x。\n\n    两次。",
    },
    "same": ["ReLU"],
}  # fmt: skip


def test_a_chart_says_the_same_in_its_title_its_data_and_its_expressions():
    spec = {
        "title": "loss",
        "params": [{"name": "step", "bind": {"input": "range", "name": "step "}}],
        "data": {"values": [{"fate": "kept", "title": "loss", "step": "kept"}]},
        "transform": [{"filter": "datum.fate == 'kept' && 'mean over ' + step"}],
        "encoding": {
            "x": {"field": "weight", "type": "quantitative"},
            "color": {
                "field": "fate", "type": "nominal", "title": "ReLU",
                "scale": {"domain": ["kept"]},
            },
        },
    }  # fmt: skip
    words, before = Words(WORDS), json.dumps(spec)
    found = chart(spec, words)
    assert json.dumps(spec) == before and not words.missing
    assert found["title"] == "损失" and found["params"][0]["bind"]["name"] == "步 "
    assert found["data"]["values"] == [
        {"fate": "保留", "title": "损失", "step": "保留"}
    ]
    assert found["transform"][0]["filter"] == "datum.fate == '保留' && '平均：' + step"
    x, color = found["encoding"].values()
    assert x["title"] == "权重" and x["field"] == "weight"
    assert color["scale"]["domain"] == ["保留"] and color["title"] == "ReLU"


def test_a_text_is_found_with_other_measured_numbers():
    rows = {"loss 0.51": "损失 0.51"}
    words = Words({"charts": rows, "same": []})
    assert words.find("charts", "loss 0.97") == "损失 0.97"
    assert words.find("charts", "loss 3 of 4") == "loss 3 of 4"
    assert words.missing == {("charts", "loss 3 of 4")}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"title": "a new one"}, "a new one"),
        ({"axis": {"title": {"text": "two"}}}, "two"),
        ({"bind": {"x": {"input": "range", "name": "dial "}}}, "dial "),
        ({"title": {"expr": "'drawn at ' + t"}}, "drawn at "),
    ],
)
def test_what_a_chart_says_has_to_be_in_the_table(spec, text):
    words = Words(WORDS)
    chart(spec, words)
    assert words.missing == {("charts", text)}


def test_a_figure_keeps_all_but_its_words():
    svg = '<svg><title>A layer</title><text x="1">d<tspan>k</tspan> wide</text></svg>'
    words = Words(WORDS)
    found = figure(svg, words)
    assert found == svg.replace("A layer", "一层").replace(" wide", " 维")
    figure("<text>a box</text>", words)
    assert words.missing == {("figures", "a box")}


def test_comments_and_docstrings_change_and_code_does_not():
    source = (
        'def f(x):\n    """Return x.\n\n    Twice."""\n'
        '    y = "é # back again"  # back again\n    return y  # fmt: skip\n'
    )
    words = Words(WORDS)
    plain = code(source, words, docstrings=False)
    assert plain == source.replace("  # back again", "  # 再变回来")
    found = code(source, words, docstrings=True)
    assert found == plain.replace("Return x.", "返回 x。").replace("Twice.", "两次。")
    assert code("%pip install x  # back again", words, True).endswith("back again")


def test_a_letter_that_the_font_of_the_pictures_lacks_is_named(tmp_path):
    shutil.copytree(CHINESE / "fonts", tmp_path / "fonts")
    words = '[charts]\n"loss" = "损失"\n"alone" = "单"\n'
    (tmp_path / "words.toml").write_text(words, encoding="utf-8")
    assert not_in_font(tmp_path) == ["单"]
