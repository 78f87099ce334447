"""Kill a training run again and again: it must end like an undisturbed one.

torture.py            kill -9 twenty times, at least a third in a write
torture.py 3          … that many times
torture.py stops 40   send one SIGINT to each of that many runs

Each start is a fork of this process, so that none has to import everything again. It
reports through shared memory where it is, and the table shows where each kill hit it.
After each kill all files must be whole; at the end the losses, weights, and the whole
last state must be those of an undisturbed run, bit for bit.

How much is saved and trained does not depend on how busy the machine is: the module's
clock counts updates, and the moment of a kill is chosen by counting, too.
"""

import functools
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported; forks need it, too
sys.path[:0] = map(str, Path(__file__).resolve().parents[1:3])

import torch  # noqa: E402
from small_runs import assert_same_run, check_whole  # noqa: E402

from transformer_workshop.base import files  # noqa: E402
from transformer_workshop.base.data_sets import data_file  # noqa: E402
from transformer_workshop.base.text_files import read_lines  # noqa: E402
from transformer_workshop.cli import terminal  # noqa: E402
from transformer_workshop.training import checkpoints  # noqa: E402
from transformer_workshop.training import loop as runs  # noqa: E402
from transformer_workshop.training.checkpoints import Run  # noqa: E402
from transformer_workshop.training.run_folder import run_files, saved_steps  # noqa: E402

HANG = 1200  # seconds
POINTS = (
    "half written",
    "written, not on disk",
    "on disk, not renamed",
    "just renamed",
)


class Failed(Exception):
    """A training run did not survive."""


class Marker:
    """Where a process is, in memory that outlives it."""

    def __init__(self):
        self.updates = multiprocessing.RawValue("q", 0)  # done in this start
        self.text = multiprocessing.RawArray("c", 200)

    def set(self, updates, text):
        self.updates.value, self.text.value = updates, text.encode()[:199]

    @property
    def place(self):
        return self.text.value.decode(errors="replace")


class Halved:
    """A writable file that calls ``between`` amid a write, and ``after`` after it."""

    def __init__(self, file, between, after):
        self.file, self.between, self.after = file, between, after
        self.flush, self.fileno = file.flush, file.fileno

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, data):
        half = len(data) // 2
        for part, then in ((data[:half], self.between), (data[half:], self.after)):
            self.file.write(part)
            self.file.flush()
            then()


def instrument(marker, plan):
    """Make the module tell where it is, and die at ``plan``: (point, n-th time)."""
    counts, updates = dict.fromkeys(POINTS, 0), [0]

    def tell(text):
        marker.set(updates[0], text)

    def point(text, path):
        tell(f"{text}: {Path(path).name.removesuffix('.tmp')}")
        counts[text] += 1
        if plan == (text, counts[text]):
            os.kill(os.getpid(), signal.SIGKILL)

    def opened(path, mode="r", **options):
        file = open(path, mode, **options)
        if mode != "wb":
            return file
        return Halved(file, *(functools.partial(point, p, path) for p in POINTS[:2]))

    def replaced(old, new):
        point(POINTS[2], new)
        replace(old, new)
        point(POINTS[3], new)

    def clipped(*args):
        tell("in an update")
        updates[0] += 1
        return clip(*args)

    def between(run):
        tell("between updates")
        save_if_due(run)

    def epoch(*args, **options):
        tell("beginning an epoch" if "eval" not in args else "validating")
        return run_epoch(*args, **options)

    replace, run_epoch = os.replace, runs.run_epoch
    clip, save_if_due = torch.nn.utils.clip_grad_norm_, Run.save_if_due
    clock = {"monotonic": lambda: float(updates[0])}
    checkpoints.time = SimpleNamespace(**vars(time) | clock)
    files.open, os.replace, runs.run_epoch = opened, replaced, epoch
    torch.nn.utils.clip_grad_norm_, Run.save_if_due = clipped, between
    tell("starting")


