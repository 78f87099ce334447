"""How are many results computed at once, and none of them twice?"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

import loky
import torch
from tqdm import tqdm

from transformer_workshop.base.files import log, write_json
from transformer_workshop.models.speed import keep_freed_memory


def _begin(parent: int) -> None:
    """Let a worker use one thread, and end when the program that started it ends."""
    torch.set_num_threads(1)
    keep_freed_memory()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)  # the program writes the results, so none is half written

    threading.Thread(target=watch, daemon=True).start()


class WorkerDied(RuntimeError):
    """A process ended by itself; ``jobs`` has the keys of what was being computed."""

    def __init__(self, jobs: list[Any]) -> None:
        super().__init__(
            "a worker process ended by itself, as it does without enough memory, or if"
            " something that it calls crashes. With workers=1, one sees which job it is"
        )
        self.jobs = jobs


def tell(progress: str) -> None:
    """Log how far one is, unless TQDM_DISABLE is set."""
    if not os.environ.get("TQDM_DISABLE"):
        log(progress)


def compute(
    wanted: Callable[[], Mapping[Any, tuple]],
    function: Callable[..., Any],
    workers: int | None = None,
    keep: Callable[[Any, Any], Any] = write_json,
    progress: Callable[[], str] = str,
) -> None:
    """Call ``function`` for each result that is wanted, in processes of one thread.

    wanted: returns what is missing: by key, the arguments of ``function``, the most
    urgent first. It is asked again after each result, which may be enough to want no
    more, or others.
    keep: gets each key and result. Without it, keys are paths of files, to which
    results are written as JSON. What is in a file outlives Ctrl-C and kills. A line
    that it returns is logged, unless ``progress`` can be shown in its place.
    progress: returns how far one is. It is shown on a line that is written again and
    again; where that can't be seen, it follows the lines of results.
    workers: processes; None: one for each core. The function may come from a notebook.
    Sets of strings have one order in all of them. Raises WorkerDied.
    """
    if not wanted():
        return
    going: dict[Future, Any] = {}
    workers = workers or loky.cpu_count()
    pool = loky.ProcessPoolExecutor(
        workers,
        initializer=_begin,
        initargs=(os.getpid(),),
        env={"PYTHONHASHSEED": "0"},
    )
    seen = hasattr(builtins, "__IPYTHON__") or sys.stderr.isatty()
    hidden = {} if seen else {"disable": True}  # TQDM_DISABLE hides it, too
    bar = tqdm(bar_format="{desc}", leave=False, **hidden)
    try:
        while True:
            begun = set(going.values())
            waiting = [job for job in wanted().items() if job[0] not in begun]
            for key, arguments in waiting[: workers - len(going)]:
                going[pool.submit(function, *arguments)] = key
            bar.set_description_str(progress())
            if not going:
                return
            for future in wait(going, return_when=FIRST_COMPLETED).done:
                result = future.result()
                line = keep(going.pop(future), result)
                if line and not seen:
                    far = progress()
                    tell(f"{line} ({far})" if far else line)
    except loky.BrokenProcessPool:
        raise WorkerDied(list(going.values())) from None
    finally:
        bar.close()
        pool.shutdown(kill_workers=True)
