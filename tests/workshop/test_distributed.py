"""Chapter 92: several processes arrive where a single one does."""

import dataclasses
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from small_runs import PAIRS, flags, small_config
from torch.nn.utils import parameters_to_vector

import annotated_transformer as at
from transformer_workshop.base.files import load_with_notes, save_tensors
from transformer_workshop.cli.terminal import main
from transformer_workshop.names_of_2022 import train_model, train_worker
from transformer_workshop.text.encoding import prepare_text
from transformer_workshop.text.store import load_examples
from transformer_workshop.training import inputs, processes
from transformer_workshop.training import loop as runs
from transformer_workshop.training.checkpoints import Progress
from transformer_workshop.training.loop import train_run
from transformer_workshop.training.processes import (
    SharedLoss,
    SharedState,
    distribute,
    number_process,
    own_batches,
    process_group,
    run_in_processes,
)
from transformer_workshop.training.run_folder import read_metrics, saved_steps

VOCAB = 20


def examples(count=41):
    """Return pairs of id lists of very different lengths, from <s> to </s>."""
    generator = torch.Generator().manual_seed(3)

    def sentence():
        length = int(torch.randint(1, 12, (), generator=generator))
        words = torch.randint(4, VOCAB, (length,), generator=generator)
        return [at.START, *words.tolist(), at.END]

    return [(sentence(), sentence()) for _ in range(count)]


def groups(epoch=None):
    """Return an epoch's batches as indices; without an epoch in order of length.

    Some hold one sentence of 15 positions, so the second process gets none of it.
    """
    lengths = at.lengths_of(examples())
    if epoch is None:
        return at.token_budget_batches(lengths, 15)
    return at.shuffled_groups(lengths, 15, at.epoch_rng(1, epoch))


def compute(model, state, smoothing=0.1):
    criterion = at.LabelSmoothing(VOCAB, at.PAD, smoothing)
    return SharedLoss(at.SimpleLossCompute(model.generator, criterion), state)


