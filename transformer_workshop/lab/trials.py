"""What does a worker do with a variant? It checks it, or trains it once."""

from __future__ import annotations

import inspect
import math
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from annotated_transformer import count_parameters
from transformer_workshop.lab.identity import Uncertain, identity_of, surroundings
from transformer_workshop.lab.tasks import Task

Builder = Callable[..., nn.Module]
Record = dict[str, Any]  # of a training, as JSON has it
CHECKED_UPDATES = 3
RECORDED = {"losses", "parameters", "milliseconds", "seconds", "megabytes"}
ENDINGS = (Exception, SystemExit, GeneratorExit)  # what a variant may raise
OF_TABLE = {"variant", "rate", "parameters", "difference", "from", "to"}
COLUMNS = {
    "variant", "rate", "seed", "step", "loss", "judged", "search", "ended", "error",
    "parameters", "ms per update", "seconds", "megabytes", "device", "date",
}  # fmt: skip


class Refused(ValueError):
    """What is wrong with a variant, and what to do."""


class NotTheSame(RuntimeError):
    """A worker would train something else than the notebook holds."""


_changed_here: list[str] = []  # who has changed this process for all others


@dataclass(frozen=True)
class Variant:
    """A model and its training, by name."""

    name: str
    task: Task
    build: Builder
    options: Mapping[str, Any]  # of the task's training
    identity: str = ""  # as the notebook knows it; "" where that can't be told

    def check_identity(self) -> None:
        """Raise NotTheSame unless a worker was sent what the notebook holds."""
        if not self.identity:
            return
        try:
            if identity_of(self.task, self.build, self.options) == self.identity:
                return
            why = "it is not the same there"
        except Uncertain as uncertain:
            why = f"there, {uncertain}"
        raise NotTheSame(
            f"The variant {self.name!r} was sent to a worker, and {why}. If a file that"
            " it imports was edited since this program or notebook read it, restart it."
            " If something was changed here after an import (a function put into"
            " another module, a setting of torch), make the change in the file, or in"
            " the model that the variant builds."
        )


@contextmanager
def _alone(variant: Variant) -> Iterator[None]:
    """Raise Refused if a variant changes what others in this process use, too."""
    before = variant.identity.partition("-")[0] or surroundings()
    try:
        yield
    finally:
        if surroundings() != before:
            _changed_here.append(variant.name)
            raise Refused(
                "it changes something outside its model that other variants use, too:"
                " a function or class of a package, or a setting of PyTorch. Make the"
                " change in the model that its function returns, or, for all variants,"
                " before the experiment"
            )


@dataclass(frozen=True)
class Trial:
    """One training, as it is the same for all variants."""

    rate: float
    seed: int
    updates: int
    device: str
    may_end_early: bool


def number(value: Any, what: str) -> float:
    """Return a number of Python, NumPy, or PyTorch as a float.

    Raises TypeError for anything else.
    """
    plain = value
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        sizes = tuple(value.shape)
        if math.prod(sizes) != 1:
            raise TypeError(f"{what} has the shape {sizes}; it must be one number")
        plain = value.item()
    if not isinstance(plain, Real):
        raise TypeError(f"{what} is {plain!r}; it must be a number")
    return float(plain)


def described(error: BaseException) -> str:
    """Return an error's class, what it says, and the line that raised it."""
    *_, line = traceback.extract_tb(error.__traceback__)
    text = "".join(traceback.format_exception_only(error)).strip()
    # what a program or notebook defines itself is sent without the name of its file
    file = "your code" if line.filename == "<dynamic-code>" else line.filename
    return f"{text} ({file}, line {line.lineno}, in {line.name})"


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _build(variant: Variant, trial: Trial) -> nn.Module:
    """Return a fresh model, drawn from the seed."""
    sizes = variant.task.sizes()
    _seed(trial.seed)
    try:
        model = variant.build(*sizes)
    except Exception as error:
        given = ", ".join(map(str, sizes))
        raise Refused(
            f"its function, called with the task's sizes, ({given}), raised"
            f" {described(error)}"
        ) from error
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise Refused(f"its function returned {kind}, not a model (nn.Module)")
    return model.to(trial.device)