def start(config, marker, said, plan=None):
    """Fork a process that trains, printing to the file ``said``; return its id."""
    sys.stdout.flush()
    marker.set(0, "not begun")
    if child := os.fork():
        return child
    status = 99
    try:
        # A shell may have told this process to ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for stream in (1, 2):
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        instrument(marker, plan)
        flags = [f"--{k.replace('_', '-')}={v}" for k, v in config.items()]
        status = terminal.main(["train", *flags])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def settings(folder, epochs):
    """Write part of our own corpus; return the flags of a small training run on it."""
    made = {
        "bpe_size": 400, "N": 1, "d_model": 32, "d_ff": 64, "h": 2, "tie": "all",
        "batch_tokens": 700, "accum_iter": 2, "epochs": epochs, "warmup": 20,
        "base_lr": 0.003, "device": "cpu", "precision": "float32", "keep": 3,
        "save_seconds": 2, "average": 2, "threads": 1,
    }  # fmt: skip
    for side, suffix in (("src", "de"), ("tgt", "en")):
        lines = read_lines(data_file("captions", f"train.{suffix}"))
        for split, part in (("train", lines[:160]), ("valid", lines[160:180])):
            path = folder / f"{split}.{suffix}"
            path.write_text("".join(f"{x}\n" for x in part), encoding="utf-8")
            made[f"{split}_{side}"] = path
    return made


def wait(child, seconds=HANG):
    """Return a child's exit status (signals are negative), or None after a time-out."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def await_updates(count, child, marker, said):
    """Return when a child that trains has done ``count`` updates."""
    while marker.updates.value < count:
        if wait(child, 0.002) is not None:
            raise Failed(said.read_text())


def expect(status, child, said):
    """Wait for a child's end; raise Failed if its status is another one."""
    if (found := wait(child)) != status:
        if found is None:
            os.kill(child, signal.SIGKILL)
        raise Failed(f"status {found}, not {status}\n{said.read_text()}")


def torture(kills, folder, draw):
    """Train undisturbed, then with this many kills, and compare."""
    config = settings(folder, epochs=max(12, 2 * kills))
    said, marker = folder / "said", Marker()
    whole, killed = folder / "whole", folder / "killed"
    expect(0, start(config | {"run_dir": whole}, marker, said), said)
    config["run_dir"] = killed
    inside = 0
    for number in range(1, kills + 1):
        if number % 2:  # inside a write
            plan = draw.choice(POINTS), draw.randint(1, 12)
            child = start(config, marker, said, plan)
        else:  # at a random moment, every other time during training
            child = start(config, marker, said)
            if number % 4:
                await_updates(draw.randint(1, 3), child, marker, said)
            time.sleep(draw.uniform(0, 0.1))
            os.kill(child, signal.SIGKILL)
        expect(-signal.SIGKILL, child, said)
        check_whole(killed)
        place, saved = marker.place, saved_steps(killed / "resume")
        inside += place.startswith(POINTS)
        last = saved[-1].stem if saved else "the beginning"
        print(f"{number:3} killed  {place:50} continues from {last}", flush=True)
    expect(0, start(config, marker, said), said)
    compare(whole, killed)
    if inside * 3 < kills:
        raise Failed(f"only {inside} of {kills} kills were inside a write")
    if "Traceback" in said.read_text():
        raise Failed(said.read_text())
    print(f"{kills} killed, {inside} of them inside a write")
    print("same losses, same weights, same last state, bit for bit")


def compare(one, two):
    """Raise Failed if two runs' folders differ in anything but times."""
    try:
        assert_same_run(one, two)
    except AssertionError as error:
        raise Failed(f"the runs differ: {error}") from None
    names, others = (
        [path.relative_to(x) for path in run_files(x) if "resume" not in path.parts]
        for x in (one, two)
    )
    if names != others or list(two.rglob("*.tmp")):
        raise Failed(f"the files differ: {names}, {others}")


def stops(count, folder, draw):
    """Send each run one SIGINT at a random moment: it must end with status 130."""
    config = settings(folder, epochs=100000) | {"schedule": "inverse_sqrt"}
    config |= {"save_seconds": 0.0}
    for number in range(1, count + 1):
        marker, said = Marker(), folder / f"said-{number}"
        child = start(config | {"run_dir": folder / f"run-{number}"}, marker, said)
        await_updates(1, child, marker, said)
        time.sleep(draw.uniform(0, 0.6))
        updates, place = marker.updates.value, marker.place
        os.kill(child, signal.SIGINT)
        expect(130, child, said)
        note = said.read_text().strip()
        print(f"{number:3} at update {updates:4}, {place:45} {note[-60:]}", flush=True)
    print(f"{count} of {count} ended at once, with status 130")


def main(words):
    """Do what the words ask for; return 0 if all went well."""
    torch.set_num_threads(1)
    draw = random.Random(int(os.environ.get("SEED", "1")))
    what, count = torture, 20
    if words[:1] == ["stops"]:
        what, count, words = stops, 40, words[1:]
    count = int(words[0]) if words else count
    with tempfile.TemporaryDirectory() as folder:
        try:
            what(count, Path(folder), draw)
        except Failed as failed:
            print(f"failed: {failed}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
