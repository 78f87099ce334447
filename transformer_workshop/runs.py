"""How does a training run survive a kill?"""

from __future__ import annotations

import itertools
import json
import math
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
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
    LabelSmoothing,
    SimpleLossCompute,
    Text,
    TrainState,
    build_optimizer,
    epoch_draw,
    gpu_report,
    lengths_of,
    linear_rate,
    mean_state,
    optional_import,
    rate,
    read_lines,
    run_epoch,
    shuffled_groups,
    token_budget_batches,
)
from transformer_workshop.corpora import digest_of, load_examples, pack_text
from transformer_workshop.engine import is_exported
from transformer_workshop.files import (
    append_line,
    load_state,
    load_tensors,
    load_with_notes,
    log,
    report_unwritable,
    save_tensors,
    write_atomically,
    write_json,
)
from transformer_workshop.machine import choose_device, describe_environment
from transformer_workshop.own_data import report_worth
from transformer_workshop.processes import (
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
from transformer_workshop.recipes import RDrop
from transformer_workshop.settings import MAY_CHANGE, TrainingConfig, run_settings
from transformer_workshop.speed import (
    LeanLabelSmoothing,
    autocast,
    choose_precision,
    keep_freed_memory,
    optimize_for_cpu,
)
from transformer_workshop.translator import Translator, build_model

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
    found = [p for p in folder.glob("step-*.safetensors") if p.stem[5:].isdecimal()]
    return sorted(found, key=lambda path: int(path.stem[5:]))


def _starts_so_far(config: TrainingConfig, restart: bool = False) -> list[Any]:
    """Return the starts of the run that a configuration continues; none if it is new.

    Raises DataError if the folder contains a run with another configuration, or
    anything else. A setting that did not exist yet when the run started had its
    default value.
    """
    folder, other = Path(config.run_dir), "Choose another --run-dir"
    if is_exported(folder):
        what = "holds a model that was exported for an inference engine"
        raise DataError(folder, what, f"{other}.")
    files = run_files(folder)
    settings = run_settings(folder) if files else {}
    if restart or not any(path.suffix == ".safetensors" for path in files):
        return []
    there = asdict(TrainingConfig()) | settings["config"]
    more = config.epochs > there["epochs"]  # a linear schedule's rate then rises again
    free = MAY_CHANGE | ({"epochs"} if more or config.schedule != "linear" else set())
    differ = [
        f"{name} ({there[name]} there, {value} now)"
        for name, value in asdict(config).items()
        if there[name] != value and name not in free
    ]
    if differ:
        what = "holds a run of another configuration: " + ", ".join(differ)
        raise DataError(folder, what, f"{other}, or delete that run with --restart.")
    if not saved_steps(folder / "resume"):
        what = "holds weights, but no checkpoint to continue from"
        raise DataError(folder, what, f"{other}, or delete them with --restart.")
    return settings["starts"]


def open_run_folder(config: TrainingConfig, restart: bool = False) -> None:
    """Prepare a run's folder, or raise DataError and leave it unchanged.

    restart: delete the run in the folder first. In a distributed run, only the main
    process does anything here.
    """
    if not is_main_process():
        return
    folder, starts = Path(config.run_dir), _starts_so_far(config, restart)
    unfinished = run_files(folder, ".tmp")  # left by an interrupted write
    for path in [*unfinished, *(reversed(run_files(folder)) if restart else ())]:
        path.unlink()
    now = describe_environment()
    starts += [now] if now not in starts[-1:] else []
    write_json(folder / "config.json", {"config": asdict(config), "starts": starts})


def is_finished(config: TrainingConfig) -> bool:
    """Return whether a model trained for all of the configuration's epochs exists.

    Raises DataError if its folder contains anything but this run.
    """
    _starts_so_far(config)
    path = Path(config.run_dir, "model.safetensors")
    try:
        notes = load_with_notes(path)[1] if path.exists() else {}
    except DataError as error:
        log(f"{error.where} {error.what}: making it again.")
        return False
    return notes.get("epochs", 0) >= config.epochs


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """Return the records in a run's metrics.jsonl, except for an incomplete last one.

    Raises DataError if any other line is damaged.
    """
    path = Path(folder) / "metrics.jsonl"
    lines = read_lines(path) if path.exists() else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines):
                do = "Restore the file from a copy, or delete it."
                raise DataError(f"{path}, line {number}", "is not JSON", do) from error
    return records


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from training in a folder inside this block.

    Only the main process of a distributed run claims it. Raises DataError if another
    process has.
    """
    if not is_main_process():
        yield
        return
    filelock = optional_import("filelock")
    path = folder / "run.lock"
    with report_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            claim = filelock.FileLock(path).acquire(blocking=False)
        except filelock.Timeout as error:
            what = "is in use: another process is training in it"
            do = "Wait until that one has ended, or choose another --run-dir."
            raise DataError(folder, what, do) from error
    with claim:
        try:
            yield
        finally:
            with suppress(OSError):  # Windows deletes it after the release
                path.unlink()


def average_checkpoints(paths: Iterable[str | Path]) -> dict[str, Tensor]:
    """Return the mean of checkpoints in safetensors files, to load into a model."""
    return mean_state((str(path), load_tensors(path)) for path in paths)


@dataclass
class Progress(SharedState):
    """How far a run has come; "this epoch" is the one to continue with."""

    epoch: int = 0  # counted from 0
    batches: int = 0  # of this epoch, already trained on
    seconds: float = 0.0  # training time of these batches
    records: int = 0  # lines in metrics.jsonl
    best: float | None = None  # the lowest validation loss

    def add(self, batch: Batch) -> None:
        """Count one batch."""
        super().add(batch)
        self.batches += 1

    def begin_epoch(self, epoch: int) -> None:
        """Set to zero what counts one epoch."""
        self.epoch, self.batches, self.seconds = epoch, 0, 0.0
        self.criterion_sum, self.epoch_tokens = 0.0, 0

    def restore(self, notes: dict[str, Any]) -> None:
        """Take over the counters that version 2026.2 or this one saved."""
        saved = notes["state"] | notes.get("place", {})  # 2026.2 had two parts
        vars(self).update({k: v for k, v in saved.items() if k in vars(self)})
        if not self.batches:  # 2026.2 kept the sums of the epoch before
            self.begin_epoch(self.epoch)


_RESUMABLE = 2  # states to keep: the newest, and one in case it is damaged


class Run:
    """A training run: everything that it changes, and its files in config.run_dir.

    ``examples`` (a digest) and ``precision`` are saved with each state; a run does not
    continue on other examples, and says so if it continues in another precision.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: nn.Module,
        optimizer: Optimizer,
        scheduler: LRScheduler,
        examples: str = "",
        precision: str = "float32",
    ) -> None:
        self.config = config
        self.folder = Path(config.run_dir)
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.about = {"examples": examples, "precision": precision}
        self.state = Progress()
        self.saved_at = -math.inf  # by this process's clock
        self.started = 0.0  # when this epoch began, by time.perf_counter()
        kind = next(model.parameters()).device.type
        self.generators: dict[str, Any] = {"cpu": torch.random}  # of random numbers
        if kind in ("cuda", "mps"):
            self.generators[kind] = getattr(torch, kind)

    def resume(self) -> None:
        """Load the newest readable state, if there is one, and cut the metrics there.

        Raises DataError if it was trained on other examples.
        """
        seed = torch.initial_seed()  # this process's; the state has the first one's
        if found := self._newest_state():
            self._unpack(*found)
            self.saved_at = time.monotonic()
        if not is_main_process():  # its dropout differs from the first one's
            torch.manual_seed(seed + self.state.accum_step)
            return
        kept = read_metrics(self.folder)[: self.state.records]
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_atomically(self.folder / "metrics.jsonl", text.encode())

    def _newest_state(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        states = saved_steps(self.folder / "resume")
        for path in reversed(states):
            try:
                tensors, notes = load_with_notes(path)
                if "state" in notes:
                    return tensors, notes
                what = "is of another version"
            except DataError as error:
                if isinstance(error.__cause__, OSError):  # it may be intact
                    raise
                what = error.what
            log(f"{path} {what}: trying the checkpoint before it.")
        if states:
            what = "none of its checkpoints can be read"
            raise DataError(self.folder, what, "Start over with --restart.")
        return None

    def _pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that training changes: tensors, and notes for JSON."""
        packed = self.optimizer.state_dict()
        tensors = {f"model/{name}": x for name, x in self.model.state_dict().items()}
        for index, slots in packed["state"].items():
            tensors |= {f"optimizer/{index}/{name}": x for name, x in slots.items()}
        for kind, generator in self.generators.items():
            tensors[f"random/{kind}"] = generator.get_rng_state()
        notes = {"state": asdict(self.state), "scheduler": self.scheduler.state_dict()}
        return tensors, notes | {"param_groups": packed["param_groups"]} | self.about

    def _unpack(self, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
        """Restore everything that _pack packed."""
        before = self.about | notes
        if before["examples"] != self.about["examples"]:
            what = "was trained on other examples: text or vocabulary have changed"
            do = "Restore them, or start over with --restart."
            raise DataError(self.folder, what, do)
        then, now = before["precision"], self.about["precision"]
        if then != now and is_main_process():
            log(f"{self.folder}: trained in {then} so far, from now on in {now}.")
        parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for key, tensor in tensors.items():
            part, name = key.rsplit("/", 1)
            parts[part][name] = tensor
        try:
            load_state(self.model, parts.pop("model"), self.folder)
        except DataError as error:
            do = "Finish it with that version; config.json says which one it is."
            raise DataError(self.folder, "was begun by another version", do) from error
        generators = parts.pop("random")
        for kind in self.generators.keys() & generators.keys():
            self.generators[kind].set_rng_state(generators[kind])
        slots = {int(part.removeprefix("optimizer/")): x for part, x in parts.items()}
        groups = notes["param_groups"]
        self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        self.scheduler.load_state_dict(notes["scheduler"])
        self.state.restore(notes)

    def save_if_due(self) -> None:
        """Save a state if the last one is older than ``config.save_seconds``."""
        age = time.monotonic() - self.saved_at
        if is_main_process() and age >= self.config.save_seconds:
            self.state.seconds = time.perf_counter() - self.started
            self.save_state()

    def save_state(self) -> None:
        """Write everything needed to resume; delete the states that this replaces."""
        path = self.folder / f"resume/step-{self.state.accum_step:06d}.safetensors"
        save_tensors(path, *self._pack())
        self.saved_at = time.monotonic()
        states = saved_steps(path.parent)
        until = states.index(path) + 1
        for old in states[:until][:-_RESUMABLE] + states[until:]:
            old.unlink()

    def save(self, record: dict[str, Any]) -> None:
        """Save the result of an epoch: a line of metrics, best weights, weights, state.

        The best weights are those with the lowest ``record["valid_nll"]``.
        """
        state, loss = self.state, record["valid_nll"]
        epoch, best = state.epoch, state.best is None or loss < state.best
        state.begin_epoch(epoch + 1)
        state.records += 1
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
        intact = self._last_checkpoints()
        if first := next(intact, None):
            weights = mean_state(itertools.chain([first], intact))
        else:
            weights = load_tensors(self.folder / "best.safetensors")
        path = self.folder / "model.safetensors"
        load_state(self.model, weights, path)
        # a threshold chosen for other weights no longer counts
        (self.folder / "confidence.json").unlink(missing_ok=True)
        save_tensors(path, self.model.state_dict(), {"epochs": self.config.epochs})

    def _last_checkpoints(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """Yield name and weights of each checkpoint to average, if it is intact."""
        count = self.config.average
        for path in saved_steps(self.folder / "checkpoints")[-count:]:
            try:
                if count > 1:
                    yield str(path), load_tensors(path)
            except DataError as error:
                log(f"{path} {error.what}: left out of the average.")


def resume_hint(folder: Path) -> str:
    """Return a sentence that says where the same command will resume."""
    states = saved_steps(folder / "resume")
    if not states:
        return "The same command starts over."
    last = states[-1].stem
    return f"The same command continues from {last}, unless it says --restart."


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

    main_thread = threading.current_thread() is threading.main_thread()
    unheard = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ours = main_thread and unheard and not is_launched()  # other threads can't do this
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory has run out, on any device."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    words = ("out of memory", "can't allocate memory")
    return isinstance(error, kinds) or any(word in str(error) for word in words)


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
        src, tgt = map(max, zip(*lengths_of(pairs), strict=True))
        size = f"{len(pairs)} pairs of up to {src} and {tgt} tokens"
        do = (
            f"Lower --batch-tokens (now {run.config.batch_tokens}), with --accum-iter "
            "raised as much, or --max-tokens, or the model; then use --restart."
        )
        where = f"batch {run.state.step + 1} ({size})"
        raise DataError(where, "does not fit into memory", do) from error


_WARM_UP = 5  # updates before a run's speed is measured
_TIMED = 20  # seconds of training over which to measure it
_SILENT = 5  # seconds between two lines about epochs, at least


class _Meter:
    """Show on standard error how far a run is.

    In a terminal a bar counts the target tokens of all processes. Once the run's speed
    is known, a line says how long it will take.
    """

    def __init__(self, state: Progress, tokens: int, epochs: int) -> None:
        self.state, self.tokens, self.epochs = state, tokens, epochs  # tokens an epoch
        self.warm: tuple[float, int] | None = None  # time and tokens after the warm-up
        self.updates = 0  # made by this process
        self.begun, self.said = (time.perf_counter(), self.trained()), -math.inf
        self.bar = optional_import("tqdm").tqdm(
            total=tokens * epochs,
            initial=self.trained(),
            unit="tok",
            unit_scale=True,
            leave=False,
            disable=None if is_main_process() else True,
        )

    def trained(self) -> int:
        """Return the number of target tokens trained on, over all processes."""
        return self.state.epoch * self.tokens + self.state.epoch_tokens

    def say(self, message: str) -> None:
        """Write a line to standard error, in the main process only."""
        if is_main_process():
            self.bar.write(message, file=sys.stderr)

    def say_epoch(self, record: dict[str, Any]) -> None:
        """Write a line about an epoch; none about some of those that take a moment."""
        now, (begun, tokens) = time.perf_counter(), self.begun
        if now - self.said < _SILENT and record["epoch"] < self.epochs:
            return
        self.said = now
        done = self.trained()
        rest = (
            (now - begun) / max(1, done - tokens) * (self.tokens * self.epochs - done)
        )
        left = f", {_duration(rest)} left" if rest else ""
        valid, perplexity = record["valid_nll"], record["perplexity"]
        self.say(
            f"epoch {record['epoch']}/{self.epochs}: "
            f"loss {record['train_criterion']:.3f}, "
            f"validation {valid:.3f} (perplexity {perplexity:.2f}), "
            f"{record['tokens_per_second']:,.0f} tokens/s{left}"
        )

    def update(self) -> None:
        """Show the update that was just made."""
        now, done = time.perf_counter(), self.trained()
        self.bar.set_description(f"epoch {self.state.epoch + 1}", refresh=False)
        self.bar.set_postfix(loss=f"{self.state.criterion:.3f}", refresh=False)
        self.bar.update(done - self.bar.n)
        self.updates += 1
        if self.updates == _WARM_UP:
            self.warm = now, done
        if self.warm and now - self.warm[0] >= _TIMED:
            speed = (done - self.warm[1]) / (now - self.warm[0])
            rest = (self.tokens * self.epochs - done) / speed
            self.warm = None
            if rest > 60:  # a minute is not worth mentioning
                self.say(
                    f"{speed:,.0f} target tokens a second: about {_duration(rest)} to "
                    f"the end of epoch {self.epochs}"
                )


def _duration(seconds: float) -> str:
    """Return a time in whole minutes, and hours if there are any; or in seconds."""
    if seconds <= 60:
        return f"{math.ceil(seconds)} s"
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def build_losses(
    model: EncoderDecoder, config: TrainingConfig
) -> tuple[SimpleLossCompute, SimpleLossCompute]:
    """Return the training loss, and validation's: the negative log-likelihood."""
    generator = model.generator
    size = generator.proj.out_features
    criterion: LabelSmoothing = LeanLabelSmoothing(size, PAD, config.smoothing)
    if config.r_drop:
        criterion = RDrop(size, PAD, config.smoothing, config.r_drop)
    plain = LeanLabelSmoothing(size, PAD)
    return SimpleLossCompute(generator, criterion), SimpleLossCompute(generator, plain)


def schedule_of(config: TrainingConfig, total: int) -> Callable[[int], float]:
    """Return the learning rate's schedule for a run of ``total`` updates."""
    peak, warmup = config.base_lr, config.warmup
    if config.schedule == "linear":
        return lambda step: linear_rate(step, peak, warmup, total, config.decay)
    return lambda step: rate(step, config.d_model, peak, warmup)


def train_resumably(config: TrainingConfig, text: Text, report: bool = False) -> None:
    """Train in an open folder, from where the run stopped, alone or as one of several.

    Writes metrics, checkpoints, and the model to config.run_dir. ``report``: say at the
    end what the model is worth.
    """
    torch.set_num_threads(config.threads)
    keep_freed_memory()
    with process_group(choose_device(config.device)) as place:
        _train(config, text, place, report)


def count_updates(
    examples: Sequence[Example], batch_tokens: int, epochs: int, accum_iter: int = 1
) -> int:
    """Count the optimizer's updates in a whole run."""
    groups = token_budget_batches(lengths_of(examples), batch_tokens)
    return epochs * math.ceil(len(groups) / accum_iter)


def _train(
    config: TrainingConfig,
    text: Text,
    place: tuple[torch.device, int, int],
    report: bool,
) -> None:
    """Train on this process's share of each batch."""
    device, rank, _ = place
    torch.manual_seed(config.seed)
    precision = choose_precision(config.precision, device)
    examples = load_examples(config, "train", text)
    valid_examples = load_examples(config, "valid", text)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    if config.init and not saved_steps(Path(config.run_dir, "resume")):
        path = Path(config.init, "model.safetensors")
        load_state(model, load_tensors(path), path)
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
            "its rate never reaches the peak. Use a lower --warmup or more --epochs."
        )
    optimizer, scheduler = build_optimizer(model, schedule_of(config, updates))
    train_loss, valid_loss = build_losses(model, config)
    copies = 2 if config.r_drop else 1  # R-Drop compares two passes
    tokens = copies * sum(len(tgt) - 1 for _, tgt in examples)
    valid_groups = token_budget_batches(lengths_of(valid_examples), config.batch_tokens)

    run = Run(config, model, optimizer, scheduler, digest_of(examples), precision)
    state = run.state
    check_gradients(optimizer, state)
    run.resume()
    if rank == 0:
        write_json(run.folder / "vocabulary.json", pack_text(text))
    meter = _Meter(state, tokens, config.epochs)

    def after_update(_: TrainState) -> None:
        run.save_if_due()
        meter.update()

    with meter.bar:
        for epoch in range(state.epoch, config.epochs):
            draw = epoch_draw(config.seed, epoch)
            groups = shuffled_groups(lengths_of(examples), config.batch_tokens, draw)
            with _explain_errors(run, examples, groups):
                run.started = time.perf_counter() - state.seconds
                run.save_if_due()
                with autocast(precision, device):
                    run_epoch(
                        own_batches(examples, groups[state.batches :], place, copies),
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
                own = own_batches(valid_examples, valid_groups, place)
                loss = SharedLoss(valid_loss, valid)
                run_epoch(own, model, loss, None, None, "eval", train_state=valid)
                perplexity = _perplexity(valid.criterion)
                record = {
                    "epoch": epoch + 1,
                    "step": state.accum_step,
                    "train_criterion": state.criterion,  # smoothed, as minimized
                    "valid_nll": valid.criterion,  # nats per target token
                    "perplexity": perplexity,
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
        batches = own_batches(valid_examples, valid_groups, (device, 0, 1))
        nats, _ = run_epoch(batches, model, valid_loss, None, None, "eval")
        translator = Translator(model, text, config)
        report_worth(translator, examples, valid_examples, _perplexity(nats))


def _perplexity(nats: float) -> float:
    return math.exp(min(nats, 700))  # more overflows


def train_run(
    config: TrainingConfig,
    text: Text,
    restart: bool = False,
    processes: int | None = None,
    report: bool = False,
) -> None:
    """Train a configuration's model in its folder, from where the run stopped.

    Trains in this process or, with ``config.distributed``, in ``processes`` new ones on
    this machine: by default one per GPU, or two without GPUs. They see the batches that
    a single process would, so the model is the same, apart from rounding and from
    dropout. Under torchrun this process does its share. Does nothing if the run is
    finished; restart: delete it first; report: say at the end what the model is worth.
    Raises DataError, and FloatingPointError.
    """
    with claim_folder(Path(config.run_dir)):
        if not restart and is_finished(config):
            return
        open_run_folder(config, restart)
        if not config.distributed or is_launched():
            train_resumably(config, text, report)
            return
        on_gpu = choose_device(config.device).type == "cuda"
        count = processes or (torch.cuda.device_count() if on_gpu else 2)
        run_in_processes(count, train_resumably, config, text, report)
