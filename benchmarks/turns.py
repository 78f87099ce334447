"""Timing on a machine that others use, too: systems take turns, in rounds.

A busy neighbor slows whatever runs at that moment. So each system works for a
few seconds, then the next one does, round after round; systems are compared
within a round, and the figure is the median of these ratios, with the lowest and
the highest.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transformer_workshop.base.files import log, write_json
from transformer_workshop.base.machine import describe_environment, processor_name

QUIET = 0.1  # cores that other processes may use in a round that counts


@dataclass
class Turn:
    """What a system did in one turn."""

    units: int  # tokens or sentences
    seconds: float
    others: float  # cores that other processes kept busy meanwhile

    @property
    def rate(self) -> float:
        return self.units / self.seconds


def busy_seconds() -> float:
    """Return the processor seconds that all processes have used; 0 if unknown."""
    try:
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    except OSError:
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def turn(step: Callable[[], int], seconds: float) -> Turn:
    """Call ``step``, which returns the units it did, repeatedly for these seconds."""
    busy, own, start = busy_seconds(), time.process_time(), time.perf_counter()
    units = step()
    while time.perf_counter() - start < seconds:
        units += step()
    elapsed = time.perf_counter() - start
    others = busy_seconds() - busy - (time.process_time() - own)
    return Turn(units, elapsed, max(others, 0.0) / elapsed)


def take_turns(
    systems: dict[str, Callable[[], int]], seconds: float, rounds: int
) -> dict[str, list[Turn]]:
    """Give each system ``rounds`` turns, after one uncounted step each."""
    for step in systems.values():
        step()
    turns: dict[str, list[Turn]] = {name: [] for name in systems}
    for number in range(1, rounds + 1):
        for name, step in systems.items():
            turns[name].append(turn(step, seconds))
        rates = ", ".join(
            f"{name} {done[-1].rate:,.0f}" for name, done in turns.items()
        )
        log(f"round {number} of {rounds}: {rates}")
    return turns


def compare(turns: dict[str, list[Turn]], ours: str) -> dict[str, Any]:
    """Return rates, and how many times as fast ``ours`` is, round by round.

    Rounds in which other programs were busy are left out if three others remain.
    """
    rounds = range(len(turns[ours]))
    quiet = [i for i in rounds if all(t[i].others < QUIET for t in turns.values())]
    used = quiet if len(quiet) >= 3 else list(rounds)
    table: dict[str, Any] = {"rounds": len(rounds), "quiet rounds": len(quiet)}
    for name, done in turns.items():
        rates = [done[i].rate for i in used]
        ratios = [turns[ours][i].rate / done[i].rate for i in used]
        table[name] = {
            "rate": round(statistics.median(rates), 1),
            "rate_range": [round(min(rates), 1), round(max(rates), 1)],
            "ours_is": round(statistics.median(ratios), 2),
            "ours_is_range": [round(min(ratios), 2), round(max(ratios), 2)],
        }
    return table


def report(table: dict[str, Any], unit: str) -> None:
    """Print a comparison as a table."""
    counted = f"{table['quiet rounds']} of {table['rounds']} rounds were quiet"
    print(f"\n{unit} per second (median); {counted}")
    for name, row in table.items():
        if isinstance(row, dict):
            low, high = row["ours_is_range"]
            ratio = f"ours is {row['ours_is']:.2f} times ({low:.2f}–{high:.2f})"
            print(f"  {name:34} {row['rate']:>10,.1f}   {ratio}")


def processor() -> str:
    """Return the processor's name and the widest vectors that PyTorch uses on it."""
    return f"{processor_name()}, {torch.backends.cpu.get_cpu_capability()}"


def save(name: str, tables: dict[str, Any], file: str = "bench.json") -> None:
    """Replace part ``name`` of a file in results/ for this kind of processor."""
    path = Path(__file__).resolve().parent.parent / "results" / file
    known = json.loads(path.read_text()) if path.exists() else {}
    parts = known.setdefault(processor(), {})
    parts[name] = {**tables, "environment": describe_environment()}
    write_json(path, known)


# Threads, memory, and the module itself belong to a process. Where two ways differ in
# one of these, each gets a process of its own, and they take turns.


class Worker:
    """A process that does a turn of its work whenever asked."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str] | None = None):
        self.process = subprocess.Popen(
            [sys.executable, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def ask(self) -> dict[str, float]:
        """Let it do one turn; return the seconds, processor seconds, and peak MiB."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self) -> None:
        """Let the process end."""
        self.process.communicate()


def answer(work: Callable[[], Any]) -> None:
    """Act as a worker: time ``work`` once for each line of standard input."""
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": wall, "processor": cpu, "MiB": peak}), flush=True)


def ask_in_turn(workers: Sequence[Worker], rounds: int) -> list[list[dict[str, float]]]:
    """Ask each worker for ``rounds`` turns, after two uncounted ones each.

    Every other round goes in reverse order, so that no worker is always first.
    """
    for worker in workers:
        worker.ask()
        worker.ask()
    taken: list[list[dict[str, float]]] = [[] for _ in workers]
    for number in range(rounds):
        numbered = list(zip(workers, taken, strict=True))
        for worker, turns in reversed(numbered) if number % 2 else numbered:
            turns.append(worker.ask())
    for worker in workers:
        worker.stop()
    return taken


def ratios(
    ours: Sequence[dict[str, float]], others: Sequence[dict[str, float]]
) -> dict[str, list[float]]:
    """Return how many times as long the others took: median, lowest, and highest."""
    summary = {}
    for kind in ("seconds", "processor"):
        pairs = [b[kind] / a[kind] for a, b in zip(ours, others, strict=True)]
        summary[kind] = [round(f(pairs), 3) for f in (statistics.median, min, max)]
    return summary
