"""Experiments: what is trained, what is told apart, and that nothing is done twice."""

import dataclasses
import functools
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from sacrebleu.significance import PairedTest
from torch import nn

import annotated_transformer as at
from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.lab import tasks
from transformer_workshop.lab.comparison import compare, most_different, report
from transformer_workshop.lab.experiments import (
    Experiment,
    _described,
    _train,
    _wanted,
    experiment,
    students_t,
)
from transformer_workshop.lab.tasks import TASKS
from transformer_workshop.lab.workers import compute
from transformer_workshop.pictures.experiments import experiment_chart


class Line:
    """Learn to double a number; the noise is the seed's."""

    unit = "squared error"

    def sizes(self):
        return (1,)

    def train(self, model, rate, updates, seed, slower=1.0):
        noise = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.SGD(model.parameters(), rate / slower)
        for _ in range(updates):
            x = torch.randn(8, 1, generator=noise)
            target = 2 * x + 0.1 * torch.randn(8, 1, generator=noise)
            loss = (model(x) - target).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()

    def judge(self, model):
        x = torch.linspace(-1, 1, 9).unsqueeze(1)
        with torch.no_grad():
            error = (model(x) - 2 * x).pow(2).mean().item()
        return {self.unit: error, "slope": next(model.parameters()).item()}


def straight(size):
    return nn.Linear(size, 1)


def bounded(size):
    return nn.Sequential(nn.Linear(size, 1), nn.Tanh())


def halved(size):
    return nn.Sequential(nn.Linear(size, 1), nn.Identity())


WEIGHT = torch.ones(1, 1)


def shared(size):
    model = straight(size)
    model.weight = nn.Parameter(WEIGHT)
    return model


def frozen(size):
    return nn.Sequential(straight(size), shared(size).requires_grad_(False))


@pytest.fixture
def run(tmp_path):
    def call(variants, **options):
        options = {"updates": 40, "rates": (0.2,), "folder": tmp_path} | options
        return experiment(variants, Line(), workers=2, **options)

    return call


def test_a_worse_model_is_told_apart_and_the_same_one_is_not(run, tmp_path):
    result = run({"straight": straight, "bounded": bounded, "again": halved})
    table = result.table
    assert list(table.index) == ["straight", "bounded", "again"]
    assert list(table["parameters"]) == [2, 2, 2] and (table["rate"] == 0.2).all()
    worse, same = result.in_words.splitlines()
    assert "): bounded is worse after 40 updates, from 3 seeds. It has as m" in worse
    assert "can't be told apart after 40 updates, from 3 seeds. (A true" in same
    assert len(list(tmp_path.glob("*.json"))) == 9
    by_hand = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = straight(1)
        list(Line().train(model, 0.2, 40, seed))
        by_hand.append(Line().judge(model)[Line.unit])
    assert result.losses("straight") == pytest.approx(by_hand, rel=1e-4)


def test_what_was_trained_is_not_trained_again_unless_it_changed(run, tmp_path, capsys):
    def logged():
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if ": trains differently" in line]

    def times():
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    first = run({"a": straight})
    before = times()
    assert run({"a": straight}).results == first.results and times() == before
    more = run({"a": straight}, seeds=4)
    assert len(more.losses("a")) == 4
    assert {name: times()[name] for name in before} == before
    assert run({"a": straight}).rows == first.rows  # not those of the fourth seed
    run({"a": bounded})  # another model of this name
    changed = times()
    assert all(changed[name] != before[name] for name in before)
    assert run({"a": (bounded, {"slower": 2.0})}).losses("a") != first.losses("a")
    assert logged() == []
    run({"a": straight})
    path = tmp_path / "a-40-0.2-0.json"  # as if what the model imports had changed
    write_json(path, read_json(path) | {"first losses": [1.0, 1.0, 1.0]})
    before = times()
    run({"a": straight})
    assert logged() == ["a: trains differently than before; it is trained again"]
    assert all(times()[f"a-40-0.2-{seed}.json"] != before[path.name] for seed in (0, 1))


