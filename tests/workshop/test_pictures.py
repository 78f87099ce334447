"""The data of the charts: what is drawn is what was given, in the right place."""

import re
from itertools import compress, product

import pandas as pd
import pytest
import torch
import vl_convert

import annotated_transformer as at
from transformer_workshop.pictures import (
    appendices,
    chapter_1,
    chapter_2,
    chapter_3,
    chapter_4,
    chapter_5,
    chapter_6,
    chapter_8,
    controls,
)


def tables(specification):
    """Return all tables of a chart's data, the largest first."""
    if isinstance(specification, dict):
        own = specification.get("datasets", {}).values()
        values = specification.get("data", {})
        own = [*own, *([values["values"]] if "values" in values else [])]
        inner = specification.values()
    else:
        own, inner = [], specification if isinstance(specification, list) else []
    rows = [*own, *(table for part in inner for table in tables(part))]
    return sorted(rows, key=len, reverse=True)


def test_an_arc_leads_from_the_word_it_hears_to_the_query():
    chart = chapter_1.arcs({"The dog saw it.": {"dog": 0.75}}).to_dict()
    arc, words = tables(chart)[:2]
    center = {row["word"]: row["x"] for row in words}
    assert arc[0]["x"] == pytest.approx(center["dog"])
    assert arc[-1]["x"] == pytest.approx(center["it."], abs=6)  # without its period
    assert max(row["y"] for row in arc) > arc[0]["y"] == pytest.approx(arc[-1]["y"])


def test_a_word_that_occurs_twice_has_an_arc_for_each():
    sentence, weights = "the dog saw the cat", [0.1, 0.2, 0.0, 0.3, 0.4]
    chart = chapter_1.arcs({sentence: weights}, query="cat")
    curves, words = tables(chart.to_dict())[:2]
    starts = {row["to"]: row["x"] for row in curves if row["step"] == 0}
    heard = [row["x"] for row in words if row["word"] != "saw"]  # no arc for nothing
    assert list(starts.values()) == pytest.approx(heard)
    assert [row["word"] for row in words if row["asks"]] == ["cat"]
    loop = [row["x"] for row in curves if row["to"] == 4]  # from the word to itself
    assert min(loop) < starts[4] < max(loop)
    listed = "the 0.10, dog 0.20, saw 0.00, the 0.30, cat 0.40"
    assert chart.description == f"{sentence} cat: {listed}"


def test_a_map_has_queries_as_rows():
    weights = torch.tensor([[0.1, 0.9, 0.0], [0.3, 0.2, 0.5]])
    [cells] = tables(chapter_1.attention_maps({"": weights}, "q", "k").to_dict())
    drawn = {(cell["row"], cell["column"]): cell["weight"] for cell in cells}
    assert drawn[0, 1] == 0.9 and drawn[1, 2] == 0.5 and len(drawn) == 6


def test_rows_are_filled_up_to_the_longest_of_their_batch():
    left, right = chapter_2.padding_chart(
        {"as they come": [3, 1, 2], "sorted": [1, 2, 3]}, size=2
    ).to_dict()["hconcat"]

    def padding(chart):
        [bars] = tables(chart)
        return [(b["from"], b["to"]) for b in bars if b["kind"] == "padding"]

    assert padding(left) == [(3, 3), (1, 3), (2, 2)]
    assert padding(right) == [(1, 2), (2, 2), (3, 3)]


def test_a_learning_model_is_drawn_as_losses_and_as_shares():
    columns = {"update": [0, 9], "training": [4, 1], "validation": [5, 2], "it": [0, 1]}
    mark = {"a guess costs": 0.05}
    chart = chapter_2.learning_chart(pd.DataFrame(columns), ["it"], mark).to_dict()
    drawn = {
        (row["line"], row["update"]): row["value"]
        for table in chart["datasets"].values()
        for row in table
        if "line" in row
    }
    assert drawn["validation", 9] == 2 and drawn["it", 9] == 1 and len(drawn) == 6
    assert {"value": 0.05, "words": "a guess costs"} in (
        row for table in tables(chart) for row in table
    )


def test_a_row_of_the_diagonal_predicts_its_own_symbol_and_the_end_is_left_out():
    attention = pd.Series({3: torch.eye(11, 10)})
    [cells] = tables(chapter_2.diagonal_chart(attention, [3]).to_dict())
    hits = [(cell["target"], cell["source"]) for cell in cells if cell["weight"]]
    assert hits == [(row + 1, row + 1) for row in range(10)] and len(cells) == 100


def test_batches_are_padded_to_their_own_longest_row_and_do_not_overlap():
    groups = {"drawn": [[0, 1], [2, 3]]}
    chart = chapter_3.batching_chart([3, 5, 2, 7], groups, 9)
    [bars] = tables(chart.to_dict())
    padding = [bar for bar in bars if bar["positions"] == "padding"]
    assert [bar["to"] for bar in padding] == [9, 9, 9, 9, 5, 5, 7, 7]
    assert [bar["row"] for bar in padding] == [0, 1, 4, 5] * 2


