"""Train chapter 6's GPT on its own samples, as the grammar judges them: chapter 7.

    python benchmarks/reinforce.py [--seeds 0 1 2 …] [--workers 2]

Two rewards that are hacked and the parts of one ("runs"), and a race ("race"):
imitating kept samples, or kept new ones, against rewards, all with as many samples and
updates. In the race, a coin is tossed for each sentence, other coins for each seed, and
those that show tails are hidden from a model that learns from its samples: what is
drawn of them is neither kept nor paid for. So no model can have them by heart. UNSEEN,
what is raced for, is twice the share of new sentences that are hidden. Each model is
drawn from at all TEMPERATURES. Rate, rounds or leash, and temperature of each way are
chosen beforehand, for UNSEEN, by trainings from the seeds TUNED_ON ("tuning"); a way
whose best rate is the lowest or the highest that was tried gets another one. Others are
run in the same way, by the first few of the seeds: "controls" (more training on
captions, and on unfiltered samples), "few samples" (a few groups, each used several
times, without and with ratio and clip), and "cool" (imitation of new samples, drawn at
a low temperature); and by all seeds, "taken apart" (paid once, but without the group's
mean, and without mean and leash; kept new, but on a leash). "parts" are each way in so
many rounds, or on a leash and without. "gentler" is the reward for possible sentences
in many small steps, and on a leash. "drawn and filtered" is how many different new
sentences the first model's own samples have, at its best temperature.
Takes some 180 CPU minutes. Each training is kept in runs/reinforce/, so that the
program goes on where it was stopped; delete that folder when code has changed.
``measure`` of transformer_workshop/lab/verifier.py says what the figures mean.
"""

