"""How does a training run survive a kill?"""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from annotated_transformer import (
    PAD,
    Batch,
    DataError,
    EncoderDecoder,
    Example,
    SimpleLossCompute,
    Text,
    TrainState,
    epoch_rng,
    lengths_of,
    mean_state,
    optional_import,
    rate,
    run_epoch,
    shuffled_groups,
    token_budget_batches,
)
from transformer_workshop.base.files import (
    append_line,
    load_tensors,
    load_with_notes,
    log,
    report_unwritable,
    reported,
    save_tensors,
    write_atomically,
    write_json,
)
from transformer_workshop.base.machine import describe_environment, gpu_report
from transformer_workshop.base.settings import MAY_CHANGE, TrainingConfig, run_settings
from transformer_workshop.models.engine import is_exported
from transformer_workshop.models.muon import build_optimizers
from transformer_workshop.models.speed import (
    LeanLabelSmoothing,
    autocast,
    choose_precision,
    keep_freed_memory,
    optimize_for_cpu,
)
from transformer_workshop.models.translator import Translator
from transformer_workshop.text.corpora import changed, digest_of, digests_of, pack_text
from transformer_workshop.training.own_data import report_worth
from transformer_workshop.training.processes import (
    SharedLoss,
    SharedState,
    check_gradients,
    distribute,
    is_launched,
    is_main_process,
    own_batches,
    process_group,
    run_in_processes,
)
from transformer_workshop.training.set_up import Setup, first_model, set_up

_RUN_FILES = """
    config.json vocabulary.json confidence.json metrics.jsonl
    best.safetensors model.safetensors
    checkpoints/step-[0-9]*.safetensors resume/step-[0-9]*.safetensors
""".split()


def run_files(folder: Path, ending: str = "") -> list[Path]:
    """Return a folder's files that a run wrote; with ".tmp", those left unfinished."""
    return [p for name in _RUN_FILES for p in sorted(folder.glob(name + ending))]


def saved_steps(folder: Path) -> list[Path]:
    """Return a folder's step-….safetensors files, oldest first."""
    files = [p for p in folder.glob("step-*.safetensors") if p.stem[5:].isdecimal()]
    return sorted(files, key=lambda path: int(path.stem[5:]))


def starts_so_far(config: TrainingConfig, restart: bool = False) -> list[Any]:
    """Return the starts of the run that a configuration continues; none if it is new.

    Raises DataError if the folder contains a run with another configuration, or
    anything else. A setting that did not exist yet when the run started had its
    default value.
    """
    folder = Path(config.run_dir)
    if is_exported(folder):
        what = "holds a model that was exported for an inference engine"
        raise DataError(folder, what, "Choose another `run_dir`.")
    files = run_files(folder)
    settings = run_settings(folder) if files else {}
    if restart or not any(path.suffix == ".safetensors" for path in files):
        return []
    there = asdict(TrainingConfig()) | settings["config"]
    free = set(MAY_CHANGE)
    if config.epochs > there["epochs"] or config.schedule != "linear":
        free.add("epochs")  # with more of them, a linear schedule's rate rises again
    differ = [
        f"{name} ({there[name]} there, {value} now)"
        for name, value in asdict(config).items()
        if there[name] != value and name not in free
    ]
    if differ:
        what = "holds a run of another configuration: " + ", ".join(differ)
    elif not saved_steps(folder / "resume"):
        what = "holds weights, but no checkpoint to continue from"
    elif texts := changed(settings.get("text", {}), config):
        what = f"holds a run on another text: {texts} has changed since"
    else:
        return settings["starts"]
    do = "Choose another `run_dir`, or delete that run with `restart`."
    raise DataError(folder, what, do)


def open_run_folder(
    config: TrainingConfig, starts: list[Any], restart: bool = False
) -> None:
    """Prepare the folder of a run with these starts so far.

    restart: delete the run in the folder first.
    """
    folder = Path(config.run_dir)
    unfinished = run_files(folder, ".tmp")  # left by an interrupted write
    for path in [*unfinished, *(reversed(run_files(folder)) if restart else ())]:
        path.unlink()
    now = describe_environment()
    starts = starts if now in starts[-1:] else [*starts, now]
    about = {"config": asdict(config), "starts": starts, "text": digests_of(config)}
    write_json(folder / "config.json", about)