def test_names_that_differ_in_signs_or_case_alone_have_their_own_files(run, tmp_path):
    names = ["+ g", "- g", "_g", "G", "g", 100 * "g"]
    first = run(dict.fromkeys(names, straight))
    files = {path.name for path in tmp_path.iterdir()}
    assert len({name.lower() for name in files}) == 3 * len(names)
    assert {"g-40-0.2-0.json", "_g-40-0.2-0.json"} < files
    assert run(dict.fromkeys(names, straight)).results == first.results


def test_each_training_is_told_where_no_bar_is_seen(run, monkeypatch, capsys):
    result = run({"a": straight, "wild": (straight, {"slower": 1e-3})}, updates=200)
    told = sorted(capsys.readouterr().err.splitlines())
    first = result.loss("a", 0.2, 0)
    assert told[0] == f"a, rate 0.2, seed 0: {first:.4f} squared error"
    assert told[3:] == [f"wild, rate 0.2, seed {seed}: diverged" for seed in range(3)]
    monkeypatch.setenv("TQDM_DISABLE", "1")
    run({"b": straight})
    assert capsys.readouterr().err == ""


def test_a_variant_alone_has_a_loss_and_a_result_shows_its_table(run):
    result = run({"a": straight})
    loss = statistics.mean(result.losses("a"))
    words = re.fullmatch(
        r"a: (\S+) squared error after 40 updates, from 3 seeds\."
        r" There is nothing to compare it with\.",
        result.in_words,
    )
    assert float(words[1]) == pytest.approx(loss, rel=0.1)
    assert repr(result) == str(result) == (
        f"{result.table.to_string(na_rep='')}\n\n{result.in_words}"
    )  # fmt: skip
    result.chart().to_dict()
    wild = run({"w": (straight, {"slower": 1e-3})}, updates=200)
    assert wild.in_words == "w: diverged."


factor = 1.0


def scaled(x):
    return factor * x


def outer(size):
    power = 2

    def inner():
        return scaled(power)

    return inner


class Judging(Line):
    def judge(self, model):
        return {self.unit: 0.0}


def test_a_description_changes_with_what_the_code_names(monkeypatch):
    before = _described(outer), _described(outer(1))
    assert before == (_described(outer), _described(outer(1)))
    monkeypatch.setitem(globals(), "factor", 2.0)
    assert _described(outer) != before[0] and _described(outer(1)) != before[1]
    monkeypatch.setitem(globals(), "scaled", straight)
    assert "nn" not in _described(outer)
    assert _described(Line) != _described(Judging)
    assert _described(partial(outer, 1)) != _described(partial(outer, 2))
    assert _described([1, {"a": 2.0}]) != _described([1, {"a": 3.0}])


def test_an_option_reaches_the_training_and_train_replaces_it(run):
    def scale_of_seed(task, model, rate, updates, seed):
        with torch.no_grad():
            model.weight.fill_(seed + rate)
            model.bias.zero_()
        yield from [0.0] * updates

    result = run({
        "a": straight, "slow": (straight, {"slower": 1e9}),
        "own": (straight, {"train": scale_of_seed}),
    })  # fmt: skip
    torch.manual_seed(0)
    untrained = Line().judge(straight(1))[Line.unit]
    assert result.losses("slow")[0] == pytest.approx(untrained, rel=1e-4)
    assert result.table.loc["own", "slope"] == pytest.approx(1.2)


def test_a_training_that_diverges_is_said_to(run):
    result = run({"a": straight, "wild": (straight, {"slower": 1e-3})}, updates=200)
    assert result.losses("wild") == [math.inf] * 3
    assert result.in_words == "wild and a: can't be compared, wild diverged."
    assert math.isfinite(result.half_interval)
    result.chart().to_dict()