def _steps(variant: Variant, trial: Trial, model: nn.Module) -> Iterator[Any]:
    """Return an iterator that trains; each step is an update and yields its loss."""
    options = dict(variant.options)
    task, own = variant.task, options.pop("train", None)
    given = model, trial.rate, trial.updates, trial.seed
    train = task.train if own is None else own
    arguments = given if own is None else (task, *given)
    try:
        inspect.signature(train).bind(*arguments, **options)
    except TypeError as error:
        known = list(inspect.signature(train).parameters)[len(arguments) :]
        text = f"its training can't be called: {error}. Options that it has: "
        text += ", ".join(["train", *known])
        for field in options.keys() & vars(task).keys():
            text += f". {field} is a field of the task: see help(experiment)"
        raise Refused(text) from None
    return iter(train(*arguments, **options))


def _measure(task: Task, model: nn.Module) -> dict[str, float]:
    """Judge a model."""
    measured = task.judge(model)
    if not isinstance(measured, Mapping) or task.unit not in measured:
        raise TypeError(
            f"the task's judge returned {measured!r}; it must return a dictionary of"
            f" numbers, one of them under {task.unit!r}, the task's unit"
        )
    others = measured.keys() - {task.unit}
    if taken := COLUMNS & others | OF_TABLE & measured.keys():
        raise TypeError(
            f"the task's judge returns {', '.join(sorted(taken))}, the name of a column"
            " that a result has: choose another"
        )
    return {key: number(x, f"judge's {key!r}") for key, x in measured.items()}


# --- before the training ---


class Checked(NamedTuple):
    """What the first updates of a variant have shown."""

    problem: str  # what is wrong, and what to do; "" if nothing is
    found: tuple[float, ...] = ()  # their losses, and what was measured then


def check(variant: Variant, trial: Trial) -> Checked:
    """Train a variant for a few updates, twice, and say what is wrong with it.

    Raises NotTheSame.
    """
    if _changed_here:  # the one who did it is refused, and nothing is trained
        return Checked("")
    variant.check_identity()
    try:
        with _alone(variant):
            model, losses, measured = _beginning(variant, trial)
            again, *found_again = _beginning(variant, trial)
        _check_that_weights_are_fresh(model, again)
        found = [losses, measured]
        if not _same(found, found_again, exactly=trial.device == "cpu"):
            raise Refused(
                f"the same seed gave other losses when it was trained again: {found}"
                f" and {found_again}. Something in it draws numbers that the seed"
                " doesn't set. Draw them from torch, random, or numpy.random, which"
                " are seeded before the model is built, or from a generator that is"
                " seeded with torch.initial_seed()"
            )
        if hasattr(variant.task, "check"):
            try:
                variant.task.check(model)
            except ValueError as error:
                raise Refused(str(error)) from None
    except Refused as refusal:
        return Checked(str(refusal))
    except ENDINGS as error:
        what = f"a first training of {CHECKED_UPDATES} updates raised"
        return Checked(f"{what} {described(error)}")
    return Checked("", (*losses, *measured.values()))


def _beginning(
    variant: Variant, trial: Trial
) -> tuple[nn.Module, list[float], dict[str, float]]:
    """Return a model after a few updates, their losses, and what is measured then."""
    model = _build(variant, trial)
    steps = _steps(variant, trial, model)
    losses = []
    for step in range(1, min(CHECKED_UPDATES, trial.updates) + 1):
        try:
            losses.append(number(next(steps), f"the loss of update {step}"))
        except StopIteration:
            raise _too_short(len(losses), trial) from None
    return model, losses, _measure(variant.task, model)


def _too_short(count: int, trial: Trial) -> Refused:
    return Refused(
        f"its training yielded {count} losses; it must yield one after each of the"
        f" {trial.updates} updates"
    )


