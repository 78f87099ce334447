"""What does a run show while it trains?"""

from __future__ import annotations

import math
import sys
import time
from datetime import timedelta
from typing import Any

from annotated_transformer import optional_import
from transformer_workshop.training.checkpoints import Run
from transformer_workshop.training.processes import is_main_process

_TIMED = 20  # seconds of an epoch over which to measure a run's speed
_SILENT = 5  # seconds between two lines about epochs, at least


class Meter:
    """Show on standard error how far a run is: a bar in a terminal, and lines.

    The bar counts the target tokens of all processes.
    """

    def __init__(self, run: Run, tokens: int) -> None:
        self.run = run
        self.tokens = tokens  # in an epoch
        self.said = -math.inf  # when it last wrote a line about the time
        self.bar = optional_import("tqdm").tqdm(
            total=tokens * run.config.epochs,
            initial=self.trained(),
            unit="tok",
            unit_scale=True,
            leave=False,
            disable=None if is_main_process() else True,
        )

    def trained(self) -> int:
        """Return the number of target tokens trained on, over all processes."""
        return self.run.state.epoch * self.tokens + self.run.state.epoch_tokens

    def time_left(self, speed: float) -> str:
        """Return hours:minutes:seconds at so many tokens per second."""
        rest = self.tokens * self.run.config.epochs - self.trained()
        return str(timedelta(seconds=round(rest / speed)))

    def say(self, message: str) -> None:
        """Write a line to standard error, in the main process only."""
        if is_main_process():
            self.bar.write(message, file=sys.stderr)

    def say_epoch(self, record: dict[str, Any]) -> None:
        """Write a line about an epoch; none about some of those that take a moment."""
        epoch, epochs = record["epoch"], self.run.config.epochs
        if time.perf_counter() - self.said < _SILENT and epoch < epochs:
            return
        self.said = time.perf_counter()
        speed = record["tokens_per_second"]
        left = f", {self.time_left(speed)} left" if epoch < epochs else ""
        self.say(
            f"epoch {epoch}/{epochs}: loss {record['train_criterion']:.3f}, validation "
            f"{record['valid_nll']:.3f} (perplexity {record['perplexity']:.2f}), "
            f"{speed:,.0f} tokens/s{left}"
        )

    def update(self) -> None:
        """Show the update that was just made; once, say how long the run will take."""
        state, seconds = self.run.state, time.perf_counter() - self.run.started
        self.bar.set_description(f"epoch {state.epoch + 1}", refresh=False)
        self.bar.set_postfix(loss=f"{state.criterion:.3f}", refresh=False)
        self.bar.update(self.trained() - self.bar.n)
        if seconds >= _TIMED and self.said == -math.inf:
            self.said = time.perf_counter()
            speed = state.epoch_tokens / seconds
            left = self.time_left(speed)
            self.say(f"{speed:,.0f} target tokens a second: {left} left")