@pytest.mark.parametrize(
    "variants, options, error, words",
    [
        ({"a": straight}, {"seeds": 2}, ValueError, "three or more"),
        ({"a": straight}, {"seeds": [1, 1, 2]}, ValueError, "different"),
        ({}, {}, TypeError, "dictionary"),
        ([straight], {}, TypeError, "dictionary"),
        ({"a": nn.Linear(1, 1)}, {}, TypeError, "'a' must be a function"),
        ({"a": straight}, {"rates": (0.0,)}, ValueError, "positive numbers"),
        ({"a": straight}, {"rates": 0.2}, ValueError, "positive numbers"),
        ({"a": straight}, {"rates": ["0.1"]}, ValueError, "positive numbers"),
        ({"a": straight}, {"updates": 0}, ValueError, "updates=0"),
        ({"a": straight}, {"updates": "9"}, ValueError, "updates='9'"),
        ({"a": functools.cache(straight)}, {}, ValueError, "same weights twice"),
        ({"a": shared}, {}, ValueError, "build a new model at each call"),
        ({"a": lambda size: None}, {}, TypeError, "returned NoneType, not a model"),
    ],
)
def test_what_cannot_be_tried_is_refused(run, variants, options, error, words):
    with pytest.raises(error, match=words):
        run(variants, **options)


def test_a_mistake_shows_before_anything_is_trained(run, tmp_path):
    with pytest.raises(TypeError) as caught:
        run({"good": straight, "bad": lambda: straight(1)})
    told = " ".join(caught.value.__notes__)
    assert "The task calls the variant's function with (1): see" in told
    assert "This is the variant 'bad'." in told and not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match=r"Line\(\), not a class"):
        experiment({"a": straight}, Line)


def test_what_is_shared_but_not_trained_is_allowed(run):
    assert math.isfinite(run({"a": frozen}).losses("a")[0])


@pytest.mark.parametrize("task, options, told", [
    ("captions", {"smoothing": 0.0}, [
        "Options of this training: train, schedule, optimizer; see"
        " help(transformer_workshop.lab.tasks.Translation).",
        "smoothing is a field of the task: see help(experiment).",
    ]),
    ("sentences", {"row": 8}, [
        "Options of this training: train, rows, length; see"
        " help(transformer_workshop.lab.tasks.Continuation)."
    ]),
])  # fmt: skip
def test_an_unknown_option_is_refused_with_the_known_ones(task, options, told):
    def build(*sizes):
        return small(*sizes) if len(sizes) == 2 else at.GPT(*sizes, 1, 16, 16, 2, 1)

    with pytest.raises(TypeError, match="unexpected keyword") as caught:
        experiment({"a": (build, options)}, task)
    assert caught.value.__notes__ == [*told, "This is the variant 'a'."]


def test_a_gpt_is_refused_where_translators_are_trained():
    def gpt(src, tgt):
        return at.GPT(tgt, 1, 16, 16, 2, 1)

    with pytest.raises(TypeError, match="GPT has none. For a GPT, use .* 'sentences'"):
        experiment({"a": gpt}, "captions")


def test_a_field_of_the_task_varies_as_the_help_says():
    def hard(task, *given):
        return dataclasses.replace(task, smoothing=0.0).train(*given)

    task = TASKS["captions"]
    first = []
    for train in (type(task).train, hard):
        torch.manual_seed(0)
        first.append(next(train(task, small(*task.sizes()), 0.01, 2, 0)))
    assert first[0] != first[1]


def test_an_unknown_task_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="use captions, multi30k, sentences"):
        experiment({"a": straight}, "caption")


def of_rates(losses):
    """Return an experiment whose variant "a" has these losses, from the first seed."""
    rates = {
        rate: {0: {"measured": None if loss is None else {"nats": loss}}}
        for rate, loss in losses.items()
    }
    return Experiment("nats", [0, 1, 2], {"a": rates})


