"""Chapter 90: a run that ends too early continues as if it had not."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from small_runs import (
    SIX,
    assert_same_run,
    break_off,
    check_whole,
    contents,
    flags,
    open_folder,
    small_run,
    train,
    train_until,
)

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop.base import files
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import load_tensors, load_with_notes, save_tensors
from transformer_workshop.cli.terminal import main
from transformer_workshop.text.encoding import prepare_text
from transformer_workshop.text.fingerprints import fingerprint_of_ids
from transformer_workshop.text.store import load_examples
from transformer_workshop.training import checkpoints, inputs, interruptions, processes
from transformer_workshop.training import loop as runs
from transformer_workshop.training.checkpoints import Run
from transformer_workshop.training.epochs import TrainState
from transformer_workshop.training.interruptions import Stopped, raise_on_signal
from transformer_workshop.training.run_folder import (
    claim_folder,
    is_finished,
    read_metrics,
    saved_steps,
)

UPDATE = torch.nn.utils, "clip_grad_norm_"  # called once by each of 9 updates
WRITE = files, "_write_to_disk"
FORWARD = at.EncoderDecoder, "forward"


@pytest.fixture
def tiny(tmp_path):
    """Set up a run of three epochs that saves only after each of them."""
    return small_run(tmp_path, epochs=3)


@pytest.fixture
def often(tmp_path):
    """Set up the same run, saving between all updates."""
    return small_run(tmp_path, epochs=3, save_seconds=0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Train that run without a break; return its folder."""
    return train(small_run(tmp_path_factory.mktemp("whole"), epochs=3))


def states(run):
    return saved_steps(Path(run[0].run_dir) / "resume")


def newest_state(run):
    return load_with_notes(states(run)[-1])[1]["state"]


# killed at some moment, then resumed: the same run


@pytest.mark.parametrize(
    "moment",
    [
        (UPDATE, 2),  # in the first epoch
        (UPDATE, 8),  # in a later one
        ((checkpoints, "save_tensors"), 2),  # metrics written, weights not
        ((os, "replace"), 5),  # weights written, state not
        ((os, "fsync"), 3),  # within a write
        ((os, "fsync"), 8),
    ],
)
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_happened(
    tiny, whole, monkeypatch, moment
):
    train_until(tiny, monkeypatch, moment)
    torch.manual_seed(99)  # the state of the generator is the run's own
    assert_same_run(whole, train(tiny))


@pytest.mark.parametrize(
    ("moment", "saved"), [((UPDATE, 3), 2), ((UPDATE, 4), 3), ((FORWARD, 8), 4)]
)
def test_a_run_goes_on_within_an_epoch(often, whole, monkeypatch, moment, saved):
    """Forward passes are those of training and, after each epoch, of validation."""
    train_until(often, monkeypatch, moment)
    assert newest_state(often)["accum_step"] == saved  # nothing is done again
    torch.manual_seed(99)
    assert_same_run(whole, train(often))


def test_other_words_in_sentences_as_long_have_another_fingerprint():
    examples = [([2, 5, 3], [2, 6, 3])]
    for other in ([2, 7, 3], [2, 6, 3]), ([2, 5, 3], [2, 7, 3]):
        assert fingerprint_of_ids([other]) != fingerprint_of_ids(examples)


def test_a_window_of_several_batches_is_not_broken_up(often, tmp_path, monkeypatch):
    """Save no state within an update, since no file has its batches' gradients."""
    several = {"accum_iter": 2, "batch_tokens": 40}
    whole = train(often, run_dir=str(tmp_path / "whole"), **several)
    for _ in range(2):  # the second time, from the state of the first
        train_until(often, monkeypatch, (UPDATE, 2), **several)
        assert newest_state(often)["batches"] % 2 == 0
    assert_same_run(whole, train(often, **several))


def test_figures_of_a_broken_off_epoch_are_those_of_the_whole(often, monkeypatch):
    """Compare the seconds, which differ from run to run; losses are compared above."""
    train_until(often, monkeypatch, (UPDATE, 3))
    spent = newest_state(often)["seconds"]
    first = read_metrics(train(often))[0]
    assert 0 < spent < first["seconds"]
    assert first["tokens_per_second"] * first["seconds"] == pytest.approx(tokens(often))


