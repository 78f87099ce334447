"""Train chapter 6's GPT on its own samples, as the grammar judges them: chapter 7.

    python benchmarks/reinforce.py [--seeds 0 1 2] [--processors "this one" both]

Four ways to learn from the grammar, from each seed on each of the processors that
tools/findings.py simulates, in about two CPU minutes for each seed and processor; and
the first model, as it is and at temperature 0.5. Each training is kept in
runs/reinforce/, so that the program goes on where it was stopped;
results/reinforce.json has all that are there. ``measure`` of
transformer_workshop/lab/verifier.py says what the figures mean.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import annotated_transformer as at
from annotated_transformer import END
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import log, read_json, write_json
from transformer_workshop.base.machine import describe_environment
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
sys.path[:0] = [str(FOLDER / "data" / "captions"), str(FOLDER / "tools")]
import captions as grammar  # noqa: E402
from findings import PROCESSORS  # noqa: E402

KEPT = FOLDER / "runs" / "reinforce"
GROUP, UPDATES, RATE = 80, 40, 7e-4
BETA = 0.05  # what a nat of divergence from the first model costs
SAMPLES = 300

Reward = Callable[[Tensor], Tensor]


def possible(ids: Tensor) -> Tensor:
    """Return 1 for each sentence that the grammar could have said, 0 for others."""
    return torch.tensor([float(parse(line) is not None) for line in as_text(ids)])


def shared(ids: Tensor) -> Tensor:
    """Let equal sentences share a reward, and give none to training sentences."""
    lines = as_text(ids)
    new = [line not in known_captions() for line in lines]
    share = [fresh / lines.count(line) for fresh, line in zip(new, lines, strict=True)]
    return possible(ids) * torch.tensor(share)


def on_a_leash(reward: Reward, model: at.GPT, first: at.GPT) -> Reward:
    """Return a reward less what it costs to leave the first model (the KL penalty)."""

    def less(ids: Tensor) -> Tensor:
        with torch.no_grad():
            gone = at.sentence_log_p(model, ids) - at.sentence_log_p(first, ids)
        return reward(ids) - BETA * gone

    return less


def kept(first: at.GPT, seed: int) -> Tensor:
    """Return the different possible sentences among the first model's own samples.

    As many are drawn as the other ways draw in all their updates.
    """
    draw = torch.Generator().manual_seed(seed)
    prompt = torch.full((GROUP, 1), END)
    rows: dict[str, Tensor] = {}
    for _ in range(UPDATES):
        ids = at.generate(first, prompt, LONGEST, END, draw=draw)
        for line, row in zip(as_text(ids), ids, strict=True):
            if parse(line):
                rows[line] = row
    return torch.nn.utils.rnn.pad_sequence([*rows.values()], True, END)


def imitate(model: at.GPT, rows: Tensor, seed: int) -> None:
    """Train on sentences that were kept, with as many updates of as many rows."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    for _ in range(UPDATES):
        ids = rows[torch.randint(len(rows), (GROUP,), generator=draw)]
        at.policy_loss(model, ids, torch.ones(len(ids))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def train(way: str, seed: int) -> dict[str, Any]:
    """Train one model; return what was measured."""
    first, model = captions_gpt(), captions_gpt()
    begun, result = time.process_time(), {"way": way, "seed": seed}
    groups: list[dict[str, float]] = []

    def watched(reward: Reward) -> Reward:
        def note(ids: Tensor) -> Tensor:
            good, lines = possible(ids).mean().item(), as_text(ids)
            groups.append(
                {"possible": round(good, 3), "distinct": len(set(lines)) / GROUP}
            )
            return reward(ids)

        return note

    if way == "temperature 0.5":
        model.norm.weight.data *= 2  # and so all logits
    elif way == "kept samples":
        rows = kept(first, seed)
        result["kept"] = len(rows)
        imitate(model, rows, seed)
    elif way != "first model":
        reward: Reward = possible if way == "possible" else shared
        if way == "shared, with a leash":
            reward = on_a_leash(reward, model, first)
        options: dict[str, Any] = {"group": GROUP, "rate": RATE, "seed": seed}
        for _ in at.reinforce(model, watched(reward), UPDATES, **options):
            pass
    result["cpu_seconds"] = round(time.process_time() - begun)
    prompt, draw = torch.full((6, 1), END), torch.Generator().manual_seed(1)
    said = as_text(at.generate(model, prompt, LONGEST, END, draw=draw))
    measured = measure(model, first, SAMPLES)
    return {**result, **measured, "samples": said, "groups": groups}


UNTRAINED = ("first model", "temperature 0.5")
WAYS = (*UNTRAINED, "kept samples", "possible", "shared", "shared, with a leash")


def file_of(processor: str, way: str, seed: int) -> Path:
    return KEPT / f"{processor}-{way}-{seed}.json"


def train_here(processor: str, seeds: list[int]) -> None:
    """Train what is missing on this processor, whatever its environment makes of it."""
    torch.set_num_threads(1)
    KEPT.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for way in WAYS:
            path = file_of(processor, way, seed)
            if not path.exists() and (seed == seeds[0] or way not in UNTRAINED):
                write_json(path, train(way, seed))
                log(f"{processor}, seed {seed}: {way}")


def of_the_grammar() -> dict[str, int]:
    """Return the patterns and verbs in COUNTED of the grammar's own sentences."""
    chance, lines = grammar.Chooser(1), []
    while len(lines) < COUNTED:
        with contextlib.suppress(grammar.Unfit):
            lines.append(grammar.compose(chance).line("en"))
    return coverage(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    names = list(PROCESSORS)
    parser.add_argument("--processors", nargs="+", choices=names, default=names)
    out = FOLDER / "results" / "reinforce.json"
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--here", choices=names, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        train_here(given.here, given.seeds)
        return
    for processor in given.processors:
        numbers = [str(seed) for seed in given.seeds]
        again = [sys.executable, __file__, "--here", processor, "--seeds", *numbers]
        environment = {**os.environ, **PROCESSORS[processor]}
        subprocess.run(again, env=environment, check=True)
    runs = [
        {"processor": processor, **read_json(path)}
        for processor in PROCESSORS
        for seed in given.seeds
        for way in WAYS
        if (path := file_of(processor, way, seed)).exists()
    ]
    settings = {"group": GROUP, "updates": UPDATES, "rate": RATE, "beta": BETA}
    summary = {**describe_environment(), **settings, "samples": SAMPLES}
    summary["counted"] = COUNTED  # possible samples, for patterns and verbs
    summary["the grammar itself"] = of_the_grammar()
    write_json(given.out, {**summary, "runs": runs})


if __name__ == "__main__":
    main()
