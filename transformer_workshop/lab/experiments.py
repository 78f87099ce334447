"""Is my idea better?"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from annotated_transformer import count_parameters, optional_import
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import log, read_json
from transformer_workshop.lab.tasks import TASKS, Task, Translation
from transformer_workshop.lab.workers import compute

if TYPE_CHECKING:
    import altair
    import pandas

Builder = Callable[..., nn.Module]
FIRST_RATES = (0.003, 0.006)  # a search begins with these
_FIRST_LOSSES = 3  # by which a training is recognized

Record = dict[str, Any]  # of a training
Results = dict[str, dict[float, dict[int, Record]]]  # variant -> rate -> seed -> record


def _started(
    task: Task, build: Builder, changed: Mapping, rate: float, updates: int, seed: int
) -> tuple[nn.Module, Iterator[float]]:
    """Return a fresh model, and the losses of its training, which begins with them."""
    sizes = task.sizes()
    torch.manual_seed(seed)
    try:
        model = build(*sizes)
    except Exception as error:
        called = f"with ({', '.join(map(str, sizes))}): see help(experiment)."
        error.add_note(f"The task calls the variant's function {called}")
        raise
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise TypeError(f"the function returned {kind}, not a model (nn.Module)")
    if type(task) is Translation and not hasattr(model, "generator"):
        raise TypeError(
            "the task trains translators, which have a generator, as make_model's do;"
            f" {type(model).__name__} has none. For a GPT, use the task 'sentences'"
        )
    options = dict(changed)
    train = options.pop("train", type(task).train)
    try:
        return model, iter(train(task, model, rate, updates, seed, **options))
    except TypeError as error:
        named = ", ".join(["train", *list(inspect.signature(train).parameters)[5:]])
        where = f"help({type(task).__module__}.{type(task).__qualname__})"
        error.add_note(f"Options of this training: {named}; see {where}.")
        for field in options.keys() & vars(task):
            error.add_note(f"{field} is a field of the task: see help(experiment).")
        raise


def _check_that_weights_are_fresh(model: nn.Module, again: nn.Module) -> None:
    """Raise ValueError if two models share what is trained."""

    def places(model: nn.Module) -> set[int]:
        trained = (p for p in model.parameters() if p.requires_grad)
        return {p.data_ptr() for p in trained if not is_lazy(p) and p.numel()}

    if places(model) & places(again):
        raise ValueError(
            "the function returned the same weights twice, so the second training would"
            " go on where the first ended: let it build a new model at each call"
        )


def _train(task: Task, build: Builder, changed: Mapping, settings: Record) -> Record:
    """Train a model; return what was measured, None if it diverged."""
    begun = time.process_time()
    rate, updates, seed = (settings[key] for key in ("rate", "updates", "seed"))
    model, steps = _started(task, build, changed, rate, updates, seed)
    losses = list(itertools.takewhile(math.isfinite, steps))
    spent = time.process_time() - begun
    measured = task.judge(model) if len(losses) == updates else None
    if measured and not math.isfinite(measured[task.unit]):
        measured = None
    return {
        "settings": settings,
        "first losses": losses[:_FIRST_LOSSES],
        "parameters": count_parameters(model),
        "milliseconds": round(1000 * spent / updates, 1),
        "measured": measured,
    }


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _described(thing: Any, seen: set[int] | None = None) -> str:
    """Return a text that changes with a value, or with the code of a function or class.

    It includes what these name in their own module, as far as that is code or plain
    data, but not what they import.
    """
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return ""
    parts: list[Any]
    if isinstance(thing, partial):
        text, parts = "partial", [thing.func, thing.args, thing.keywords]
    elif isinstance(thing, type):
        text, parts = thing.__qualname__, [*vars(thing).values(), *thing.__bases__]
        parts = [p for p in parts if getattr(p, "__module__", "") == thing.__module__]
    elif isinstance(thing, FunctionType):
        codes = list(_codes(thing.__code__))
        text = " ".join(code.co_code.hex() for code in codes)
        parts = [cell.cell_contents for cell in thing.__closure__ or ()]
        parts += [thing.__defaults__, thing.__kwdefaults__]
        for code in codes:
            parts += [c for c in code.co_consts if not isinstance(c, CodeType)]
            named = [thing.__globals__.get(name) for name in code.co_names]
            parts += [
                value
                for value in named
                if isinstance(value, bool | int | float | str | tuple)
                or getattr(value, "__module__", "") == thing.__module__
            ]
    elif isinstance(thing, Mapping):
        text, parts = "", list(thing.items())
    elif isinstance(thing, list | tuple):
        text, parts = "", list(thing)
    else:
        plain = isinstance(thing, bool | int | float | str | None)
        return repr(thing) if plain else type(thing).__qualname__
    seen.add(id(thing))
    return f"({text} {' '.join(_described(part, seen) for part in parts)})"


def students_t(freedom: int, share: float) -> float:
    """Return a quantile of Student's t, within 0.3 % from 4 degrees of freedom on.

    The first terms of its expansion about the normal quantile (Abramowitz and Stegun,
    26.7.5).
    """
    z = statistics.NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


@dataclass
class Experiment:
    """What was measured: of each variant at each rate from each seed.

    Print it, or show ``table`` (a data frame) and ``chart()``. The first variant is the
    baseline. Each counts at its own best rate, the one with the lowest loss from the
    first seed. The spread between seeds is pooled over the variants, and intervals
    cover 95 % each: of twenty ideas that change nothing, one is told apart by chance.
    That one seed gives all variants the same batches is left out of account, which
    makes intervals wider, not narrower. Times are those of the fastest training, and
    still rough if the machine is busy.
    """

    unit: str
    seeds: Sequence[int]
    results: Results
    updates: int = 0

    def loss(self, name: str, rate: float, seed: int) -> float:
        """Return what was measured first, infinity if the training diverged."""
        measured = self.results[name][rate][seed]["measured"]
        return math.inf if measured is None else measured[self.unit]

    def rate(self, name: str) -> float:
        """Return a variant's best rate."""
        rates = sorted(self.results[name])
        return min(rates, key=lambda rate: self.loss(name, rate, self.seeds[0]))

    def losses(self, name: str) -> list[float]:
        """Return a variant's losses at its best rate, one from each seed."""
        return [self.loss(name, self.rate(name), seed) for seed in self.seeds]

    @property
    def spread(self) -> tuple[float, int]:
        """The standard deviation between seeds, and its degrees of freedom."""
        rows = [row for row in map(self.losses, self.results) if math.inf not in row]
        squares = sum((x - statistics.mean(row)) ** 2 for row in rows for x in row)
        freedom = sum(len(row) - 1 for row in rows)
        return math.sqrt(squares / freedom) if rows else math.nan, freedom

    def _apart(self, *shares: float) -> float:
        """Return the sum of quantiles of a difference between two means of seeds."""
        deviation, freedom = self.spread
        if not freedom:
            return math.nan
        quantiles = sum(students_t(freedom, share) for share in shares)
        return quantiles * deviation * math.sqrt(2 / len(self.seeds))

    @property
    def half_interval(self) -> float:
        """Half of the 95 % interval of a difference between two variants."""
        return self._apart(0.975)

    @property
    def detectable(self) -> float:
        """The true difference that four of five such experiments would tell apart."""
        return self._apart(0.975, 0.8)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each variant, at its best rate: what ``table`` shows."""
        baseline, *_ = self.results
        rows = []
        for name, by_rate in self.results.items():
            records = list(by_rate[self.rate(name)].values())
            mean = statistics.mean(self.losses(name))
            row = {"variant": name, "rate": self.rate(name), self.unit: mean}
            if name != baseline:
                difference = mean - statistics.mean(self.losses(baseline))
                low, high = (difference + i * self.half_interval for i in (-1, 1))
                row |= {"difference": difference, "from": low, "to": high}
            for key in list(records[0]["measured"] or {})[1:]:
                row[key] = statistics.mean(r["measured"][key] for r in records)
            spent = (r["milliseconds"] for rs in by_rate.values() for r in rs.values())
            row |= {
                "parameters": records[0]["parameters"],
                "ms per update": min(spent),
            }
            rows.append(row)
        return rows

    @property
    def table(self) -> pandas.DataFrame:
        """The rows as a data frame."""
        pd = optional_import("pandas")
        table = pd.DataFrame(self.rows).set_index("variant")
        return table.round({name: 3 for name in table if name != "rate"})

    def chart(self) -> altair.HConcatChart:
        """Draw loss over rate, and each difference with its interval."""
        from transformer_workshop.pictures.experiments import experiment_chart

        losses = [
            {
                name: {
                    rate: self.loss(name, rate, seed)
                    for rate in sorted(rates)
                    if seed in rates[rate]
                }
                for name, rates in self.results.items()
            }
            for seed in self.seeds
        ]
        return experiment_chart(losses, self.rows, self.unit)

    def __repr__(self) -> str:
        if find_spec("pandas") is None:
            return self.in_words
        return f"{self.table.to_string(na_rep='')}\n\n{self.in_words}"

    @property
    def in_words(self) -> str:
        """A sentence for each variant: is it told apart from the baseline?"""
        baseline, *others = self.rows
        if others:
            return "\n".join(self._sentence(row, baseline) for row in others)
        name, loss = baseline["variant"], baseline[self.unit]
        if not math.isfinite(loss):
            return f"{name}: diverged."
        text = f"{name}: {loss:.{self._digits}f} {self.unit}{self._trained}"
        return f"{text} There is nothing to compare it with.{self._at_an_end(name)}"

    @property
    def _digits(self) -> int:
        """How many decimals of a loss mean something."""
        return max(2 - math.floor(math.log10(self.half_interval or 1)), 0)

    @property
    def _trained(self) -> str:
        return f" after {self.updates} updates, from {len(self.seeds)} seeds."

    def _at_an_end(self, *names: str) -> str:
        """Say whose best rate has no worse one on both sides."""
        text = ""
        for name in names:
            rates = sorted(self.results[name])
            if len(rates) > 1 and self.rate(name) in (rates[0], rates[-1]):
                end = "lowest" if self.rate(name) == rates[0] else "highest"
                text += f" The best rate of {name} is the {end} that was tried."
        return text

    def _sentence(self, row: dict[str, Any], baseline: dict[str, Any]) -> str:
        """Say whether a variant is told apart from the baseline, and what it costs."""
        name, reference = row["variant"], baseline["variant"]
        difference, low, high = row["difference"], row["from"], row["to"]
        if not math.isfinite(difference):
            worst = name if difference > 0 else reference
            return f"{name} and {reference}: can't be compared, {worst} diverged."
        digits = self._digits
        before, after = (f"{r[self.unit]:.{digits}f}" for r in (baseline, row))
        apart = f"{difference:+.{digits}f}, 95 % from {low:+.{digits}f} to"
        text = f"{name}: {after} {self.unit}, {reference}: {before} "
        text += f"({apart} {high:+.{digits}f}): "
        if low <= 0 <= high:
            text += "can't be told apart"
        else:
            text += f"{name} is {'worse' if difference > 0 else 'better'}"
        text += self._trained
        if low <= 0 <= high:
            text += f" (A true difference of {self.detectable:.{digits}f} would be told"
            text += " apart four times in five.)"
        usual = baseline["ms per update"]  # 0 if a model is tiny
        times = row["ms per update"] / usual if usual else 1.0
        more = row["parameters"] - baseline["parameters"]
        size = f"{more:+,} parameters" if more else "as many parameters"
        text += f" It has {size}"
        if not 1 / 1.5 < times < 1.5:  # less may come from what else the machine does
            text += f", and an update takes {times:.1f} times the CPU time"
        text += "."
        return text + self._at_an_end(name, reference)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.table, self.chart())
        print(self.in_words)


def _wanted(experiment: Experiment, name: str, given: Sequence[float]) -> list:
    """Return the rates and seeds that a variant still needs, as far as one can tell."""
    by_rate, seeds = experiment.results[name], experiment.seeds
    first = seeds[0]

    def missing(rates: Sequence[float], seeds: Sequence[int]) -> list:
        pairs = itertools.product(rates, seeds)
        return [(rate, s) for rate, s in pairs if s not in by_rate.get(rate, {})]

    if given:
        return missing(given, seeds)
    if begun := missing(FIRST_RATES, [first]):
        return begun
    best = experiment.rate(name)
    if best == max(by_rate):
        return [(2 * best, first)]
    if best == min(by_rate):
        return [(best / 2, first)]
    return missing([best], seeds)


def experiment(
    variants: Mapping[str, Builder | tuple[Builder, Mapping[str, Any]]],
    task: str | Task = "captions",
    *,
    updates: int = 300,
    seeds: int | Sequence[int] = 3,
    rates: Sequence[float] = (),
    workers: int | None = None,
    folder: str | Path | None = None,
) -> Experiment:
    """Train each variant at several rates and from several seeds, and compare them.

    variants: by name, a function that returns a model with fresh weights, or such a
    function and options for the task's training, for example::

        print(experiment({
            "2017": base,
            "GELU": with_gelu,
            "cosine": (base, {"schedule": cosine}),
            "hard": (base, {"train": hard}),
        }))

    The first is the baseline. The functions may be those of a notebook. For the tasks
    "captions" and "multi30k" they get the numbers of source and target tokens, for
    "sentences" (a GPT, such as ``lambda words: GPT(words, N=2, d_model=64, d_ff=128,
    h=4, groups=4)``) the number of words. Options are those of the task's training
    (help(transformer_workshop.lab.tasks.Translation.train)); an option ``train``
    replaces it by a function of task, model, rate, updates and seed that yields losses.
    It can also change a field of the task that isn't an option, such as the smoothing::

        def hard(task, *given):
            return dataclasses.replace(task, smoothing=0.0).train(*given)

    task: one of these names, or a Task of your own.
    seeds: how many, or which; three or more, as two can't show how they differ.
    rates: which are tried, with all seeds. Without them, a variant is trained at 0.003,
    at 0.006 and at twice or half of that until its best rate has one on each side;
    then from the other seeds.
    workers: trainings at a time, each with one thread; None: one for each core.
    folder: keeps the results [runs/experiments]. What is there isn't trained again, if
    the settings, the code of the variants, and the losses of the first updates are
    still the same; a change of code that they import may stay unnoticed. Another
    folder, or another name, begins anew.

    Only validation data is looked at. Before anything is trained, each variant makes a
    few updates here, so that mistakes show. Raises ValueError and TypeError for
    variants, tasks, seeds, or rates that can't be used.
    """
    task = _task_of(task)
    if not isinstance(variants, Mapping) or not variants:
        raise TypeError("variants must be a dictionary: name -> function")
    rows = {n: v if isinstance(v, tuple) else (v, {}) for n, v in variants.items()}
    for name, (build, _) in rows.items():
        if isinstance(build, nn.Module) or not callable(build):
            raise TypeError(f"{name!r} must be a function that returns a model")
    seeds = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if len(set(seeds)) < max(len(seeds), 3):
        raise ValueError(f"seeds={seeds}: use three or more different ones")
    if not isinstance(updates, int) or updates < 1:
        raise ValueError(f"updates={updates!r}: use a whole number, 1 or more")
    if not isinstance(rates, Sequence) or not all(
        isinstance(rate, Real) and 0 < rate < math.inf for rate in rates
    ):
        raise ValueError(f"rates={rates}: use positive numbers, as in (0.003, 0.006)")
    folder = Path(folder or project_folder() / "runs" / "experiments")
    done = Experiment(task.unit, seeds, {name: {} for name in rows}, updates)
    outdated: list[Record] = []

    def settings_of(name: str, rate: float, seed: int) -> Record:
        what = f"{type(task).__qualname__} {vars(task)}"
        code = _described([type(task), *rows[name]])
        digest = hashlib.sha256(code.encode()).hexdigest()[:16]
        fixed = {"task": what, "updates": updates, "code": digest}
        return {"variant": name, **fixed, "rate": rate, "seed": seed}

    def file_of(settings: Record) -> Path:
        name = settings["variant"]
        kind = re.sub(r"\W+", "_", name)[:40]
        if kind != name.lower():  # another name may share it, or the case may be lost
            kind += f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        end = f"{updates}-{settings['rate']:g}-{settings['seed']}.json"
        return folder / f"{kind}-{end}"

    def stored(name: str) -> Iterator[Record]:
        """Yield what is known of a variant, as far as this experiment asks for it."""
        for path in sorted(folder.glob("*.json")):
            record = read_json(path)
            rate, seed = record["settings"]["rate"], record["settings"]["seed"]
            is_asked = rate in rates if rates else _is_searched(rate)
            settings = settings_of(name, rate, seed)
            if is_asked and seed in seeds and record["settings"] == settings:
                if path == file_of(settings) and record not in outdated:
                    yield record

    for name, row in rows.items():
        records = list(stored(name))
        first = (rates or FIRST_RATES)[0], seeds[0]
        settings = records[0]["settings"] if records else settings_of(name, *first)
        try:
            losses = _first_losses(task, *row, settings)
        except Exception as error:
            error.add_note(f"This is the variant {name!r}.")
            raise
        for record in records[:1]:
            before = record["first losses"]
            if not all(map(partial(math.isclose, rel_tol=1e-3), before, losses)):
                log(f"{name}: trains differently than before; it is trained again")
                outdated += records

    def wanted() -> dict[Path, tuple]:
        missing = {}
        for name, (build, changed) in rows.items():
            for record in stored(name):
                settings = record["settings"]
                by_seed = done.results[name].setdefault(settings["rate"], {})
                by_seed[settings["seed"]] = record
            for rate, seed in _wanted(done, name, rates):
                settings = settings_of(name, rate, seed)
                missing[file_of(settings)] = task, build, changed, settings
        return missing

    def line(record: Record) -> str:
        name, rate, seed = (record["settings"][k] for k in ("variant", "rate", "seed"))
        measured = record["measured"]
        loss = f"{measured[task.unit]:.4f} {task.unit}" if measured else "diverged"
        return f"{name}, rate {rate:g}, seed {seed}: {loss}"

    compute(wanted, _train, workers, line=line)
    return done


def _is_searched(rate: float) -> bool:
    """Return whether a search can come to this rate."""
    return math.log2(rate / FIRST_RATES[0]).is_integer()


def _first_losses(
    task: Task, build: Builder, changed: Mapping, settings: Record
) -> list:
    """Make the first updates of a training here, and return their losses."""
    rate, updates, seed = (settings[key] for key in ("rate", "updates", "seed"))
    with torch.random.fork_rng():
        again, _ = _started(task, build, changed, rate, updates, seed)
        model, losses = _started(task, build, changed, rate, updates, seed)
        _check_that_weights_are_fresh(model, again)
        return list(itertools.islice(losses, _FIRST_LOSSES))


def _task_of(task: str | Task) -> Task:
    """Return a task by its name."""
    if isinstance(task, type):
        raise TypeError(f"task must be an object: {task.__name__}(), not a class")
    if not isinstance(task, str):
        return task
    if task not in TASKS:
        raise ValueError(f"task={task!r} is unknown: use {', '.join(TASKS)}")
    return TASKS[task]