@pytest.mark.parametrize("losses, wanted", [
    ({}, [(0.003, 0), (0.006, 0)]),
    ({0.003: 5.0}, [(0.006, 0)]),
    ({0.003: 5.0, 0.006: 4.0}, [(0.012, 0)]),
    ({0.003: 4.0, 0.006: 5.0}, [(0.0015, 0)]),
    ({0.003: 4.0, 0.006: None}, [(0.0015, 0)]),
    ({0.003: None, 0.006: None}, [(0.0015, 0)]),
    ({0.003: 5.0, 0.006: 4.0, 0.012: 3.0}, [(0.024, 0)]),
    ({0.003: 5.0, 0.006: 4.0, 0.012: 4.5}, [(0.006, 1), (0.006, 2)]),
    ({0.0015: 5.0, 0.003: 4.0, 0.006: None}, [(0.003, 1), (0.003, 2)]),
])  # fmt: skip
def test_rates_are_added_until_the_best_is_between_two_then_seeds(losses, wanted):
    begun = of_rates(losses)
    assert _wanted(begun, "a", ()) == wanted
    if len(wanted) == 2 and losses:
        best, worse = wanted[0][0], {"measured": {"nats": 9.0}}
        begun.results["a"][best] |= {1: worse, 2: worse}
        assert begun.rate("a") == best and _wanted(begun, "a", ()) == []


def test_intervals_are_students_with_the_pooled_spread():
    tables = {  # of any statistics book
        0.975: {4: 2.776, 10: 2.228, 24: 2.064, 32: 2.037},
        0.8: {4: 0.941, 10: 0.879, 30: 0.854},
    }
    for share, table in tables.items():
        for freedom, t in table.items():
            assert students_t(freedom, share) == pytest.approx(t, rel=0.003)
    rows = {"a": [1.0, 2.0, 3.0], "b": [4.0, 4.0, 7.0]}
    results = {
        name: {0.1: {i: {"measured": {"nats": x}} for i, x in enumerate(row)}}
        for name, row in rows.items()
    }
    result = Experiment("nats", range(3), results)
    assert result.spread == (math.sqrt((2 + 6) / 4), 4)
    apart = result.spread[0] * math.sqrt(2 / 3)
    assert result.half_interval == pytest.approx(2.776 * apart, rel=0.003)
    assert result.detectable == pytest.approx((2.776 + 0.941) * apart, rel=0.003)


def test_true_differences_are_found_as_often_as_is_said():
    """Simulate it: an interval covers 95 %, ``detectable`` is found in 80 %."""
    draw = torch.Generator().manual_seed(0)
    covered = detected = 0
    half = (students_t(4, 0.975)) * math.sqrt(2 / 3)
    power = half + students_t(4, 0.8) * math.sqrt(2 / 3)
    for _ in range(4000):
        a, b = torch.randn(2, 3, generator=draw).tolist()
        squares = 2 * statistics.variance(a) + 2 * statistics.variance(b)
        deviation = math.sqrt(squares / 4)
        difference = statistics.mean(a) - statistics.mean(b)
        covered += abs(difference) < half * deviation
        detected += difference + power > half * deviation
    assert 0.935 < covered / 4000 < 0.965
    assert 0.75 < detected / 4000 < 0.9


def test_a_sentence_says_sizes_costs_and_where_the_best_rate_lies():
    def records(size, milliseconds, *losses):
        measured = {"parameters": size, "milliseconds": milliseconds}
        return {i: measured | {"measured": {"nats": x}} for i, x in enumerate(losses)}

    results = {
        "old": {0.1: records(10, 2.0, 5.0, 5.1, 5.2), 0.2: records(10, 2.0, 6.0)},
        "new": {0.1: records(15, 3.0, 4.0), 0.2: records(15, 3.0, 3.0, 3.1, 3.2)},
    }
    said = Experiment("nats", range(3), results, updates=9).in_words
    assert said.startswith("new: 3.100 nats, old: 5.100 (-2.000, 95 % from -2.226 to")
    assert "): new is better after 9 updates, from 3 seeds. It has +5 param" in said
    assert "+5 parameters, and an update takes 1.5 times the CPU time. The" in said
    results["old"][0.2][0]["milliseconds"] = 9.0  # another program was running
    assert Experiment("nats", range(3), results).in_words.count("CPU") == 1
    results["new"][0.2][2]["milliseconds"] = 2.9
    assert "CPU" not in Experiment("nats", range(3), results).in_words
    assert "best rate of new is the highest that was tried." in said
    assert "best rate of old is the lowest that was tried." in said


