"""Train chapter 6's GPT on its own samples, as the grammar judges them: chapter 7.

    python benchmarks/reinforce.py [--seeds 0 1 2 3 4] [--only SEED] [--added]

Two rewards that are hacked ("runs"), and a race ("race"): imitating kept samples, or
kept new ones, against rewards, all with as many samples and updates. Each model is
drawn from at all TEMPERATURES. Rate, rounds or leash, and temperature of each way are
chosen beforehand, by trainings from the seeds TUNED_ON ("tuning"), for the most new
sentences. "parts" are the two filters of kept samples, in one round and in four. Others
are run in the same way: "controls" (more training on the captions, on unfiltered
samples, and on samples drawn at the temperature COOL), "few samples" (a few groups,
each used once or several times, without and with ratio and clip) and "baseline" (the
reward with and without the group's mean). "drawn and filtered" is how many different
new sentences the first model's own samples have, at its best temperature. "unseen" is
a race of the strict ways for sentences that are new to the model itself, too, and
"rewards" takes the shared reward apart; ``--added`` measures only these two, and adds
them to what is stored.
Takes some 80 CPU minutes. Each training is kept in runs/reinforce/, so that the program
goes on where it was stopped, and that with ``--only`` several processes can share the
seeds; results/reinforce.json has all that are there. ``measure`` of
transformer_workshop/lab/verifier.py says what the figures mean.
"""

import argparse
import contextlib
import itertools
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from math import comb
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

import annotated_transformer as at
from annotated_transformer import END
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import log, read_json, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.tasks import english_captions
from transformer_workshop.lab.verifier import (
    COUNTED,
    LONGEST,
    as_text,
    captions_gpt,
    coverage,
    known_captions,
    measure,
    parse,
)

FOLDER = project_folder()
sys.path[:0] = [str(FOLDER / "data" / "captions")]
import captions as grammar  # noqa: E402

KEPT = FOLDER / "runs" / "reinforce"
GROUP, UPDATES, RATE = 80, 40, 7e-4
BETA = 0.05  # what a nat of divergence from the first model costs
SAMPLES = 300
ROUNDS = (1, 4)  # in which samples are drawn, kept, and imitated
TUNED_ON = (100, 101, 102)  # seeds that take no part in a race
RATES = (8.75e-5, 1.75e-4, 3.5e-4, 7e-4, 1.4e-3, 2.8e-3)
FEW, USES, CLIP = 5, 8, 0.2  # groups; updates with each; how far a ratio counts
TEMPERATURES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2)
MIDDLE = TEMPERATURES[2:7]  # at which sentences are unseen
TRIES = (1, 10, 30, 100, 300)  # samples in which patterns are counted

Reward = Callable[[Tensor], Tensor]


def possible(ids: Tensor) -> Tensor:
    """Return 1 for each sentence that the grammar could have said, 0 for others."""
    return torch.tensor([float(parse(line) is not None) for line in as_text(ids)])


def divided(ids: Tensor) -> Tensor:
    """Let equal sentences share a reward."""
    lines = as_text(ids)
    return possible(ids) / torch.tensor([float(lines.count(line)) for line in lines])


def only_new(ids: Tensor) -> Tensor:
    """Give no reward to training sentences."""
    new = [float(line not in known_captions()) for line in as_text(ids)]
    return possible(ids) * torch.tensor(new)


def shared(ids: Tensor) -> Tensor:
    """Let equal sentences share a reward, and give none to training sentences."""
    return divided(ids) * only_new(ids)


def paid_once() -> Reward:
    """Return the shared reward, but nothing for what an earlier group has written.

    That is the filter of the kept new samples: each sentence of a training counts once.
    """
    written: set[str] = set()

    def reward(ids: Tensor) -> Tensor:
        lines = as_text(ids)
        fresh = torch.tensor([float(line not in written) for line in lines])
        written.update(lines)
        return shared(ids) * fresh

    return reward


def on_a_leash(reward: Reward, model: at.GPT, first: at.GPT, beta: float) -> Reward:
    """Return a reward less what it costs to leave the first model (the KL penalty)."""

    def less(ids: Tensor) -> Tensor:
        with torch.no_grad():
            gone = at.sentence_log_p(model, ids) - at.sentence_log_p(first, ids)
        return reward(ids) - beta * gone

    return less


