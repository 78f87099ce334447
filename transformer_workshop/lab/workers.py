"""How are many results computed side by side, and none of them twice?"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
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


def compute(
    wanted: Callable[[], dict[Path, tuple]],
    function: Callable[..., Any],
    workers: int | None = None,
    unit: str = "training",
    line: Callable[[Any], str] | None = None,
) -> None:
    """Call ``function`` for each file that is wanted; write what it returns as JSON.

    wanted: returns the missing files, each with the arguments of ``function``; it is
    asked again after each result, which may be enough to want no more, or others.
    workers: processes with a thread each; None: one for each core. The function may
    come from a notebook. What is in a file outlives Ctrl-C and kills.
    line: what to log of each result where a bar can't be seen.
    """
    if not wanted():
        return
    going: dict[Future, Path] = {}
    pool = loky.ProcessPoolExecutor(
        workers or loky.cpu_count(), initializer=_begin, initargs=(os.getpid(),)
    )
    seen = hasattr(builtins, "__IPYTHON__") or sys.stderr.isatty()
    hidden = {} if seen else {"disable": True}  # TQDM_DISABLE hides it, too
    bar = tqdm(unit=unit, leave=False, **hidden)
    try:
        while True:
            for path, arguments in wanted().items():
                if path not in going.values():
                    going[pool.submit(function, *arguments)] = path
            bar.total = bar.n + len(going)
            bar.refresh()
            if not going:
                return
            for future in wait(going, return_when=FIRST_COMPLETED).done:
                path = going.pop(future)
                path.parent.mkdir(parents=True, exist_ok=True)
                result = future.result()
                write_json(path, result)
                bar.update()
                if line and not seen and not os.environ.get("TQDM_DISABLE"):
                    log(line(result))
    except KeyboardInterrupt:
        log("Stopped; what has been computed is kept, and isn't computed again.")
        raise
    finally:
        bar.close()
        pool.shutdown(kill_workers=True)
