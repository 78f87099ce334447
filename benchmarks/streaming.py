"""Measure whether `translate` needs more memory for longer texts, and when it answers.

    python benchmarks/streaming.py [--lines 1000 100000]

Sends our own captions through a pipe, to be translated greedily. Prints the peak
resident memory for each number of lines, and checks that the first answer comes before
the last line has been sent.
"""

import argparse
import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import annotated_transformer as at

PROGRAM = Path(at.__file__)
MODEL = PROGRAM.parent / "models" / "captions"


def peak_memory(process: subprocess.Popen) -> float:
    """Return a running process's peak resident memory so far, in MiB (Linux only)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


PATIENCE = 60  # seconds to wait for a first answer before the last line is sent


def translate(lines: int) -> tuple[float, float, bool]:
    """Return peak memory in MiB, lines per second, and whether an answer came early."""
    sentences = at.read_lines(at.data_file("captions", "test.de"))
    command = [sys.executable, str(PROGRAM), "translate", "--model", str(MODEL)]
    with subprocess.Popen(
        [*command, "--beam-size", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        early = []

        def send() -> None:
            for sentence in itertools.islice(itertools.cycle(sentences), lines - 1):
                process.stdin.write(sentence.encode() + b"\n")
            process.stdin.flush()
            early.append(answered.wait(PATIENCE))
            process.stdin.write(b"Ein Hund.\n")
            process.stdin.flush()

        answered = threading.Event()
        start = time.perf_counter()
        threading.Thread(target=send, daemon=True).start()
        process.stdout.readline()
        answered.set()
        for _ in range(lines - 1):
            process.stdout.readline()
        seconds = time.perf_counter() - start
        peak = peak_memory(process)
        process.stdin.close()
    return peak, lines / seconds, early[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, nargs="+", default=[1000, 100_000])
    arguments, peaks = parser.parse_args(), {}
    if min(arguments.lines) < 2:
        parser.error(
            "--lines must be at least 2: the last line is sent after an answer"
        )
    for lines in arguments.lines:
        peaks[lines], rate, early = translate(lines)
        assert early, "no answer before the last line was sent"
        print(f"{lines:8,} lines  {rate:5,.0f} a second, peak {peaks[lines]:,.0f} MiB")
    least, most = min(peaks.values()), max(peaks.values())
    print(f"the largest peak is {most / least - 1:.1%} above the smallest")


if __name__ == "__main__":
    main()
