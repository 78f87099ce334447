"""Chapter 92: several processes arrive where a single one does."""

import dataclasses
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

import annotated_transformer as at
from transformer_workshop import processes, runs
from transformer_workshop.runs import read_metrics

MODULE = Path(at.__file__)
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
    return at.shuffled_groups(lengths, 15, at.epoch_draw(1, epoch))


def compute(model, state, smoothing=0.1):
    criterion = at.LabelSmoothing(VOCAB, at.PAD, smoothing)
    return at.SharedLoss(at.SimpleLossCompute(model.generator, criterion), state)


def twenty_steps(folder, accum_iter, max_norm):
    """Take twenty updates with Adam in float64; save the result to a file."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data, sizes = examples(), []
    model = at.make_model(VOCAB, VOCAB, N=1, d_model=8, d_ff=16, h=2, dropout=0.0)
    model.double()
    with at.process_group(torch.device("cpu")) as place:

        def share(groups):
            for batch in at.own_batches(data, groups, place):
                sizes.append(len(batch.src))
                yield batch

        shared = at.distribute(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
        state, epoch = at.Progress(), 0
        while state.accum_step < 20:
            state.begin_epoch(epoch)
            own = share(groups(epoch)[: (20 - state.accum_step) * accum_iter])
            at.run_epoch(
                own, shared, compute(model, state), optimizer, scheduler, "train",
                accum_iter, state, max_norm=max_norm,
            )  # fmt: skip
            epoch += 1
        judged = at.SharedState()
        loss = compute(model, judged, smoothing=0.0)
        at.run_epoch(share(groups()), model, loss, None, None, "eval", 1, judged)
        figures = {
            "steps": state.accum_step,
            "train_criterion": state.criterion,
            "valid_nll": judged.criterion,
            "valid_tokens": judged.epoch_tokens,
            "smallest_share": min(sizes),
        }
        _, rank, world = place
        name = f"{world}-{rank}.safetensors"
        at.save_tensors(Path(folder) / name, model.state_dict(), figures)


@pytest.mark.slow
@pytest.mark.parametrize(("accum_iter", "max_norm"), [(1, None), (3, 0.5)])
def test_two_processes_take_the_steps_of_one(tmp_path, accum_iter, max_norm):
    twenty_steps(tmp_path, accum_iter, max_norm)
    at.run_in_processes(2, twenty_steps, tmp_path, accum_iter, max_norm)
    same_as_alone(tmp_path)


TWENTY_STEPS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_distributed import twenty_steps
twenty_steps(sys.argv[1], 1, None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_processes_of_torchrun_take_the_steps_of_one(tmp_path, nodes):
    program = tmp_path / "program.py"
    program.write_text(TWENTY_STEPS)
    twenty_steps(tmp_path, 1, None)
    for launcher in launch(nodes, program, str(tmp_path)):
        assert launcher.returncode == 0, launcher.stderr
    same_as_alone(tmp_path)


def same_as_alone(folder):
    """Check that two processes arrive where one does, to eight decimals."""
    alone, figures = at.load_with_notes(folder / "1-0.safetensors")
    assert figures["steps"] == 20
    for rank in (0, 1):
        shared, same = at.load_with_notes(folder / f"2-{rank}.safetensors")
        assert alone.keys() == shared.keys()
        assert "generator.proj.weight" in alone  # which runs outside the wrapper
        for name, weight in alone.items():
            assert weight.dtype == torch.float64
            assert (weight - shared[name]).abs().max() < 1e-8, name
        assert same["train_criterion"] == pytest.approx(figures["train_criterion"])
        # each validation sentence once: the same tokens, the same sum
        assert same["valid_tokens"] == figures["valid_tokens"]
        tokens = sum(len(tgt) - 1 for _, tgt in examples())
        assert figures["valid_tokens"] == tokens
        assert same["valid_nll"] == pytest.approx(figures["valid_nll"], abs=1e-9)
    assert figures["smallest_share"] == 1
    assert same["smallest_share"] == 0  # the second process went without


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_shares_of_a_batch_are_the_batch(world, copies):
    cpu, data = torch.device("cpu"), examples()
    shares = [
        at.own_batches(data, groups(2), (cpu, rank, world), copies)
        for rank in range(world)
    ]
    for group, *parts in zip(groups(2), *shares, strict=True):
        for rank, part in enumerate(parts):
            pairs = [data[i] for i in group[rank::world]] * copies
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
    loss, node = compute(model, at.SharedState())(out, batch.tgt_y, 3)
    node.backward()
    assert loss == 0
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and not parameter.grad.any(), name


def test_a_loss_that_is_no_number_in_another_process_stops_this_one(monkeypatch):
    """Pretend that the first of the numbers, the loss, is NaN in another process."""
    monkeypatch.setattr(
        processes, "sum_over_processes", lambda x, *rest: [x + float("nan"), *rest]
    )
    model = at.make_model(VOCAB, VOCAB, N=1, d_model=8, d_ff=16, h=2)
    (batch,) = at.own_batches(examples(), [[0, 1]], (torch.device("cpu"), 0, 1))
    out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    state = at.SharedState(accum_step=6)
    with pytest.raises(FloatingPointError, match="the loss is nan at update 7; the"):
        compute(model, state)(out, batch.tgt_y, batch.ntokens)
    assert state.criterion == 0


def fail():
    """Fail in the second process, inside the group."""
    try:
        with at.process_group(torch.device("cpu")) as (_, rank, _):
            if rank:
                raise at.DataError("here", "is a fault", "Mend it.")
            dist.barrier()
    finally:
        assert not dist.is_initialized()


@pytest.mark.slow
def test_the_group_is_taken_down_when_a_process_fails():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as caught:
        at.run_in_processes(2, fail)
    assert "AssertionError" not in str(caught.value)
    assert not dist.is_initialized()


def test_alone_there_is_no_group():
    cpu = torch.device("cpu")
    with at.process_group(cpu) as place:
        assert place == (cpu, 0, 1) and not dist.is_initialized()
        layer = torch.nn.Linear(1, 1)
        assert at.distribute(layer) is layer


# whole runs


@pytest.fixture
def config(tmp_path):
    own = {"run_dir": str(tmp_path / "alone"), "dropout": 0.0, "epochs": 3}
    return small_config(tmp_path, PAIRS, **own)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def launch(nodes, program, *argv):
    """Run two processes, by one torchrun or by two that meet on the loopback device.

    Return the finished launchers; each one's standard error is in `stderr`.
    """
    command = [sys.executable, "-m", "torch.distributed.run"]
    if nodes == 1:
        command += ["--standalone", "--nproc-per-node", "2"]
    else:
        command += ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
        command += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
        command += ["--local-addr", "127.0.0.1"]
    command += [str(program), *argv]
    environment = os.environ | {"PYTHONPATH": str(MODULE.parent)}
    options = {"stderr": subprocess.PIPE, "text": True, "env": environment}
    launchers = [subprocess.Popen(command, **options) for _ in range(nodes)]
    try:
        with ThreadPoolExecutor() as readers:
            said = readers.map(lambda one: one.communicate(timeout=1200)[1], launchers)
            for launcher, text in zip(launchers, said):
                launcher.stderr = text
    finally:
        for launcher in launchers:
            launcher.kill()
    return launchers


def torchrun(*argv):
    (launcher,) = launch(1, MODULE, *argv)
    return launcher


def agree(one, two):
    """Check that both runs' figures agree, epoch by epoch."""
    first, second = read_metrics(one), read_metrics(two)
    assert [r["epoch"] for r in first] == [r["epoch"] for r in second] != []
    for a, b in zip(first, second, strict=True):
        assert a["valid_nll"] == pytest.approx(b["valid_nll"], abs=1e-3)
        assert a["train_criterion"] == pytest.approx(b["train_criterion"], abs=1e-3)
        assert a["step"] == b["step"]