class Busy(Line):
    def train(self, model, rate, updates, seed):
        for _ in range(updates):
            until = time.process_time() + 0.03
            while time.process_time() < until:
                pass
            yield 1.0

    def judge(self, model):
        return {self.unit: self.judged}


@pytest.mark.parametrize("judged, kept", [(2.0, True), (math.nan, False)])
def test_a_record_has_milliseconds_and_no_figure_that_is_no_number(judged, kept):
    task = Busy()
    task.judged = judged
    record = _train(task, straight, {}, {"rate": 0.1, "updates": 4, "seed": 0})
    assert 30 <= record["milliseconds"] < 60
    assert record["measured"] == ({Line.unit: judged} if kept else None)


def test_the_chart_draws_intervals_and_names_variants_at_their_last_rate():
    losses = {"a": {0.1: 3.0, 0.2: 2.0, 0.4: None}, "b": {0.1: 2.5, 0.4: 4.0}}
    rows = [
        {"variant": "a"},
        {"variant": "b", "difference": 2.0, "from": 1.0, "to": 3.0},
    ]
    other = {"a": {0.2: 2.1}, "b": {0.4: None}}
    chart = experiment_chart([losses, other], rows, "nats").to_dict()
    left, right = chart["hconcat"]
    dots = left["layer"][-1]["data"]["values"]
    assert dots == [{"variant": "a", "rate": 0.2, "loss": 2.1}]
    [names] = [x for x in left["layer"] if x["mark"]["type"] == "text"]
    ends = {row["variant"]: row["rate"] for row in names["data"]["values"]}
    assert ends == {"a": 0.2, "b": 0.4}
    [line] = [x for x in right["layer"] if x["mark"].get("strokeWidth") == 3]
    ends = (line["encoding"][axis]["field"] for axis in ("x", "x2"))
    assert [line["data"]["values"][0][end] for end in ends] == [1.0, 3.0]


def noted(path, log):
    with open(log, "a") as file:
        file.write(f"{path.name}\n")
    return torch.get_num_threads()


def test_results_are_computed_once_each_with_one_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    paths, log = [tmp_path / name for name in "abc"], tmp_path / "log"

    def wanted():
        return {path: (path, log) for path in paths if not path.exists()}

    compute(wanted, noted, workers=2)
    assert sorted(log.read_text().split()) == ["a", "b", "c"]
    assert [read_json(path) for path in paths] == [1, 1, 1]


KILLED = """
import torch
from test_experiments import Line, straight
from transformer_workshop.lab.experiments import experiment

class Slow(Line):
    def train(self, model, rate, updates, seed):
        import time
        for loss in super().train(model, rate, updates, seed):
            time.sleep(0.02 if seed else 0)
            yield loss

experiment({"a": straight}, Slow(), updates=500, rates=(0.2,), folder=FOLDER, workers=1)
"""


@pytest.mark.slow
def test_a_killed_experiment_keeps_its_results_and_leaves_no_process(tmp_path):
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    program = KILLED.replace("FOLDER", repr(str(tmp_path / "runs")))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    )
    while not (done := list((tmp_path / "runs").glob("*.json"))):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for _ in range(60):
        time.sleep(0.5)
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
    else:
        pytest.fail("a worker goes on")
    assert [path.name for path in done] == ["a-500-0.2-0.json"]
    assert read_json(done[0])["settings"]["seed"] == 0


# --- the tasks ------------------------------------------------------------------------


def small(src, tgt):
    return at.make_model(src, tgt, 1, 16, 16, 2, 0.0)


def test_a_translator_and_a_gpt_learn_their_tasks():
    for name, build, rate in (
        ("captions", small, 0.01),
        ("sentences", lambda vocab: at.GPT(vocab, 1, 16, 16, 2, 1), 0.01),
    ):
        task = TASKS[name]
        torch.manual_seed(0)
        model = build(*task.sizes())
        before = task.judge(model)[task.unit]
        losses = list(task.train(model, rate, 30, 0))
        assert len(losses) == 30 and losses[-1] < losses[0]
        assert task.judge(model)[task.unit] < before


