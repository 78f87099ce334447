"""Experiments: what is trained, what is told apart, and that nothing is done twice."""

import dataclasses
import functools
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import textwrap
import time

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from sacrebleu.significance import PairedTest
from scipy import stats
from torch import nn

import annotated_transformer as at
from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.lab import experiments, tasks, trials
from transformer_workshop.lab.comparison import compare, most_different, report
from transformer_workshop.lab.experiments import _Search, experiment
from transformer_workshop.lab.identity import Uncertain
from transformer_workshop.lab.record import SEARCH_SEEDS, Experiment
from transformer_workshop.lab.statistics import compare_pairs
from transformer_workshop.lab.tasks import TASKS, check_causality
from transformer_workshop.lab.trials import NotTheSame, Trial, Variant, is_hopeless
from transformer_workshop.lab.workers import WorkerDied, compute
from transformer_workshop.pictures.rates import experiment_chart


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


def here(wanted, function, workers=None, keep=write_json, progress=str):
    """Do what ``compute`` does, in this process, with what a worker would be sent."""
    while jobs := wanted():
        for key, arguments in jobs.items():
            sent = cloudpickle.loads(cloudpickle.dumps(arguments))
            if line := keep(key, function(*sent)):
                print(f"{line} ({progress()})")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an experiment without processes; its folder stays the same in a test."""
    # An object, since a function would count as a patch that a variant depends on.
    monkeypatch.setattr(experiments, "compute", functools.partial(here))

    def call(variants, task=None, **options):
        usual = {"updates": 40, "rates": (0.2,), "seeds": 3, "folder": tmp_path}
        return experiment(variants, task or Line(), **usual | options)

    return call


# --- what is trained ------------------------------------------------------------------


def test_variants_are_trained_by_workers_and_each_seed_counts(tmp_path):
    variants = {"straight": straight, "bounded": bounded, "again": halved}
    options = {"updates": 40, "rates": (0.2,), "workers": 1, "folder": tmp_path}
    result = experiment(variants, Line(), **options)
    table = result.table
    assert list(table.index) == ["straight", "bounded", "again"]
    assert list(table["parameters"]) == [2, 2, 2] and (table["rate"] == 0.2).all()
    worse, same = result.in_words.splitlines()
    assert "): bounded is worse after 40 updates, from 8 seeds. It has as m" in worse
    assert "the same from each seed, to the last digit): they are exactly equal" in same
    by_hand = []
    for seed in range(8):
        torch.manual_seed(seed)
        model = straight(1)
        list(Line().train(model, 0.2, 40, seed))
        by_hand.append(Line().judge(model)[Line.unit])
    assert result.losses("straight") == by_hand


def replacement(x, inplace=False):
    return 0 * x


def rectified(size):
    class Rectified(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(size, 1)

        def forward(self, x):
            return F.relu(self.line(x))

    return Rectified()


def test_a_patch_that_workers_do_not_have_stops_the_experiment(tmp_path, monkeypatch):
    monkeypatch.setattr(F, "relu", replacement)
    with pytest.raises(NotTheSame, match="'b' was sent to a worker, and (it is|there)"):
        variants = {"b": rectified}
        experiment(
            variants, Line(), updates=4, rates=(0.2,), workers=1, folder=tmp_path
        )
    assert list(tmp_path.iterdir()) == []


def test_what_a_worker_cannot_read_stops_the_experiment(monkeypatch):
    def unsure(*things):
        raise Uncertain("nobody knows")

    monkeypatch.setattr(trials, "identity_of", unsure)
    with pytest.raises(NotTheSame, match="'a' .* there, nobody knows. If"):
        Variant("a", Line(), straight, {}, "known").check_identity()
    Variant("b", Line(), straight, {}).check_identity()  # it wasn't known at home


def test_what_was_trained_is_said_and_not_trained_again(
    run, tmp_path, capsys, monkeypatch
):
    def reused():
        return [line for line in capsys.readouterr().err.splitlines() if "unch" in line]

    def times():
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    first = run({"a": straight})
    before = times()
    assert len(before) == 3 and reused() == []
    for path in tmp_path.iterdir():
        write_json(path, read_json(path) | {"date": "2026-11-12"})
    before = times()
    again = run({"a": straight})
    assert again.rows == first.rows and times() == before
    assert reused() == ["a: 3 trainings of 12 November 2026, unchanged"]
    assert set(again.frame["date"]) == {"2026-11-12"}
    more = run({"a": straight}, seeds=4)
    assert more.losses("a")[:3] == first.losses("a") and len(times()) == 4
    reused()
    assert run({"a": straight}, updates=41).losses("a") != first.losses("a")
    assert run({"a": straight}, rates=(0.1,)).losses("a") != first.losses("a")
    assert "anew" not in capsys.readouterr().err
    changed = "a: trained anew; {} was another on "
    code = changed.format("its code, a value that it uses, or the task")
    for other in (bounded, (straight, {"slower": 2.0})):  # of this name
        assert run({"a": other}).losses("a") != first.losses("a")
        said = capsys.readouterr().err
        assert code in said and "unchanged" not in said
    functional = changed.format("a package, this repository, or a setting of PyTorch")
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        run({"a": straight})
    assert functional in capsys.readouterr().err
    assert run({"a": straight}).rows == first.rows  # the first ones are still there
    assert len(reused()) == 1
    assert {name: times()[name] for name in before} == before


def test_what_a_new_search_arrives_at_is_reused_too(run, capsys):
    run({"a": straight}, rates=(0.1, 0.2))
    capsys.readouterr()
    run({"a": straight}, rates=(0.05, 0.1, 0.2))  # asks for three trainings, then seeds
    told = capsys.readouterr()
    assert told.out.count("rate 0.05") == told.out.count("a, rate") == 3
    assert "a: 6 trainings" in told.err and "a: 3 trainings" in told.err


def test_where_code_cannot_be_told_it_is_trained_each_time(run, tmp_path, capsys):
    def timed(size):
        time.time()
        return straight(size)

    for count in (3, 6):
        run({"a": timed})
        said = capsys.readouterr().err
        assert "a: trained again at each call, because " in said and "unch" not in said
        assert len(list(tmp_path.iterdir())) == count


def test_other_files_in_the_folder_do_no_harm(run, tmp_path, capsys):
    first = run({"a": straight})
    damaged, foreign, edited = sorted(tmp_path.iterdir())
    damaged.write_text('{"variant": "a"')
    write_json(foreign, ["something", "else"])
    short = read_json(edited)
    write_json(tmp_path / "a-notes.json", short | {"date": "1.2.2026"})
    write_json(edited, {key: short[key] for key in short if key != "losses"})
    for name in ("._x.json", "notes.txt", "broken.json"):
        (tmp_path / name).write_bytes(b"\0\xff{")
    capsys.readouterr()
    assert run({"a": straight}).losses("a") == first.losses("a")
    said = capsys.readouterr().err
    assert said.count("is damaged; its training is repeated") == 3
    assert "a: " not in said.partition("Trainings")[0]


def test_names_that_differ_in_signs_or_case_alone_have_their_own_files(run, tmp_path):
    names = ["+ g", "- g", "G", "g", 100 * "g"]
    first = run(dict.fromkeys(names, straight))
    files = {path.name for path in tmp_path.iterdir()}
    assert len({name.lower() for name in files}) == 3 * len(names)
    assert run(dict.fromkeys(names, straight)).rows == first.rows


def test_each_training_is_told_where_no_bar_is_seen(tmp_path, capfd, monkeypatch):
    def results(name, seed):
        return {"name": name, "seed": seed}

    def told(key, result):
        write_json(key, result)
        return f"{result['name']} {result['seed']}"

    paths = [tmp_path / str(seed) for seed in range(2)]

    def wanted():
        return {p: ("a", p.name) for p in paths if not p.exists()}

    compute(wanted, results, 1, keep=told)
    assert sorted(capfd.readouterr().err.splitlines()) == ["a 0", "a 1"]


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


class OfNumPy(Line):
    """Everything that it tells is a number of another kind."""

    def train(self, *given):
        for step, loss in enumerate(super().train(*given)):
            yield (
                torch.tensor(loss, requires_grad=True) if step % 2 else np.float32(loss)
            )

    def judge(self, model):
        error, slope = super().judge(model).values()
        return {self.unit: torch.tensor([error]), "slope": np.float32(slope)}


def test_numbers_of_numpy_and_torch_are_numbers(run, tmp_path):
    plain = run({"a": straight})
    result = run(
        {"a": straight}, OfNumPy(), seeds=np.arange(3), rates=torch.tensor([0.25]),
        updates=np.int64(4),
    )  # fmt: skip
    assert len(result.losses("a")) == 3 and result.rate("a") == 0.25
    assert math.isfinite(result.table.loc["a", "slope"])
    assert run({"a": straight}, rates=np.array([0.2]), seeds=np.int64(3)).losses(
        "a"
    ) == plain.losses("a")
    assert len(list(tmp_path.iterdir())) == 6


# --- what is refused ------------------------------------------------------------------


def of_two(task, model, rate, updates, seed):
    yield from [1.0, torch.ones(2)]


def too_few(task, model, rate, updates, seed):
    yield from [1.0, 1.0]


def noisy(size):
    return nn.Sequential(straight(size), Noise())


class Noise(nn.Module):
    generator = np.random.default_rng()  # of no seed

    def forward(self, x):
        return x + self.generator.normal()


@pytest.mark.parametrize(
    "variants, options, error, words",
    [
        ({"a": straight}, {"seeds": 2}, ValueError, "three or more"),
        ({"a": straight}, {"seeds": [1, 1, 2]}, ValueError, "different"),
        ({"a": straight}, {"seeds": [0.5, 1, 2]}, ValueError, "whole numbers"),
        ({"a": straight}, {"seeds": [1, 2, 1000]}, ValueError, "chooses the rates"),
        ({"a": straight}, {"seeds": [1, 2, -3]}, ValueError, "from 0"),
        ({}, {}, TypeError, "dictionary"),
        ([straight], {}, TypeError, "dictionary"),
        ({"a": nn.Linear(1, 1)}, {}, TypeError, "'a' must be a function"),
        ({"a": (straight, 3)}, {}, TypeError, "must be a dictionary of options"),
        ({"a": straight}, {"rates": (0.0,)}, ValueError, "positive numbers"),
        ({"a": straight}, {"rates": 0.2}, ValueError, "positive numbers"),
        ({"a": straight}, {"rates": ["0.1"]}, ValueError, "positive numbers"),
        ({"a": straight}, {"updates": 0}, ValueError, "updates=0"),
        ({"a": straight}, {"updates": "9"}, ValueError, "updates='9'"),
        ({"a": functools.cache(straight)}, {}, TypeError, "'a' can't be sent to a w"),
        ({"a": shared}, {}, ValueError, "build a new model at each call"),
        ({"a": lambda size: None}, {}, ValueError, "returned NoneType, not a model"),
        (
            {"a": (straight, {"train": of_two})},
            {},
            ValueError,
            "update 2 has the shape",
        ),
        ({"a": (straight, {"train": too_few})}, {}, ValueError, "yielded 2 losses"),
        ({"a": noisy}, {}, ValueError, "the same seed gave other losses"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    run, tmp_path, variants, options, error, words
):
    with pytest.raises(error, match=words):
        run(variants, **options)
    assert list(tmp_path.iterdir()) == []


def test_what_was_checked_is_said_and_a_variant_that_begins_as_another_is_named(
    run, capfd
):
    run({"straight": straight, "bounded": bounded, "again": halved})
    said = capfd.readouterr().err
    warning = "again: its first losses are exactly those of straight. Unless it is"
    passed = "Checked (3): weights are fresh, and a seed gives the same first losses"
    assert said.index(warning) < said.index(passed)
    assert "bounded: its first" not in said and "later word" not in said
    run({"straight": straight, "bounded": bounded, "again": halved})
    assert "Checked" not in capfd.readouterr().err  # nothing is left to train
    run({"straight": straight, "new": lambda size: halved(size)})
    assert "new: its first losses are exactly those of straight." in (
        capfd.readouterr().err
    )


def test_all_mistakes_show_before_anything_is_trained(run, tmp_path):
    with pytest.raises(ValueError) as caught:
        run({"good": straight, "bad": lambda: straight(1), "worse": shared})
    first, bad, worse = str(caught.value).splitlines()
    assert first == "Nothing was trained." and worse.startswith("worse: its function")
    assert "bad: its function, called with the task's sizes, (1), raised TypeErr" in bad
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match=r"Line\(\), not a class"):
        experiment({"a": straight}, Line)


class Odd(Line):
    def __init__(self, judged):
        self.judged = judged

    def judge(self, model):
        return self.judged


@pytest.mark.parametrize("judged, words", [
    (0.5, "judge returned 0.5; it must return a dictionary"),
    ({"error": 0.5}, "one of them under 'squared error'"),
    ({Line.unit: np.ones(2)}, r"judge's 'squared error' has the shape \(2,\)"),
    ({Line.unit: "low"}, "is 'low'; it must be a number"),
])  # fmt: skip
def test_what_is_judged_must_be_numbers(run, judged, words):
    with pytest.raises(ValueError, match=words):
        run({"a": straight}, Odd(judged))


def test_random_numbers_that_the_seed_sets_are_allowed(run):
    class Seeded(nn.Module):
        def forward(self, x):
            noise = random.random() + np.random.rand() + torch.rand(1).item()
            return x + 0.1 * noise

    result = run({"a": lambda size: nn.Sequential(straight(size), Seeded())})
    assert len(set(result.losses("a"))) == 3


def test_what_is_shared_but_not_trained_is_allowed(run):
    assert math.isfinite(run({"a": frozen}).losses("a")[0])


@pytest.mark.parametrize("task, options, told", [
    ("captions", {"smoothing": 0.0}, [
        "Options that it has: train, schedule, optimizer",
        "smoothing is a field of the task: see help(experiment)",
    ]),
    ("sentences", {"row": 8}, ["'row'. Options that it has: train, rows, length"]),
])  # fmt: skip
def test_an_unknown_option_is_refused_with_the_known_ones(
    run, monkeypatch, task, options, told
):
    monkeypatch.setattr(type(TASKS[task]), "sizes", lambda self: (9, 9))
    with pytest.raises(ValueError) as caught:
        run({"a": (lambda *sizes: nn.Linear(1, 1), options)}, task)
    for words in told:
        assert words in str(caught.value)


def test_a_gpt_is_refused_where_translators_are_trained():
    model = at.GPT(9, 1, 16, 16, 2, 1)
    with pytest.raises(TypeError, match="GPT doesn't. For a GPT, use .* 'sentences'"):
        next(TASKS["captions"].train(model, 0.1, 1, 0))


def test_an_unknown_task_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="use captions, multi30k, sentences"):
        experiment({"a": straight}, "caption")


# --- looking ahead --------------------------------------------------------------------


def of_all(query, key, value, mask=None, dropout=None):
    """Attend to everything, whatever the mask says."""
    return at.attention(query, key, value, None, dropout)


def blind(model):
    for layer in model.decoder.layers:
        layer.self_attn.attention_function = of_all
    return model


def test_a_decoder_without_its_mask_is_refused_by_name(run, monkeypatch):
    monkeypatch.setattr(tasks.Translation, "sizes", lambda self: (30, 30))
    tasks.Translation("captions").check(small(30, 30))
    with pytest.raises(ValueError, match="it looks ahead: its output at position 1 ch"):
        tasks.Translation("captions").check(blind(small(30, 30)))
    steady = {"train": lambda task, model, rate, updates, seed: iter([1.0] * updates)}
    monkeypatch.setattr(
        tasks.Translation, "judge", lambda self, model: {self.unit: 1.0}
    )
    variants = {"masked": small, "blind": lambda *sizes: blind(small(*sizes))}
    variants = {name: (build, steady) for name, build in variants.items()}
    with pytest.raises(ValueError, match=r"trained.\nblind: it looks ahead.*Mask"):
        run(variants, "captions")


def test_a_gpt_must_not_look_ahead(monkeypatch):
    monkeypatch.setattr(tasks.Continuation, "sizes", lambda self: (40,))
    model = at.GPT(40, 1, 16, 16, 2, 1)
    tasks.Continuation().check(model)
    model.blocks[0].register_forward_pre_hook(lambda block, given: (given[0], None))
    with pytest.raises(ValueError, match="looks ahead"):
        tasks.Continuation().check(model)


@pytest.mark.parametrize("reach, is_causal", [(0, True), (-1, True), (1, False)])
def test_a_leak_is_found_wherever_it_is_and_however_small(reach, is_causal):
    def outputs(ids):
        moved = torch.roll(ids, -reach, dims=1) if reach > 0 else ids
        return torch.stack([ids.float(), 1e-4 * moved], dim=-1)

    if is_causal:
        check_causality(outputs, 50)
    else:
        with pytest.raises(ValueError, match=r"output at position 1 .* position 2 on"):
            check_causality(outputs, 50)


# --- what goes wrong on the way -------------------------------------------------------


def fails_later(task, model, rate, updates, seed):
    for step, loss in enumerate(Line().train(model, rate, updates, seed), 1):
        if step == 13 and seed == 1:
            raise RuntimeError("out of luck")
        yield loss


def test_an_exception_is_told_with_its_variant_and_others_go_on(run, tmp_path, capsys):
    variants = {"a": straight, "b": (straight, {"train": fails_later}), "c": bounded}
    result = run(variants)
    told = "failed at rate 0.2, from seed 1, in update 13: RuntimeError: out of luck"
    b, c = result.in_words.splitlines()
    assert b.startswith(f"b and a can't be compared: b {told} (")
    assert "test_experiments.py, line" in b and "c is worse" in c
    logged = capsys.readouterr().err
    assert "b, rate 0.2, seed 1: failed in update 13: RuntimeError" in logged
    frame = result.frame
    [error] = set(frame[frame["ended"] == "failed"]["error"])
    assert "out of luck" in error and "in fails_later)" in error
    row = result.table.loc["b"]
    assert row["parameters"] == 2
    assert row.drop("parameters").isna().all()
    assert frame[frame["ended"] == "failed"]["ms per update"].isna().all()
    assert len(frame[(frame["variant"] == "b") & (frame["seed"] == 1)]) == 12
    result.chart().to_dict()
    assert len(list(tmp_path.iterdir())) == 8  # it will be tried again
    turned = {"b": variants["b"], "a": straight}
    assert run(turned).in_words.startswith(f"a and b can't be compared: b {told}")


def test_the_frame_does_not_depend_on_which_training_ended_first(run):
    result = run({"a": straight, "b": bounded}, rates=(0.2, 0.1))
    before = result.frame
    for by_rate in result.results.values():
        for rate in reversed([*by_rate]):
            by_rate[rate] = dict(reversed(by_rate.pop(rate).items()))
    assert result.frame.equals(before)
    assert before["rate"].iloc[0] == 0.1 and before["seed"].iloc[0] == 0


def diverges_once(task, model, rate, updates, seed):
    losses = Line().train(model, rate, updates, seed)
    yield from (math.nan if seed == 1 and i == 5 else x for i, x in enumerate(losses))


def test_a_training_that_diverges_is_said_to(run):
    wild, once = (straight, {"slower": 1e-3}), (straight, {"train": diverges_once})
    result = run({"a": straight, "wild": wild, "once": once}, updates=200)
    said = result.in_words.splitlines()
    assert said == [
        "wild and a can't be compared: wild diverged from 3 of 3 seeds at rate 0.2"
        " (0, 1, 2).",
        "once and a can't be compared: once diverged from 1 of 3 seeds at rate 0.2"
        " (1).",
    ]
    assert "NaN" not in str(result) and math.isfinite(
        result.table["squared error"]["a"]
    )
    result.chart().to_dict()
    assert set(result.frame["ended"]) == {"", "diverged"}
    alone = run({"w": wild}, updates=200)
    assert alone.in_words == "w: diverged from 3 of 3 seeds at rate 0.2 (0, 1, 2)."
    alone.chart().to_dict()


def test_a_search_ends_where_everything_diverges(run):
    def nothing(task, model, rate, updates, seed):
        yield from [1.0] * 10
        yield math.nan

    result = run({"a": straight, "b": (straight, {"train": nothing})}, rates=())
    words = "b and a can't be compared: b diverged at every rate that was tried."
    assert result.in_words == words
    assert len(result.results["b"]) < 15 and len(result.losses("a")) == 3
    result.chart().to_dict()


def test_only_a_search_ends_early_and_it_is_still_judged(run):
    def learns_late(task, model, rate, updates, seed):
        yield from [2.0] * (updates // 2) + [1.0] * (updates - updates // 2)

    result = run({"a": (straight, {"train": learns_late})}, rates=(0.1, 0.2))
    frame = result.frame
    ends = frame.groupby(["seed", "rate"])["step"].max()
    assert list(ends.loc[1000:]) == [20, 20] * 3 and list(ends.loc[:2]) == [40, 40, 40]
    assert set(frame[frame["search"]]["ended"]) == {"early"}
    assert all(map(math.isfinite, result.searched("a").values()))
    assert "was searched, trainings at 0.1 ended early" in result.in_words


def test_an_early_end_that_may_have_changed_the_choice_is_said():
    def searched(*early):
        return {s: record(1.0, ended="early" * e) for s, e in zip(SEARCH_SEEDS, early)}

    compared = {seed: record(2.0 + seed) for seed in range(3)}
    rates = {0.1: searched(0, 0, 0) | compared, 0.2: searched(1, 0, 0)}
    rates[0.4] = searched(1, 1, 1)
    rates[0.4][1000]["measured"]["nats"] = 9.0  # hopeless, and rightly ended
    said = Experiment("nats", range(3), {"a": rates}).in_words
    assert "trainings at 0.2 ended early" in said
    rates[0.2] = searched(1, 1, 1)
    rates[0.2][1000]["measured"]["nats"] = 9.0
    assert "early" not in Experiment("nats", range(3), {"a": rates}).in_words


# --- what variants may not do to one another ------------------------------------------


class Curved(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, 1)

    def forward(self, x):
        return self.linear(F.relu(x))


def changing(size):
    F.relu = lambda x: x.clamp(min=0) ** 2
    return Curved(size)


def changing_late(task, model, rate, updates, seed):
    for step, loss in enumerate(task.train(model, rate, updates, seed)):
        if step == 9:
            torch.set_default_dtype(torch.float64)
        yield loss


@pytest.fixture
def restored(monkeypatch):
    """Put back what a test's variants change in this process."""
    monkeypatch.setattr(F, "relu", F.relu)
    monkeypatch.setattr(trials, "_changed_here", [])
    yield
    torch.set_default_dtype(torch.float32)