def twenty_steps(process, accum_iter, max_norm):
    """Take twenty updates with Adam in float64; return weights and figures."""
    torch.manual_seed(1)
    data, sizes = examples(), []
    model = at.make_model(VOCAB, VOCAB, N=1, d_model=8, d_ff=16, h=2, dropout=0.0)
    model.double()

    def share(groups):
        for batch in own_batches(data, groups, process):
            sizes.append(len(batch.src))
            yield batch

    shared = distribute(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    state, epoch = Progress(), 0
    while state.accum_step < 20:
        state.begin_epoch(epoch)
        own = share(groups(epoch)[: (20 - state.accum_step) * accum_iter])
        at.run_epoch(
            own, shared, compute(model, state), optimizer, scheduler, "train",
            accum_iter, state, max_norm=max_norm,
        )  # fmt: skip
        epoch += 1
    judged = SharedState()
    loss = compute(model, judged, smoothing=0.0)
    at.run_epoch(share(groups()), model, loss, None, None, "eval", 1, judged)
    figures = {
        "steps": state.accum_step,
        "train_criterion": state.criterion,
        "valid_nll": judged.criterion,
        "valid_tokens": judged.epoch_tokens,
        "smallest_share": min(sizes),
    }
    return model.state_dict(), figures


WAYS = [(1, None), (3, 0.5)]  # accum_iter and max_norm


def save_steps(folder):
    """Take the steps in each of these ways; save the results to files."""
    torch.set_num_threads(1)
    with process_group(torch.device("cpu")) as process:
        _, rank, world = process
        for accum_iter, max_norm in WAYS:
            name = f"{accum_iter}-{world}-{rank}.safetensors"
            save_tensors(folder / name, *twenty_steps(process, accum_iter, max_norm))


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(tmp_path):
    """Check that two processes arrive where one does, to eight decimals."""
    save_steps(tmp_path)
    run_in_processes(2, save_steps, tmp_path)
    tokens = sum(len(tgt) - 1 for _, tgt in examples())
    for (accum_iter, _), rank in itertools.product(WAYS, (0, 1)):
        files = (
            tmp_path / f"{accum_iter}-{x}.safetensors" for x in ("1-0", f"2-{rank}")
        )
        (alone, figures), (shared, same) = map(load_with_notes, files)
        assert alone.keys() == shared.keys()
        assert "generator.proj.weight" in alone  # which runs outside the wrapper
        for name, weight in alone.items():
            assert weight.dtype == torch.float64
            assert (weight - shared[name]).abs().max() < 1e-8, name
        assert same["steps"] == figures["steps"] == 20
        assert same["train_criterion"] == pytest.approx(figures["train_criterion"])
        # each validation sentence once: the same tokens, the same sum
        assert same["valid_tokens"] == figures["valid_tokens"] == tokens
        assert same["valid_nll"] == pytest.approx(figures["valid_nll"], abs=1e-9)
        assert figures["smallest_share"] == 1
        assert same["smallest_share"] == 1 - rank  # the second one went without


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_shares_of_a_batch_are_the_batch(world):
    cpu, data = torch.device("cpu"), examples()
    shares = [own_batches(data, groups(2), (cpu, rank, world)) for rank in range(world)]
    for group, *parts in zip(groups(2), *shares, strict=True):
        for rank, part in enumerate(parts):
            pairs = [data[i] for i in group[rank::world]]
            assert len(pairs) == len(part.src) == len(part.tgt_y)
            assert part.ntokens == sum(len(tgt) - 1 for _, tgt in pairs)
            for (src, tgt), *rows in zip(pairs, part.src, part.tgt, part.tgt_y):
                ids = [[i for i in row.tolist() if i != at.PAD] for row in rows]
                assert ids == [src, tgt[: part.tgt.size(1)], tgt[1:]]


def test_an_empty_share_gives_a_zero_loss_and_zero_gradients():
    torch.manual_seed(0)
    model = at.make_model(VOCAB, VOCAB, N=1, d_model=8, d_ff=16, h=2, dropout=0.1)
    row = torch.tensor([[0, 5, 6, 1]])
    batch = at.Batch(row[1:], row[1:], at.PAD)
    out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    loss, node = compute(model, SharedState())(out, batch.tgt_y, 3)
    node.backward()
    assert loss == 0
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and not parameter.grad.any(), name


def test_the_mean_of_all_gradients_is_that_of_the_whole_batch(monkeypatch):
    """Compute each of two processes' gradients here, with the sums over both."""
    torch.manual_seed(0)
    model = at.make_model(VOCAB, VOCAB, N=1, d_model=8, d_ff=16, h=2, dropout=0.0)
    data, cpu = examples(3), torch.device("cpu")

    def gradient(own, loss_compute, norm):
        model.zero_grad()
        out = model(own.src, own.tgt, own.src_mask, own.tgt_mask)
        total, node = loss_compute(out, own.tgt_y, norm)
        node.backward()
        return float(total), parameters_to_vector(p.grad for p in model.parameters())

    plain = at.SimpleLossCompute(model.generator, at.LabelSmoothing(VOCAB, at.PAD, 0.1))
    [batch] = own_batches(data, [[0, 1, 2]], (cpu, 0, 1))
    total, whole = gradient(batch, plain, batch.ntokens)
    sums = [total, batch.ntokens, batch.ntokens, 2]
    monkeypatch.setattr(processes, "sum_over_processes", lambda *own: sums)
    shares = []
    for rank in (0, 1):
        [own] = own_batches(data, [[0, 1, 2]], (cpu, rank, 2))
        shares.append(gradient(own, compute(model, SharedState()), own.ntokens)[1])
    torch.testing.assert_close(sum(shares) / 2, whole)


def test_a_loss_that_is_no_number_in_another_process_stops_this_one(monkeypatch):
    """Pretend that the first of the numbers, the loss, is NaN in another process."""
    monkeypatch.setattr(
        processes, "sum_over_processes", lambda x, *rest: [x + float("nan"), *rest]
    )
    model = at.make_model(VOCAB, VOCAB, N=1, d_model=8, d_ff=16, h=2)
    (batch,) = own_batches(examples(), [[0, 1]], (torch.device("cpu"), 0, 1))
    out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    state = SharedState(accum_step=6)
    with pytest.raises(FloatingPointError, match="the loss is nan at update 7; the"):
        compute(model, state)(out, batch.tgt_y, batch.ntokens)
    assert state.criterion == 0


def fail():
    """Fail in the second process, inside the group."""
    try:
        with process_group(torch.device("cpu")) as (_, rank, _):
            if rank:
                raise at.DataError("here", "is a fault", "Mend it.")
            dist.barrier()
    finally:
        assert not dist.is_initialized()


@pytest.mark.slow
def test_the_group_is_taken_down_when_a_process_fails():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as caught:
        run_in_processes(2, fail)
    assert "AssertionError" not in str(caught.value)
    assert not dist.is_initialized()


def test_a_process_keeps_the_number_that_torchrun_gave_it(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("RANK", "5")
    number_process(1, 2)
    said = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
    assert said == ["5", "1", "2"]


def test_alone_there_is_no_group():
    cpu = torch.device("cpu")
    with process_group(cpu) as process:
        assert process == (cpu, 0, 1) and not dist.is_initialized()
        layer = torch.nn.Linear(1, 1)
        assert distribute(layer) is layer


# whole runs


@pytest.fixture
def config(tmp_path):
    own = {"run_dir": str(tmp_path / "two"), "dropout": 0.0, "epochs": 3}
    return small_config(tmp_path, PAIRS, **own)


def check_like_alone(config, tmp_path):
    """Check that a run's figures are, epoch by epoch, those of a single process."""
    config = dataclasses.replace(
        config, distributed=False, run_dir=str(tmp_path / "alone")
    )
    text = prepare_text(PAIRS, config.bpe_size)
    train_model(*text, config)
    first, second = (read_metrics(tmp_path / name) for name in ("alone", "two"))
    assert [r["epoch"] for r in first] == [r["epoch"] for r in second] == [1, 2, 3]
    tokens = sum(len(tgt) - 1 for _, tgt in load_examples(config, "train", text))
    for one, two in zip(first, second, strict=True):
        assert one["step"] == two["step"]
        for name in ("valid_nll", "train_criterion"):
            assert one[name] == pytest.approx(two[name], abs=1e-3)
        assert two["tokens_per_second"] * two["seconds"] == pytest.approx(tokens)


@pytest.mark.slow
def test_an_error_in_a_spawned_process_is_one_line(config, tmp_path, capfd):
    (tmp_path / "valid.de").write_text("Ein Hund.\n", encoding="utf-8")
    bad = dataclasses.replace(
        config, distributed=True, valid_src=str(tmp_path / "valid.de")
    )
    assert main(["train", *flags(bad)]) == 2
    said = capfd.readouterr().err
    last = said.splitlines()[-1]
    assert last.startswith(f"error: {tmp_path}") and "have 1 and 7 lines" in last
    assert "Traceback" not in said


KILLED = """
import os, signal, sys
import torch
from transformer_workshop.cli.terminal import main

last, *flags = sys.argv[1:]
real, calls = torch.nn.utils.clip_grad_norm_, []

def clip(*args):
    calls.append(1)
    if os.environ["RANK"] == "1" and len(calls) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)

torch.nn.utils.clip_grad_norm_ = clip
raise SystemExit(main(["train", *flags]))
"""


def torchrun(layout, *argv):
    """Start a launcher that starts one or two processes of a run."""
    command = [sys.executable, "-m", "torch.distributed.run", *layout, *argv]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_others_and_the_run_goes_on(config, tmp_path):
    """Kill the second of two at its fifth update: kill -9, no last words.

    There each has a launcher of its own; then one launcher starts both.
    """
    config = dataclasses.replace(config, save_seconds=0.0)
    program = tmp_path / "program.py"
    program.write_text(KILLED)
    meet = "--nnodes=2 --nproc-per-node=1 --local-addr=127.0.0.1 --rdzv-backend=c10d "
    meet += f"--rdzv-endpoint=127.0.0.1:{free_port()}"
    both = [torchrun(meet.split(), program, "5", *flags(config)) for _ in range(2)]
    with ThreadPoolExecutor() as readers:
        said = list(readers.map(lambda one: one.communicate(timeout=1200)[1], both))
    assert all(launcher.returncode for launcher in both), said
    assert "Signal 9" in "".join(said)
    assert "error: another process of this run" in "".join(said)
    states = saved_steps(tmp_path / "two" / "resume")
    # the first of the two may complete the update before it notices
    assert states[-1].stem in ("step-000004", "step-000005")
    layout = ["--standalone", "--nproc-per-node=2"]
    launcher = torchrun(layout, program, "0", *flags(config))
    assert launcher.communicate(timeout=1200) and launcher.returncode == 0
    check_like_alone(config, tmp_path)


def has_ended(process):
    """Return whether a process is gone, or nobody has asked for its status yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("who", ["worker", "parent"])
def test_of_spawned_processes_none_outlives_the_others(config, tmp_path, who):
    config = dataclasses.replace(
        config, distributed=True, epochs=4000, schedule="inverse_sqrt"
    )
    command = [sys.executable, at.__file__, "train", *flags(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not saved_steps(tmp_path / "two" / "resume"):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = listed.read_text().split()
    workers = [
        int(child)
        for child in children
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]
    assert len(workers) == 2
    if who == "worker":
        os.kill(workers[1], signal.SIGKILL)
        status, last = 2, "Run the same command again to resume."
    else:
        process.terminate()
        status, last = 143, "unless it says --restart."
    said = process.communicate(timeout=1200)[1]
    assert process.returncode == status and "Traceback" not in said
    assert f"{last}\n" in said
    until = time.monotonic() + 1200  # one that only watches the others goes last
    while not all(map(has_ended, children)):
        assert time.monotonic() < until
        time.sleep(0.1)


# devices


def test_batches_arrive_on_their_device(monkeypatch):
    for module in (at, processes):
        monkeypatch.setattr(module, "Batch", lambda src, tgt, pad: (src, tgt))
    process = torch.device("meta"), 1, 2
    made = list(own_batches(examples(), [[0, 1, 2], [3]], process))
    assert [len(src) for src, _ in made] == [1, 0]
    assert {side.device.type for sides in made for side in sides} == {"meta"}


def test_on_the_processor_no_gpu_is_chosen(config, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a GPU was chosen")

    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    config = dataclasses.replace(config, epochs=1)
    train_worker(0, 1, *prepare_text(PAIRS, config.bpe_size), config)
    assert len(read_metrics(config.run_dir)) == 1


def test_the_model_is_trained_on_its_device(config, monkeypatch):
    """Look at the model where it is wrapped for several processes."""

    class Reached(Exception):
        pass

    def reached(model):
        raise Reached({parameter.device.type for parameter in model.parameters()})

    monkeypatch.setattr(runs, "distribute", reached)
    monkeypatch.setattr(inputs, "choose_device", torch.device)
    config = dataclasses.replace(config, device="meta")
    with pytest.raises(Reached, match="^{'meta'}$"):
        train_run(config, prepare_text(PAIRS, config.bpe_size))