def _check_that_weights_are_fresh(model: nn.Module, again: nn.Module) -> None:
    """Refuse two models that share what is trained."""

    def places(model: nn.Module) -> set[int]:
        trained = [p for p in model.parameters() if p.requires_grad and not is_lazy(p)]
        return {p.data_ptr() for p in trained if p.numel()}

    if places(model) & places(again):
        raise Refused(
            "its function returned the same weights twice, so the second training would"
            " go on where the first ended: let it build a new model at each call"
        )


def _same(found: list, again: list, exactly: bool) -> bool:
    (losses, measured), (losses_again, measured_again) = found, again
    one = [*losses, *measured.values()]
    two = [*losses_again, *measured_again.values()]
    tolerance = 0.0 if exactly else 1e-3  # a GPU adds in any order
    return np.allclose(one, two, rtol=tolerance, atol=0, equal_nan=True)


# --- the training ---


def train(variant: Variant, trial: Trial) -> Record:
    """Train a variant once; return what was found, also if it diverged or failed.

    ``ended`` is "" or says how it ended: "diverged", "early", or "failed". Raises
    NotTheSame.
    """
    if _changed_here:
        raise NotTheSame(
            f"The variant {_changed_here[0]!r} has changed something in a worker that"
            " other variants use, too. It is reported as failed; leave it out, or let"
            " it make its change in the model that its function returns."
        )
    variant.check_identity()
    record: Record = {
        "variant": variant.name,
        "identity": variant.identity,
        **asdict(trial),
        "date": date.today().isoformat(),
        "ended": "",
        "losses": [],
        "measured": None,
        "parameters": None,
        "milliseconds": None,  # per update; None if an exception was raised
        "seconds": 0.0,  # of the whole training, by the clock
        "megabytes": None,  # of a GPU, at most
    }
    begun = time.perf_counter()
    try:
        with _alone(variant):
            _train(variant, trial, record)
    except ENDINGS as error:
        update = len(record["losses"]) + 1
        where = f"in update {update}" if update <= trial.updates else "at the end"
        record |= {"ended": "failed", "error": f"{where}: {described(error)}"}
    record["seconds"] = round(time.perf_counter() - begun, 3)
    return record


def _train(variant: Variant, trial: Trial, record: Record) -> None:
    """Train, and write what is found into a record as soon as it is."""
    model = _build(variant, trial)
    if not any(map(is_lazy, model.parameters())):
        record["parameters"] = count_parameters(model)
    with _timed(trial.device, record):
        for loss in _steps(variant, trial, model):
            losses = record["losses"]
            if len(losses) == trial.updates:
                raise Refused(f"it yielded more than {trial.updates} losses")
            value = number(loss, "the loss")
            if not math.isfinite(value):
                record["ended"] = "diverged"
                return
            losses.append(value)
            if trial.may_end_early and is_hopeless(losses, trial.updates):
                record["ended"] = "early"
                break
        else:
            if len(losses := record["losses"]) < trial.updates:
                raise _too_short(len(losses), trial)
    record["parameters"] = count_parameters(model)
    measured = _measure(variant.task, model)
    if math.isfinite(measured[variant.task.unit]):
        record["measured"] = measured
    else:
        record["ended"] = "diverged"


@contextmanager
def _timed(device: str, record: Record) -> Iterator[None]:
    """Time a training: on a CPU, the time that it computes; on a GPU, all of it."""
    is_gpu = torch.device(device).type == "cuda"
    clock = time.perf_counter if is_gpu else time.process_time
    if is_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    begun = clock()
    yield
    if is_gpu:
        torch.cuda.synchronize(device)
        record["megabytes"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    spent = clock() - begun
    record["milliseconds"] = round(1000 * spent / max(len(record["losses"]), 1), 3)


def is_hopeless(losses: list[float], updates: int) -> bool:
    """Return whether a training has learned nothing in the first half of its updates.

    The mean loss of the last tenth is then not below the first, that of the fresh
    model.
    """
    last = max(updates // 10, 1)
    if len(losses) != updates // 2 or len(losses) <= last:
        return False
    return math.fsum(losses[-last:]) / last >= losses[0]