def tokens(run):
    """Return the number of target tokens in an epoch."""
    config, text = run
    return sum(len(tgt) - 1 for _, tgt in load_examples(config, "train", text))


@pytest.mark.parametrize(
    "moment", [((os, "fsync"), 1), ((os, "fsync"), 7), ((os, "replace"), 6), (WRITE, 9)]
)
def test_a_full_disk_keeps_the_checkpoint_before(
    often, whole, monkeypatch, capsys, moment
):
    folder = Path(often[0].run_dir)
    with monkeypatch.context() as patch:
        break_off(patch, moment, OSError(28, "No space left on device"))
        assert main(["train", *flags(often[0])]) == 2
    *before, error = capsys.readouterr().err.splitlines()
    assert "No space left on device" in error and "error" not in "".join(before)
    assert not list(folder.rglob("*.tmp"))  # half a file would fill the disk
    saved = states(often)
    assert not saved or saved[-1].stem in error or "metrics" in error
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, folder)


# damaged files


def test_a_damaged_newest_state_gives_way_to_the_one_before(
    often, whole, monkeypatch, capsys
):
    train_until(often, monkeypatch, (UPDATE, 8))
    _, newest = states(often)
    data = bytearray(newest.read_bytes())
    data[-100] ^= 1
    newest.write_bytes(data)
    train_until(often, monkeypatch, (UPDATE, 1))  # has saved one
    said = capsys.readouterr().err
    assert newest.name in said and "trying the checkpoint before" in said
    assert newest not in states(often)  # so that it can't push out a sound one
    check_whole(Path(often[0].run_dir))
    assert_same_run(whole, train(often))


def test_a_state_of_another_version_is_refused(often, monkeypatch):
    train_until(often, monkeypatch, (UPDATE, 3))
    newest = states(often)[-1]
    tensors, notes = load_with_notes(newest)
    for other in ((tensors, {}), ({"model/weight": torch.ones(1)}, notes)):
        save_tensors(newest, *other)
        with pytest.raises(DataError, match="begun by another version.*config.json"):
            train(often)


def test_a_state_that_cannot_be_read_now_is_not_taken_for_damaged(often, monkeypatch):
    train_until(often, monkeypatch, (UPDATE, 3))
    newest, read = states(often)[-1], Path.read_bytes

    def deny(path):
        if path == newest:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", deny)
    with pytest.raises(DataError, match="can't be read"):
        train(often)


def test_a_damaged_checkpoint_is_left_out_of_the_average(tiny, monkeypatch, capsys):
    train_until(tiny, monkeypatch, ((Run, "save"), 3))
    newest = saved_steps(Path(tiny[0].run_dir) / "checkpoints")[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    folder = train(tiny)
    assert f"{newest.name} is damaged" in capsys.readouterr().err
    last = load_tensors(saved_steps(folder / "checkpoints")[-1])
    model = load_tensors(folder / "model.safetensors")
    assert all(torch.equal(model[name], last[name]) for name in model)


def test_a_damaged_result_is_made_again(tiny, whole, capsys):
    path = train(tiny) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["train", *flags(tiny[0])]) == 0
    assert "making it again" in capsys.readouterr().err
    assert_same_run(whole, path.parent)


def test_what_a_broken_off_write_left_is_removed(tiny):
    folder = Path(tiny[0].run_dir)
    open_folder(tiny[0])
    (folder / "resume").mkdir()
    left = ["metrics.jsonl", "resume/step-000002.safetensors", "best.safetensors"]
    for name in [*left, "mine"]:
        (folder / f"{name}.tmp").write_bytes(b"half")
    open_folder(tiny[0])
    assert [path.name for path in folder.rglob("*.tmp")] == ["mine.tmp"]


# what else may have changed since