@pytest.mark.slow
def test_spawned_processes_train_the_model_of_one(config, tmp_path):
    text = at.prepare_text(PAIRS, config.bpe_size)
    at.train_model(*text, config)
    shared = dataclasses.replace(
        config, run_dir=str(tmp_path / "two"), distributed=True
    )
    at.train_model(*text, shared)
    agree(tmp_path / "alone", tmp_path / "two")
    sentence = [PAIRS[0][0]]
    assert at.load_translator(tmp_path / "two").translate(sentence)


@pytest.mark.slow
def test_torchrun_trains_the_model_of_one_and_resumes(config, tmp_path):
    config = dataclasses.replace(config, schedule="inverse_sqrt", base_lr=0.1)
    text = at.prepare_text(PAIRS, config.bpe_size)
    at.train_model(*text, config)
    two = dataclasses.replace(config, run_dir=str(tmp_path / "two"))
    for epochs in (2, 3):  # the second time, it resumes
        more = dataclasses.replace(two, epochs=epochs)
        done = torchrun("train", *flags(more))
        assert done.returncode == 0, done.stderr
    agree(tmp_path / "alone", tmp_path / "two")


KILLED = """
import os, signal, sys
import torch
import annotated_transformer as at

last, *flags = sys.argv[1:]
real, calls = torch.nn.utils.clip_grad_norm_, []

def clip(*args):
    calls.append(1)
    if os.environ["RANK"] == "1" and len(calls) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)

torch.nn.utils.clip_grad_norm_ = clip
raise SystemExit(at.main(["train", *flags]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_worker_that_dies_ends_the_others_and_the_run_goes_on(
    config, tmp_path, nodes
):
    """Kill the second of two at its fifth update: kill -9, no last words."""
    config = dataclasses.replace(config, save_seconds=0.0)
    text = at.prepare_text(PAIRS, config.bpe_size)
    at.train_model(*text, config)
    two = dataclasses.replace(config, run_dir=str(tmp_path / "two"))
    program = tmp_path / "program.py"
    program.write_text(KILLED)
    died = launch(nodes, program, "5", *flags(two))
    assert all(launcher.returncode for launcher in died)
    said = "".join(launcher.stderr for launcher in died)
    assert "Signal 9" in said
    if "error: another process of this run" not in said:  # the launcher was faster
        assert nodes == 1
    states = at.saved_steps(tmp_path / "two" / "resume")
    # the first of the two may complete the update before it notices
    assert states[-1].stem in ("step-000004", "step-000005")
    for launcher in launch(nodes, program, "0", *flags(two)):
        assert launcher.returncode == 0, launcher.stderr
    agree(tmp_path / "alone", tmp_path / "two")


@pytest.mark.slow
def test_a_spawned_worker_that_dies_ends_the_others_too(config, tmp_path):
    config = dataclasses.replace(
        config, distributed=True, epochs=4000, schedule="inverse_sqrt",
        run_dir=str(tmp_path / "two"),
    )  # fmt: skip
    command = [sys.executable, str(MODULE), "train", *flags(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not at.saved_steps(tmp_path / "two" / "resume"):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = [int(child) for child in listed.read_text().split()]
    commands = {w: Path(f"/proc/{w}/cmdline").read_text() for w in workers}
    workers = [w for w in workers if "spawn_main" in commands[w]]
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    said = process.communicate(timeout=1200)[1]
    assert process.returncode == 2 and "Traceback" not in said
    (last,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert last.endswith("Run the same command again to resume.")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.slow
def test_a_wrong_command_under_torchrun_says_why(tmp_path):
    done = torchrun("train", "--dataset", "wmt", "--run-dir", str(tmp_path / "run"))
    assert done.returncode != 0 and "multi30k" in done.stderr


@pytest.mark.slow
def test_an_error_in_a_spawned_process_is_one_line_too(config, tmp_path):
    (tmp_path / "valid.de").write_text("Ein Hund.\n", encoding="utf-8")
    bad = dataclasses.replace(
        config, distributed=True, valid_src=str(tmp_path / "valid.de")
    )
    command = [sys.executable, str(MODULE), "train", *flags(bad)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 2 and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: {tmp_path}") and "have 1 and 7 lines" in last
    assert "Traceback" not in done.stderr


# devices


def test_batches_arrive_on_their_device(monkeypatch):
    for module in (at, processes):
        monkeypatch.setattr(module, "Batch", lambda src, tgt, pad: (src, tgt))
    place = torch.device("meta"), 1, 2
    made = list(at.own_batches(examples(), [[0, 1, 2], [3]], place))
    assert [len(src) for src, _ in made] == [1, 0]
    assert {side.device.type for sides in made for side in sides} == {"meta"}


def test_on_the_processor_no_gpu_is_chosen(config, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a GPU was chosen")

    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    config = dataclasses.replace(config, epochs=1)
    at.train_worker(0, 1, *at.prepare_text(PAIRS, config.bpe_size), config)
    assert len(read_metrics(config.run_dir)) == 1


def test_the_model_is_trained_on_its_device(config, monkeypatch):
    """Look at the model where it is wrapped for several processes."""

    class Reached(Exception):
        pass

    def reached(model):
        raise Reached({parameter.device.type for parameter in model.parameters()})

    monkeypatch.setattr(runs, "distribute", reached)
    monkeypatch.setattr(runs, "choose_device", torch.device)
    config = dataclasses.replace(config, device="meta")
    with pytest.raises(Reached, match="^{'meta'}$"):
        at.train_run(config, at.prepare_text(PAIRS, config.bpe_size))
