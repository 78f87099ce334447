"""Kill a training run again and again: it must end like an undisturbed one.

python tests/torture.py            kill -9 twenty times, at least a third in a write
python tests/torture.py 3          … that many times
python tests/torture.py stops 40   send one SIGINT to each of that many runs

Each start is a process of its own (a fork of this one, so that none has to import
everything again). It reports through shared memory where it is, and the table shows
where each kill hit it. After each kill all files must be whole; at the end the losses,
weights, and the whole last state must be those of an undisturbed run, bit for bit.

How much is saved and trained does not depend on how busy the machine is: the module's
clock counts updates, and the moment of a kill is chosen by counting, too.
"""

import functools
import json
import mmap
import os
import random
import signal
import stat
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported; forks need it, too
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch  # noqa: E402
from small_runs import Halved  # noqa: E402

import annotated_transformer as at  # noqa: E402
from transformer_workshop import files, runs

SAVE_SECONDS = 2  # on a clock that each update advances by a second
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
        self.memory = mmap.mmap(-1, 256)  # shared with what is forked

    def set(self, updates, text, begun=0.0):
        data = text.encode()[:200]
        head = struct.pack("qdi", updates, begun, len(data))
        self.memory[: 20 + len(data)] = head + data

    def get(self):
        """Return updates in this start, when training began (or 0), and where it is."""
        updates, begun, size = struct.unpack("qdi", self.memory[:20])
        return updates, begun, self.memory[20 : 20 + size].decode(errors="replace")


def instrument(marker, plan):
    """Make the module tell where it is, and die at ``plan``: (point, n-th time)."""
    counts = dict.fromkeys(POINTS, 0)
    updates, begun = [0], [0.0]

    def tell(text, name=""):
        marker.set(updates[0], f"{text}: {name}" if name else text, begun[0])
        if name:
            counts[text] += 1
            if plan == (text, counts[text]):
                os.kill(os.getpid(), signal.SIGKILL)

    def opened(path, mode="r", **options):
        file = open(path, mode, **options)
        if mode != "wb":
            return file
        name = Path(path).name.removesuffix(".tmp")
        return Halved(file, *(functools.partial(tell, p, name) for p in POINTS[:2]))

    replace, run_epoch = os.replace, at.run_epoch
    clip, save_if_due = torch.nn.utils.clip_grad_norm_, at.Run.save_if_due
    fsync = os.fsync

    def replaced(old, new):
        tell(POINTS[2], Path(new).name)
        replace(old, new)
        tell(POINTS[3], Path(new).name)

    def synced(file):
        fsync(file)
        if stat.S_ISDIR(os.fstat(file).st_mode):
            tell("after a write")

    def clipped(*args):
        tell("in an update")
        updates[0] += 1
        return clip(*args)

    def between(run):
        tell("between updates")
        save_if_due(run)

    def epoch(*args, **options):
        begun[0] = begun[0] or time.time()
        tell("beginning an epoch" if "eval" not in args else "validating")
        return run_epoch(*args, **options)

    clock = {"monotonic": lambda: float(updates[0])}
    runs.time = SimpleNamespace(**vars(time) | clock)
    files.open, os.replace, runs.run_epoch = opened, replaced, epoch
    torch.nn.utils.clip_grad_norm_, at.Run.save_if_due = clipped, between
    os.fsync = synced
    tell("starting")


def train(config, marker, plan, said):
    """Fork a process that trains, printing to the file ``said``; return its id."""
    sys.stdout.flush()
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
        status = at.main(["train", *flags])
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
        "save_seconds": SAVE_SECONDS, "average": 2,
    }  # fmt: skip
    for side, suffix in (("src", "de"), ("tgt", "en")):
        lines = at.read_lines(at.data_file("captions", f"train.{suffix}"))
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


def await_updates(child, marker, count, said):
    """Return when a child that trains has done ``count`` updates."""
    while not marker.get()[1] or marker.get()[0] < count:
        if wait(child, 0.002) is not None:
            raise Failed(said.read_text())


def check_whole(folder):
    """Check that every file under its final name can be read to the end."""
    for path in at.run_files(folder):
        if path.suffix == ".json":
            at.read_json(path)
        elif path.suffix == ".safetensors":
            at.load_with_notes(path)


def newest(folder):
    """Return the updates in the newest state, and when it was written."""
    states = at.saved_steps(folder / "resume")
    if not states:
        return 0, time.time()
    return int(states[-1].stem[5:]), states[-1].stat().st_mtime


