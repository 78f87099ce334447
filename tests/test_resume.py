"""Chapter 90: a run that ends too early continues as if it had not."""

import dataclasses
import json
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from small_runs import (
    SIX,
    Halved,
    Killed,
    assert_same_run,
    flags,
    repeatable,
    small_run,
    train,
    train_until,
)

import annotated_transformer as at
from annotated_transformer import DataError, TrainState
from transformer_workshop import files, processes, runs
from transformer_workshop.files import load_tensors, load_with_notes
from transformer_workshop.runs import Run, read_metrics, saved_steps
from transformer_workshop.settings import TrainingConfig
from transformer_workshop.terminal import main

MODULE = Path(at.__file__)
UPDATE = torch.nn.utils, "clip_grad_norm_"  # called once by each update


@pytest.fixture
def tiny(tmp_path):
    """Set up a run that saves only after each epoch, since the machine is fast."""
    return small_run(tmp_path)


@pytest.fixture
def often(tmp_path):
    """Set up the same run, saving between all updates."""
    return small_run(tmp_path, save_seconds=0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Train that run without a break; return its folder."""
    return train(small_run(tmp_path_factory.mktemp("whole")))


def newest_state(folder):
    return load_with_notes(saved_steps(Path(folder) / "resume")[-1])[1]


# killed at some moment, then resumed: the same run


@pytest.mark.parametrize(
    "moment",
    [
        (UPDATE, 2),  # in the first epoch
        (UPDATE, 9),  # in a later one
        ((runs, "save_tensors"), 2),  # metrics written, weights not
        ((runs, "save_tensors"), 9),
        *(((os, "replace"), n) for n in range(3, 10)),  # between any two files
    ],
)
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_happened(
    tiny, whole, monkeypatch, moment
):
    train_until(tiny, monkeypatch, moment)
    torch.manual_seed(99)  # the state of the generator is the run's own
    assert_same_run(whole, train(tiny))


@pytest.mark.parametrize("update", [2, 3, 4, 5, 8, 12])
def test_a_run_goes_on_within_an_epoch(often, whole, monkeypatch, update):
    train_until(often, monkeypatch, (UPDATE, update))
    notes = newest_state(often[0].run_dir)
    assert notes["state"]["accum_step"] == update - 1  # nothing is done again
    torch.manual_seed(99)
    assert_same_run(whole, train(often))


def test_saving_often_changes_nothing(often, whole):
    assert_same_run(whole, train(often))


@pytest.mark.parametrize("update", [2, 3, 4, 6])
def test_a_window_of_several_batches_is_not_broken_up(
    often, tmp_path, monkeypatch, update
):
    """Save no state within an update, since no file has its batches' gradients."""
    several = {"accum_iter": 2, "batch_tokens": 40}
    whole = train(often, run_dir=str(tmp_path / "whole"), **several)
    train_until(often, monkeypatch, (UPDATE, update), **several)
    assert newest_state(often[0].run_dir)["state"]["batches"] % 2 == 0
    assert_same_run(whole, train(often, **several))


def test_a_forward_pass_that_is_broken_off_counts_for_nothing(
    often, whole, monkeypatch
):
    train_until(often, monkeypatch, ((at.EncoderDecoder, "forward"), 5))
    assert_same_run(whole, train(often))


def test_figures_of_a_broken_off_epoch_are_those_of_the_whole(often, monkeypatch):
    """Compare the seconds, which differ from run to run; losses are compared above."""
    train_until(often, monkeypatch, (UPDATE, 3))
    spent = newest_state(often[0].run_dir)["state"]["seconds"]
    assert spent > 0
    first = read_metrics(train(often))[0]
    assert first["seconds"] > spent
    assert first["tokens_per_second"] * first["seconds"] == pytest.approx(
        sum(len(tgt) - 1 for _, tgt in at.load_examples(often[0], "train", often[1]))
    )


# faults between writing, fsync and renaming


POINTS = ("half written", "before fsync", "before renaming", "before the folder")


def plant(patch, point, count, error):
    """Raise an error when writing reaches a point for the count-th time."""
    calls = []

    def stop():
        calls.append(point)
        if len(calls) == count:
            raise error

    def stopping(real):
        return lambda *args: (stop(), real(*args))

    def opened(path, mode="r", **options):
        file = open(path, mode, **options)
        return Halved(file, stop) if mode == "wb" else file

    def synced(file):
        folder = stat.S_ISDIR(os.fstat(file).st_mode)
        if folder == (point == "before the folder"):
            stop()
        fsync(file)

    fsync = os.fsync
    if point == "half written":
        patch.setattr(files, "open", opened, raising=False)
    elif point == "before renaming":
        patch.setattr(os, "replace", stopping(os.replace))
    else:
        patch.setattr(os, "fsync", synced)


@pytest.mark.parametrize("count", [9, 10, 12])
@pytest.mark.parametrize("point", POINTS)
def test_killed_in_every_write_a_run_still_arrives(
    often, whole, monkeypatch, point, count
):
    """Kill each start at its count-th write, whatever that is, until one ends."""
    starts = 0
    while True:
        starts += 1
        assert starts < 40
        try:
            with monkeypatch.context() as patch:
                plant(patch, point, count, Killed())
                folder = train(often)
            break
        except Killed:
            check_readable(Path(often[0].run_dir))
    assert starts > 3
    assert_same_run(whole, folder)
    assert not list(folder.rglob("*.tmp"))


def check_readable(folder):
    """Check that each file under its final name is whole."""
    for path in at.run_files(folder):
        if path.suffix == ".json":
            at.read_json(path)
        elif path.suffix == ".safetensors":
            load_with_notes(path)


# full and damaged disks


@pytest.mark.parametrize("count", [1, 3, 4, 6, 15])
@pytest.mark.parametrize("point", POINTS[:3])
def test_a_full_disk_keeps_the_checkpoint_before(
    often, whole, monkeypatch, capsys, point, count
):
    folder = Path(often[0].run_dir)
    with monkeypatch.context() as patch:
        plant(patch, point, count, OSError(28, "No space left on device"))
        assert main(["train", *flags(often[0])]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "No space left on device" in error
    assert not list(folder.rglob("*.tmp"))  # half a file would fill the disk
    states = saved_steps(folder / "resume")
    assert not states or states[-1].stem in error or "metrics" in error
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, folder)


@pytest.mark.parametrize("how", ["cut", "changed", "empty", "other"])
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(
    often, whole, monkeypatch, capsys, how
):
    train_until(often, monkeypatch, (UPDATE, 9))
    older, newest = saved_steps(Path(often[0].run_dir) / "resume")
    data = bytearray(newest.read_bytes())
    if how == "other":
        at.save_tensors(newest, {"weight": torch.ones(1)})
    else:
        data[-100] ^= 1
        newest.write_bytes({"cut": data[:-10], "changed": data, "empty": b""}[how])
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_state", lambda *args: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            train(often)
    said = capsys.readouterr().err
    assert newest.name in said and "checkpoint before" in said
    assert older.exists()
    assert_same_run(whole, train(often))


def test_a_state_that_cannot_be_read_now_is_not_taken_for_damaged(often, monkeypatch):
    train_until(often, monkeypatch, (UPDATE, 9))
    newest = saved_steps(Path(often[0].run_dir) / "resume")[-1]
    read = Path.read_bytes

    def deny(path):
        if path == newest:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", deny)
    with pytest.raises(DataError, match="can't be read"):
        train(often)


def test_states_that_were_passed_over_do_not_push_out_sound_ones(often, monkeypatch):
    train_until(often, monkeypatch, (UPDATE, 9))
    folder = Path(often[0].run_dir) / "resume"
    older, newest = saved_steps(folder)
    newest.write_bytes(b"")
    train_until(often, monkeypatch, (UPDATE, 1))  # has saved one
    assert newest not in saved_steps(folder)
    for path in saved_steps(folder):
        load_with_notes(path)


def test_when_no_checkpoint_can_be_read_nothing_is_overwritten(tiny):
    folder = train(tiny, epochs=1, schedule="inverse_sqrt")
    for path in saved_steps(folder / "resume"):
        path.write_bytes(b"")
    files = [p for p in at.run_files(folder) if p.name != "config.json"]
    before = [path.read_bytes() for path in files]
    with pytest.raises(DataError, match="--restart"):
        train(tiny, schedule="inverse_sqrt")
    assert before == [path.read_bytes() for path in files]


def test_a_damaged_checkpoint_is_left_out_of_the_average(tiny, monkeypatch, capsys):
    train_until(tiny, monkeypatch, ((Run, "save"), 4))
    newest = saved_steps(Path(tiny[0].run_dir) / "checkpoints")[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    folder = train(tiny)
    assert f"{newest.name} is damaged" in capsys.readouterr().err
    last = load_tensors(saved_steps(folder / "checkpoints")[-1])
    model = load_tensors(folder / "model.safetensors")
    assert all(torch.equal(model[name], last[name]) for name in model)


def test_a_damaged_result_is_made_again(tiny, capsys):
    folder = train(tiny)
    path = folder / "model.safetensors"
    before = load_tensors(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["train", *flags(tiny[0])]) == 0
    assert "making it again" in capsys.readouterr().err
    after = load_tensors(path)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_another_vocabulary_is_refused_before_anything_is_written(tiny):
    folder = train(tiny, epochs=1, schedule="inverse_sqrt")
    before = (folder / "vocabulary.json").read_bytes()
    config, _ = tiny
    other = at.prepare_text([("abc abc", "abc abc")] * 3, config.bpe_size)
    more = dataclasses.replace(config, epochs=2, schedule="inverse_sqrt")
    with pytest.raises(DataError, match="vocabulary"):
        train((more, other))
    assert (folder / "vocabulary.json").read_bytes() == before


def test_another_text_is_refused_before_anything_is_written(tiny, monkeypatch):
    config, _ = tiny
    train_until(tiny, monkeypatch, (UPDATE, 9))
    folder = Path(config.run_dir)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lines = Path(config.train_src).read_text("utf-8").splitlines()
    # the longest sentence backward: as many tokens, in batches of the same shape
    longest = max(range(len(lines)), key=lambda i: len(lines[i].split()))
    lines[longest] = " ".join(reversed(lines[longest].split()))
    Path(config.train_src).write_text("\n".join(lines) + "\n", "utf-8")
    with pytest.raises(DataError, match="text or vocabulary have changed.*--restart"):
        train(tiny)
    assert all(path.read_bytes() == data for path, data in before.items())


@pytest.mark.parametrize("second", ["float32", "bfloat16"])
def test_a_run_that_goes_on_in_another_precision_says_so(
    often, monkeypatch, capsys, second
):
    """Stop in the first epoch, which has no metrics yet; resume on another machine."""
    monkeypatch.setattr(runs, "choose_precision", lambda *args: "float32")
    train_until(often, monkeypatch, (UPDATE, 2), precision="auto")
    monkeypatch.setattr(runs, "choose_precision", lambda *args: second)
    capsys.readouterr()
    folder = train(often, precision="auto")
    changed = f"{folder}: trained in float32 so far, from now on in bfloat16.\n"
    assert capsys.readouterr().err == (changed if second == "bfloat16" else "")


# runs of other versions


def rewrite_newest_state(folder, change):
    """Change the tensors and notes of the newest state."""
    path = saved_steps(Path(folder) / "resume")[-1]
    tensors, notes = load_with_notes(path)
    change(tensors, notes)
    at.save_tensors(path, tensors, notes)


@pytest.mark.parametrize("update", [2, 3, 4, 5])  # one of them begins an epoch
def test_a_run_of_version_2026_2_goes_on(often, whole, monkeypatch, update):
    """Write the counters as that version did: in two parts, with sums of its own."""

    def older(tensors, notes):
        state, names = (
            notes["state"],
            ("epoch", "batches", "seconds", "records", "best"),
        )
        notes["place"] = {name: state.pop(name) for name in names}
        state["nll_sum"] = 1.5
        if not notes["place"]["batches"]:  # those of the epoch before
            state["criterion_sum"], state["epoch_tokens"] = 9.9, 99

    train_until(often, monkeypatch, (UPDATE, update))
    rewrite_newest_state(often[0].run_dir, older)
    assert_same_run(whole, train(often))


def test_a_run_of_a_version_with_other_weights_says_how_to_finish_it(
    often, monkeypatch
):
    def other(tensors, notes):
        tensors["model/other"] = tensors.pop("model/generator.proj.bias")

    train_until(often, monkeypatch, (UPDATE, 2))
    rewrite_newest_state(often[0].run_dir, other)
    with pytest.raises(DataError, match="begun by another version. Finish it with"):
        train(often)


# how old a state may be


def test_at_most_save_seconds_of_work_are_lost(tiny, monkeypatch):
    """Use a clock that each update advances by ten seconds."""
    clock, ages = [1000.0], []
    clip, save_state = torch.nn.utils.clip_grad_norm_, Run.save_state
    saved = []

    def slow(*args):
        ages.append(clock[0] - saved[-1])
        clock[0] += 10
        return clip(*args)

    def save(*args):
        saved.append(clock[0])
        save_state(*args)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", slow)
    monkeypatch.setattr(Run, "save_state", save)
    train(tiny, batch_tokens=30, epochs=2, save_seconds=25.0)
    updates = len(ages)
    assert updates >= 8
    assert max(ages) <= 25  # before an update; it ends ten seconds later
    assert 3 <= len(saved) <= 3 + updates * 10 // 25  # and not much more often


def test_a_run_saves_before_its_first_update(tiny, monkeypatch):
    train_until(tiny, monkeypatch, (UPDATE, 1))
    folder = Path(tiny[0].run_dir)
    assert [p.stem for p in saved_steps(folder / "resume")] == ["step-000000"]


def test_what_a_broken_off_write_left_is_removed(tiny):
    folder = train(tiny, epochs=1, schedule="inverse_sqrt")
    left = ["metrics.jsonl", "resume/step-000002.safetensors", "best.safetensors"]
    for name in left:
        (folder / f"{name}.tmp").write_bytes(b"half")
    (folder / "mine.tmp").write_text("mine")
    more = dataclasses.replace(tiny[0], epochs=2, schedule="inverse_sqrt")
    at.open_run_folder(more)
    assert [path.name for path in folder.rglob("*.tmp")] == ["mine.tmp"]


# what a state holds


def a_run(folder, model, algorithm=torch.optim.SGD, **settings):
    """Open a run of a loop of one's own, whose rate halves with each update."""
    config = TrainingConfig(run_dir=str(folder), schedule="inverse_sqrt", **settings)
    optimizer = algorithm(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    at.open_run_folder(config)
    run = Run(config, model, optimizer, schedule)
    run.resume()
    return run


def weight(value=0.0):
    """Return a model that is one number."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, value)
    return model


def save(run, step, loss):
    """End an epoch of a loop of one's own."""
    run.state.accum_step = step
    run.save({"valid_nll": loss})


def test_resuming_takes_moments_schedule_and_counters_back(tmp_path):
    model = torch.nn.Linear(2, 2)
    run = a_run(tmp_path, model, torch.optim.Adam)
    for _ in range(3):
        model(torch.randn(4, 2)).sum().backward()
        run.optimizer.step()
        run.scheduler.step()
        run.state.step += 1
    run.state.tokens = 12
    save(run, 3, 1.5)
    random = torch.randn(3)
    again = a_run(tmp_path, torch.nn.Linear(2, 2), torch.optim.Adam)
    assert torch.equal(random, torch.randn(3))
    assert again.state == run.state and again.state.best == 1.5
    assert (again.state.epoch, again.state.step, again.state.tokens) == (1, 3, 12)
    assert again.optimizer.param_groups[0]["lr"] == 0.125
    assert again.scheduler.get_last_lr() == [0.125]
    slots, slots_again = (x.optimizer.state_dict()["state"] for x in (run, again))
    assert len(slots) == len(slots_again) == 2
    for index, slot in slots.items():
        for name, value in slot.items():
            assert torch.equal(value, slots_again[index][name])


def test_the_newest_checkpoints_are_kept_also_past_a_million_steps(tmp_path):
    run = a_run(tmp_path, weight(), keep=3)
    for step in (8, 99, 999_998, 999_999, 1_000_000):
        save(run, step, 1.0)
    kept = [path.stem for path in saved_steps(tmp_path / "checkpoints")]
    assert kept == ["step-999998", "step-999999", "step-1000000"]
    assert len(saved_steps(tmp_path / "resume")) == 2
    assert a_run(tmp_path, weight(), keep=3).state.epoch == 5


def test_the_best_by_validation_is_kept(tmp_path):
    run = a_run(tmp_path, weight(), average=1)
    for epoch, loss in enumerate([3.0, 1.0, 2.0]):
        torch.nn.init.constant_(run.model.weight, epoch)
        save(run, epoch, loss)
    tensors, notes = load_with_notes(tmp_path / "best.safetensors")
    assert tensors["weight"].item() == 1
    assert notes == {"step": 1, "epoch": 1, "score": 1.0}
    run.finish()
    assert run.model.weight.item() == 1


def test_finishing_averages_the_last_checkpoints(tmp_path):
    run = a_run(tmp_path, weight(), epochs=4, keep=4, average=2)
    for epoch in range(4):
        torch.nn.init.constant_(run.model.weight, 10.0**epoch)
        save(run, epoch, 1.0)
    assert not at.is_finished(run.config)
    run.finish()
    assert load_tensors(tmp_path / "model.safetensors")["weight"].item() == 550
    assert run.model.weight.item() == 550 and at.is_finished(run.config)
    assert not at.is_finished(dataclasses.replace(run.config, epochs=5))


def test_a_checkpoint_is_read_once_to_be_averaged(tiny, monkeypatch):
    """Count what is read after the last state was written."""
    files, read = [], Path.read_bytes
    finish = Run.finish

    def counted(path):
        files.append(path.parent.name)
        return read(path)

    def finishing(run):
        monkeypatch.setattr(Path, "read_bytes", counted)
        finish(run)

    monkeypatch.setattr(Run, "finish", finishing)
    train(tiny)
    assert files == ["checkpoints"] * 2


def test_a_half_written_metric_is_ignored_and_cut_off(tmp_path):
    save(a_run(tmp_path, weight()), 1, 1.0)
    line = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(f'{line}{{"epoch": 2}}\n{{"ep')
    assert read_metrics(tmp_path) == [{"valid_nll": 1.0}, {"epoch": 2}]
    a_run(tmp_path, weight())
    assert (tmp_path / "metrics.jsonl").read_text() == line


def test_a_damaged_line_among_metrics_is_refused(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1}\n{"ep\n{"epoch": 3}\n')
    with pytest.raises(DataError, match="metrics.jsonl, line 2: is not JSON"):
        read_metrics(tmp_path)


# how long it will take


@pytest.fixture
def steady(monkeypatch):
    """Use a clock that advances by a second for every ten target tokens trained on."""
    clock, clip, add = [0.0], torch.nn.utils.clip_grad_norm_, TrainState.add
    training = []

    def counted(state, batch):
        add(state, batch)
        training.append(batch.ntokens)

    def moved(*args):
        clock[0] += training.pop() / 10  # validation makes no updates
        training.clear()
        return clip(*args)

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(TrainState, "add", counted)
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", moved)


def announced(text):
    """Return the announcements in a text: target tokens per second, and minutes."""
    line = (
        r"^([\d,]+) target tokens a second: about (?:(\d+) h )?(\d+) min to the end of"
    )
    return [
        (int(speed.replace(",", "")), 60 * int(hours or 0) + int(minutes))
        for speed, hours, minutes in re.findall(line, text, re.MULTILINE)
    ]


@pytest.mark.parametrize("epochs", [40, 4000])
def test_a_run_says_once_how_long_it_will_take(
    tiny, monkeypatch, capsys, steady, epochs
):
    changes = {"epochs": epochs, "schedule": "inverse_sqrt", "batch_tokens": 60}
    tokens = sum(len(tgt) - 1 for _, tgt in at.load_examples(tiny[0], "train", tiny[1]))
    train_until(tiny, monkeypatch, (UPDATE, 60), **changes)
    ((speed, minutes),) = announced(capsys.readouterr().err)
    assert speed == 10
    assert minutes == pytest.approx(tokens * epochs / 10 / 60, abs=1.5)


def test_a_run_that_goes_on_counts_what_is_left(tiny, monkeypatch, capsys, steady):
    changes = {"epochs": 400, "schedule": "inverse_sqrt", "batch_tokens": 60}
    tokens = sum(len(tgt) - 1 for _, tgt in at.load_examples(tiny[0], "train", tiny[1]))
    train_until(tiny, monkeypatch, ((Run, "save"), 200), **changes)
    capsys.readouterr()
    train_until(tiny, monkeypatch, (UPDATE, 60), **changes)
    ((speed, minutes),) = announced(capsys.readouterr().err)
    assert speed == 10
    assert minutes == pytest.approx(tokens * 200 / 10 / 60, abs=1.5)


def test_the_tokens_of_other_processes_count_as_well(
    tmp_path, monkeypatch, capsys, steady
):
    """Pretend, within one long epoch, that a second process does what this one does."""
    monkeypatch.setattr(processes, "sum_over_processes", lambda *x: [2 * n for n in x])
    endless = {"epochs": 40, "schedule": "inverse_sqrt", "batch_tokens": 60}
    config, text = small_run(tmp_path, pairs=SIX * 50, **endless)
    tokens = sum(len(tgt) - 1 for _, tgt in at.load_examples(config, "train", text))
    train_until((config, text), monkeypatch, (UPDATE, 60))
    ((speed, minutes),) = announced(capsys.readouterr().err)
    assert speed == 20
    assert minutes == pytest.approx(tokens * 40 / 20 / 60, abs=1.5)


def test_a_short_run_says_nothing_about_its_length(tiny, capsys):
    train(tiny)
    assert announced(capsys.readouterr().err) == []


# asked to stop


@pytest.fixture
def heeded():
    """Set signals as a shell with job control does for programs: none is ignored."""
    own = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, own[number]) for number in own}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("clip_grad_norm_", signal.SIGINT),
        ("clip_grad_norm_", signal.SIGTERM),
        ("save_state", signal.SIGINT),
        ("resume", signal.SIGTERM),
        ("finish", signal.SIGTERM),
    ],
)
def test_a_signal_ends_a_run_with_a_note(
    often, whole, monkeypatch, capsys, heeded, number, moment
):
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    place = Run if hasattr(Run, moment) else torch.nn.utils
    real = getattr(place, moment)

    def interrupted(*args):
        signal.raise_signal(number)
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(place, moment, interrupted)
        assert main(["train", *flags(often[0])]) == 128 + number
    said = capsys.readouterr().err
    assert said.startswith("Stopped. The same command ") and said.count("\n") == 1
    states = saved_steps(Path(often[0].run_dir) / "resume")
    assert (states[-1].stem if states else "starts over") in said
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, Path(often[0].run_dir))


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with at.raise_on_signal():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(at.Stopped):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def started(config, *before):
    """Start a real `train`; return when it has begun to train."""
    for path in saved_steps(Path(config.run_dir) / "resume"):
        path.unlink()
    command = [sys.executable, str(MODULE), "train", *flags(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not saved_steps(Path(config.run_dir) / "resume"):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    return process


@pytest.mark.slow
def test_a_process_that_the_system_ends_says_where_it_goes_on(tiny):
    config = dataclasses.replace(tiny[0], epochs=4000, schedule="inverse_sqrt")
    process = started(config)
    time.sleep(0.5)
    process.terminate()
    said = process.communicate(timeout=1200)[1]
    assert process.returncode == 143
    assert said.startswith("Stopped. The same command continues from step-")


@pytest.mark.slow
def test_processes_that_were_started_do_not_outlive_the_one_that_is_ended(tiny):
    config = dataclasses.replace(
        tiny[0], epochs=4000, schedule="inverse_sqrt", distributed=True
    )
    process = started(config)
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = listed.read_text().split()
    process.terminate()
    process.communicate(timeout=1200)
    assert process.returncode == 143
    assert len(children) >= 2
    until = time.monotonic() + 1200  # one that only watches the others goes last
    while left := [child for child in children if Path(f"/proc/{child}").exists()]:
        states = [Path(f"/proc/{child}/stat").read_text().split()[2] for child in left]
        if set(states) == {"Z"}:  # ended, and nobody has asked for its status yet
            break
        assert time.monotonic() < until, states
        time.sleep(0.1)


# out of memory, and losses that are no number


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. "
                     "DefaultCPUAllocator: can't allocate memory: you tried …"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. …"),
        RuntimeError("MPS backend out of memory (MPS allocated: 8 GB …)"),
        MemoryError(),
    ],
    ids=["cpu", "cuda", "mps", "python"],
)  # fmt: skip
def test_too_little_memory_names_the_batch_and_what_to_lower(
    tiny, monkeypatch, capsys, error
):
    real, calls = at.EncoderDecoder.forward, []

    def greedy(*args):
        calls.append(args)
        if len(calls) == 2:
            raise error
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(at.EncoderDecoder, "forward", greedy)
        assert main(["train", *flags(tiny[0])]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("error: batch 2 (")
    assert "pairs of up to" in said and "memory" in said
    assert "--batch-tokens (now 60)" in said


def test_too_little_memory_elsewhere_is_one_line_too(tiny, monkeypatch, capsys):
    def greedy(*args):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(runs, "build_model", greedy)
    assert main(["train", *flags(tiny[0])]) == 2
    assert capsys.readouterr().err.startswith("error: out of memory")


def test_another_error_of_torch_is_not_taken_for_too_little_memory(tiny, monkeypatch):
    def wrong(*args):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(at.EncoderDecoder, "forward", wrong)
    with pytest.raises(RuntimeError, match="mat1"):
        main(["train", *flags(tiny[0])])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_memory_that_is_really_used_up(tiny):
    for path in map(Path, (tiny[0].train_src, tiny[0].train_tgt)):
        path.write_text(path.read_text(encoding="utf-8") * 100, encoding="utf-8")
    config = dataclasses.replace(tiny[0], batch_tokens=20000, d_ff=2**16)
    program = f"""
        import resource, sys
        import annotated_transformer as at
        with open("/proc/self/status") as file:
            (used,) = (int(x.split()[1]) for x in file if x.startswith("VmSize"))
        limit = used * 1024 + 2**30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        raise SystemExit(at.main(["train", *{flags(config)!r}]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=1200,
        env=os.environ | {"PYTHONPATH": str(MODULE.parent)},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: batch 1 (") and done.stderr.count("\n") == 1
    assert "--batch-tokens (now 20000)" in done.stderr


def test_a_loss_that_is_no_number_leaves_the_last_good_state(
    often, whole, monkeypatch, capsys
):
    real, calls = at.LeanLabelSmoothing.forward, []

    def broken(self, x, target):
        calls.append(1)
        return real(self, x, target) * (float("nan") if len(calls) == 2 else 1)

    with monkeypatch.context() as patch:
        patch.setattr(at.LeanLabelSmoothing, "forward", broken)
        assert main(["train", *flags(often[0])]) == 2
    assert "nan at update 2" in capsys.readouterr().err
    assert newest_state(often[0].run_dir)["state"]["accum_step"] == 1
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, Path(often[0].run_dir))


def test_a_gradient_that_is_no_number_leaves_the_last_good_state(
    often, whole, monkeypatch, capsys
):
    real, calls = torch.nn.utils.clip_grad_norm_, []

    def broken(parameters, *args):
        parameters = list(parameters)
        calls.append(1)
        if len(calls) == 2:
            parameters[0].grad[0] = float("inf")
        return real(parameters, *args)

    with monkeypatch.context() as patch:
        patch.setattr(*UPDATE, broken)
        assert main(["train", *flags(often[0])]) == 2
    assert "the gradient's norm is nan at update 2" in capsys.readouterr().err
    assert newest_state(often[0].run_dir)["state"]["accum_step"] == 1
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, Path(often[0].run_dir))


# two processes in one folder


@pytest.mark.parametrize("restart", [[], ["--restart"]])
def test_a_folder_in_which_a_process_trains_is_left_alone(tiny, capsys, restart):
    folder = train(tiny, epochs=1, schedule="inverse_sqrt")
    half = folder / "resume" / "step-000009.safetensors.tmp"  # the other is writing it
    half.write_bytes(b"half")
    before = {path: path.read_bytes() for path in at.run_files(folder)}
    config = dataclasses.replace(tiny[0], schedule="inverse_sqrt")
    with at.claim_folder(folder):
        assert main(["train", *flags(config), *restart]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {folder}: is in use") and said.count("\n") == 1
        assert "--run-dir" in said
        with pytest.raises(DataError, match="in use"):
            train((config, tiny[1]))
        assert before == {path: path.read_bytes() for path in at.run_files(folder)}
        assert half.exists()
    assert main(["train", *flags(config), *restart]) == 0


def test_a_process_holds_its_folder_until_it_has_trained(tiny, monkeypatch):
    """Try to claim the folder at the first update, and after the run has ended."""
    folder, refused = Path(tiny[0].run_dir), []

    def save_if_due(run):
        with pytest.raises(DataError, match="in use"), at.claim_folder(folder):
            pass
        refused.append(run.state.accum_step)
        if run.state.accum_step:
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "save_if_due", save_if_due)
    with pytest.raises(KeyboardInterrupt):
        train(tiny)
    assert refused == [0, 1]
    assert not (folder / "run.lock").exists()
    with at.claim_folder(folder):
        pass


def test_a_killed_process_holds_nothing(tiny):
    folder = Path(tiny[0].run_dir)
    folder.mkdir()
    program = "import filelock, sys, time; lock = filelock.FileLock(sys.argv[1]); "
    program += "lock.acquire(); print(flush=True); time.sleep(1200)"
    command = [sys.executable, "-c", program, str(folder / "run.lock")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    process.stdout.readline()
    with pytest.raises(DataError, match="in use"):
        train(tiny)
    process.kill()
    process.communicate()
    assert (folder / "run.lock").exists()
    train(tiny)
    assert not (folder / "run.lock").exists()


def test_only_the_main_process_claims_a_folder(tmp_path, monkeypatch):
    with at.claim_folder(tmp_path):
        monkeypatch.setenv("RANK", "1")
        with at.claim_folder(tmp_path):
            assert (tmp_path / "run.lock").exists()
        assert (tmp_path / "run.lock").exists()


def test_a_command_opens_and_claims_one_folder_once(tiny, monkeypatch):
    done = []

    def counted(name):
        real = getattr(runs, name)
        return lambda *args: (done.append(name), real(*args))[1]

    for name in ("claim_folder", "open_run_folder", "describe_environment"):
        monkeypatch.setattr(runs, name, counted(name))
    for restart in ([], ["--restart"]):
        assert main(["train", *flags(tiny[0]), *restart]) == 0
        assert sorted(done) == [
            "claim_folder",
            "describe_environment",
            "open_run_folder",
        ]
        done.clear()


# real kills, and several processes


@pytest.mark.slow
def test_three_real_kills():
    """Do three times what `make torture` does twenty times."""
    program = Path(__file__).parent / "torture.py"
    command = [sys.executable, str(program), "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("3 killed, [23] of them inside a write", done.stdout)
    assert "bit for bit" in done.stdout


@pytest.mark.slow
def test_two_processes_go_on_within_an_epoch(tmp_path):
    """Check that the epoch's figures count both processes, before and after."""
    config, text = small_run(tmp_path, save_seconds=0.0, dropout=0.0)
    train((config, text), run_dir=str(tmp_path / "alone"))
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            import torch
            import annotated_transformer as at
            real, calls = torch.nn.utils.clip_grad_norm_, []
            last = int(sys.argv.pop(1))
            def clip(*args):
                calls.append(1)
                if len(calls) == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args)
            torch.nn.utils.clip_grad_norm_ = clip
            raise SystemExit(at.main())
            """
        )
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(program)]
    environment = os.environ | {"PYTHONPATH": str(MODULE.parent)}
    for last in (3, 0):  # killed at its third update, then not at all
        done = subprocess.run(
            [*command, str(last), "train", *flags(config)],
            capture_output=True, text=True, timeout=1200, env=environment,
        )  # fmt: skip
        assert (done.returncode == 0) == (last == 0), done.stderr
    one, two = repeatable(tmp_path / "alone"), repeatable(config.run_dir)
    assert [r["epoch"] for r in one] == [r["epoch"] for r in two] == [1, 2, 3, 4]
    for first, second in zip(one, two, strict=True):
        for name in ("step", "train_criterion", "valid_nll"):
            assert first[name] == pytest.approx(second[name], abs=1e-3), name
    lines = Path(config.run_dir, "metrics.jsonl").read_text().splitlines()
    tokens = [r["tokens_per_second"] * r["seconds"] for r in map(json.loads, lines)]
    examples = at.load_examples(config, "train", text)
    assert tokens == pytest.approx([sum(len(tgt) - 1 for _, tgt in examples)] * 4)