def is_finished(config: TrainingConfig) -> bool:
    """Return whether a model trained for all of the configuration's epochs exists."""
    path = Path(config.run_dir, "model.safetensors")
    try:
        return path.exists() and load_with_notes(path)[1]["epochs"] >= config.epochs
    except DataError as error:
        log(f"{error.where} {error.what}: making it again.")
        return False


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """Return the records in a run's metrics.jsonl, except for an incomplete last one.

    Raises DataError if any other line is damaged.
    """
    path, do = Path(folder) / "metrics.jsonl", "Restore it from a copy, or delete it."
    with reported(ValueError, path, "is not JSON ({})", do):
        text = path.read_text("utf-8") if path.exists() else ""
        *lines, _ = text.split("\n")  # what follows the last newline is incomplete
        return json.loads("[" + ",\n".join(lines) + "]")


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from training in a folder inside this block.

    Of a run's processes, the first one claims it. A folder that is still empty at the
    end is removed if it was not there before. Raises DataError if another process has
    claimed it.
    """
    if not is_main_process():
        yield
        return
    filelock, path = optional_import("filelock"), folder / "run.lock"
    what = "is in use: another process is training in it"
    do = "Wait until that one has ended, or choose another `run_dir`."
    with report_unwritable(folder), reported(filelock.Timeout, folder, what, do):
        made = [p for p in (folder, *folder.parents) if not p.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        claim = filelock.FileLock(path).acquire(blocking=False)
    try:
        with claim:
            try:
                yield
            finally:
                with suppress(OSError):  # Windows deletes it after the release
                    path.unlink()
    finally:
        with suppress(OSError):  # not empty
            for empty in made:
                empty.rmdir()


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

        The result is the average of the last config.average checkpoints, or the best
        weights if there is nothing to average.
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
        count, intact = self.config.average, 0
        for path in saved_steps(self.folder / "checkpoints")[-count:]:
            try:
                if count > 1:
                    yield str(path), load_tensors(path)
                    intact += 1
            except DataError as error:
                log(f"{path} {error.what}: left out of the average.")
        if not intact:
            yield "the best", load_tensors(self.folder / "best.safetensors")


def resume_hint(folder: Path) -> str:
    """Return a sentence that says where the same command will resume."""
    states = saved_steps(folder / "resume")
    if not states:
        return "The same command starts over."
    last = states[-1].stem
    return f"The same command continues from {last}, unless it says `restart`."


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
def _explain_errors(
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


_TIMED = 20  # seconds of an epoch over which to measure a run's speed
_SILENT = 5  # seconds between two lines about epochs, at least


class _Meter:
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


def build_losses(
    model: EncoderDecoder, config: TrainingConfig
) -> tuple[SimpleLossCompute, SimpleLossCompute]:
    """Return the training loss, and validation's: the negative log-likelihood."""
    generator = model.generator
    size = generator.proj.out_features
    smoothed = LeanLabelSmoothing(size, PAD, config.smoothing)
    plain = LeanLabelSmoothing(size, PAD)
    return SimpleLossCompute(generator, smoothed), SimpleLossCompute(generator, plain)


def stable_rate(step: int, peak: float, warmup: int, total: int, decay: float) -> float:
    """Return ``linear_rate``, but at its peak until the last ``decay`` of the run.

    From ``decay`` = 1 on, the two are the same.
    """
    falling = max(min(total + 1 - warmup, decay * total), 1)
    height = min(step / warmup, 1.0, (total + 1 - step) / falling)
    return peak * max(height, 0.0)


def schedule_of(config: TrainingConfig, total: int) -> Callable[[int], float]:
    """Return the learning rate's schedule for a run of ``total`` updates."""
    peak, warmup = config.base_lr, config.warmup
    if config.schedule == "linear":
        return lambda step: stable_rate(step, peak, warmup, total, config.decay)
    return lambda step: rate(step, config.d_model, peak, warmup)


def train_resumably(setup: Setup, report: bool = False) -> None:
    """Train in an open folder, from where the run stopped, alone or as one of several.

    Writes metrics, checkpoints, and the model to config.run_dir. ``report``: say at the
    end what the model is worth.
    """
    torch.set_num_threads(setup.config.threads)
    keep_freed_memory()
    with process_group(setup.device) as process:
        _train(setup, process, report)


def count_updates(
    examples: Sequence[Example], batch_tokens: int, epochs: int, accum_iter: int = 1
) -> int:
    """Count the optimizer's updates in a whole run."""
    groups = token_budget_batches(lengths_of(examples), batch_tokens)
    return epochs * math.ceil(len(groups) / accum_iter)