def torture(kills, folder, draw):
    """Train undisturbed, then with this many kills, and compare."""
    config = settings(folder, epochs=max(12, 2 * kills))
    said, marker = folder / "said", Marker()
    started = time.monotonic()
    whole = config | {"run_dir": folder / "whole"}
    if (status := wait(train(whole, marker, None, said))) != 0:
        raise Failed(f"status {status} undisturbed:\n{said.read_text()}")
    print(f"undisturbed: {time.monotonic() - started:.1f} s of training")

    config |= {"run_dir": folder / "killed"}
    inside, most = 0, 0.0
    for number in range(1, kills + 1):
        planned = number % 2 == 1  # every other one inside a write
        plan = (draw.choice(POINTS), draw.randint(1, 12)) if planned else None
        marker.set(0, "not begun")
        child = train(config, marker, plan, said)
        if planned:
            status = wait(child)
        else:  # at a random moment, every other time during training
            if number % 4:
                await_updates(child, marker, draw.randint(0, 3), said)
            status = wait(child, draw.uniform(0, 0.1))
        if status is None:
            os.kill(child, signal.SIGKILL)
            status = wait(child)
        killed_at = time.time()
        if status != -signal.SIGKILL:
            raise Failed(f"start {number}: status {status}\n{said.read_text()}")
        _, begun, place = marker.get()
        check_whole(folder / "killed")
        saved, when = newest(folder / "killed")
        lost = killed_at - max(when, begun) if begun else 0.0  # seconds of training
        in_write = place.startswith(POINTS)
        inside += in_write
        most = max(most, lost)
        print(
            f"{number:3} killed {'in a write' if in_write else '          '}  "
            f"{place:50} continues from {saved:4}, {lost:.2f} s lost",
            flush=True,
        )
    if (status := wait(train(config, marker, None, said))) != 0:
        raise Failed(f"the last start: status {status}\n{said.read_text()}")
    compare(folder / "whole", folder / "killed")
    if inside * 3 < kills:
        raise Failed(f"only {inside} of {kills} kills were inside a write")
    if "Traceback" in said.read_text():
        raise Failed(said.read_text())
    print(f"{kills} killed, {inside} of them inside a write; at most {most:.2f} s lost")
    print("same losses, same weights, same last state, bit for bit")


def compare(one, two):
    """Raise Failed if two runs' folders differ in anything but times."""
    records = [
        [{k: v for k, v in r.items() if "second" not in k} for r in at.read_metrics(x)]
        for x in (one, two)
    ]
    if records[0] != records[1] or not records[0]:
        raise Failed("the losses differ:\n" + "\n".join(map(json.dumps, records)))
    names = [
        [p.relative_to(x) for p in at.run_files(x) if "resume" not in p.parts]
        for x in (one, two)
    ]
    if names[0] != names[1]:
        raise Failed(f"the files differ: {names}")
    last = at.saved_steps(one / "resume")[-1].relative_to(one)
    for name in [*names[0], last]:
        if name.suffix == ".safetensors":
            first, second = (at.load_tensors(x / name) for x in (one, two))
            same = first.keys() == second.keys() and all(
                torch.equal(tensor, second[key]) for key, tensor in first.items()
            )
            if not same:
                raise Failed(f"{name} differs")
    if list(two.rglob("*.tmp")):
        raise Failed("half a file was left")


def stops(count, folder, draw):
    """Send each run one SIGINT at a random moment: it must end with status 130."""
    config = settings(folder, epochs=100000) | {"schedule": "inverse_sqrt"}
    config |= {"save_seconds": 0.0}
    statuses = []
    for number in range(1, count + 1):
        marker, said = Marker(), folder / f"said-{number}"
        config["run_dir"] = folder / f"run-{number}"
        child = train(config, marker, None, said)
        while not at.saved_steps(config["run_dir"] / "resume"):
            if wait(child, 0.01) is not None:
                raise Failed(said.read_text())
        time.sleep(draw.uniform(0, 0.6))
        updates, _, place = marker.get()
        os.kill(child, signal.SIGINT)
        status = wait(child)
        if status is None:
            os.kill(child, signal.SIGKILL)
            wait(child)
        statuses.append(status)
        note = said.read_text().strip()
        print(f"{number:3} at update {updates:4}, {place:45} {status}: {note[-60:]}")
    wrong = [status for status in statuses if status != 130]
    print(f"{count - len(wrong)} of {count} ended at once, with status 130")
    if wrong:
        raise Failed(f"others: {wrong}")


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