def test_another_text_is_refused_before_anything_is_written(tiny, monkeypatch):
    config, _ = tiny
    train_until(tiny, monkeypatch, (UPDATE, 5))
    before = contents(config.run_dir)
    lines = Path(config.train_src).read_text("utf-8").splitlines()
    # the longest sentence backward: as many tokens, in batches of the same shape
    longest = max(range(len(lines)), key=lambda i: len(lines[i].split()))
    lines[longest] = " ".join(reversed(lines[longest].split()))
    original = Path(config.train_src).read_bytes()
    Path(config.train_src).write_text("\n".join(lines) + "\n", "utf-8")
    vocabulary = prepare_text([("abc abc", "abc abc")] * 3, config.bpe_size)
    for run, said in (
        (tiny, "another text: train_src .*`restart`"),
        ((config, vocabulary), "or vocabulary have changed.*`restart`"),
    ):
        with pytest.raises(DataError, match=said):
            train(run)
        Path(config.train_src).write_bytes(original)
        assert contents(config.run_dir).items() >= before.items()


def test_a_run_that_goes_on_in_another_precision_says_so(often, monkeypatch, capsys):
    """Stop in the first epoch, which has no metrics yet; resume on other machines."""
    said = []
    for precision in ("float32", "float32", "bfloat16"):
        monkeypatch.setattr(runs, "choose_precision", lambda *_, now=precision: now)
        train_until(often, monkeypatch, (UPDATE, 2), precision="auto")
        said.append(capsys.readouterr().err)
    folder = often[0].run_dir
    changed = f"{folder}: trained in float32 so far, now in bfloat16.\n"
    assert said == ["", "", changed]


@pytest.mark.parametrize("update", [3, 4])  # the fourth begins an epoch
def test_a_run_of_version_2026_2_goes_on(often, whole, monkeypatch, update):
    """Write the counters as that version did: in two parts, with sums of its own."""
    train_until(often, monkeypatch, (UPDATE, update))
    path = states(often)[-1]
    tensors, notes = load_with_notes(path)
    state, names = notes["state"], ("epoch", "batches", "seconds", "best")
    notes["place"] = {name: state.pop(name) for name in names}
    notes["place"]["records"] = notes["place"]["epoch"]
    state["nll_sum"] = 1.5
    if not notes["place"]["batches"]:  # those of the epoch before
        state["criterion_sum"], state["epoch_tokens"] = 9.9, 99
    save_tensors(path, tensors, notes)
    assert_same_run(whole, train(often))


def test_at_most_save_seconds_of_work_are_lost(tiny, monkeypatch):
    """Use a clock that each update advances by ten seconds."""
    clock, saved, ages = [1000.0], [], []
    clip, save_state = torch.nn.utils.clip_grad_norm_, Run.save_state

    def slow(*args):
        ages.append(clock[0] - saved[-1])
        clock[0] += 10
        return clip(*args)

    def save(*args):
        saved.append(clock[0])
        save_state(*args)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(*UPDATE, slow)
    monkeypatch.setattr(Run, "save_state", save)
    train(tiny, batch_tokens=30, epochs=2, save_seconds=25.0)
    assert len(ages) >= 8
    assert max(ages) <= 25  # before an update; it ends ten seconds later
    assert 3 <= len(saved) <= 3 + len(ages) * 10 // 25  # and not much more often


# what a state holds