def test_a_variant_that_changes_others_is_refused_by_name(run, restored):
    with pytest.raises(ValueError) as found:
        run({"a": Curved, "b": changing, "c": straight})
    assert "b: it changes something outside its model" in str(found.value)
    assert "a:" not in str(found.value) and "c:" not in str(found.value)


def test_a_variant_that_changes_others_later_fails_and_none_follows_it(run, restored):
    with pytest.raises(NotTheSame, match="'b' has changed something in a worker"):
        run({"a": straight, "b": (straight, {"train": changing_late})})
    torch.set_default_dtype(torch.float32)
    trials._changed_here.clear()
    again = run({"a": straight, "b": bounded})
    assert again.failures("b") == [] and math.isfinite(again.rows[0][Line.unit])


class OwnSGD(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


def test_an_optimizer_of_ones_own_is_the_same_when_it_was_used(run, capsys):
    def own(task, model, rate, updates, seed):
        optimizer = OwnSGD(model.parameters(), rate)
        for _ in range(updates):
            optimizer.zero_grad()
            loss = (model(torch.ones(1, 1)) - 2).pow(2).mean()
            loss.backward()
            optimizer.step()
            yield loss.item()

    run({"a": (straight, {"train": own})})
    run({"a": (straight, {"train": own})})
    assert "Nothing is left to train." in capsys.readouterr().err


@pytest.mark.parametrize("ending", [SystemExit, GeneratorExit])
def test_a_variant_that_ends_the_program_only_fails(run, ending):
    def stops(task, model, rate, updates, seed):
        for step, loss in enumerate(task.train(model, rate, updates, seed)):
            if step == 9:
                raise ending
            yield loss

    result = run({"a": straight, "b": (straight, {"train": stops})})
    assert f"b failed at rate 0.2, from seed 0, in update 10: {ending.__name__}" in (
        result.in_words
    )


def test_a_lazy_model_is_trained_and_counted(run):
    result = run({"a": lambda size: nn.LazyLinear(1)})
    assert result.rows[0]["parameters"] == 2


def test_a_judge_may_not_name_its_numbers_as_columns(run):
    class Judge(Line):
        def judge(self, model):
            return super().judge(model) | {"loss": 7.0}

    with pytest.raises(ValueError, match="judge returns loss, the name of a column"):
        run({"a": straight}, Judge())
    Judge.unit = "rate"
    with pytest.raises(ValueError, match="loss, rate, the name of a column"):
        run({"a": straight}, Judge())
    Judge.unit, Judge.judge = "loss", Line.judge  # what is judged may be called so
    assert "loss" in run({"a": straight}, Judge()).table


@pytest.mark.parametrize("losses, hopeless", [
    ([5.0] * 10, True), ([5.0] * 9 + [3.0], False), ([5.0, 9.0] + [6.0] * 8, True),
    ([5.0] * 9, False), ([5.0] * 11, False),
])  # fmt: skip
def test_what_has_learned_nothing_by_half_time_is_hopeless(losses, hopeless):
    assert is_hopeless(losses, 20) == hopeless


def test_first_rates_may_be_numbers_of_numpy_or_torch(tmp_path):
    for given in (np.array([0.1, 0.2], np.float32), torch.tensor([0.2, 0.1])):
        task = Line()
        task.first_rates = given
        search = search_of([Variant("a", task, straight, {}, "known")], [], tmp_path)
        rates = sorted({trial.rate for trial in search.missing("a")})
        assert rates == pytest.approx([0.1, 0.2])
        assert search._left()[1] == 3 * (2 + 14) + 3  # halved until 0.0000061


# --- the search for a rate ------------------------------------------------------------


def record(loss, **more):
    measured = None if loss is None else {"nats": loss}
    usual = {"ended": "", "losses": [1.0], "parameters": 10, "milliseconds": 2.0}
    usual |= {"date": "2026-11-12", "seconds": 60.0}
    return usual | {"measured": measured} | more


def search_of(variants, rates, folder):
    search = _Search(variants, [0, 1, 2], rates, 40, "cpu", folder, workers=2)
    search.found.unit = "nats"
    return search


@pytest.mark.parametrize("losses, rates, wanted", [
    ({}, [], [0.003, 0.006]),
    ({0.003: 5.0}, [], [0.006]),
    ({0.003: 5.0, 0.006: 4.0}, [], [0.012]),
    ({0.003: 4.0, 0.006: 5.0}, [], [0.0015]),
    ({0.003: 4.0, 0.006: None}, [], [0.0015]),
    ({0.003: None, 0.006: None}, [], [0.0015]),
    ({0.003: 5.0, 0.006: 4.0, 0.012: 3.0}, [], [0.024]),
    ({0.003: 5.0, 0.006: 4.0, 0.012: 4.5}, [], 0.006),
    ({0.0015: 5.0, 0.003: 4.0, 0.006: None}, [], 0.003),
    ({}, [0.1, 0.2], [0.1, 0.2]),
    ({0.1: 5.0, 0.2: 4.0}, [0.1, 0.2], 0.2),
    ({}, [0.1], 0.1),
])  # fmt: skip
def test_rates_are_added_until_the_best_is_between_two_then_seeds(
    losses, rates, wanted, tmp_path
):
    search = search_of([Variant("a", Line(), straight, {}, "known")], rates, tmp_path)
    for rate, loss in losses.items():
        search.results["a"][rate] = {seed: record(loss) for seed in SEARCH_SEEDS}
    found = [(trial.rate, trial.seed) for trial in search.missing("a")]
    if isinstance(wanted, list):
        assert found == [(rate, seed) for rate in wanted for seed in SEARCH_SEEDS]
        return
    assert found == [(wanted, seed) for seed in (0, 1, 2)]
    for seed in (0, 1, 2):
        search.results["a"].setdefault(wanted, {})[seed] = record(9.0)
    assert search.found.rate("a") == wanted and search.missing("a") == []


def test_one_lucky_seed_chooses_no_rate(tmp_path):
    search = search_of([Variant("a", Line(), straight, {}, "known")], [1, 2], tmp_path)
    by_rate = {1: (4.1, 4.0, 4.2), 2: (3.9, 4.5, None)}
    for rate, losses in by_rate.items():
        records = map(record, losses)
        search.results["a"][rate] = dict(zip(SEARCH_SEEDS, records, strict=True))
    assert search.found.rate("a") == 1
    search.results["a"][2][SEARCH_SEEDS[2]] = record(4.6)
    assert search.found.rate("a") == 1


def test_the_search_comes_first_then_seed_by_seed_and_a_task_says_where_it_begins(
    tmp_path,
):
    variants = [Variant(name, Line(), straight, {}, "known") for name in "ab"]
    search = search_of(variants, [0.1, 0.2], tmp_path)
    search.checked = {name: ("a trial", trials.Checked("")) for name in "ab"}
    for rate in (0.1, 0.2):
        search.results["a"][rate] = {seed: record(rate) for seed in SEARCH_SEEDS}
    jobs = [(name, trial.rate, trial.seed) for name, trial in search.wanted()]
    searched = [("b", rate, seed) for rate in (0.1, 0.2) for seed in SEARCH_SEEDS]
    assert jobs == searched + [("a", 0.1, seed) for seed in (0, 1, 2)]
    search.results["b"] = search.results["a"]
    jobs = [(trial.seed, name) for name, trial in search.wanted()]
    assert jobs == sorted(jobs) and len(jobs) == 6
    gpt = [Variant("a", TASKS["sentences"], straight, {}, "known")]
    rates = [trial.rate for trial in search_of(gpt, [], tmp_path).missing("a")]
    assert rates == [0.012] * 3 + [0.024] * 3


@pytest.mark.parametrize("rates, best", [
    ((), 0.003), ((), 0.006), ((), 0.024), ((), 1e-9), ((), 1e9), ((0.2,), 0.2),
    ((0.1, 0.2), 0.2),
])  # fmt: skip
def test_how_many_trainings_are_left_is_never_wrong(rates, best, tmp_path):
    variants = [Variant(name, Line(), straight, {}, "known") for name in "ab"]
    search = search_of(variants, list(rates), tmp_path)
    bounds, made = [search._left()], 0
    while trials := [(name, t) for name in "ab" for t in search.missing(name)]:
        name, trial = trials[0]
        one = record(abs(math.log(trial.rate / best)), rate=trial.rate, variant=name)
        search.keep((name, trial), one | {"seed": trial.seed})
        bounds.append(search._left())
        made += 1
    for done, (fewest, most) in enumerate(bounds):
        assert fewest <= made - done <= most
        assert fewest == most == made - done or len(rates) != 1
        assert most - fewest in (0, 3) or not rates  # one may be trained once more
    assert bounds[-1] == (0, 0)
    if best in (0.003, 0.006, 0.2):
        assert bounds[0][0] == made  # the fewest is what can be hoped for
    if best == 1e9:
        assert bounds[0][1] == made + 3


def test_the_cost_is_said_before_and_the_time_that_is_left_after_each(
    run, capsys, monkeypatch
):
    train = trials.train
    monkeypatch.setattr(
        experiments, "train", lambda *given: train(*given) | {"seconds": 120.0}
    )
    run({"a": straight, "b": bounded}, workers=2)
    told = capsys.readouterr()
    assert told.err.startswith("Trainings to make: 6; 2 at a time\n")
    ends = [line.partition("(")[2] for line in told.out.splitlines()]
    assert ends[0] == "1 of 6, about 5 min left)" and ends[-1] == "6 of 6)"
    run({"a": straight}, rates=(), workers=1)
    told = capsys.readouterr()
    assert "Trainings to make: at least 12, at most 42; 1 at a time" in told.err
    assert "(1 of at least 12, at least 22 min left)" in told.out
    run({"a": straight}, workers=1)
    assert "Nothing is left to train." in capsys.readouterr().err


class Interrupting:
    """Be a terminal at which somebody stops the program."""

    def write(self, text):
        if text.startswith("b, rate 0.2, seed 3"):
            raise KeyboardInterrupt


def test_an_interrupted_experiment_tells_what_is_complete_and_goes_on(
    run, tmp_path, capsys, monkeypatch
):
    variants = {"a": straight, "b": bounded, "c": halved}
    whole = run(variants, folder=tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sys, "stdout", Interrupting())
        run(variants, seeds=5)
    told = capsys.readouterr().err
    assert "Stopped after 11 trainings. What is complete (3 of 5 seeds; inter" in told
    verdict = whole.in_words.partition(" It has")[0]  # what follows may tell times
    assert "from 3 seeds" in verdict and verdict in told
    assert "Call experiment again as before" in told
    assert run(variants).differences("c") == whole.differences("c")
    told = capsys.readouterr().err
    assert "Nothing is left to train." in told and "a: 3 trainings" in told
    run(variants, seeds=5)
    assert "Trainings to make: 4;" in capsys.readouterr().err


@pytest.mark.parametrize("at_new_rate, words", [
    ([4.92, 5.0, 5.13], "new is better, and so it is with both at 0.2 (-0.9"),
    ([4.06, 4.1, 4.17], "can't be told apart, because it isn't so with both at 0.2 ("),
    ([3.0, 3.1, 3.19], "can't be told apart, because it isn't so with both at 0.2 ("),
])  # fmt: skip
def test_a_difference_counts_if_it_is_there_at_the_rate_of_who_is_better(
    at_new_rate, words, tmp_path
):
    variants = [Variant(name, Line(), straight, {}, "known") for name in ("old", "new")]
    search = search_of(variants, [0.1, 0.2], tmp_path)

    def trained(chosen, losses):
        searched = {seed: record(chosen) for seed in SEARCH_SEEDS}
        return searched | {seed: record(loss) for seed, loss in enumerate(losses)}

    search.results["old"] = {0.1: trained(5.0, [5.0, 5.1, 5.2]), 0.2: trained(6.0, [])}
    search.results["new"] = {0.1: trained(4.5, []), 0.2: trained(4.0, [])}
    search.found.results = search.results
    assert [trial.rate for trial in search.missing("new")] == [0.2] * 3
    search.results["new"][0.2] = trained(4.0, [4.0, 4.12, 4.2])
    assert search.missing("new") == [] and search._left() == (3, 3)
    assert "new is better, but old wasn't trained at 0.2" in search.found.in_words
    asked = [(trial.rate, trial.seed) for trial in search.missing("old")]
    assert asked == [(0.2, 0), (0.2, 1), (0.2, 2)]
    search.results["old"][0.2] = trained(6.0, at_new_rate)
    assert search.missing("old") == [] and words in search.found.in_words
    assert search.found.rate("old") == 0.1


# --- what is told apart ---------------------------------------------------------------


def of_pairs(**rows):
    """Return an experiment at one rate, with these losses by variant."""
    results = {
        name: {0.1: {seed: record(loss) for seed, loss in enumerate(losses)}}
        for name, losses in rows.items()
    }
    seeds = range(len(next(iter(rows.values()))))
    return Experiment("nats", seeds, results, updates=9)


def test_an_interval_is_that_of_the_differences_by_seed():
    base, variant = [18.778, 19.776, 22.623], [18.747, 19.681, 22.597]
    result = of_pairs(base=base, variant=variant)
    found = result.comparisons["variant"]
    theirs = stats.ttest_rel(variant, base).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(theirs)
    assert found.difference == pytest.approx(-0.051, abs=5e-4)
    assert found.high - found.difference == pytest.approx(0.096, abs=5e-4)
    assert not found.is_apart and "can't be told apart" in result.in_words
    more = of_pairs(base=base * 2, variant=variant * 2)  # as if from six seeds
    assert "variant is better after 9 updates, from 6 seeds" in more.in_words


def test_intervals_of_several_variants_agree_with_corrected_tests():
    draw = np.random.default_rng(1)
    verdicts = set()
    for shift in (0.0, 0.5, 0.9, 1.0, 1.1, 1.5, 3.0):
        differences = draw.normal(shift, 1.0, 8)
        p = stats.ttest_1samp(differences, 0).pvalue
        found = compare_pairs(differences, 5)
        assert found.is_apart == (p < 0.05 / 5)
        verdicts.add(found.is_apart)
    assert verdicts == {True, False}


@pytest.mark.parametrize("shared", [0.0, 1.0, 5.0])
def test_all_intervals_hold_at_once_in_95_of_100_experiments(shared):
    """Simulate it, for variants that vary differently and share the baseline's luck."""
    draw = np.random.default_rng(0)
    times, seeds, spreads = 1000, 8, np.array([0.1, 1.0, 1.0, 5.0])
    own = draw.normal(size=(times, seeds, 4)) * spreads
    luck = shared * draw.normal(size=(times, seeds, 1))
    held = [
        not any(compare_pairs(column, 4).is_apart for column in one.T)
        for one in own + luck
    ]
    assert sum(held) / times > 0.935  # three standard errors below 0.95 lie at 0.93


def test_a_detectable_difference_is_found_in_four_of_five():
    draw = np.random.default_rng(0)
    error, found = 1 / math.sqrt(8), 0
    # what compare_pairs would say if it knew that the spread is 1
    ratio = compare_pairs(stats.zscore(range(8), ddof=1), 3).detectable
    for _ in range(2000):
        found += compare_pairs(draw.normal(ratio, 1.0, 8), 3).is_apart
    assert error < ratio and found / 2000 == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("differences", [[0.1], [], [0.1, math.inf], [0.1, math.nan]])
def test_what_is_no_pair_cannot_be_compared(differences):
    with pytest.raises(ValueError, match="give two or more numbers"):
        compare_pairs(differences)


def test_twins_are_equal_and_a_seed_that_changes_nothing_judges_nothing():
    losses = [3.0, 4.0, 5.0]
    assert of_pairs(a=losses, b=losses).in_words.startswith(
        "b: 4.00 nats, a: 4.00 (the same from each seed, to the last digit): they are"
        " exactly equal after 9 updates, from 3 seeds. It has as many parameters."
    )
    assert "can't be judged, as the seed" in of_pairs(a=[3.0] * 3, b=[2.0] * 3).in_words


def test_a_variant_alone_has_a_loss_and_a_result_shows_its_table(run):
    result = run({"a": straight})
    loss = statistics.mean(result.losses("a"))
    words = re.fullmatch(
        r"a: (\S+) squared error after 40 updates, from 3 seeds\."
        r" There is nothing to compare it with\.",
        result.in_words,
    )
    assert float(words[1]) == pytest.approx(loss, rel=0.1)
    shown, _, said = str(result).partition("\n\n")
    assert said == result.in_words and "rate  squared error  slope" in shown
    small = of_pairs(a=[2e-6, 3e-6, 4e-6])
    assert "0.000003" in str(small) and small.table.loc["a", "nats"] == 3e-6
    result.chart().to_dict()


def test_a_sentence_says_sizes_costs_and_where_the_best_rate_lies():
    def records(size, milliseconds, search, *losses):
        each = dict(enumerate(losses)) | dict.fromkeys(SEARCH_SEEDS, search)
        more = {"parameters": size, "milliseconds": milliseconds}
        return {seed: record(loss, **more) for seed, loss in each.items()}

    old, new = [5.0, 5.1, 5.2], [3.0, 3.1, 3.21]
    results = {
        "old": {0.1: records(10, 2.0, 5.0, *old), 0.2: records(10, 2.0, 6.0, *old)},
        "new": {0.1: records(15, 3.0, 4.0), 0.2: records(15, 3.0, 3.0, *new)},
    }
    said = Experiment("nats", range(3), results, updates=9).in_words
    assert said.startswith("new: 3.1033 nats, old: 5.1000 (-1.9967, 95 % from -2.0110")
    assert "): new is better, and so it is with both at 0.2 (-1.9967, 95 % from" in said
    assert "to -1.9823), after 9 updates, from 3 seeds. It has 5 param" in said
    assert "5 parameters more, and an update takes 1.5 times the time. The" in said
    results["old"][0.2][1000]["milliseconds"] = 9.0  # another program was running
    assert "times the time" in Experiment("nats", range(3), results).in_words
    results["new"][0.2][2]["milliseconds"] = 2.9
    assert "times the time" not in Experiment("nats", range(3), results).in_words
    results["new"][0.2][2]["date"] = "2026-11-13"  # on which nothing old was timed
    assert "1.5 times the time" in Experiment("nats", range(3), results).in_words
    assert "best rate of new is the highest that was tried." in said
    assert "best rate of old is the lowest that was tried." in said


# --- the record -----------------------------------------------------------------------


def test_the_frame_has_a_row_for_each_variant_rate_seed_and_update(run, tmp_path):
    result = run({"a": straight, "b": bounded}, updates=6, rates=(0.1, 0.2))
    frame = result.frame
    assert len(frame) == 2 * (2 * 3 + 3) * 6  # one rate is compared
    assert not frame.duplicated(["variant", "rate", "seed", "step"]).any()
    rate = result.rate("a")
    torch.manual_seed(2)
    by_hand = list(Line().train(straight(1), rate, 6, 2))
    curve = frame[(frame["variant"] == "a") & (frame["seed"] == 2)]
    assert list(curve["step"]) == [1, 2, 3, 4, 5, 6] and set(curve["rate"]) == {rate}
    assert list(curve["loss"]) == by_hand
    judged = frame.dropna(subset="judged")
    assert set(judged["step"]) == {6} and set(frame["device"]) == {"cpu"}
    compared = judged[~judged["search"] & (judged["variant"] == "a")]
    assert list(compared["judged"]) == result.losses("a")
    assert set(judged["parameters"]) == {2} and (judged["ms per update"] >= 0).all()
    path = tmp_path / "new" / "all.csv"
    result.to_csv(path)
    pd.testing.assert_series_equal(pd.read_csv(path)["loss"], frame["loss"])
    with pytest.raises(FileExistsError, match="overwrite=True"):
        result.to_csv(path)
    result.to_csv(path, overwrite=True)


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
    variant = Variant("a", task, straight, {})
    found = trials.train(variant, Trial(0.1, 0, 4, "cpu", may_end_early=False))
    assert 30 <= found["milliseconds"] < 60 and found["parameters"] == 2
    assert found["measured"] == ({Line.unit: judged} if kept else None)


@pytest.mark.gpu
def test_a_gpu_trains_the_same():
    for name, build in (("captions", small), ("sentences", tiny_gpt)):
        variant = Variant("a", TASKS[name], build, {})
        found = [
            trials.train(variant, Trial(0.01, 0, 5, device, may_end_early=False))
            for device in ("cpu", "cuda")
        ]
        on_cpu, on_gpu = (one["losses"] for one in found)
        assert on_gpu == pytest.approx(on_cpu, rel=0.02) and found[1]["megabytes"] > 0
        checked = trials.check(variant, Trial(0.01, 0, 5, "cuda", False))
        assert checked.problem == ""


def test_the_chart_draws_intervals_and_names_variants_at_their_last_rate():
    searched = {"a": {0.1: 3.0, 0.2: 2.0, 0.4: math.inf}, "b": {0.1: 2.5, 0.4: 4.0}}
    compared = {"a": {0.2: [2.1, math.inf]}, "b": {0.1: [math.inf]}}
    rows = [
        {"variant": "a"},
        {"variant": "b", "difference": 2.0, "from": 1.0, "to": 3.0},
    ]
    differences = {"b": [1.9, 2.1]}
    chart = experiment_chart(searched, compared, rows, differences, "nats").to_dict()
    left, right = chart["hconcat"]
    dots = left["layer"][-1]["data"]["values"]
    assert dots == [{"variant": "a", "rate": 0.2, "loss": 2.1}]
    [names] = [x for x in left["layer"] if x["mark"]["type"] == "text"]
    ends = {row["variant"]: row["rate"] for row in names["data"]["values"]}
    assert ends == {"a": 0.2, "b": 0.4}
    [line] = [x for x in right["layer"] if x["mark"].get("strokeWidth") == 3]
    ends = (line["encoding"][axis]["field"] for axis in ("x", "x2"))
    assert [line["data"]["values"][0][end] for end in ends] == [1.0, 3.0]
    seeds = right["layer"][-1]["data"]["values"]
    assert [row["difference"] for row in seeds] == [1.9, 2.1]


def noted(path, log):
    with open(log, "a") as file:
        file.write(f"{path.name}\n")
    return torch.get_num_threads()


def test_results_are_computed_once_each_with_one_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    paths, log = [tmp_path / name for name in "abc"], tmp_path / "log"

    def wanted():
        return {path: (path, log) for path in paths if not path.exists()}

    compute(wanted, noted, workers=1)
    assert sorted(log.read_text().split()) == ["a", "b", "c"]
    assert [read_json(path) for path in paths] == [1, 1, 1]


def test_what_goes_on_is_not_begun_again_and_a_worker_that_dies_is_told():
    found: dict = {}
    kept = []

    def wanted():
        return {key: (key,) for key in range(4) if key not in found}

    def slow_at_first(key):
        time.sleep(0.5 if key == 0 else 0)
        return hash("a")  # in all workers the same, so that sets have one order

    def keep(key, value):
        found[key] = value
        kept.append(key)

    compute(wanted, slow_at_first, 2, keep)
    assert sorted(kept) == [0, 1, 2, 3] and len(set(found.values())) == 1
    found.clear()
    with pytest.raises(WorkerDied, match="ended by itself") as error:
        compute(wanted, lambda key: os._exit(1) if key else key, 1, found.__setitem__)
    assert error.value.jobs == [1] and found == {0: 0}


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
    [found] = map(read_json, done)
    assert found["seed"] == 0 and len(found["losses"]) == 500


# --- the tasks ------------------------------------------------------------------------


def small(src, tgt):
    return at.make_model(src, tgt, 1, 16, 16, 2, 0.0)


def tiny_gpt(words):
    return at.GPT(words, 1, 16, 16, 2, 1)


def test_a_field_of_the_task_varies_as_the_help_says():
    def hard(task, *given):
        return dataclasses.replace(task, smoothing=0.0).train(*given)

    task = TASKS["captions"]
    first = []
    for train in (type(task).train, hard):
        torch.manual_seed(0)
        first.append(next(train(task, small(*task.sizes()), 0.01, 2, 0)))
    assert first[0] != first[1]


def test_the_example_of_the_help_changes_the_activation_alone():
    example = experiment.__doc__.partition("? ::")[2].partition("result =")[0]
    names: dict = {}
    exec(textwrap.dedent(example), names)
    outputs, weights = [], []
    for build, options in names["variants"].values():
        torch.manual_seed(0)
        model = build(20)
        outputs.append(model(torch.arange(8).unsqueeze(0)))
        weights.append(model.state_dict())
        next(TASKS["sentences"].train(build(811), 0.1, 1, 0, **options))
    assert not torch.equal(*outputs) and torch.allclose(*outputs, atol=0.5)
    torch.testing.assert_close(*weights, rtol=0, atol=0)


def test_a_translator_and_a_gpt_learn_their_tasks():
    for name, build, rate in (
        ("captions", small, 0.01),
        ("sentences", tiny_gpt, 0.01),
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
def test_the_paired_bootstrap_is_sacrebleus(every):
    one, two = (worse(TEXT, n) for n in every)
    compared = compare(one, two, TEXT)
    systems = [("base", two), ("system", one)]
    _, scores = PairedTest(systems, {"BLEU": sacrebleu.BLEU()}, [TEXT], "bs")()
    base, system = scores["BLEU"]
    assert compared["bleu"] == pytest.approx(system.score, abs=0.005)
    assert compared["difference"] == pytest.approx(system.score - base.score, abs=0.01)
    assert compared["p"] == pytest.approx(system.p_value, abs=1e-4)
    back = compare(two, one, TEXT)
    low, high = compared["interval"]
    assert back["difference"] == -compared["difference"] and back["p"] == compared["p"]
    assert back["interval"] == pytest.approx([-high, -low], abs=0.011)


def test_the_interval_is_that_of_resampled_corpora():
    lines, bleu = TEXT[:15], sacrebleu.BLEU()
    one, two = worse(lines, 2), worse(lines, 3)
    apart = []
    for draw in np.random.default_rng(12345).choice(15, size=(1000, 15)):
        drawn = [[text[i] for i in draw] for text in (one, two, lines)]
        scores = [bleu.corpus_score(text, drawn[2:]).score for text in drawn[:2]]
        apart.append(scores[0] - scores[1])
    apart.sort()
    expected = pytest.approx([apart[25], apart[-26]], abs=0.006)
    assert compare(one, two, lines)["interval"] == expected


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


def test_a_report_says_which_of_two_is_better_and_where():
    pairs = [(f"Quelle {i}", line) for i, line in enumerate(TEXT)]
    said = report(["old", "new"], pairs, [worse(TEXT, 1), TEXT], "13a", 1)
    assert "B 100.00  B - A +" in said and said.count(": told apart") == 2
    assert re.search(r"B - A \+\S+ \(\+\S+ to \+", said)  # nor does the interval
    assert "120 sentences, 0 translated alike" in said
    assert said.count("Quelle") == 1
    same = report(["old", "new"], pairs, [TEXT, TEXT], "13a")
    assert same.count("can't be told apart") == 2 and "Quelle" not in same
