"""What did an experiment find?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotated_transformer import optional_import
from transformer_workshop.base.files import write_atomically
from transformer_workshop.lab.statistics import Comparison, compare_pairs
from transformer_workshop.lab.trials import Record

if TYPE_CHECKING:
    import altair
    import pandas

SEARCH_SEEDS = (1000, 1001, 1002)  # choose the rates, and aren't compared
Results = Mapping[str, Mapping[float, Mapping[int, Record]]]  # by name, rate, and seed


@dataclass
class Experiment:
    """What was found: by variant, rate, and seed.

    Print it, or show ``table`` (a row for each variant) and ``chart()``. ``frame`` has
    everything, a row for each variant, rate, seed, and update; ``to_csv`` writes it.

    The first variant is the baseline. Each counts at its own best rate, the one with
    the lowest mean loss from seeds that aren't compared (SEARCH_SEEDS). Differences are
    between trainings from the same seed, with the same batches; all their intervals
    hold at once in 95 of 100 experiments (``lab/statistics.py``), so of twenty
    experiments with ideas that change nothing, one tells something apart by chance.
    Times are compared between the fastest trainings of one day, and still rough if the
    machine is busy.

    If trainings are missing, it says whose.
    """

    unit: str
    seeds: Sequence[int]
    results: Results
    updates: int = 0

    def loss(self, name: str, rate: float, seed: int) -> float:
        """Return what was measured; infinity if the training diverged or failed."""
        measured = self.results[name][rate][seed]["measured"]
        return math.inf if measured is None else measured[self.unit]

    def searched(self, name: str) -> dict[float, float]:
        """Return the mean losses by which a variant's rate is chosen, by rate."""
        by_rate = sorted(self.results[name].items())
        return {
            rate: statistics.fmean(self.loss(name, rate, s) for s in SEARCH_SEEDS)
            for rate, by_seed in by_rate
            if by_seed.keys() >= set(SEARCH_SEEDS)
        }

    def rate(self, name: str) -> float:
        """Return a variant's best rate."""
        searched = self.searched(name)
        if not searched:  # one rate was given
            return min(self.results[name], default=math.nan)
        return min(searched, key=searched.__getitem__)

    def losses(self, name: str, rate: float | None = None) -> list[float]:
        """Return a variant's losses at its best rate, or another, from compared seeds.

        Infinity stands for those that diverged, failed, or weren't tried any more.
        """
        rate = self.rate(name) if rate is None else rate
        trained = self.results[name].get(rate, {})
        return [
            self.loss(name, rate, seed) if seed in trained else math.inf
            for seed in self.seeds
        ]

    def failures(self, name: str) -> list[Record]:
        """Return the records of a variant's trainings that raised an exception."""
        trainings = self._trainings(name)
        return [record for record in trainings if record["ended"] == "failed"]

    def differences(self, name: str) -> list[float]:
        """Return a variant's losses less those of the baseline, by seed.

        Empty if any of them is missing.
        """
        return self._apart(self.losses(name), self.losses(self.baseline))

    @staticmethod
    def _apart(one: list[float], two: list[float]) -> list[float]:
        pairs = list(zip(one, two, strict=True))
        if math.inf in [loss for pair in pairs for loss in pair]:
            return []
        return [ours - theirs for ours, theirs in pairs]

    @property
    def baseline(self) -> str:
        """The name of the first variant."""
        return next(iter(self.results))

    @property
    def comparisons(self) -> dict[str, Comparison | None]:
        """Each other variant's difference, None where nothing can be compared."""
        others = [name for name in self.results if name != self.baseline]
        return {name: self._compared(self.differences(name)) for name in others}

    def _compared(self, differences: list[float]) -> Comparison | None:
        """Compare with intervals that hold for all variants at once."""
        others = len(self.results) - 1
        return compare_pairs(differences, others) if differences else None

    def again(self, name: str) -> tuple[str, float] | None:
        """Return who has to be trained at which rate before a difference counts.

        A search may miss a variant's best rate by bad luck. So who is worse is trained
        at the rate of who is better, too, if it is another.
        """
        found = self.comparisons[name]
        ours, theirs = self.rate(name), self.rate(self.baseline)
        if found is None or not (found.half and found.is_apart) or ours == theirs:
            return None
        return (name, theirs) if found.difference > 0 else (self.baseline, ours)

    def at_one_rate(self, name: str) -> Comparison | None:
        """Return a variant's difference at the rate of who is better, if known."""
        asked = self.again(name)
        if asked is None:
            return None
        one, two = (self.losses(each, asked[1]) for each in (name, self.baseline))
        return self._compared(self._apart(one, two))

    def _trainings(self, name: str) -> list[Record]:
        """Return a variant's trainings by rate and seed."""
        by_rate = sorted(self.results[name].items())
        return [by_seed[seed] for _, by_seed in by_rate for seed in sorted(by_seed)]

    # --- tables ---

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each variant, at its best rate: what ``table`` shows."""
        return [self._row(name) for name in self.results]

    def _row(self, name: str) -> dict[str, Any]:
        rate = self.rate(name)
        compared = [
            self.results[name][rate][seed]
            for seed in self.seeds
            if seed in self.results[name].get(rate, {})
        ]
        measured = [r["measured"] for r in compared if r["measured"] is not None]
        is_whole = len(measured) == len(self.seeds)
        is_chosen = bool(compared) and not self.failures(name)
        row = {"variant": name, "rate": rate if is_chosen else math.nan}
        row[self.unit] = math.nan
        if is_whole:
            row[self.unit] = statistics.fmean(self.losses(name))
        if name != self.baseline:
            found = self.comparisons[name]
            bounds = (found.difference, found.low, found.high) if found else ()
            values = bounds or (math.nan, math.nan, math.nan)
            row |= dict(zip(("difference", "from", "to"), values, strict=True))
        if is_whole:
            for key in measured[0]:
                if key != self.unit:
                    row[key] = statistics.fmean(found[key] for found in measured)
        sizes = [record["parameters"] for record in self._trainings(name)]
        built = [size for size in sizes if size is not None]
        row["parameters"] = max(built, default=math.nan)
        return row

    def _fastest(self, name: str) -> dict[str, float]:
        """Return each day's milliseconds per update in the fastest training."""
        by_day: dict[str, float] = {}
        for record in self._trainings(name):
            if (spent := record["milliseconds"]) is not None:
                by_day[record["date"]] = min(spent, by_day.get(record["date"], spent))
        return by_day

    @property
    def table(self) -> pandas.DataFrame:
        """The rows as a data frame."""
        pd = optional_import("pandas")
        return pd.DataFrame(self.rows).set_index("variant")

    def _shown(self) -> pandas.DataFrame:
        """Return the table with four digits of what isn't a whole number."""
        return self.table.map(
            lambda x: float(f"{x:.4g}") if isinstance(x, float) else x
        )

    @property
    def frame(self) -> pandas.DataFrame:
        """Everything as a data frame: a row for each variant, rate, seed, and update.

        ``loss`` is that of the update. What else is measured stands in the last row of
        a training: ``judged`` holds the unit's, and others have their names. ``ended``
        says how a training ended, if not as it should, and ``error`` what it raised.
        ``search`` marks trainings that only chose a rate. The costs and the ``date``
        are those of the whole training and stand in each of its rows.
        """
        pd = optional_import("pandas")
        rows = []
        for name in self.results:
            for record in self._trainings(name):
                rows += self._steps(record)
        return pd.DataFrame(rows)

    def _steps(self, record: Record) -> list[dict[str, Any]]:
        """Return the rows of a training."""
        keys = ("variant", "rate", "seed")
        costs = {
            "search": record["seed"] in SEARCH_SEEDS,
            "ended": record["ended"],
            "error": record.get("error", ""),
            "parameters": record["parameters"],
            "ms per update": record["milliseconds"],
            "seconds": record["seconds"],
            "megabytes": record["megabytes"],
            "device": record["device"],
            "date": record["date"],
        }
        measured = dict(record["measured"] or {})
        measured = {"judged": measured.pop(self.unit, math.nan)} | measured
        rows = []
        for step, loss in enumerate(record["losses"] or [math.nan], 1):
            row = {key: record[key] for key in keys} | {"step": step, "loss": loss}
            rows.append(row | {key: math.nan for key in measured} | costs)
        rows[-1] |= measured
        return rows

    def to_csv(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write ``frame`` to a file, which ends up complete or isn't written.

        Raises FileExistsError if there is one, unless ``overwrite`` is true.
        """
        if Path(path).exists() and not overwrite:
            raise FileExistsError(f"{path} exists: use another name, or overwrite=True")
        write_atomically(path, self.frame.to_csv(index=False).encode())

    def chart(self) -> altair.HConcatChart:
        """Draw loss over rate, and each difference with its interval."""
        from transformer_workshop.pictures.rates import experiment_chart

        searched = {name: self.searched(name) for name in self.results}
        for name, by_rate in searched.items():
            if not by_rate and math.inf not in self.losses(name):
                by_rate[self.rate(name)] = statistics.fmean(self.losses(name))
        compared = {name: {self.rate(name): self.losses(name)} for name in self.results}
        differences = {name: self.differences(name) for name in self.comparisons}
        return experiment_chart(searched, compared, self.rows, differences, self.unit)

    # --- words ---

    def __repr__(self) -> str:
        if find_spec("pandas") is None:
            return self.in_words
        return f"{self._shown().to_string(na_rep='')}\n\n{self.in_words}"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self._shown(), self.chart())
        print(self.in_words)

    @property
    def in_words(self) -> str:
        """A sentence for each variant: is it told apart from the baseline?"""
        if not self.comparisons:
            return self._alone(self.baseline)
        return "\n".join(map(self._sentence, self.comparisons))

    def _alone(self, name: str) -> str:
        """Say what a variant reaches that is compared with nothing."""
        if trouble := self._trouble(name):
            return f"{name}: {trouble}."
        losses = self.losses(name)
        spread = statistics.stdev(losses)
        digits = _digits(spread)
        return (
            f"{name}: {statistics.fmean(losses):.{digits}f} {self.unit}{self._trained}"
            f" There is nothing to compare it with.{self._at_an_end(name)}"
        )

    def _trouble(self, name: str) -> str:
        """Say why a variant has no losses to compare; "" if it has."""
        if failures := self.failures(name):
            one = failures[0]
            where = f"at rate {one['rate']:g}, from seed {one['seed']}"
            return f"failed {where}, {one['error']}"
        rate = self.rate(name)
        if math.inf in self.searched(name).values() and math.isinf(
            self.searched(name)[rate]
        ):
            return "diverged at every rate that was tried"
        trained = [s for s in self.seeds if s in self.results[name].get(rate, {})]
        lost = [seed for seed in trained if math.isinf(self.loss(name, rate, seed))]
        if lost:
            of_all = f"from {len(lost)} of {len(self.seeds)} seeds"
            return f"diverged {of_all} at rate {rate:g} ({', '.join(map(str, lost))})"
        if len(trained) < len(self.seeds):
            return f"was trained from {len(trained)} of {len(self.seeds)} seeds"
        return ""

    @property
    def _trained(self) -> str:
        return f" after {self.updates} updates, from {len(self.seeds)} seeds."

    def _sentence(self, name: str) -> str:
        """Say whether a variant is told apart from the baseline, and what it costs."""
        reference = self.baseline
        for one in (name, reference):
            if trouble := self._trouble(one):
                return f"{name} and {reference} can't be compared: {one} {trouble}."
        found = self.comparisons[name]
        assert found is not None
        digits = _digits(found.half or found.difference)
        ours, theirs = (
            f"{statistics.fmean(self.losses(each)):.{digits}f}"
            for each in (name, reference)
        )
        text = f"{name}: {ours} {self.unit}, {reference}: {theirs} "
        ends = self._at_an_end(name, reference)
        if not any(self.differences(name)):
            text += "(the same from each seed, to the last digit): they are exactly"
            return f"{text} equal{self._trained}{self._costs(name)}{ends}"
        if not found.half:
            text += f"({found.difference:+.{digits}f} from each seed): can't be judged,"
            return f"{text} as the seed changes nothing that could show chance.{ends}"
        low, high = f"{found.low:+.{digits}f}", f"{found.high:+.{digits}f}"
        text += f"({found.difference:+.{digits}f}, 95 % from {low} to {high}): "
        if found.is_apart and self.again(name):
            text += self._at_one_rate(name, digits) + self._trained
        elif found.is_apart:
            text += f"{name} is {'worse' if found.difference > 0 else 'better'}"
            text += self._trained
        else:
            text += f"can't be told apart{self._trained} (A true difference of"
            text += f" {found.detectable:.{digits}f} would be told apart four times in"
            text += " five.)"
        return f"{text}{self._costs(name)}{ends}"

    def _at_one_rate(self, name: str, digits: int) -> str:
        """Say whether a difference between two rates is there at one rate, too."""
        asked, there = self.again(name), self.at_one_rate(name)
        assert asked is not None
        who, rate = asked
        own = self.comparisons[name]
        assert own is not None
        verdict = f"{name} is {'worse' if own.difference > 0 else 'better'}"
        if there is None:
            return (
                f"{verdict}, but {who} wasn't trained at {rate:g}, which may suit it,"
            )
        shown = f"({there.difference:+.{digits}f}, 95 % from {there.low:+.{digits}f}"
        shown += f" to {there.high:+.{digits}f})"
        if there.is_apart and (there.difference > 0) == (own.difference > 0):
            return f"{verdict}, and so it is with both at {rate:g} {shown},"
        return (
            f"can't be told apart, because it isn't so with both at {rate:g} {shown},"
        )

    def _costs(self, name: str) -> str:
        """Say how large and how slow a variant is, against the baseline."""
        row, baseline = self._row(name), self._row(self.baseline)
        more = row["parameters"] - baseline["parameters"]
        size = "as many parameters"
        if more:
            one = "" if abs(more) == 1 else "s"
            size = f"{abs(more):,} parameter{one} {'more' if more > 0 else 'fewer'}"
        text = f" It has {size}"
        ours, usual = self._fastest(name), self._fastest(self.baseline)
        days = [day for day in ours.keys() & usual.keys() if usual[day]]
        times = ours[max(days)] / usual[max(days)] if days else 1.0
        if not 1 / 1.5 < times < 1.5:  # less may come from what else the machine does
            text += f", and an update takes {times:.1f} times the time"
        return f"{text}."

    def _at_an_end(self, *names: str) -> str:
        """Say whose best rate has no worse one on both sides, or ended early."""
        text = ""
        for name in names:
            rates, best = list(self.searched(name)), self.rate(name)
            if len(rates) > 1 and best in (rates[0], rates[-1]):
                end = "lowest" if best == rates[0] else "highest"
                text += f" The best rate of {name} is the {end} that was tried."
            text += self._early(name)
        return text

    def _early(self, name: str) -> str:
        """Say where trainings of a search ended early and may have changed its choice.

        That is so at the best rate, and where others at the same rate didn't end early.
        """
        ended: dict[float, int] = {}
        for rate in self.searched(name):
            records = (self.results[name][rate][seed] for seed in SEARCH_SEEDS)
            ended[rate] = sum(record["ended"] == "early" for record in records)
        everyone = len(SEARCH_SEEDS)
        doubtful = [
            rate
            for rate, count in ended.items()
            if 0 < count < everyone or count and rate == self.rate(name)
        ]
        if not doubtful:
            return ""
        rates = ", ".join(f"{rate:g}" for rate in doubtful)
        return (
            f" While the rate of {name} was searched, trainings at {rates} ended early,"
            " as they had learned nothing in half of the updates; had they gone on,"
            " another rate might have been chosen."
        )


def _digits(size: float) -> int:
    """Return how many decimals of a loss mean something beside a size."""
    return max(2 - math.floor(math.log10(abs(size) or 1)), 0)