def test_a_schedule_is_asked_with_update_peak_and_number_of_updates():
    asked = []

    def schedule(step, peak, updates):
        asked.append((step, peak, updates))
        return 0.0

    torch.manual_seed(0)
    task = TASKS["captions"]
    model = small(*task.sizes())
    before = [p.clone() for p in model.parameters()]
    list(task.train(model, 0.5, 2, 0, schedule=schedule))
    assert asked[:2] == [(1, 0.5, 2), (2, 0.5, 2)]
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters()))


def test_an_attention_of_ones_own_is_trained():
    """What makes training faster must not put its own function in place."""

    def looking_nowhere(query, key, value, mask=None, dropout=None):
        return torch.zeros_like(query), None

    torch.manual_seed(0)
    task = TASKS["captions"]
    model = small(*task.sizes())
    for layer in model.encoder.layers:
        layer.self_attn.attention_function = looking_nowhere
    next(task.train(model, 0.01, 2, 0))
    attn = model.encoder.layers[0].self_attn
    assert attn.attention_function is looking_nowhere
    assert attn.linears[0].weight.grad is None


def test_a_translator_is_judged_by_nats_per_sentence(monkeypatch):
    task = TASKS["captions"]
    text, _, judged = tasks.encoded(task)
    monkeypatch.setattr(tasks, "encoded", lambda task: (text, [], judged[:5]))
    model = small(*task.sizes()).eval()
    nats = []
    for src, tgt in judged[:5]:
        src, tgt = torch.tensor([src]), torch.tensor([tgt])
        mask = at.subsequent_mask(tgt.size(1) - 1)
        out = model(src, tgt[:, :-1], torch.ones(1, 1, src.size(1)), mask)
        log_p = model.generator(out).log_softmax(dim=-1)
        nats.append(-log_p[0].gather(1, tgt[0, 1:, None]).sum().item())
    assert task.judge(model)[task.unit] == pytest.approx(statistics.mean(nats), 1e-4)


def test_a_gpt_is_judged_by_the_next_token_in_whole_windows(monkeypatch):
    ids = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
    monkeypatch.setattr(tasks, "english_captions", lambda: (None, None, None, ids))
    model = at.GPT(10, 1, 16, 16, 2, 1).eval()
    nats = []
    for begin in (0, 4):  # the last two start no window of four
        log_p = model(ids[None, begin : begin + 4])[0].log_softmax(dim=-1)
        nats += [-log_p[i, ids[begin + i + 1]].item() for i in range(4)]
    measured = tasks.Continuation(length=4).judge(model)
    assert measured == {"nats per token": pytest.approx(statistics.mean(nats))}


def test_a_share_of_the_pairs_is_part_of_a_larger_one(monkeypatch):
    pairs = [(f"{number} Hunde", f"{number} dogs") for number in range(100, 120)]
    monkeypatch.setattr(tasks, "load_pairs", lambda config, split: pairs)

    def numbers(share):
        task = tasks.Translation("captions", share=share, min_freq=1)
        text, train, _ = tasks.encoded.__wrapped__(task)
        return [text.vocab_src.tokens(src[1:2])[0] for src, _ in train]

    assert len(numbers(1.0)) == 20 and len(numbers(0.3)) == 6
    assert set(numbers(0.3)) < set(numbers(0.5))


def test_batches_come_in_the_seeds_order_and_the_warm_up_is_short(monkeypatch):
    rates, build = [], tasks.build_optimizers

    def kept(model, rate_of, kind):
        rates[:] = [rate_of(step) for step in range(1, 21)]
        return build(model, rate_of, kind)

    monkeypatch.setattr(tasks, "build_optimizers", kept)
    task, first = TASKS["captions"], []
    for seed in (0, 1, 0):
        torch.manual_seed(0)
        first.append(next(task.train(small(*task.sizes()), 0.5, 20, seed)))
    assert first[0] == first[2] != first[1]
    assert rates[:2] == [0.25, 0.5]  # a tenth of the updates
    assert rates[1:] == sorted(rates[1:], reverse=True)