def test_matched_ngrams_are_those_that_bleu_counts():
    """Expect a word that the reference has once to match once."""
    chart = chapter_3.ngram_chart("the cat the".split(), "on the cat".split())
    *_, there, names, marks = chart.layer
    bars = marks.data.to_dict("records")
    hits = [bar["n-gram"] for bar in bars if bar["matched"] == "in the reference"]
    assert hits == ["the", "cat", "the cat"] and len(bars) == 3 + 2 + 1
    counts = [f"n = {n}" for n in ("1: 2 of 3", "2: 1 of 2", "3: 0 of 1")]
    assert list(names.data.words) == counts
    pair = there.data[there.data["n-gram"] == "the cat"]
    assert list(pair.word) == ["the", "cat"] and list(pair.place) == [1.5, 2.5]


def test_the_ring_is_around_the_lowest_validation_loss():
    history = [
        {"updates": u, "train": 1 / u, "valid": v} for u, v in ((1, 3), (2, 1), (3, 2))
    ]
    _, valid = chapter_3.learning_curves(history).hconcat
    [_, ring] = valid.layer
    assert ring.transform[0].filter == "datum.updates == 2"


def test_what_is_cached_is_not_computed_again():
    chart = chapter_4.recomputation_chart({"cached": [1, 1, 1], "plain": [1, 2, 3]})
    [cells] = tables(chart.to_dict())
    kinds = {name: [c["computed"] for c in cells if c["decoder"] == name]
             for name in ("cached", "plain")}  # fmt: skip
    read = "read from the cache"
    assert kinds["cached"] == ["new", read, "new", read, read, "new"]
    assert kinds["plain"] == ["new", "again", "new", "again", "again", "new"]


def test_the_clock_beside_the_positions():
    rows = [{"words": 3, "positions without": 6, "tokens a second without": 50.0,
             "tokens a second with": 75.0}]  # fmt: skip
    [data] = chapter_4.clock_chart(rows).to_dict()["datasets"].values()
    found = {(row["decoder"], row["positions"], row["tokens a second"]) for row in data}
    assert found == {("without a cache", 6, 50.0), ("with a cache", 3, 75.0)}


def test_the_error_rate_of_the_mean_comes_last():
    rates = {"read": torch.tensor([[0.5, 0.6]])}
    chart = chapter_5.error_rate_chart(rates, {"guess": torch.tensor(0.9)})
    rows, levels = sorted(tables(chart.to_dict()), key=len, reverse=True)[:2]
    assert [row["head"] for row in rows] == ["0.0", "0.mean"]
    assert [row["rate"] for row in rows] == pytest.approx([0.5, 0.6])
    assert levels[0]["is"] == "guess"


def test_a_transplant_is_drawn_at_its_position_after_its_layer():
    encoder, decoder = torch.rand(3, 4), torch.rand(3, 2)
    chart = chapter_5.patching_chart({"a": [encoder, decoder]}, [*"wxyz"], [*"uv"])
    drawn = [rows for rows in tables(chart.to_dict()) if "share" in rows[0]]
    for rows, shares in zip(drawn, (encoder, decoder), strict=True):
        after = ["embedding", "layer 0", "layer 1"]
        found = {(after.index(r["after"]), r["position"]): r["share"] for r in rows}
        assert all(abs(found[p] - shares[p].item()) < 1e-3 for p in found)
        assert len(found) == shares.numel()


def test_a_lead_keeps_its_head():
    weights, effects = torch.rand(2, 3), torch.rand(2, 3)
    [rows] = tables(chapter_5.leads_chart({"a": (weights, effects)}).to_dict())
    for row in rows:
        place = tuple(map(int, row["head"].split(".")))
        assert (row["weight"], row["carried"]) == (weights[place], effects[place])


def test_a_part_is_worth_what_it_adds_and_what_is_lost_without_it():
    def compared(differences):
        return [
            {"of": name, "difference": nats, "half": 0.5}
            for name, nats in differences.items()
        ]

    fast, best = ", fast embeddings", ", embeddings at 0.024"
    comparisons = {
        f"added{fast}": compared({f"gate{fast}": 1, f"SwiGLU{fast}": -2}),
        f"left out{best}": compared(
            {
                f"but gate{best}": 0,
                f"but SwiGLU{best}": 4,
                f"but SwiGLU{best}, half the rate": 3,
            }
        ),
    }
    [rows] = tables(chapter_6.parts_chart({"comparisons": comparisons}).to_dict())
    found = {}
    for row in rows:
        assert (row["low"], row["high"]) == (row["nats"] - 0.5, row["nats"] + 0.5)
        found.setdefault(row["part"], []).append(row["nats"])
    assert found == {"SwiGLU": [2, 3], "gate": [-1, 0]}


def test_samples_are_shares_between_their_seeds_extremes():
    def dials(possible, new):
        temperature = {"dial": "temperature 0.5", "possible": possible}
        return {"dials": [temperature | {"possible, new, distinct": new}]}

    results = {"runs": [dials(90, 20), dials(80, 30)]}
    [rows] = tables(chapter_6.dials_chart(results).to_dict())
    numbers = [[row[key] for key in ("low", "share", "high")] for row in rows]
    assert numbers == [[0.8, pytest.approx(0.85), 0.9], [0.2, 0.25, 0.3]]