def _train(setup: Setup, process: tuple[torch.device, int, int], report: bool) -> None:
    """Train on this process's share of each batch."""
    config, text = setup.config, setup.text
    examples, valid_examples = setup.train, setup.valid
    device, rank, _ = process
    precision = choose_precision(config.precision, device)
    valid_groups = token_budget_batches(lengths_of(valid_examples), config.batch_tokens)
    model = setup.model or first_model(config, text, setup.starts)
    model.to(device)
    optimize_for_cpu(model)
    shared = distribute(model)
    torch.manual_seed(config.seed + rank)  # dropout differs between processes
    updates = count_updates(
        examples, config.batch_tokens, config.epochs, config.accum_iter
    )
    if rank == 0 and config.warmup > updates:
        log(
            f"warmup={config.warmup} is longer than the run of {updates} updates, so "
            "its rate never reaches the peak. Use a lower warmup or more epochs."
        )
    schedule = schedule_of(config, updates)
    optimizer, scheduler = build_optimizers(model, schedule, config.optimizer)
    train_loss, valid_loss = build_losses(model, config)

    run = Run(config, model, optimizer, scheduler, digest_of(examples), precision)
    state = run.state
    check_gradients(optimizer, state)
    run.resume()
    if rank == 0:
        write_json(run.folder / "vocabulary.json", pack_text(text))
    tokens = sum(len(tgt) - 1 for _, tgt in examples)
    meter = _Meter(run, tokens)

    def after_update(_: TrainState) -> None:
        run.save_if_due()
        meter.update()

    with meter.bar:
        for epoch in range(state.epoch, config.epochs):
            rng = epoch_rng(config.seed, epoch)
            groups = shuffled_groups(lengths_of(examples), config.batch_tokens, rng)
            with _explain_errors(run, examples, groups):
                run.started = time.perf_counter() - state.seconds
                run.save_if_due()
                if left := groups[state.batches :]:  # none: stopped at the epoch's end
                    with autocast(precision, device):
                        run_epoch(
                            own_batches(examples, left, process),
                            shared,
                            SharedLoss(train_loss, state),
                            optimizer,
                            scheduler,
                            accum_iter=config.accum_iter,
                            train_state=state,
                            max_norm=config.max_norm,
                            callback=after_update,
                        )
                seconds = time.perf_counter() - run.started
                valid = SharedState(accum_step=state.accum_step)
                own = own_batches(valid_examples, valid_groups, process)
                loss = SharedLoss(valid_loss, valid)
                run_epoch(own, model, loss, None, None, "eval", train_state=valid)
                record = {
                    "epoch": epoch + 1,
                    "step": state.accum_step,
                    "train_criterion": state.criterion,  # smoothed, as minimized
                    "valid_nll": valid.criterion,  # nats per target token
                    "perplexity": _perplexity(valid.criterion),
                    "tokens_per_second": state.epoch_tokens / seconds,
                    "seconds": seconds,
                    "precision": precision,
                    "lr": float(scheduler.get_last_lr()[0]),
                }
                run.save(record)
            if report:
                meter.say_epoch(record)
            if device.type == "cuda":
                meter.say("; ".join(gpu_report()))
    run.finish()
    if report and rank == 0:
        alone = own_batches(valid_examples, valid_groups, (device, 0, 1))
        nats, _ = run_epoch(alone, model, valid_loss, None, None, "eval")
        translator = Translator(model, text, config)
        records = read_metrics(run.folder)
        report_worth(translator, examples, valid_examples, _perplexity(nats), records)


def _perplexity(nats: float) -> float:
    return math.exp(min(nats, 700))  # more overflows


def train_set_up(setup: Setup, restart: bool = False, report: bool = False) -> None:
    """Train a run that is set up, in its claimed folder, from where it stopped.

    Trains in this process or, with ``config.distributed``, in new ones on this machine:
    one per GPU, or two without GPUs. They see the batches that a single process would,
    so the model is the same, apart from rounding and from dropout. Under torchrun this
    process does its share. restart: delete the folder's run first; report: say at the
    end what the model is worth. Raises DataError, and FloatingPointError.
    """
    if is_main_process():
        open_run_folder(setup.config, setup.starts, restart)
    if not setup.config.distributed or is_launched():
        train_resumably(setup, report)
        return
    count = torch.cuda.device_count() if setup.device.type == "cuda" else 2
    # the tensors of a model that is passed on would be shared
    run_in_processes(count, train_resumably, replace(setup, model=None), report)


def train_run(
    config: TrainingConfig, text: Text, restart: bool = False, report: bool = False
) -> None:
    """Do what the command `train` does, with a text that is known already.

    Does nothing if the run is finished, unless ``restart`` is set. For the rest see
    ``train_set_up``.
    """
    with claim_folder(Path(config.run_dir)):
        starts = starts_so_far(config, restart)
        if restart or not is_finished(config):
            train_set_up(set_up(config, starts, text), restart, report)
