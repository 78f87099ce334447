"""What stops a run early, and what does one do then?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from annotated_transformer import DataError, Example, lengths_of
from transformer_workshop.training.checkpoints import Run
from transformer_workshop.training.processes import is_launched
from transformer_workshop.training.run_folder import resume_hint


class Stopped(KeyboardInterrupt):
    """Raised when a signal asks the program to stop; its argument is the number."""


@contextmanager
def raise_on_signal() -> Iterator[None]:
    """Let SIGTERM raise ``Stopped`` in this block, as Ctrl-C does KeyboardInterrupt.

    A signal that the process was told to ignore stays ignored. A process of torchrun
    just ends, as torchrun expects.
    """

    def stop(number: int, frame: object) -> None:
        raise Stopped(number)

    unheard = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    main_thread = threading.current_thread() is threading.main_thread()
    if is_launched() or not (unheard and main_thread):  # other threads can't listen
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory has run out, on any device."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    phrases = ("out of memory", "can't allocate memory")
    return isinstance(error, kinds) or any(phrase in str(error) for phrase in phrases)


@contextmanager
def explain_errors(
    run: Run, examples: Sequence[Example], groups: list[list[int]]
) -> Iterator[None]:
    """Say in a DataError where the run will resume, or which batch is too large."""
    try:
        yield
    except DataError as error:
        do = f"{error.do} {resume_hint(run.folder)}"
        raise DataError(error.where, error.what, do) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or run.state.batches == len(groups):
            raise
        pairs = [examples[i] for i in groups[run.state.batches]]
        longest = max(map(max, lengths_of(pairs)))
        batch = f"batch {run.state.step + 1} ({len(pairs)} pairs of up to {longest})"
        do = (
            f"Lower `batch_tokens` (now {run.config.batch_tokens}), with `accum_iter` "
            "raised as much, or `max_tokens`, or the model; then use `restart`."
        )
        raise DataError(batch, "does not fit into memory", do) from error