def a_run(folder, model, algorithm=torch.optim.SGD, **settings):
    """Open a run of a loop of one's own, whose rate halves with each update."""
    config = TrainingConfig(run_dir=str(folder), schedule="inverse_sqrt", **settings)
    optimizer = algorithm(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    open_folder(config)
    run = Run(config, model, optimizer, schedule)
    run.resume()
    return run


def save(run, step, loss, weight=None):
    """End an epoch of a loop of one's own, with some weight."""
    if weight is not None:
        torch.nn.init.constant_(run.model.weight, weight)
    run.state.accum_step = step
    run.save({"valid_nll": loss})


def one_weight():
    return torch.nn.Linear(1, 1, bias=False)


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
    run = a_run(tmp_path, one_weight(), keep=3)
    for step in (8, 99, 999_998, 999_999, 1_000_000):
        save(run, step, 1.0)
    kept = [path.stem for path in saved_steps(tmp_path / "checkpoints")]
    assert kept == ["step-999998", "step-999999", "step-1000000"]
    assert len(saved_steps(tmp_path / "resume")) == 2
    assert a_run(tmp_path, one_weight(), keep=3).state.epoch == 5


def test_the_best_by_validation_is_kept(tmp_path):
    run = a_run(tmp_path, one_weight(), average=1)
    for epoch, loss in enumerate([3.0, 1.0, 2.0]):
        save(run, epoch, loss, weight=epoch)
    tensors, notes = load_with_notes(tmp_path / "best.safetensors")
    assert tensors["weight"].item() == 1
    assert notes == {"step": 1, "epoch": 1, "score": 1.0}
    run.finish()
    assert run.model.weight.item() == 1


def test_finishing_averages_the_last_checkpoints(tmp_path):
    run = a_run(tmp_path, one_weight(), epochs=4, keep=4, average=2)
    for epoch in range(4):
        save(run, epoch, 1.0, weight=10.0**epoch)
    assert not is_finished(run.config)
    run.finish()
    assert load_tensors(tmp_path / "model.safetensors")["weight"].item() == 550
    assert run.model.weight.item() == 550 and is_finished(run.config)
    assert not is_finished(dataclasses.replace(run.config, epochs=5))


def test_half_a_metric_is_cut_off_if_it_is_the_last(tmp_path):
    path = tmp_path / "metrics.jsonl"
    save(a_run(tmp_path, one_weight()), 1, 1.0)
    line = path.read_text()
    path.write_text(f'{line}{{"epoch": 2}}\n{{"ep')
    assert read_metrics(tmp_path) == [{"valid_nll": 1.0}, {"epoch": 2}]
    a_run(tmp_path, one_weight())
    assert path.read_text() == line
    path.write_text(f'{line}{{"ep\n{line}')
    with pytest.raises(DataError, match="metrics.jsonl: is not JSON.*line 2"):
        read_metrics(tmp_path)


# how long it will take


@pytest.fixture
def steady(monkeypatch):
    """Use a clock that advances by a second for each target token trained on."""
    clock, add = [0.0], TrainState.add

    def counted(state, batch):
        add(state, batch)
        clock[0] += batch.ntokens * torch.is_grad_enabled()  # not for validation

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(TrainState, "add", counted)


def announced(text):
    """Return the announcements in a text: target tokens per second, and minutes."""
    line = r"^([\d,]+) target tokens a second: (\d+):(\d+):\d\d left"
    return [
        (int(speed.replace(",", "")), 60 * int(hours) + int(minutes))
        for speed, hours, minutes in re.findall(line, text, re.MULTILINE)
    ]


def test_a_run_that_goes_on_counts_what_is_left(tiny, monkeypatch, capsys, steady):
    """Announce once how long it will take, then again for what is left then."""
    for epochs in (10, 6):
        train_until(tiny, monkeypatch, ((Run, "save"), 5), epochs=10)
        ((speed, minutes),) = announced(capsys.readouterr().err)
        assert speed == 1
        assert minutes == pytest.approx(tokens(tiny) * epochs / 60, abs=3)


def test_the_tokens_of_other_processes_count_as_well(
    tmp_path, monkeypatch, capsys, steady
):
    """Pretend, within one long epoch, that a second process does what this one does."""
    monkeypatch.setattr(processes, "sum_over_processes", lambda *x: [2 * n for n in x])
    long = small_run(tmp_path, pairs=SIX * 20, epochs=40, schedule="inverse_sqrt")
    train_until(long, monkeypatch, (UPDATE, 20))
    ((speed, minutes),) = announced(capsys.readouterr().err)
    assert speed == 2
    assert minutes == pytest.approx(tokens(long) * 40 / 2 / 60, abs=5)


def test_a_run_without_gain_stops_with_its_best(tmp_path, capsys):
    """Also one that was stopped in the moment before."""
    run = small_run(tmp_path, epochs=40, patience=2, base_lr=0.5, average=3)
    folder = train(run)
    losses = [record["valid_nll"] for record in read_metrics(folder)]
    assert 3 <= len(losses) == losses.index(min(losses)) + 3 < 40
    assert "no gain on validation in 2 epochs" in capsys.readouterr().err
    best, model = (folder / f"{name}.safetensors" for name in ("best", "model"))
    for name, weights in load_tensors(best).items():
        assert torch.equal(weights, load_tensors(model)[name])
    model.unlink()
    assert train(run) == folder and model.exists()
    assert [record["valid_nll"] for record in read_metrics(folder)] == losses


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
        (UPDATE, signal.SIGINT),
        (UPDATE, signal.SIGTERM),
        ((Run, "resume"), signal.SIGTERM),
        ((Run, "finish"), signal.SIGTERM),
    ],
)
def test_a_signal_ends_a_run_with_a_note(
    often, whole, monkeypatch, capsys, heeded, number, moment
):
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    real = getattr(*moment)

    def interrupted(*args):
        signal.raise_signal(number)
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(*moment, interrupted)
        assert main(["train", *flags(often[0])]) == 128 + number
    said = capsys.readouterr().err
    *before, last = said.splitlines()
    assert last.startswith("Stopped. The same command ") and "Stopped" not in before
    assert (states(often)[-1].stem if states(often) else "starts over") in said
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, Path(often[0].run_dir))


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with raise_on_signal():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(Stopped):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# out of memory, and losses that are no number


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …"), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate …"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8 GB …)"), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_too_little_memory_is_known_by_its_errors(error, is_it):
    assert interruptions.is_out_of_memory(error) == is_it


