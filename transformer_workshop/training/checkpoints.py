"""How does a training run survive a kill?"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from annotated_transformer import Batch, DataError, mean_state
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import (
    append_line,
    load_tensors,
    load_with_notes,
    log,
    reported,
    save_tensors,
    write_atomically,
)
from transformer_workshop.training.processes import SharedState, is_main_process
from transformer_workshop.training.run_folder import read_metrics, saved_steps


def average_checkpoints(paths: Iterable[str | Path]) -> dict[str, Tensor]:
    """Return the mean of checkpoints in safetensors files, to load into a model."""
    return mean_state((str(path), load_tensors(path)) for path in paths)


@dataclass
class Progress(SharedState):
    """How far a run has come; "this epoch" is the one to continue with."""

    epoch: int = 0  # counted from 0; also the number of lines in metrics.jsonl
    batches: int = 0  # of this epoch, already trained on
    seconds: float = 0.0  # training time of these batches
    best: float | None = None  # the lowest validation loss

    def add(self, batch: Batch) -> None:
        """Count one batch."""
        super().add(batch)
        self.batches += 1

    def begin_epoch(self, epoch: int) -> None:
        """Set to zero what counts one epoch."""
        self.epoch, self.batches, self.seconds = epoch, 0, 0.0
        self.criterion_sum, self.epoch_tokens = 0.0, 0


@dataclass
class Run:
    """A training run: everything that it changes, and its files in config.run_dir."""

    config: TrainingConfig
    model: nn.Module
    optimizer: Optimizer
    scheduler: LRScheduler
    examples: str = ""  # a digest; a run doesn't continue on other examples
    precision: str = "float32"  # a run says so if it continues in another
    state: Progress = field(default_factory=Progress)
    saved_at: float = -math.inf  # by this process's clock
    started: float = 0.0  # when this epoch began, by time.perf_counter()

    @property
    def folder(self) -> Path:
        """Where the run's files are."""
        return Path(self.config.run_dir)

    def _generators(self) -> dict[str, Any]:
        """Return what draws random numbers, by device."""
        kind = next(self.model.parameters()).device.type
        other = {kind: getattr(torch, kind)} if kind in ("cuda", "mps") else {}
        return {"cpu": torch.random} | other

    def save_state(self) -> None:
        """Write everything that training changes; delete the states that it replaces.

        The newest two stay, in case one is damaged.
        """
        optimizer = self.optimizer.state_dict()
        tensors = {f"model/{name}": x for name, x in self.model.state_dict().items()}
        for index, slots in optimizer["state"].items():
            tensors |= {f"optimizer/{index}/{name}": x for name, x in slots.items()}
        for kind, generator in self._generators().items():
            tensors[f"random/{kind}"] = generator.get_rng_state()
        notes = {
            "state": asdict(self.state),
            "param_groups": optimizer["param_groups"],
            "scheduler": self.scheduler.state_dict(),
            "examples": self.examples,
            "precision": self.precision,
        }
        path = self.folder / f"resume/step-{self.state.accum_step:06d}.safetensors"
        save_tensors(path, tensors, notes)
        self.saved_at = time.monotonic()
        states = saved_steps(path.parent)
        newest = states.index(path)  # those after it are damaged
        for old in states[: max(0, newest - 1)] + states[newest + 1 :]:
            old.unlink()

    def _load_state(self, path: Path) -> bool:
        """Restore what save_state wrote, or say that it is damaged and return False."""
        try:
            tensors, notes = load_with_notes(path)
        except DataError as error:
            if isinstance(error.__cause__, OSError):  # it may be intact
                raise
            log(f"{path} {error.what}: trying the checkpoint before it.")
            return False
        if notes.get("examples", self.examples) != self.examples:
            what = "was trained on other examples: text or vocabulary have changed"
            do = "Restore them, or start over with `restart`."
            raise DataError(self.folder, what, do)
        generators, weights = self._generators(), {}
        slots: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for key, tensor in tensors.items():
            match key.split("/"):
                case "model", name:
                    weights[name] = tensor
                case "optimizer", index, name:
                    slots[int(index)][name] = tensor
                case "random", kind if kind in generators:
                    generators[kind].set_rng_state(tensor)
        do = "Finish it with that version; config.json says which one it is."
        errors = KeyError, RuntimeError
        with reported(errors, self.folder, "was begun by another version", do):
            saved = notes["state"] | notes.get("place", {})  # 2026.2 had two parts
            self.model.load_state_dict(weights)
        groups = notes["param_groups"]
        self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        self.scheduler.load_state_dict(notes["scheduler"])
        vars(self.state).update(saved)
        if not self.state.batches:  # 2026.2 kept the sums of the epoch before
            self.state.begin_epoch(self.state.epoch)
        then = notes.get("precision", self.precision)
        if then != self.precision and is_main_process():
            log(f"{self.folder}: trained in {then} so far, now in {self.precision}.")
        return True

    def resume(self) -> None:
        """Load the newest readable state, if there is one, and cut the metrics there.

        Raises DataError if it was trained on other examples.
        """
        seed = torch.initial_seed()  # this process's; the state has the first one's
        if states := saved_steps(self.folder / "resume"):
            if not any(map(self._load_state, reversed(states))):
                what = "none of its checkpoints can be read"
                raise DataError(self.folder, what, "Start over with `restart`.")
            self.saved_at = time.monotonic()
        if not is_main_process():  # its dropout differs from the first one's
            torch.manual_seed(seed + self.state.accum_step)
            return
        kept = read_metrics(self.folder)[: self.state.epoch]
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_atomically(self.folder / "metrics.jsonl", text.encode())

    def save_if_due(self) -> None:
        """Save a state if the last one is older than ``config.save_seconds``."""
        age = time.monotonic() - self.saved_at
        if is_main_process() and age >= self.config.save_seconds:
            self.state.seconds = time.perf_counter() - self.started
            self.save_state()

    def save(self, record: dict[str, Any]) -> None:
        """Save the result of an epoch: a line of metrics, best weights, weights, state.

        The best weights are those with the lowest ``record["valid_nll"]``.
        """
        state, loss = self.state, record["valid_nll"]
        epoch, best = state.epoch, state.best is None or loss < state.best
        state.begin_epoch(epoch + 1)
        state.best = loss if best else state.best
        if not is_main_process():
            return
        append_line(self.folder / "metrics.jsonl", record)
        weights, folder = self.model.state_dict(), self.folder / "checkpoints"
        if best:
            about = {"step": state.accum_step, "epoch": epoch, "score": loss}
            save_tensors(self.folder / "best.safetensors", weights, about)
        save_tensors(folder / f"step-{state.accum_step:06d}.safetensors", weights)
        self.save_state()
        for path in saved_steps(folder)[: -self.config.keep]:
            path.unlink()

    def finish(self) -> None:
        """Write model.safetensors, the run's result, and load it into the model.

        The result is the average of the last config.average checkpoints. It is the
        best weights if there is nothing to average, and in a run with patience.
        """
        if not is_main_process():
            return
        self.model.load_state_dict(mean_state(self._to_average()))
        # a threshold chosen for other weights no longer counts
        (self.folder / "confidence.json").unlink(missing_ok=True)
        path, notes = self.folder / "model.safetensors", {"epochs": self.config.epochs}
        save_tensors(path, self.model.state_dict(), notes)

    def _to_average(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """Yield names and weights of the intact checkpoints, or of the best model."""
        count, intact = 1 if self.config.patience else self.config.average, 0
        for path in saved_steps(self.folder / "checkpoints")[-count:]:
            try:
                if count > 1:
                    yield str(path), load_tensors(path)
                    intact += 1
            except DataError as error:
                log(f"{path} {error.what}: left out of the average.")
        if not intact:
            yield "the best", load_tensors(self.folder / "best.safetensors")