def keep(
    rows: dict[str, Tensor],
    model: at.GPT,
    groups: int,
    passes: Callable[[str], bool],
    draw: torch.Generator,
    temperature: float,
) -> None:
    """Add what passes of a model's own samples to ``rows``, each sentence once."""
    prompt = torch.full((GROUP, 1), END)
    dials: dict[str, Any] = {"draw": draw, "temperature": temperature}
    for _ in range(groups):
        ids = at.generate(model, prompt, LONGEST, END, **dials)
        for line, row in zip(as_text(ids), ids, strict=True):
            if passes(line):
                rows[line] = row


FILTERS: dict[str, Callable[[str], bool]] = {
    "unfiltered": lambda line: True,
    "kept": lambda line: parse(line) is not None,
    "kept new": lambda line: parse(line) is not None and line not in known_captions(),
}


def optimizer_of(model: at.GPT, rate: float) -> torch.optim.Optimizer:
    """Return the optimizer of ``reinforce``."""
    return torch.optim.AdamW(model.parameters(), rate, weight_decay=0.0)


def step(model: at.GPT, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Make an update, as ``reinforce`` does."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def imitate(
    model: at.GPT,
    passes: Callable[[str], bool],
    seed: int,
    rate: float,
    rounds: int,
    groups: int = UPDATES,
    temperature: float = 1.0,
) -> set[str]:
    """Train on own samples that are kept; ``groups`` of them are drawn in all.

    In a first round, the model draws from what it is; in a later one, from what it has
    become. What was kept stays, and is returned.
    """
    draw = torch.Generator().manual_seed(seed)
    optimizer = optimizer_of(model, rate)
    rows: dict[str, Tensor] = {}
    for update in range(UPDATES):
        if update % (UPDATES // rounds) == 0:
            keep(rows, model, groups // rounds, passes, draw, temperature)
            padded = torch.nn.utils.rnn.pad_sequence([*rows.values()], True, END)
        ids = padded[torch.randint(len(padded), (GROUP,), generator=draw)]
        step(model, optimizer, at.policy_loss(model, ids, torch.ones(len(ids))))
    return set(rows)


def clipped_loss(
    model: at.GPT, ids: Tensor, advantages: Tensor, old: Tensor, clip: float
) -> Tensor:
    """Return PPO's loss (equation 7) of rows whose log p was ``old`` when drawn.

    With an infinite ``clip``, a token counts as much as its ratio p / p_old says.
    """
    ratio = (at.token_log_p(model, ids) - old).exp()
    gain = ratio * advantages.unsqueeze(-1)
    clipped = ratio.clamp(1 - clip, 1 + clip) * advantages.unsqueeze(-1)
    return -torch.min(gain, clipped).sum(dim=-1).mean()


def train_on_captions(model: at.GPT, seed: int, rate: float) -> None:
    """Go on with the captions of the training set, for as many updates and rows."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = optimizer_of(model, rate)
    ends = (english_captions()[0] == END).nonzero().flatten().tolist()
    rows = [english_captions()[0][a : b + 1] for a, b in itertools.pairwise(ends)]
    for _ in range(UPDATES):
        picked = torch.randint(len(rows), (GROUP,), generator=draw).tolist()
        ids = torch.nn.utils.rnn.pad_sequence([rows[i] for i in picked], True, END)
        step(model, optimizer, at.policy_loss(model, ids, torch.ones(GROUP)))


def use(
    model: at.GPT,
    seed: int,
    rate: float,
    reward: Reward,
    *,
    groups: int = UPDATES,
    uses: int = 1,
    clip: float | None = None,
    less_the_mean: bool = True,
) -> None:
    """Use each group for several updates; without a clip, as if it were fresh."""
    draw, prompt = torch.Generator().manual_seed(seed), torch.full((GROUP, 1), END)
    optimizer = optimizer_of(model, rate)
    for _ in range(groups):
        ids = at.generate(model, prompt, LONGEST, END, draw=draw)
        rewards = reward(ids)
        advantages = rewards - rewards.mean() if less_the_mean else rewards
        with torch.no_grad():
            old = at.token_log_p(model, ids)
        for _ in range(uses):
            if clip is None:
                loss = at.policy_loss(model, ids, advantages)
            else:
                loss = clipped_loss(model, ids, advantages, old, clip)
            step(model, optimizer, loss)


FIRST = "first model"
REWARDS = {"possible": possible, "shared": shared}
PARTS = {"only divided": divided, "only new": only_new}  # of the shared reward
SETTINGS: dict[str, list[dict[str, float]]] = {  # of each way, to choose from
    FIRST: [{}],
    "kept": [{"rate": rate, "rounds": n} for n in ROUNDS for rate in RATES],
    "kept new": [{"rate": rate, "rounds": n} for n in ROUNDS for rate in RATES],
    "shared": [{"rate": rate, "beta": b} for b in (0.0, BETA) for rate in RATES],
    "paid once": [{"rate": rate, "beta": b} for b in (0.0, BETA) for rate in RATES],
}
AGAIN = {"again": None, "again, ratio": math.inf, "again, ratio and clip": CLIP}
LOW = (RATES[0] / 2, *RATES[:4])  # where the highest are too high
STRICT = {  # what counts a new sentence once; to get sentences new to the model itself
    "kept new": [{"rate": rate, "rounds": n} for n in ROUNDS for rate in LOW],
    "paid once": [{"rate": rate, "beta": b} for b in (0.0, BETA) for rate in LOW],
}
COOL = 0.5  # the first model's best temperature
SMALLER = {  # races, each with its ways
    "controls": {
        "captions": [{"rate": rate} for rate in RATES],
        "unfiltered": [{"rate": rate} for rate in RATES],
        "kept new, cool": [
            {"rate": rate, "rounds": n} for n in ROUNDS for rate in RATES
        ],
    },
    "few samples": {
        "once": [{"rate": rate} for rate in (*RATES[3:], 2 * RATES[-1])],
        **{way: [{"rate": rate} for rate in LOW] for way in AGAIN},
        "kept new, few": [{"rate": rate} for rate in LOW],
    },
    "baseline": {
        "shared": [{"rate": rate, "beta": 0.0} for rate in RATES],
        "without the mean": [{"rate": rate} for rate in RATES],
    },
}


def trained(
    way: str, seed: int, rate: float = RATE, beta: float = 0.0, rounds: int = 1
) -> tuple[at.GPT, list[dict[str, float]], set[str]]:
    """Return a model trained in one way, what was in each update's group, and what the
    ways of the race have learned from: sentences that were kept, or paid for."""
    first, model = captions_gpt(), captions_gpt()
    groups: list[dict[str, float]] = []
    learned: set[str] = set()
    if way in FILTERS:
        learned |= imitate(model, FILTERS[way], seed, rate, rounds)
    elif way == "kept new, cool":
        imitate(model, FILTERS["kept new"], seed, rate, rounds, temperature=COOL)
    elif way == "kept new, few":
        imitate(model, FILTERS["kept new"], seed, rate, rounds=FEW, groups=FEW)
    elif way == "captions":
        train_on_captions(model, seed, rate)
    elif way in AGAIN:
        few = {"groups": FEW, "uses": USES, "clip": AGAIN[way]}
        use(model, seed, rate, paid_once(), **few)
    elif way == "without the mean":
        use(model, seed, rate, shared, less_the_mean=False)
    elif way != FIRST:
        once_each = way in ("paid once", "once")
        paid = paid_once() if once_each else (REWARDS | PARTS)[way]

        def noted(ids: Tensor) -> Tensor:
            good, lines = possible(ids).mean().item(), as_text(ids)
            groups.append(
                {"possible": round(good, 3), "distinct": len(set(lines)) / GROUP}
            )
            rewards = paid(ids)
            learned.update(itertools.compress(lines, rewards.tolist()))
            return rewards

        reward = on_a_leash(noted, model, first, beta) if beta else noted

        number = FEW if way == "once" else UPDATES
        for _ in at.reinforce(model, reward, number, group=GROUP, rate=rate, seed=seed):
            pass
    return model, groups, learned


def patterns_in(model: at.GPT, seed: int, temperature: float) -> dict[str, float]:
    """Return how many patterns are to be expected in the possible ones of k samples.

    As pass@k is estimated: over all choices of k of the SAMPLES that are drawn.
    """
    prompt, draw = torch.full((SAMPLES, 1), END), torch.Generator().manual_seed(seed)
    dials: dict[str, Any] = {"draw": draw, "temperature": temperature}
    lines = as_text(at.generate(model, prompt, LONGEST, END, **dials))
    counts = Counter(found.skeleton for line in lines if (found := parse(line)))
    return {
        str(k): round(
            sum(1 - comb(SAMPLES - n, k) / comb(SAMPLES, k) for n in counts.values()), 2
        )
        for k in TRIES
    }


def hacked(way: str, seed: int) -> dict[str, Any]:
    """Train with a reward that is hacked; return what was measured."""
    model, groups, _ = trained(way, seed)
    prompt, draw = torch.full((6, 1), END), torch.Generator().manual_seed(1)
    said = as_text(at.generate(model, prompt, LONGEST, END, draw=draw))
    measured = measure(model, captions_gpt(), SAMPLES)
    return {"way": way, "seed": seed, **measured, "samples": said, "groups": groups}


def entered(way: str, seed: int, settings: dict[str, float]) -> dict[str, Any]:
    """Train one model of the race, and measure it at all temperatures.

    Each seed draws other samples, of the first model, too.
    """
    begun = time.process_time()
    model, *_ = trained(way, seed, **settings)
    row = {"way": way, "seed": seed, **settings}
    row["cpu_seconds"] = round(time.process_time() - begun)
    row["at"] = {
        str(temperature): {
            **measure(
                model, captions_gpt(), SAMPLES, 1000 + seed, temperature=temperature
            ),
            "patterns in": patterns_in(model, 1000 + seed, temperature),
        }
        for temperature in TEMPERATURES
    }
    return row


def once(name: str, make: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """Return what was made under this name, or make and keep it."""
    path = KEPT / f"{name}.json"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        write_json(path, make(*given))
        log(name)
    return read_json(path)


Ways = dict[str, list[dict[str, float]]]


def tuning(seeds: Iterable[int], ways: Ways) -> list[dict[str, Any]]:
    """Return a row for each way, seed, and setting that may be chosen."""
    return [
        once(f"race {way} {seed} {json.dumps(settings)}", entered, way, seed, settings)
        for seed in seeds
        for way, choices in ways.items()
        for settings in choices
    ]


def best(
    rows: list[dict[str, Any]],
    way: str,
    choices: list[dict[str, float]],
    what: str = "new",
) -> dict[str, float]:
    """Return the settings and temperature with the most new sentences."""

    def new(settings: dict[str, float]) -> float:
        learned = {key: settings[key] for key in settings if key != "temperature"}
        return mean(
            row["at"][str(settings["temperature"])][what]
            for row in rows
            if row["way"] == way and learned.items() <= row.items()
        )

    tried = [
        {**settings, "temperature": temperature}
        for settings in choices
        for temperature in map(float, rows[0]["at"])
    ]
    return max(tried, key=new)


def chosen(rows: list[dict[str, Any]], ways: Ways) -> dict[str, dict[str, float]]:
    """Return each way's best settings and temperature."""
    return {way: best(rows, way, choices) for way, choices in ways.items()}


def parts(seeds: Iterable[int], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return trainings with both filters, in one round and in four."""
    found = []
    for way in ("kept", "kept new"):
        for rounds in ROUNDS:
            choices = [each for each in SETTINGS[way] if each["rounds"] == rounds]
            settings = best(rows, way, choices)
            raced = race(seeds, {way: settings})
            runs = only(raced, "possible", "new", "KL")
            found.append({"way": way, **settings, "runs": runs})
    return found


def race(seeds: Iterable[int], ways: dict[str, dict[str, float]]) -> list[dict]:
    """Return a row for each seed and way, with the settings that were chosen."""
    rows = []
    for seed in seeds:
        for way, settings in ways.items():
            learned = {key: settings[key] for key in settings if key != "temperature"}
            name = f"race {way} {seed} {json.dumps(learned)}"
            rows.append(once(name, entered, way, seed, learned))
    return rows


def only(rows: list[dict[str, Any]], *measures: str) -> list[dict[str, Any]]:
    """Return rows with some of their measures."""
    return [
        {**row, "at": {t: {m: at[m] for m in measures} for t, at in row["at"].items()}}
        for row in rows
    ]


def filtered(seed: int, temperature: float) -> int:
    """Return how many new sentences the first model writes in a race's samples."""
    rows: dict[str, Tensor] = {}
    draw = torch.Generator().manual_seed(seed)
    keep(rows, captions_gpt(), UPDATES, FILTERS["kept new"], draw, temperature)
    return len(rows)


def unseen(way: str, seed: int, settings: dict[str, float]) -> dict[str, Any]:
    """Train a model; return how many of its samples are new, and how many to itself."""
    model, _, learned = trained(way, seed, **settings)
    at_each = {}
    for temperature in MIDDLE:
        prompt, draw = torch.full((SAMPLES, 1), END), torch.Generator()
        dials: dict[str, Any] = {"draw": draw.manual_seed(1000 + seed)}
        dials["temperature"] = temperature
        lines = set(as_text(at.generate(model, prompt, LONGEST, END, **dials)))
        new = {line for line in lines if FILTERS["kept new"](line)}
        counts = {"new": len(new), "unseen": len(new - learned)}
        at_each[str(temperature)] = {
            what: round(100 * number / SAMPLES, 1) for what, number in counts.items()
        }
    return {"way": way, "seed": seed, **settings, "at": at_each}


def added(seeds: list[int], settings_of: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return what the race and the shared reward rest on.

    The two strict ways are tuned and raced again, for sentences that are new to the
    model itself, too; "as raced" counts these at the settings of the other race.
    """

    def measured(way: str, seed: int, settings: dict[str, float]) -> dict[str, Any]:
        learned = {key: settings[key] for key in settings if key != "temperature"}
        name = f"unseen {way} {seed} {json.dumps(learned)}"
        return once(name, unseen, way, seed, learned)

    tuned = [
        measured(way, seed, settings)
        for seed in TUNED_ON
        for way, choices in STRICT.items()
        for settings in choices
    ]
    picked = {way: best(tuned, way, STRICT[way], "unseen") for way in STRICT}
    return {
        "unseen": {
            "chosen": picked,
            "race": [
                measured(way, seed, picked[way]) for way in STRICT for seed in seeds
            ],
            "tuning": tuned,
            "as raced": [
                measured(way, seed, settings_of[way])
                for way in STRICT
                for seed in seeds
            ],
        },
        "rewards": [
            {key: row[key] for key in row if key not in ("samples", "groups")}
            for way in PARTS
            for seed in seeds
            for row in [once(f"hack {way} {seed}", hacked, way, seed)]
        ],
    }


def of_the_grammar() -> dict[str, int]:
    """Return the patterns and verbs in COUNTED of the grammar's own sentences."""
    chance, lines = grammar.Chooser(1), []
    while len(lines) < COUNTED:
        with contextlib.suppress(grammar.Unfit):
            lines.append(grammar.compose(chance).line("en"))
    return coverage(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--only", type=int, help="of all seeds; write no results")
    parser.add_argument("--added", action="store_true", help="see above")
    parser.add_argument("--out", type=Path, default=FOLDER / "results/reinforce.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.added and given.only in TUNED_ON:  # for several processes
        for way, choices in STRICT.items():
            for settings in choices:
                name = f"unseen {way} {given.only} {json.dumps(settings)}"
                once(name, unseen, way, given.only, settings)
        return
    if given.added:
        stored = read_json(given.out)
        write_json(given.out, stored | added(given.seeds, stored["chosen"]))
        return
    if given.only in TUNED_ON:
        for ways in (SETTINGS, *SMALLER.values()):
            tuning([given.only], ways)
        return
    tuned = tuning(TUNED_ON, SETTINGS)
    settings_of = chosen(tuned, SETTINGS)
    log(json.dumps(settings_of))
    seeds = given.seeds if given.only is None else [given.only]
    raced = race(seeds, settings_of)
    smaller = {}
    for name, ways in SMALLER.items():
        rows = tuning(TUNED_ON, ways)
        picked = chosen(rows, ways)
        log(json.dumps(picked))
        smaller[name] = {
            "chosen": picked,
            "race": race(seeds, picked),
            "tuning": only(rows, "new"),
        }
    filters = parts(seeds, tuned)
    runs = [
        once(f"hack {way} {seed}", hacked, way, seed)
        for way in REWARDS
        for seed in seeds
    ]
    if given.only is not None:
        return
    dial = settings_of[FIRST]["temperature"]
    alone = {seed: filtered(seed, dial) for seed in seeds}
    settings = {"group": GROUP, "updates": UPDATES, "rate": RATE}
    summary = {**describe_environment(), **settings, "samples": SAMPLES}
    summary["counted"] = COUNTED  # possible samples, for patterns and verbs
    summary["the grammar itself"] = of_the_grammar()
    summary |= {"few": FEW, "uses": USES, "clip": CLIP}  # of the few samples
    summary["tuned on"] = TUNED_ON
    summary["chosen"], summary["parts"] = settings_of, filters
    summary["drawn and filtered"] = alone
    summary["tuning"] = only(tuned, "new", "patterns", "KL", "patterns in")
    summary["race"], summary["runs"] = raced, runs
    write_json(given.out, {**summary, **smaller, **added(seeds, settings_of)})


if __name__ == "__main__":
    main()
