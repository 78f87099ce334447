"""Is my idea better?"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import operator
import re
import statistics
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import cloudpickle
import loky
import torch
from torch import nn

from annotated_transformer import DataError
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import log, read_json, write_json
from transformer_workshop.lab.identity import Uncertain, identity_of
from transformer_workshop.lab.record import SEARCH_SEEDS, Experiment
from transformer_workshop.lab.tasks import TASKS, Continuation, Task, Translation
from transformer_workshop.lab.trials import (
    CHECKED_UPDATES,
    RECORDED,
    Builder,
    Checked,
    Record,
    Trial,
    Variant,
    check,
    number,
    train,
)
from transformer_workshop.lab.workers import WorkerDied, compute, tell

FIRST_RATES = (0.003, 0.006)  # a search begins with these, or with the task's
LOWEST_RATE, HIGHEST_RATE = FIRST_RATES[0] / 2**8, FIRST_RATES[0] * 2**12


def experiment(
    variants: Mapping[str, Builder | tuple[Builder, Mapping[str, Any]]],
    task: str | Task = "captions",
    *,
    updates: int = 300,
    seeds: int | Sequence[int] = 8,
    rates: Sequence[float] = (),
    workers: int | None = None,
    device: str = "cpu",
    folder: str | Path | None = None,
) -> Experiment:
    """Train each variant at its best rate, from several seeds, and compare them.

    For example, is a GPT better with another activation in its feed-forward network? ::

        from torch.nn.functional import gelu
        from annotated_transformer import GPT, SwiGLU
        from transformer_workshop.lab.experiments import experiment

        class GatedGELU(SwiGLU):
            def forward(self, x):
                return self.w_2(self.dropout(gelu(self.gate(x)) * self.w_1(x)))

        def small(words):
            return GPT(words, N=2, d_model=64, d_ff=128, h=4, groups=2)

        def with_gelu(words):
            model = small(words)
            for block in model.blocks:
                network = GatedGELU(64, 128)
                network.load_state_dict(block.feed_forward.state_dict())
                block.feed_forward = network  # the same weights: less is left to chance
            return model

        brief = {"rows": 8}  # windows in a batch
        variants = {"SwiGLU": (small, brief), "GELU": (with_gelu, brief)}
        result = experiment(variants, "sentences", updates=100)
        print(result)

    The result has ``table``, a row for each variant; ``frame``, a row for each update;
    ``chart()``; and ``to_csv("name.csv")`` (help(transformer_workshop.lab.record)). In
    a notebook, it shows itself. A script may call this without
    ``if __name__ == "__main__"``.

    variants: by name, a function that returns a model with fresh weights, or a tuple of
    such a function and options for its training. The first is the baseline. Options
    aren't passed on: give them to each variant that is to have them. The more variants,
    the wider their intervals, since all hold at once.

    The function gets the number of words for "sentences", and the numbers of source and
    target tokens for "captions" and "multi30k". Before it is called, the seed is set;
    how many random numbers it draws changes nothing of the data.

    The options, with their defaults, are those of the task's training
    (help(transformer_workshop.lab.tasks.Translation.train), or Continuation.train for
    "sentences"). With the option ``train``, a function of task, model, rate, updates
    and seed that yields losses, a variant has a training of its own. So it can change a
    field of the task, such as the smoothing of "captions"::

        def hard(task, *given):
            return dataclasses.replace(task, smoothing=0.0).train(*given)

        variants = {"smooth": base, "hard": (base, {"train": hard})}

    To change what attention computes, set ``block.self_attn.attention_function`` to a
    function, or to a module with parameters of its own. It gets query, key and value,
    each (B, h, L, d_k) with keys repeated for their group, a mask that broadcasts to
    (B, h, L, L), and dropout, a module. It returns outputs and attention weights, as
    ``annotated_transformer.attention`` does, which also scales by 1 / sqrt(d_k). (The
    weights are only kept for pictures; they needn't add up to 1.)

    task: one of these names (the default trains translators; a GPT needs "sentences"),
    or a Task: a smaller one, such as
    ``dataclasses.replace(TASKS["captions"], batch_tokens=300)`` with the TASKS of
    transformer_workshop.lab.tasks, or one of your own (help(transformer_workshop.lab
    .tasks.Task), and the appendix *Test your idea*).
    seeds: how many are compared, or which; three or more. From three, only large
    differences can be told apart. More can be added later, if their number doesn't
    depend on what was found.
    rates: which are tried; if it is one, nothing is searched. Without any, the search
    begins with two (0.012 and 0.024 for "sentences"; 0.003 and 0.006 for the others,
    unless your own task has ``first_rates``), and doubles or halves the rate until the
    best has a worse one on each side. The best has the lowest mean loss from three
    seeds that aren't compared (1000 to 1002). A training of the search that has learned
    nothing after half of its updates ends there and counts with what it has; those that
    are compared never end early. If you give rates, you are told if the best is at an
    end. Three seeds may choose badly. So if two variants can be told apart at different
    rates, who is worse is trained at the rate of who is better, too, and the verdict
    counts only if it holds there.
    workers: trainings at a time, each with one thread; None: one for each core.
    device: where models are trained, as PyTorch names it. Only the CPU has been tried;
    "cuda" takes a GPU, where sums may differ in their last digits from run to run.
    folder: keeps the results [runs/experiments]. A training is reused if all that it
    depends on is the same: code, values that it uses, settings, all installed packages,
    and the variant's name. You are told what is reused, and what has changed where a
    name is trained anew. A variant of which this can't be told is trained at each call,
    and you are told why. Another folder begins anew.

    Before anything is trained, you are told how many trainings it takes, and a worker
    makes a few updates with each variant, twice. It must compute the same both times
    and change nothing that other variants use, and a translator or GPT must not look
    ahead. If its losses in these updates are exactly those of another variant, you are
    warned that the change may take no part. After the first training, the time that is
    left is shown. Seeds are trained one after another, each with all variants: if you
    interrupt it, those that are complete are compared and printed, and the same call
    goes on from there. (Whoever stops because of what the losses show is fooled more
    often than 5 times in 100.)

    A rate at which a variant diverges only counts as its worst. If a variant raises an
    exception at any rate or seed, it isn't trained further or compared, and is reported
    at the end; the others go on, and the same call tries it again. Only validation data
    is looked at. Raises ValueError and TypeError for variants, tasks, seeds, or rates
    that can't be used, NotTheSame (a RuntimeError) if a worker would train something
    else than what the program or notebook holds, and WorkerDied (another one) if a
    worker ends by itself, as without enough memory.
    """
    task = _task_of(task)
    seeds = _seeds_of(seeds)
    rates = _rates_of(rates)
    updates = _count(updates, "updates")
    device = str(torch.device(device))
    rows = [_variant_of(name, row, task) for name, row in _items(variants)]
    folder = Path(folder or project_folder() / "runs" / "experiments")
    workers = workers or loky.cpu_count()
    search = _Search(rows, seeds, rates, updates, device, folder, workers)
    tell(search.cost())
    try:
        compute(search.wanted, _work, workers, search.keep, search.progress)
    except (KeyboardInterrupt, WorkerDied) as error:
        if isinstance(error, WorkerDied):
            log(f"While {', '.join(map(_in_words, error.jobs))}: {error}")
        log(search.stopped())
        raise
    for name in search.found.results:
        for record in search.found.failures(name):
            log(f"{_named(record)}: failed {record['error']}")
    return search.found


def _work(variant: Variant, trial: Trial, is_check: bool) -> Any:
    """Do what a worker is asked."""
    return check(variant, trial) if is_check else train(variant, trial)


# --- what was given ---


def _task_of(task: str | Task) -> Task:
    """Return a task by its name."""
    if isinstance(task, type):
        raise TypeError(f"task must be an object: {task.__name__}(), not a class")
    if not isinstance(task, str):
        return task
    if task not in TASKS:
        raise ValueError(f"task={task!r} is unknown: use {', '.join(TASKS)}")
    return TASKS[task]


def _count(value: Any, name: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name}={value!r}: use a whole number, 1 or more")
    return count


def _seeds_of(seeds: Any) -> list[int]:
    """Return seeds as Python's numbers."""
    try:
        chosen = list(range(operator.index(seeds)))
    except TypeError:
        try:
            chosen = list(map(operator.index, seeds))
        except TypeError:
            raise ValueError(f"seeds={seeds!r}: use whole numbers") from None
    if len(set(chosen)) < max(len(chosen), 3):
        raise ValueError(f"seeds={seeds}: use three or more different ones")
    if taken := set(chosen) & set(SEARCH_SEEDS):
        raise ValueError(f"seeds: {min(taken)} chooses the rates; compare others")
    if min(chosen) < 0 or max(chosen) >= 2**32:
        raise ValueError(f"seeds={seeds}: use numbers from 0 to 2**32 - 1")
    return chosen


def _rates_of(rates: Any) -> list[float]:
    """Return rates as Python's numbers, sorted."""
    wrong = ValueError(f"rates={rates!r}: use positive numbers, as in (0.003, 0.006)")
    try:
        chosen = [number(rate, "a rate") for rate in rates]
    except TypeError:
        raise wrong from None
    if not all(0 < rate < math.inf for rate in chosen):
        raise wrong
    return sorted(set(chosen))


def _items(variants: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(variants, Mapping) or not variants:
        raise TypeError("variants must be a dictionary: name -> function")
    return variants.items()


def _variant_of(name: str, row: Any, task: Task) -> Variant:
    """Return a variant with its identity, if it can be told."""
    build, options = row if isinstance(row, tuple) and len(row) == 2 else (row, {})
    if isinstance(build, nn.Module) or not callable(build):
        raise TypeError(f"{name!r} must be a function that returns a model")
    if not isinstance(options, Mapping):
        raise TypeError(f"{name!r}: {options!r} must be a dictionary of options")
    try:
        identity = identity_of(task, build, options)
    except Uncertain as uncertain:
        log(f"{name}: trained again at each call, because {uncertain}")
        identity = ""
    variant = Variant(str(name), task, build, options, identity)
    try:
        cloudpickle.dumps(variant)
    except Exception as error:
        raise TypeError(
            f"{name!r} can't be sent to a worker ({error}): give a plain function, and"
            " build what it uses inside it"
        ) from None
    return variant


# --- what is still to do ---

Key = tuple  # of a job: the variant's name, its trial, and "check" if it is one


class _Search:
    """Which trainings are missing, as far as one can tell from those that ended?"""

    def __init__(
        self,
        variants: Sequence[Variant],
        seeds: list[int],
        rates: list[float],
        updates: int,
        device: str,
        folder: Path,
        workers: int,
    ) -> None:
        self.variants = {variant.name: variant for variant in variants}
        self.rates, self.updates, self.device = rates, updates, device
        given = getattr(variants[0].task, "first_rates", ())
        self.first_rates = _rates_of(given) or FIRST_RATES
        self.folder, self.workers = folder, workers
        self.seconds: list[float] = []  # of each training that was made
        self.results: dict[str, dict[float, dict[int, Record]]] = {
            name: {} for name in self.variants
        }
        self.found = Experiment(variants[0].task.unit, seeds, self.results, updates)
        self.checked: dict[str, tuple[Trial, Checked]] = {}
        self.unknown = uuid.uuid4().hex  # in the place of identities that aren't known
        self.looked_for: set[tuple[str, Trial]] = set()  # in the folder
        for name in self.variants:
            if not self._reuse(name) and (why := self._changed(name)):
                log(f"{name}: trained anew; {why}")

    def trial(self, rate: float, seed: int) -> Trial:
        is_search = seed in SEARCH_SEEDS
        return Trial(rate, seed, self.updates, self.device, may_end_early=is_search)

    def missing(self, name: str) -> list[Trial]:
        """Return the trainings that a variant needs next."""
        if self.found.failures(name):
            return []
        rates = self._rates_to_search(name)
        if not rates and not self._is_lost(name):
            best = self.rates[0] if len(self.rates) == 1 else self.found.rate(name)
            others = [again[1] for again in self._again() if again[0] == name]
            pairs = itertools.product([best, *others], self.found.seeds)
        else:
            pairs = itertools.product(rates, SEARCH_SEEDS)
        return [
            self.trial(rate, seed)
            for rate, seed in pairs
            if seed not in self.results[name].get(rate, {})
        ]

    def _again(self) -> list[tuple[str, float]]:
        """Return who is to be trained at which rate beside its own, as far as known."""
        names = [name for name in self.found.comparisons if not self._searching(name)]
        if self._searching(self.found.baseline):
            return []
        return [again for name in names if (again := self.found.again(name))]

    def _searching(self, name: str) -> bool:
        return bool(self._rates_to_search(name))

    def _rates_to_search(self, name: str) -> list[float]:
        """Return the rates to try next; none if the best is known."""
        searched = self.found.searched(name)
        if len(self.rates) == 1:
            return []
        first = self.rates or self.first_rates
        if begun := [rate for rate in first if rate not in searched]:
            return begun
        if self.rates:
            return []
        best = self.found.rate(name)
        if best == max(searched) and best < HIGHEST_RATE:
            return [2 * best]
        if best == min(searched) and best > LOWEST_RATE:
            return [best / 2]
        return []

    def _is_lost(self, name: str) -> bool:
        """Return whether a variant diverged at all rates that were searched."""
        searched = self.found.searched(name)
        return bool(searched) and all(map(math.isinf, searched.values()))

    def _is_over(self, name: str) -> bool:
        """Return whether a variant failed, or diverged wherever it was searched."""
        if self.found.failures(name):
            return True
        return self._is_lost(name) and not self._rates_to_search(name)

    def wanted(self) -> dict[Key, tuple]:
        """Return what workers should do: first the checks, then the trainings."""
        jobs: dict[Key, tuple] = {}
        if unchecked := self._unchecked():
            for name, trial in unchecked.items():
                jobs[(name, trial, "check")] = self.variants[name], trial, True
            return jobs
        if problems := self._problems():
            sentences = [f"{name}: {what}." for name, what in problems.items()]
            raise ValueError("\n".join(["Nothing was trained.", *sentences]))
        for name in self.variants:  # a search may ask for what is in the folder
            self._reuse(name)
        missing = {name: self.missing(name) for name in self.variants}
        trials = [(name, trial) for name in missing for trial in missing[name]]
        for name, trial in sorted(trials, key=lambda job: self._turn(job[1])):
            jobs[name, trial] = self.variants[name], trial, False
        return jobs

    def _turn(self, trial: Trial) -> int:
        """Return when a trial is due: first the search, then one seed after another."""
        return -1 if trial.may_end_early else self.found.seeds.index(trial.seed)

    def _problems(self) -> dict[str, str]:
        """Return what is wrong with variants that were checked."""
        rows = self.checked.items()
        return {name: row.problem for name, (_, row) in rows if row.problem}

    def _unchecked(self) -> dict[str, Trial]:
        """Return the variants that are to be trained and weren't checked, and how."""
        missing = {name: self.missing(name) for name in self.variants}
        return {
            name: trials[0]
            for name, trials in missing.items()
            if trials and name not in self.checked
        }

    def keep(self, key: Key, result: Any) -> str | None:
        """Keep what a worker returned; return a line about a training."""
        name, trial, *is_check = key
        if is_check:
            self.checked[name] = trial, result
            if not self._unchecked() and not self._problems():
                self._tell_twins()
                tell(self._passed())
            return None
        self.seconds.append(result["seconds"])
        self.results[name].setdefault(trial.rate, {})[trial.seed] = result
        if result["ended"] != "failed":
            write_json(self.file_of(name, trial), result)
        loss = self.found.loss(name, trial.rate, trial.seed)
        said = f"{loss:.4f} {self.found.unit}"
        if result["ended"] == "early":
            said += ", ended early, as nothing was learned"
        elif result["ended"]:
            said = result["ended"]  # an exception is told at the end
        return f"{_named(result)}: {said}"

    def _tell_twins(self) -> None:
        """Warn of a variant that begins as one before it does."""
        for place, name in enumerate(names := list(self.variants)):
            if name not in self.checked:
                continue
            trial, result = self.checked[name]
            begun = list(result.found[:CHECKED_UPDATES])
            same = (x for x in names[:place] if self._beginning(x, trial) == begun)
            if begun and (other := next(same, "")):
                log(
                    f"{name}: its first losses are exactly those of {other}. Unless it"
                    " is to differ only later, as with another schedule, interrupt"
                    " this: what was changed takes no part"
                )

    def _beginning(self, name: str, trial: Trial) -> list[float]:
        """Return a variant's first losses in a trial, as far as they are known."""
        found = self.checked.get(name)
        if found and found[0] == trial:
            return list(found[1].found[:CHECKED_UPDATES])
        record = self.results[name].get(trial.rate, {}).get(trial.seed)
        return record["losses"][:CHECKED_UPDATES] if record else []

    def _passed(self) -> str:
        """Say what the checks have found in order."""
        task = next(iter(self.variants.values())).task
        passed = "weights are fresh, and a seed gives the same first losses again"
        if isinstance(task, Translation | Continuation):
            passed += "; no output sees a later word"
        elif hasattr(task, "check"):
            passed += "; the task's own check finds nothing"
        return f"Checked ({len(self.checked)}): {passed}"

    # --- how long it takes ---

    def _left(self) -> tuple[int, int]:
        """Return how many trainings are still to make, at least and at most."""
        counts = [self._left_of(name) for name in self.variants]
        undecided = [
            name
            for name, found in self.found.comparisons.items()
            if found is None and len(self.rates) != 1
        ]
        fewest, most = (sum(each) for each in zip(*counts, strict=True))
        return fewest, most + len(undecided) * len(self.found.seeds)

    def _left_of(self, name: str) -> tuple[int, int]:
        if self.found.failures(name):
            return 0, 0
        first = self._rates_to_search(name)
        if not first:
            count = len(self.missing(name))
            return count, count
        known = len(self.missing(name)) + len(self.found.seeds)
        if self.rates:
            return known, known
        tried = [*self.found.searched(name), *first]
        further = max(HIGHEST_RATE / max(tried), min(tried) / LOWEST_RATE, 1)
        fewest, most = max(3 - len(tried), 0), math.ceil(math.log2(further) - 1e-9)
        each = len(SEARCH_SEEDS)
        return known + each * fewest, known + each * most

    def cost(self) -> str:
        """Say how many trainings are to be made."""
        fewest, most = self._left()
        if not most:
            return "Nothing is left to train."
        many = f"{fewest}" if fewest == most else f"at least {fewest}, at most {most}"
        return f"Trainings to make: {many}; {self.workers} at a time"

    def progress(self) -> str:
        """Say how many trainings were made, and how long the others may take."""
        made = len(self.seconds)
        fewest, most = self._left()
        bound = "" if fewest == most else "at least "
        text = f"{made} of {bound}{made + fewest}"
        if made and fewest:
            rounds = max(fewest / self.workers, 1)
            left = _duration(rounds * statistics.fmean(self.seconds))
            text += f", {bound or 'about '}{left} left"
        return text

    def stopped(self) -> str:
        """Say what is complete, and how to go on."""
        text = f"Stopped after {len(self.seconds)} trainings. "
        if (complete := self._complete()) is not None:
            count, planned = len(complete.seeds), len(self.found.seeds)
            text += "What is complete"
            if count < planned:
                text += f" ({count} of {planned} seeds; intervals hold unless what you"
                text += " saw made you stop)"
            text += f":\n\n{complete}\n\n"
        text += "Call experiment again as before, and it goes on from here."
        if unknown := [one.name for one in self.variants.values() if not one.identity]:
            text += f" (Not with {', '.join(unknown)}: see above.)"
        return text

    def _complete(self) -> Experiment | None:
        """Return what the first seeds tell, if all variants have three or more."""
        going = [name for name in self.variants if not self._is_over(name)]
        if any(map(self._rates_to_search, going)):
            return None
        trained = [self.results[name].get(self.found.rate(name), {}) for name in going]
        seeds = list(
            itertools.takewhile(
                lambda seed: all(seed in each for each in trained), self.found.seeds
            )
        )
        if going and len(seeds) >= 3:
            return dataclasses.replace(self.found, seeds=seeds)
        return None if all(map(self.missing, self.variants)) else self.found

    # --- what is in the folder ---

    def file_of(self, name: str, trial: Trial) -> Path:
        identity = self.variants[name].identity or self.unknown
        whole = repr((name, identity, sorted(dataclasses.asdict(trial).items())))
        digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
        parts = _in_files(name), f"{trial.rate:g}", str(trial.seed), digest
        return self.folder / f"{'-'.join(parts)}.json"

    def stored(self, name: str, trial: Trial) -> Record | None:
        """Return the record of a training that was made before, if there is one."""
        path, identity = self.file_of(name, trial), self.variants[name].identity
        if not identity or not path.exists():
            return None
        asked = {"variant": name, "identity": identity, **dataclasses.asdict(trial)}
        unit = self.found.unit
        try:
            record = read_json(path)
            date.fromisoformat(record["date"])
            is_asked = all(record[key] == value for key, value in asked.items())
            is_judged = record["ended"] == "diverged" or math.isfinite(
                record["measured"][unit]
            )
            if is_asked and is_judged and record.keys() >= RECORDED:
                return record
        except (DataError, KeyError, TypeError, ValueError):
            pass
        log(f"{path} is damaged; its training is repeated")
        return None

    def _reuse(self, name: str) -> bool:
        """Take what is in the folder, and say so; return whether anything is."""
        dates: dict[str, int] = defaultdict(int)
        for record in self._known(name):
            dates[record["date"]] += 1
        for day, count in sorted(dates.items()):
            trainings = f"{count} training{'s' if count > 1 else ''}"
            log(f"{name}: {trainings} of {_day(day)}, unchanged")
        return bool(dates)

    def _changed(self, name: str) -> str:
        """Say why the last trainings of this name can't be reused, if there are any."""
        asked = dataclasses.asdict(self.missing(name)[0])
        found: dict[str, set[str]] = defaultdict(set)  # by date, identities
        for path in self.folder.glob(f"{_in_files(name)}-*.json"):
            with suppress(DataError, KeyError, TypeError, ValueError):
                record = read_json(path)
                same = all(record[key] == asked[key] for key in ("updates", "device"))
                date.fromisoformat(record["date"])
                if record["variant"] == name and same and record["identity"]:
                    found[record["date"]].add(record["identity"])
        ours = self.variants[name].identity
        if not ours or not found or ours in set().union(*found.values()):
            return ""  # nothing has changed; it is asked for other rates or seeds
        day, program = max(found), ours.partition("-")[0]
        if any(theirs.startswith(f"{program}-") for theirs in found[day]):
            what = "its code, a value that it uses, or the task was another"
        else:
            what = "a package, this repository, or a setting of PyTorch was another"
        return f"{what} on {_day(day)}"

    def _known(self, name: str) -> Iterator[Record]:
        """Yield the records that a search would make, as far as they are there."""
        while True:
            keys = [(name, trial) for trial in self.missing(name)]
            if not (new := [key for key in keys if key not in self.looked_for]):
                return
            self.looked_for.update(new)
            for _, trial in new:
                if record := self.stored(name, trial):
                    by_seed = self.results[name].setdefault(trial.rate, {})
                    by_seed[trial.seed] = record
                    yield record


def _in_words(job: Key) -> str:
    """Say what a worker does."""
    name, trial, *is_check = job
    how = "checking" if is_check else "training"
    return f"{how} {name}, rate {trial.rate:g}, seed {trial.seed}"


def _named(record: Record) -> str:
    return f"{record['variant']}, rate {record['rate']:g}, seed {record['seed']}"


def _in_files(name: str) -> str:
    """Return how the files of a variant begin; others may begin like it."""
    return re.sub(r"\W+", "_", name)[:40]


def _duration(seconds: float) -> str:
    """Return seconds in words, roughly."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _day(iso: str) -> str:
    day = date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"