import argparse
import contextlib
import functools
import itertools
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
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
    is_hidden,
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
BLOCKS = 4  # of so many samples, at the temperature that was chosen
DRAWN = 2 * GROUP * UPDATES  # sentences in the race; about half of them are hidden
ROUNDS = (1, 4, 40)  # in which samples are drawn, kept, and imitated
TUNED_ON = (100, 101, 102)  # seeds that take no part in a race
OTHERS = 5  # of the seeds, for the smaller races
RATES = (4.375e-5, 8.75e-5, 1.75e-4, 3.5e-4, 7e-4, 1.4e-3, 2.8e-3)
FEW, USES, CLIP = 5, 8, 0.2  # groups; updates with each; how far a ratio counts
TEMPERATURES = (0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
UNSEEN = "unseen"  # what is raced for
COOL = 0.5  # a temperature
MORE_UPDATES = 8  # times as many, at a rate that is as many times lower
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


def of_the_others(reward: Reward, seed: int, less_the_mean: bool = True) -> Reward:
    """Return a reward that teaches nothing about hidden sentences.

    Each of them gets the mean of the others, and thus an advantage of 0; and 0, where
    the mean isn't subtracted.
    """

    def given(ids: Tensor) -> Tensor:
        taught = torch.tensor([not is_hidden(line, seed) for line in as_text(ids)])
        rewards = reward(ids[taught])
        baseline = rewards.mean() if less_the_mean else torch.tensor(0.0)
        return baseline.expand(len(ids)).masked_scatter(taught, rewards)

    return given


def samples(
    model: at.GPT, number: int, seed: int, temperature: float = 1.0
) -> Iterator[tuple[str, Tensor]]:
    """Yield sentences of a model, GROUP at a time, and their ids (L)."""
    prompt, draw = torch.full((GROUP, 1), END), torch.Generator().manual_seed(seed)
    dials: dict[str, Any] = {"draw": draw, "temperature": temperature}
    for _ in range(number // GROUP):
        ids = at.generate(model, prompt, LONGEST, END, **dials)
        yield from zip(as_text(ids), ids, strict=True)


@functools.lru_cache(maxsize=4)
def of_the_first(
    number: int, seed: int, temperature: float
) -> list[tuple[str, Tensor]]:
    """Return samples of the first model, from which several trainings learn."""
    return [*samples(captions_gpt(), number, seed, temperature)]


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
    drawn: int,
    temperature: float = 1.0,
    beta: float = 0.0,
) -> None:
    """Train on own samples that are kept; so many are ``drawn`` in all.

    In a first round, the model draws from what it is; in a later one, from what it has
    become. What was kept stays. On a leash, a row counts less as it gets likelier.
    """
    weights: Reward = lambda ids: torch.ones(len(ids))  # noqa: E731
    if beta:
        weights = on_a_leash(weights, model, captions_gpt(), beta)
    pick = torch.Generator().manual_seed(seed)
    optimizer = optimizer_of(model, rate)
    rows: dict[str, Tensor] = {}
    for update in range(UPDATES):
        past, since = divmod(update, UPDATES // rounds)  # rounds, updates
        if since == 0:
            dials = drawn // rounds, seed + 1000 * past, temperature
            said = samples(model, *dials) if past else of_the_first(*dials)
            for line, row in said:
                if not is_hidden(line, seed) and passes(line):
                    rows[line] = row
            padded = torch.nn.utils.rnn.pad_sequence([*rows.values()], True, END)
        ids = padded[torch.randint(len(padded), (GROUP,), generator=pick)]
        step(model, optimizer, at.policy_loss(model, ids, weights(ids)))


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
    groups: int,
    uses: int = 1,
    clip: float | None = None,
    less_the_mean: bool = True,
) -> None:
    """Use each group for several updates; without a clip, as if it were fresh."""
    draw = torch.Generator().manual_seed(seed)
    prompt = torch.full((2 * GROUP, 1), END)
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
REWARDS = {
    "possible": possible,
    "shared": shared,
    "only divided": divided,  # the two parts of the shared reward
    "only new": only_new,
}
Ways = dict[str, list[dict[str, float]]]  # settings of each, to choose from


def settings_at(
    which: Iterable[int], **more: tuple[float, ...]
) -> list[dict[str, float]]:
    """Return settings with some of the RATES, and each of another one's values."""
    found: list[dict[str, float]] = [{"rate": RATES[i]} for i in which]
    for name, values in more.items():
        found = [{**each, name: value} for value in values for each in found]
    return found


SETTINGS: Ways = {
    FIRST: [{}],
    "kept": settings_at(range(2, 6), rounds=ROUNDS),
    "kept new": settings_at(range(2, 6), rounds=ROUNDS),
    "shared": settings_at(range(1, 5), beta=(0.0, BETA)),
    "paid once": settings_at(range(1, 5), beta=(0.0, BETA)),
}
WITHOUT_THE_MEAN = "paid once, without the mean", "paid once, with neither"
AGAIN = {"again": None, "again, ratio": math.inf, "again, ratio and clip": CLIP}
SMALLER: dict[str, Ways] = {  # races, each with its ways
    "controls": {way: settings_at((0, 2, 4)) for way in ("captions", "unfiltered")},
    "few samples": {
        way: settings_at((1, 3))  # a low rate and a high one
        for way in (*AGAIN, "kept new, few")
    },
    "cool": {"kept new, cool": settings_at((2, 3, 4))},
    "taken apart": {
        WITHOUT_THE_MEAN[0]: settings_at(range(2, 6), beta=(BETA,)),
        WITHOUT_THE_MEAN[1]: settings_at(range(2, 6), beta=(0.0,)),
        "kept new, on a leash": settings_at(
            (4, 5, 6), rounds=ROUNDS[-1:], beta=(BETA,)
        ),
    },
}


def trained(
    way: str,
    seed: int,
    rate: float = RATE,
    beta: float = 0.0,
    rounds: int = 1,
) -> at.GPT:
    """Return a model trained in one way, with half of all sentences hidden from it."""
    model = captions_gpt()
    if way in FILTERS:
        imitate(model, FILTERS[way], seed, rate, rounds, DRAWN)
    elif way == "kept new, on a leash":
        imitate(model, FILTERS["kept new"], seed, rate, rounds, DRAWN, beta=beta)
    elif way == "kept new, few":
        imitate(model, FILTERS["kept new"], seed, rate, FEW, 2 * GROUP * FEW)
    elif way == "kept new, cool":
        imitate(model, FILTERS["kept new"], seed, rate, rounds, DRAWN, COOL)
    elif way == "captions":
        train_on_captions(model, seed, rate)
    elif way != FIRST:
        reward = shared if way == "shared" else paid_once()
        if beta:
            reward = on_a_leash(reward, model, captions_gpt(), beta)
        less_the_mean = way not in WITHOUT_THE_MEAN
        reward = of_the_others(reward, seed, less_the_mean)
        if way in AGAIN:
            few: dict[str, Any] = {"groups": FEW, "uses": USES, "clip": AGAIN[way]}
            use(model, seed, rate, reward, **few)
        elif not less_the_mean:
            use(model, seed, rate, reward, groups=UPDATES, less_the_mean=False)
        else:
            dials: dict[str, Any] = {"group": 2 * GROUP, "rate": rate, "seed": seed}
            for _ in at.reinforce(model, reward, UPDATES, **dials):
                pass
    return model


def written(model: at.GPT, seed: int, temperature: float) -> list[str]:
    """Return what ``measure`` measures."""
    prompt, draw = torch.full((SAMPLES, 1), END), torch.Generator().manual_seed(seed)
    dials: dict[str, Any] = {"draw": draw, "temperature": temperature}
    return as_text(at.generate(model, prompt, LONGEST, END, **dials))


def patterns_in(lines: list[str]) -> dict[str, float]:
    """Return how many patterns are to be expected in the possible ones of k samples.

    As pass@k is estimated: over all choices of k of the SAMPLES that are drawn.
    """
    counts = Counter(found.skeleton for line in lines if (found := parse(line)))
    return {
        str(k): round(
            sum(1 - comb(SAMPLES - n, k) / comb(SAMPLES, k) for n in counts.values()), 2
        )
        for k in TRIES
    }


def hacked(way: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train with a reward that is hacked, nothing hidden; return what was measured."""
    first, model = captions_gpt(), captions_gpt()
    groups: list[dict[str, float]] = []

    def noted(ids: Tensor) -> Tensor:
        """Return the reward, and note what was in the group."""
        good, lines = possible(ids).mean().item(), as_text(ids)
        groups.append({"possible": round(good, 3), "distinct": len(set(lines)) / GROUP})
        return REWARDS[way](ids)

    beta, rate = settings.get("beta", 0.0), settings.get("rate", RATE)
    reward = on_a_leash(noted, model, first, beta) if beta else noted
    updates = settings.get("updates", UPDATES)
    for _ in at.reinforce(model, reward, updates, group=GROUP, rate=rate, seed=seed):
        pass
    prompt, draw = torch.full((6, 1), END), torch.Generator().manual_seed(1)
    said = as_text(at.generate(model, prompt, LONGEST, END, draw=draw))
    row = {"way": way, "seed": seed, **settings, **measure(model, first, SAMPLES)}
    return {**row, "samples": said, "groups": groups}


def counted(way: str, seed: int, settings: dict[str, float]) -> dict[str, Any]:
    """Train a model; return what of its samples is new and unseen at each temperature.

    What is counted is in percent of SAMPLES, and a mean of two times as many.
    """
    begun = time.process_time()
    model = trained(way, seed, **settings)
    drawn = {}
    for t in TEMPERATURES:
        shares = []
        for block in range(2):
            lines = {*written(model, 1000 + 1000 * block + seed, t)}
            new = {line for line in lines if parse(line)} - known_captions()
            hidden = [line for line in new if is_hidden(line, seed)]
            shares.append({"new": len(new), UNSEEN: 2 * len(hidden)})
        drawn[str(t)] = {
            what: round(100 * mean(share[what] for share in shares) / SAMPLES, 1)
            for what in shares[0]
        }
    row = {"way": way, "seed": seed, **settings, "at": drawn}
    return {**row, "cpu_seconds": round(time.process_time() - begun)}


def entered(
    way: str, seed: int, settings: dict[str, float], path: bool
) -> dict[str, Any]:
    """Train one model of a race, and measure it at the temperature that was chosen.

    There, what is reported is a mean of BLOCKS. A ``path`` has the other temperatures,
    too. Each seed draws other samples, of the first model, too.
    """
    begun = time.process_time()
    learned = {what: settings[what] for what in settings if what != "temperature"}
    model, drawn = trained(way, seed, **learned), {}
    for t in TEMPERATURES if path else (settings["temperature"],):
        blocks = []
        for block in range(BLOCKS if t == settings["temperature"] else 1):
            start = 3000 + 1000 * block + seed
            measured = measure(
                model, captions_gpt(), SAMPLES, start, temperature=t,
                hidden=lambda line: is_hidden(line, seed),
            )  # fmt: skip
            found = patterns_in(written(model, start, t))
            blocks.append({**measured, **{f"patterns in {k}": found[k] for k in found}})
        means = {what: mean(block[what] for block in blocks) for what in blocks[0]}
        drawn[str(t)] = {what: round(means[what], 3) for what in means}
    row = {"way": way, "seed": seed, **learned, "at": drawn}
    return {**row, "cpu_seconds": round(time.process_time() - begun)}


Job = tuple[Any, ...]  # a name to keep a result under, a function, and what it gets


def once(name: str, make: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """Return what was made under this name, or make and keep it."""
    path = KEPT / f"{name}.json"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        write_json(path, make(*given))
        log(name)
    return read_json(path)


def entries(kind: str, seeds: Iterable[int], ways: Ways, *path: bool) -> list[Job]:
    """Return a training for each seed, way, and setting: for "tuning", or a "race".

    Those of a race are told whether a model is drawn from at all temperatures.
    """
    make = {"tuning": counted, "race": entered}[kind]
    found: list[Job] = []
    for seed in seeds:
        for way, choices in ways.items():
            for settings in choices:
                name = f"{kind} {way} {seed} {json.dumps(settings)}"
                found.append((name, make, way, seed, settings, *path))
    return found


def at_best(
    rows: list[dict[str, Any]], way: str, settings: dict[str, float]
) -> tuple[float, float]:
    """Return the most unseen sentences of settings, and at which temperature."""
    runs = [
        row["at"]
        for row in rows
        if row["way"] == way and settings.items() <= row.items()
    ]
    return max((mean(at[t][UNSEEN] for at in runs), float(t)) for t in runs[0])


def best(
    rows: list[dict[str, Any]], way: str, choices: list[dict[str, float]]
) -> dict[str, float]:
    """Return the settings and temperature with the most unseen sentences."""
    first = max(choices, key=lambda each: at_best(rows, way, each))
    return {**first, "temperature": at_best(rows, way, first)[1]}


def next_rate(
    choices: list[dict[str, float]], chosen: dict[str, float]
) -> list[dict[str, float]]:
    """Return settings with another rate, if the best is the last that was tried."""
    if "rate" not in chosen:
        return []
    tried = [RATES.index(each["rate"]) for each in choices]
    here = RATES.index(chosen["rate"])
    others = {min(tried): min(tried) - 1, max(tried): max(tried) + 1}
    more = others.get(here, -1)
    if not 0 <= more < len(RATES):
        return []
    at_the_end = [each for each in choices if each["rate"] == RATES[here]]
    return [{**each, "rate": RATES[more]} for each in at_the_end]


def parts(rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, float]]]:
    """Return each way in so many rounds, or on a leash and without, at its best."""
    found = []
    for way in SETTINGS:
        for part in ("rounds", "beta"):
            runs = [row for row in rows if row["way"] == way and part in row]
            for value in sorted({row[part] for row in runs}):
                rates = {row["rate"] for row in runs if row[part] == value}
                choices = [{"rate": rate, part: value} for rate in sorted(rates)]
                found.append((way, best(rows, way, choices)))
    return found


def filtered(seed: int, temperature: float) -> int:
    """Return how many new sentences are in half of a race's samples, nothing hidden."""
    found = samples(captions_gpt(), GROUP * UPDATES, seed, temperature)
    return len({line for line, _ in found if FILTERS["kept new"](line)})


def of_the_grammar() -> dict[str, int]:
    """Return the patterns and verbs in COUNTED of the grammar's own sentences."""
    chance, lines = grammar.Chooser(1), []
    while len(lines) < COUNTED:
        with contextlib.suppress(grammar.Unfit):
            lines.append(grammar.compose(chance).line("en"))
    return coverage(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(10, 20)])
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--out", type=Path, default=FOLDER / "results/reinforce.json")
    given = parser.parse_args()
    few = given.seeds[:OTHERS]
    with ProcessPoolExecutor(
        given.workers, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:

        def all_of(jobs: list[Job]) -> list[dict[str, Any]]:
            # a process that draws the same samples again has them parsed already
            size = 4 if len(jobs) > 10 * given.workers else 1
            return list(pool.map(once, *zip(*jobs, strict=True), chunksize=size))

        def chosen_from(
            seeds: Iterable[int], ways: Ways, widen: bool
        ) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
            """Return trainings to choose from, and the best settings of each way."""
            ways = {way: [*choices] for way, choices in ways.items()}
            rows, more = [], ways
            while more:
                rows += all_of(entries("tuning", seeds, more))
                chosen = {way: best(rows, way, ways[way]) for way in ways}
                log(json.dumps(chosen))
                more = {way: next_rate(ways[way], chosen[way]) for way in ways if widen}
                more = {way: choices for way, choices in more.items() if choices}
                for way, choices in more.items():
                    ways[way] += choices
            return rows, chosen

        summary = {**describe_environment(), "group": GROUP, "updates": UPDATES}
        summary |= {"rate": RATE, "samples": SAMPLES, "drawn": DRAWN}
        summary |= {"blocks": BLOCKS, "tuned on": TUNED_ON}
        summary["counted"] = COUNTED  # possible samples, for patterns and verbs
        summary["the grammar itself"] = of_the_grammar()
        summary |= {"few": FEW, "uses": USES, "clip": CLIP}  # of the few samples
        rows, chosen = chosen_from(TUNED_ON, SETTINGS, True)
        summary |= {"tuning": rows, "chosen": chosen}
        ways = {way: [settings] for way, settings in chosen.items()}
        summary["race"] = all_of(entries("race", given.seeds, ways, True))
        for name, ways in SMALLER.items():
            widen = name == "taken apart"
            others, chosen = chosen_from(TUNED_ON, ways, widen)
            ways = {way: [settings] for way, settings in chosen.items()}
            seeds = given.seeds if widen else few
            race = all_of(entries("race", seeds, ways, False))
            summary[name] = {"chosen": chosen, "race": race, "tuning": others}
        summary["parts"] = []
        for way, settings in parts(rows):
            path = way == "kept" or settings == summary["chosen"][way]
            runs = all_of(entries("race", given.seeds, {way: [settings]}, path))
            summary["parts"].append({"way": way, **settings, "runs": runs})
        summary["runs"] = all_of(
            [(f"hack {way} {n}", hacked, way, n, {}) for way in REWARDS for n in few]
        )
        slower = {"rate": RATE / MORE_UPDATES, "updates": UPDATES * MORE_UPDATES}
        summary["gentler"] = all_of(
            [
                (f"gentler {n} {json.dumps(each)}", hacked, "possible", n, each)
                for each in (slower, {"beta": BETA})
                for n in few
            ]
        )
        dial = summary["chosen"][FIRST]["temperature"]
        summary["drawn and filtered"] = {seed: filtered(seed, dial) for seed in few}
    write_json(given.out, summary)


if __name__ == "__main__":
    main()
