"""Train chapter 6's GPT on its own samples, as the grammar judges them: chapter 7.

    python benchmarks/reinforce.py [--seeds 0 1 2 …] [--workers 2]

Two rewards that are hacked and the parts of one ("runs"), and a race ("race"):
imitating kept samples, or kept new ones, against rewards, all with as many samples and
updates. What counts is UNSEEN: sentences that are possible and that no one has trained
the model on, neither as captions nor as samples that were kept or paid for. Who learns
from more sentences has more that don't count, so NOT_BY_HEART adds how many a model
would lose to the list of another training, "by chance". Each model is drawn from at all
TEMPERATURES. Rate, rounds or leash, and temperature of each way are chosen beforehand,
for the most unseen sentences, by trainings from the seeds TUNED_ON, and the best few by
the seeds MORE as well ("tuning"); and once more, for NOT_BY_HEART ("chosen otherwise").
"parts" are the two filters of kept samples, in one round and in four. Others are run in
the same way, by the first few of the seeds: "controls" (more training on captions, and
on unfiltered samples), "cool" (imitation of new samples, drawn at a low temperature),
"few samples" (a few groups, each used several times, without and with ratio and clip),
and "baseline" (the shared reward, with and without the group's mean). "gentler" is the
reward for possible sentences in many small steps, and on a leash. "drawn and filtered"
is how many different new sentences the first model's own samples have, at its best
temperature.
Takes some 120 CPU minutes. Each training is kept in runs/reinforce/, so that the
program goes on where it was stopped; delete that folder when code has changed.
``measure`` of transformer_workshop/lab/verifier.py says what the figures mean.
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
FINALISTS = 3  # settings of each way in the race, to choose from by
MORE = (103, 104, 105, 106)  # seeds, too
OTHERS = 5  # seeds, of all but the race itself
RATES = (4.375e-5, 8.75e-5, 1.75e-4, 3.5e-4, 7e-4)
FEW, USES, CLIP = 5, 8, 0.2  # groups; updates with each; how far a ratio counts
TEMPERATURES = (0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
UNSEEN = "unseen"  # what is raced for
NOT_BY_HEART = "not by heart"  # and what else might be
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


def keep(
    rows: dict[str, Tensor],
    model: at.GPT,
    groups: int,
    passes: Callable[[str], bool],
    draw: torch.Generator,
    temperature: float = 1.0,
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
REWARDS = {
    "possible": possible,
    "shared": shared,
    "only divided": divided,  # the two parts of the shared reward
    "only new": only_new,
}
SETTINGS: dict[str, list[dict[str, float]]] = {  # of each way, to choose from
    FIRST: [{}],
    "kept": [{"rate": rate, "rounds": n} for n in ROUNDS for rate in RATES],
    "kept new": [{"rate": rate, "rounds": n} for n in ROUNDS for rate in RATES],
    "shared": [{"rate": rate, "beta": b} for b in (0.0, BETA) for rate in RATES],
    "paid once": [{"rate": rate, "beta": b} for b in (0.0, BETA) for rate in RATES],
}
AGAIN = {"again": None, "again, ratio": math.inf, "again, ratio and clip": CLIP}
SMALLER = {  # races, each with its ways
    "controls": {
        "captions": [{"rate": rate} for rate in RATES],
        "unfiltered": [{"rate": rate} for rate in RATES],
    },
    "cool": {"kept new, cool": [{"rate": rate} for rate in RATES]},
    "few samples": {
        way: [{"rate": rate} for rate in (RATES[1], RATES[3])]  # a low and a high one
        for way in (*AGAIN, "kept new, few")
    },
    "baseline": {
        way: [{"rate": rate, "beta": 0.0} for rate in RATES]
        for way in ("shared", "without the mean")
    },
}


def trained(
    way: str,
    seed: int,
    rate: float = RATE,
    beta: float = 0.0,
    rounds: int = 1,
    updates: int = UPDATES,
) -> tuple[at.GPT, list[dict[str, float]], set[str]]:
    """Return a model trained in one way, what was in each update's group, and what it
    has learned from beside captions: samples that were kept, or paid for."""
    first, model = captions_gpt(), captions_gpt()
    groups: list[dict[str, float]] = []
    learned: set[str] = set()

    def noted(reward: Reward) -> Reward:
        """Return the reward, and note what was in each group and what was paid."""

        def given(ids: Tensor) -> Tensor:
            good, lines = possible(ids).mean().item(), as_text(ids)
            groups.append(
                {"possible": round(good, 3), "distinct": len(set(lines)) / GROUP}
            )
            rewards = reward(ids)
            learned.update(itertools.compress(lines, rewards.tolist()))
            return rewards

        return given

    if way in FILTERS:
        learned |= imitate(model, FILTERS[way], seed, rate, rounds)
    elif way == "kept new, few":
        learned |= imitate(model, FILTERS["kept new"], seed, rate, FEW, FEW)
    elif way == "kept new, cool":
        learned |= imitate(
            model, FILTERS["kept new"], seed, rate, rounds, temperature=COOL
        )
    elif way == "captions":
        train_on_captions(model, seed, rate)
    elif way in AGAIN:
        few: dict[str, Any] = {"groups": FEW, "uses": USES, "clip": AGAIN[way]}
        use(model, seed, rate, noted(paid_once()), **few)
    elif way == "without the mean":
        use(model, seed, rate, noted(shared), less_the_mean=False)
    elif way != FIRST:
        reward = noted(paid_once() if way == "paid once" else REWARDS[way])
        if beta:
            reward = on_a_leash(reward, model, first, beta)
        dials: dict[str, Any] = {"group": GROUP, "rate": rate, "seed": seed}
        for _ in at.reinforce(model, reward, updates, **dials):
            pass
    return model, groups, learned


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
    """Train with a reward that is hacked; return what was measured."""
    model, groups, _ = trained(way, seed, **settings)
    prompt, draw = torch.full((6, 1), END), torch.Generator().manual_seed(1)
    said = as_text(at.generate(model, prompt, LONGEST, END, draw=draw))
    measured = measure(model, captions_gpt(), SAMPLES)
    row = {"way": way, "seed": seed, **settings, **measured}
    return {**row, "samples": said, "groups": groups}


def entered(way: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train one model of the race, and measure it at all temperatures.

    Each seed draws other samples, of the first model, too. "wrote" has the new ones.
    """
    begun = time.process_time()
    model, _, learned = trained(way, seed, **settings)
    row: dict[str, Any] = {"way": way, "seed": seed, **settings}
    row["cpu_seconds"] = round(time.process_time() - begun)
    row |= {"learned": sorted(learned), "wrote": {}, "at": {}}
    for t in TEMPERATURES:
        dials: dict[str, Any] = {"temperature": t, "learned": learned}
        lines = written(model, 1000 + seed, t)
        new = {line for line in lines if parse(line)} - known_captions()
        row["wrote"][str(t)] = sorted(new)
        row["at"][str(t)] = {
            **measure(model, captions_gpt(), SAMPLES, 1000 + seed, **dials),
            "patterns in": patterns_in(lines),
        }
    return row