def test_an_induction_chart_marks_where_ids_come_again():
    weights, losses = torch.eye(4), {"one layer": [1.0, 1.0, 0.5, 0.25]}
    spec = chapter_6.induction_chart(weights, losses, 2).to_dict()
    cells, rows, rule = tables(spec)
    assert len(cells) == 10 and sum(row["weight"] for row in cells) == 4
    assert rule == [{"position": 2.5}]
    assert [row["position"] for row in rows] == [1, 2, 3, 4]


def test_thresholds_and_kinds_are_percentages():
    counted = {"count": 1, "of": 4}
    groups = "all captions", "bad sentences", "good sentences", "bad captions"
    chart = appendices.threshold_chart([dict.fromkeys(groups, counted)])
    [rows] = tables(chart.to_dict())
    assert {row["flagged"] for row in rows} == {row["captions"] for row in rows} == {25}
    kinds = {
        name: {"preferred": {"count": count, "of": 20, "interval": [0, 100]}}
        for name, count in (("hard", 12), ("easy", 19))
    }
    chart = appendices.grammar_chart(kinds).to_dict()
    rows = tables(chart)[0]
    assert {row["kind"]: row["right"] for row in rows} == {"hard": 60, "easy": 95}
    sorts = {tuple(layer["encoding"]["y"]["sort"]) for layer in chart["layer"]
             if "sort" in layer["encoding"].get("y", {})}  # fmt: skip
    assert sorts == {("easy", "hard")}


def test_controls_have_the_ends_and_labels_they_were_given():
    bind = controls.slider("a", "b", 1, 0, 3, 0.5).param.to_dict()["bind"]
    assert (bind["min"], bind["max"], bind["step"]) == (0, 3, 0.5)
    bind = controls.choices("a", "b", 0, [0, 1], labels=["x", "y"])
    bind = bind.param.to_dict()["bind"]
    assert bind["options"] == [0, 1] and bind["labels"] == ["x", "y"]


class Letters:
    """A tokenizer whose tokens are letters."""

    class Encoded(list):
        ids = property(list)

    def encode(self, text):
        return self.Encoded(map(ord, text))

    def decode(self, ids):
        return "".join(map(chr, ids))


def test_chapter_8_draws_a_readers_own_text():
    torch.manual_seed(0)
    model = at.GPT(128, N=2, d_model=32, d_ff=48, h=4, groups=2)
    chart = chapter_8.copying(model, Letters(), "abcab").to_dict()
    ids = torch.tensor([list(b"abcab")])
    model.eval()(ids)
    maps = torch.cat([block.self_attn.attn for block in model.blocks])
    # what followed: b (1) when a (3) was read again, c (2) when b (4) was
    score = (maps[..., 3, 1] + maps[..., 4, 2]).flatten()
    layer, head = divmod(int(score.argmax()), 4)
    assert chart["title"]["text"] == f"Head {layer}.{head} copies"
    cells = {(r["row"], r["column"]): r["value"] for r in tables(chart)[0]}
    assert abs(cells[3, 1] - maps[layer, head, 3, 1].item()) < 1e-3
    for text, says in (("abcd", "nothing occurs twice"), ("a", "too short")):
        with pytest.raises(ValueError, match=says):
            chapter_8.copying(model, Letters(), text)


def test_a_hidden_first_token_changes_only_what_comes_after_the_fifth():
    torch.manual_seed(0)
    model = at.GPT(128, N=2, d_model=32, d_ff=48, h=4, groups=2)
    chart = chapter_8.without_first(model, Letters(), "abcdefghij").to_dict()
    seen, hidden = (
        [row["loss"] for row in tables(chart)[0] if row["first token"] == name]
        for name in ("seen", "hidden")
    )
    assert seen[:5] == hidden[:5]
    assert all(a != b for a, b in zip(seen[5:], hidden[5:], strict=True))
    assert model.blocks[0].self_attn.attention_function is at.attention


@pytest.mark.parametrize("clicked", [(), ("mit → man",), ("noun → man", "mit → man")])
def test_the_arrows_that_are_exchanged_say_what_is_left(clicked):
    connections = list(chapter_5._CONNECTIONS)
    states = product((False, True), repeat=len(connections))
    of_states = {tuple(compress(connections, state)): state for state in states}
    measured = {
        away: (
            torch.tensor(40.0),
            torch.tensor(sum(2.0**i * c for i, c in enumerate(s))),
        )
        for away, s in of_states.items()
    }  # every state has a distance of its own
    chart = chapter_5.circuit_chart({"a": measured, "b": measured}).to_dict()
    [away] = [param for param in chart["params"] if param["name"] == "away"]
    away["value"] = [{"connection": what} for what in clicked]
    svg = vl_convert.vegalite_to_svg(chart)
    clothes, things = measured[clicked]
    assert re.findall(r">([\d.]+) apart<", svg) == [f"{clothes - things:.1f}"] * 2