def test_too_little_memory_names_the_batch_and_what_to_lower(tiny, monkeypatch, capsys):
    break_off(monkeypatch, (FORWARD, 2), MemoryError())
    assert main(["train", *flags(tiny[0])]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: batch 2 (1 pairs of up to")
    assert "memory" in said and "--batch-tokens (now 60)" in said


def test_too_little_memory_elsewhere_is_one_line_too(tiny, monkeypatch, capsys):
    break_off(monkeypatch, ((inputs, "build_model"), 1), MemoryError())
    assert main(["train", *flags(tiny[0])]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: out of memory")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_memory_that_is_really_used_up(tiny):
    for path in map(Path, (tiny[0].train_src, tiny[0].train_tgt)):
        path.write_text(path.read_text(encoding="utf-8") * 100, encoding="utf-8")
    config = dataclasses.replace(tiny[0], batch_tokens=20000, d_ff=2**16)
    program = f"""
        import resource
        import transformer_workshop.cli.commands  # PyTorch takes its own memory first
        from transformer_workshop.cli.terminal import main
        with open("/proc/self/status") as file:
            (used,) = (int(x.split()[1]) for x in file if x.startswith("VmSize"))
        limit = used * 1024 + 2**30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        raise SystemExit(main(["train", *{flags(config)!r}]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("error: batch 1 (")
    assert "--batch-tokens (now 20000)" in said


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
    assert newest_state(often)["accum_step"] == 1
    assert main(["train", *flags(often[0])]) == 0
    assert_same_run(whole, Path(often[0].run_dir))


# two processes in one folder


@pytest.mark.parametrize("restart", [[], ["--restart"]])
def test_a_folder_in_which_a_process_trains_is_left_alone(tiny, capsys, restart):
    folder = Path(tiny[0].run_dir)
    open_folder(tiny[0])
    (folder / "resume").mkdir()
    half = folder / "resume" / "step-000009.safetensors.tmp"  # the other is writing it
    half.write_bytes(b"half")
    with claim_folder(folder):
        before = contents(folder)
        assert main(["train", *flags(tiny[0]), *restart]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(f"error: {folder}: is in use")
        assert "--run-dir" in said
        assert contents(folder) == before


def test_a_process_holds_its_folder_until_it_has_trained(tiny, monkeypatch):
    """Try to claim the folder at the first update, and after the run has ended."""
    folder, refused = Path(tiny[0].run_dir), []

    def save_if_due(run):
        with pytest.raises(DataError, match="in use"), claim_folder(folder):
            pass
        refused.append(run.state.accum_step)
        if run.state.accum_step:
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "save_if_due", save_if_due)
    with pytest.raises(KeyboardInterrupt):
        train(tiny)
    assert refused == [0, 1]
    assert not (folder / "run.lock").exists()
    with claim_folder(folder):
        pass