def less_by_heart(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with what is "by chance" and NOT_BY_HEART, and without sentences.

    By chance are the new sentences that are in what models of other seeds have learned
    from, which were trained in the same way: a mean over these.
    """
    stripped = []
    for row in rows:
        others = [
            set(other["learned"])
            for other in rows
            if all(other.get(what) == row.get(what) for what in SETTING)
            and other["seed"] != row["seed"]
        ]
        drawn = {}
        for t, new in row["wrote"].items():
            chance = mean([len(other & set(new)) for other in others] or [0])
            by_chance = round(100 * chance / SAMPLES, 1)
            measured = row["at"][t]
            most = min(measured["new"], round(measured[UNSEEN] + by_chance, 1))
            drawn[t] = {**measured, "by chance": by_chance, NOT_BY_HEART: most}
        row = {**row, "learned": len(row["learned"]), "at": drawn}
        stripped.append({what: row[what] for what in row if what != "wrote"})
    return stripped


SETTING = "way", "rate", "beta", "rounds"
Ways = dict[str, list[dict[str, float]]]
Job = tuple[Any, ...]  # a name to keep a result under, a function, and what it gets


def once(name: str, make: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """Return what was made under this name, or make and keep it."""
    path = KEPT / f"{name}.json"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        write_json(path, make(*given))
        log(name)
    return read_json(path)


def entries(seeds: Iterable[int], ways: Ways) -> list[Job]:
    """Return a training for each seed, way, and setting."""
    found = []
    for seed in seeds:
        for way, choices in ways.items():
            for settings in choices:
                learned = {k: settings[k] for k in settings if k != "temperature"}
                name = f"race {way} {seed} {json.dumps(learned)}"
                found.append((name, entered, way, seed, learned))
    return found


def at_best(
    rows: list[dict[str, Any]],
    way: str,
    settings: dict[str, float],
    what: str = UNSEEN,
) -> tuple[float, float]:
    """Return the most of a measure that settings get, and at which temperature."""
    runs = [
        row["at"]
        for row in rows
        if row["way"] == way and settings.items() <= row.items()
    ]
    return max((mean(at[t][what] for at in runs), float(t)) for t in runs[0])


def ranked(
    rows: list[dict[str, Any]],
    way: str,
    choices: list[dict[str, float]],
    what: str = UNSEEN,
) -> list[dict[str, float]]:
    """Return settings by what they get of a measure, the most first."""
    return sorted(choices, key=lambda each: -at_best(rows, way, each, what)[0])


def best(
    rows: list[dict[str, Any]],
    way: str,
    choices: list[dict[str, float]],
    what: str = UNSEEN,
) -> dict[str, float]:
    """Return the settings and temperature with the most of a measure."""
    first = ranked(rows, way, choices, what)[0]
    return {**first, "temperature": at_best(rows, way, first, what)[1]}


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
            size = len(RATES) if len(jobs) > 10 * given.workers else 1
            return list(pool.map(once, *zip(*jobs, strict=True), chunksize=size))

        def raced(jobs: list[Job]) -> list[dict[str, Any]]:
            return less_by_heart(all_of(jobs))

        def picked_from(
            rows: list[dict[str, Any]], ways: Ways, what: str = UNSEEN
        ) -> Ways:
            picked = {
                way: [best(rows, way, choices, what)] for way, choices in ways.items()
            }
            log(json.dumps(picked))
            return picked

        summary = {**describe_environment(), "group": GROUP, "updates": UPDATES}
        summary |= {"rate": RATE, "samples": SAMPLES}
        summary |= {"tuned on": TUNED_ON, "then on": MORE}
        summary["counted"] = COUNTED  # possible samples, for patterns and verbs
        summary["the grammar itself"] = of_the_grammar()
        summary |= {"few": FEW, "uses": USES, "clip": CLIP}  # of the few samples
        jobs = entries(TUNED_ON, SETTINGS)
        rows = raced(jobs)
        finals: dict[str, Ways] = {}  # for each measure
        for what in (UNSEEN, NOT_BY_HEART):
            finals[what] = {
                way: ranked(rows, way, choices, what)[:FINALISTS]
                for way, choices in SETTINGS.items()
            }
            more = entries(MORE, finals[what])
            jobs += [job for job in more if job not in jobs]
        rows = raced(jobs)
        picked = picked_from(rows, finals[UNSEEN])
        otherwise = picked_from(rows, finals[NOT_BY_HEART], NOT_BY_HEART)
        kept = "possible", "new", UNSEEN, NOT_BY_HEART, "patterns", "KL", "patterns in"
        summary["tuning"] = only(rows, *kept)
        for ways, suffix in ((picked, ""), (otherwise, " otherwise")):
            chosen = {way: settings for way, [settings] in ways.items()}
            summary["chosen" + suffix] = chosen
            summary["race" + suffix] = raced(entries(given.seeds, ways))
        summary["race otherwise"] = only(summary["race otherwise"], *kept[1:-1])
        summary["parts"] = []
        for way in ("kept", "kept new"):
            for rounds in ROUNDS:
                choices = [each for each in SETTINGS[way] if each["rounds"] == rounds]
                settings = best(
                    [row for row in rows if row["seed"] in TUNED_ON], way, choices
                )
                found = raced(entries(given.seeds, {way: [settings]}))
                runs = only(found, *kept[:-1])
                summary["parts"].append({"way": way, **settings, "runs": runs})
        for name, ways in SMALLER.items():
            others = raced(entries(TUNED_ON, ways))
            of_others = picked_from(others, ways)
            summary[name] = {
                "chosen": {way: settings for way, [settings] in of_others.items()},
                "race": raced(entries(few, of_others)),
                "tuning": only(others, UNSEEN, NOT_BY_HEART),
            }
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
        dial = picked[FIRST][0]["temperature"]
        summary["drawn and filtered"] = {seed: filtered(seed, dial) for seed in few}
    write_json(given.out, summary)


if __name__ == "__main__":
    main()