# --- two translators ------------------------------------------------------------------

TEXT = read_lines(data_file("captions", "train.en"))[:120]


def worse(lines, every):
    """Leave the first word of some lines out."""
    return [
        " ".join(line.split()[1:]) if i % every == 0 else line
        for i, line in enumerate(lines)
    ]


@pytest.mark.parametrize("every", [(2, 10), (3, 4)])
@pytest.mark.parametrize("kind", [sacrebleu.BLEU, sacrebleu.CHRF])
def test_the_paired_bootstrap_is_sacrebleus(kind, every):
    one, two = (worse(TEXT, n) for n in every)
    compared = compare(one, two, TEXT, kind())
    systems = [("base", two), ("system", one)]
    name = kind.__name__
    _, scores = PairedTest(systems, {name: kind()}, [TEXT], "bs")()
    base, system = scores[sorted(scores.keys() - {"System"})[0]]
    assert compared[name.lower()] == pytest.approx(system.score, abs=0.005)
    assert compared["difference"] == pytest.approx(system.score - base.score, abs=0.01)
    assert compared["p"] == pytest.approx(system.p_value, abs=2e-3)
    low, high = compared["interval"]
    assert low < compared["difference"] < high
    back = compare(two, one, TEXT, kind())
    assert back["difference"] == -compared["difference"] and back["p"] == compared["p"]
    assert back["interval"] == pytest.approx([-high, -low], abs=0.011)


def test_a_clear_difference_is_seen_and_a_tiny_one_is_not():
    same = compare(TEXT, TEXT, TEXT)
    assert same["bleu"] == 100 and same["length"] == 1
    assert same["difference"] == 0 and same["interval"] == [0, 0] and same["p"] == 1
    one_word = [TEXT[0].upper(), *TEXT[1:]]
    short = compare(worse(TEXT, 1), TEXT, TEXT)
    assert short["p"] < 0.01 and short["length"] < 0.95
    low, high = compare(one_word, TEXT, TEXT)["interval"]
    assert low <= 0 <= high + 1e-9


def test_sentences_that_differ_most_come_first():
    pairs = [("eins", "one two three"), ("zwei", "four five"), ("drei", "six")]
    a = ["one two three", "four five", "nothing"]
    b = ["one two three", "four fife", "six"]
    first, second = most_different(pairs, a, b)
    assert (first.number, second.number) == (3, 2)
    assert first.source == "drei" and first.translations == ["nothing", "six"]
    assert first.chrf[1] == pytest.approx(100) and first.chrf[0] < 10
    assert most_different(pairs, a, b, 1) == [first]


class Mean:
    """A metric: the mean of lines that are numbers."""

    def _extract_corpus_statistics(self, lines, references):
        return [[float(line), 1.0] for line in lines]

    def _compute_score_from_stats(self, sums):
        return SimpleNamespace(score=sums[0] / sums[1])

    def corpus_score(self, lines, references):
        return SimpleNamespace(score=statistics.mean(map(float, lines)))

    def get_signature(self):
        return "mean"


def test_the_interval_covers_95_percent_of_a_means_distribution():
    draw = torch.Generator().manual_seed(0)
    one, two = torch.randn(2, 400, generator=draw).tolist()
    lines = ([str(x) for x in row] for row in (one, two))
    low, high = compare(*lines, [""] * 400, Mean())["interval"]
    error = statistics.stdev(a - b for a, b in zip(one, two)) / math.sqrt(400)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_a_report_says_which_of_two_is_better_and_where():
    pairs = [(f"Quelle {i}", line) for i, line in enumerate(TEXT)]
    said = report(["old", "new"], pairs, [worse(TEXT, 1), TEXT], "13a", 1)
    assert "B 100.00  B - A +" in said and said.count(": told apart") == 2
    assert "120 sentences, 0 translated alike" in said
    assert said.count("Quelle") == 1
    same = report(["old", "new"], pairs, [TEXT, TEXT], "13a")
    assert same.count("can't be told apart") == 2 and "Quelle" not in same
