"""Chapter 7: the policy gradient, what is measured beside it, what is stored of it."""

from __future__ import annotations

import ast
import itertools
import json
import math
import sys
from collections.abc import Callable
from statistics import mean

import pytest
import torch
from chapters import ROOT, read
from scipy.stats import ttest_rel
from torch.nn.utils import parameters_to_vector

import annotated_transformer as at
from annotated_transformer import END, sentence_log_p
from transformer_workshop.exercises.checking import judge_of
from transformer_workshop.lab import verifier
from transformer_workshop.pictures import chapter_7

sys.path.insert(0, str(ROOT / "benchmarks"))
import reinforce as benchmark  # noqa: E402

CHAPTER = ROOT / "notebooks/07_learning_from_a_verifier.md"
VOCAB, LONGEST = 4, 4  # of a policy whose sentences can be counted


def policy(seed: int = 0) -> at.GPT:
    """Return a policy so small that all its sentences can be written down."""
    torch.manual_seed(seed)
    model = at.GPT(VOCAB, 1, 8, 8, 2, 1).double()
    torch.nn.init.normal_(model.embed.weight, std=0.7)
    return model


def all_sentences() -> torch.Tensor:
    """Return whatever ``generate`` may return of this policy: (number, LONGEST)."""
    rows = set()
    for words in itertools.product(range(VOCAB), repeat=LONGEST - 1):
        length = words.index(END) if END in words else len(words)
        rows.add((END, *words[:length], *[END] * (len(words) - length)))
    return torch.tensor(sorted(rows))


def rewards_of(ids: torch.Tensor) -> torch.Tensor:
    return (ids == 3).double().sum(dim=-1) - (ids == 2).double()[:, 1]


def gradient(loss: torch.Tensor, model: at.GPT) -> torch.Tensor:
    return parameters_to_vector(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("reward", [
    lambda ids: rewards_of(ids).unsqueeze(1), lambda ids: rewards_of(ids)[:1],
    lambda ids: (ids == 3).double(), lambda ids: rewards_of(ids) / 0,
    lambda ids: rewards_of(ids).sum(), lambda ids: [1.0] * len(ids),
])  # fmt: skip
def test_rewards_that_are_not_one_number_each_are_refused(reward):
    model = policy()
    before = parameters_to_vector(model.parameters()).clone()
    with pytest.raises(ValueError, match="rewards must be a tensor of 5 finite"):
        next(at.reinforce(model, reward, 1, group=5, max_len=LONGEST))
    assert torch.equal(parameters_to_vector(model.parameters()), before)


def test_a_group_of_one_has_nothing_to_be_compared_with():
    with pytest.raises(ValueError, match="group=1"):
        next(at.reinforce(policy(), rewards_of, 1, group=1))


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_rewards_may_be_whole_numbers(kind):
    trained = []
    for dtype in (kind, torch.float64):

        def count(ids, dtype=dtype):
            return (ids == 3).sum(1).to(dtype)

        model = policy()
        updates = at.reinforce(model, count, 2, group=8, max_len=LONGEST)
        trained.append((list(updates), parameters_to_vector(model.parameters())))
    assert trained[0][0] == pytest.approx(trained[1][0])
    assert torch.allclose(trained[0][1], trained[1][1], atol=1e-4)


def test_sixteen_bits_of_weights_add_up_in_thirty_two():
    model = policy().bfloat16()
    wide = policy()
    wide.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    rows = torch.randint(2, VOCAB, (64, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, expected = sentence_log_p(model, rows), sentence_log_p(wide, rows)
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < 0.25  # of 200; 16 bits round to 1 there


def test_a_sentence_is_as_likely_as_its_tokens_one_by_one():
    model, rows = policy(), all_sentences()
    for row, found in zip(rows, sentence_log_p(model, rows), strict=True):
        expected = 0.0
        for t in range(1, LONGEST):
            p = model(row[None, :t])[0, -1].softmax(dim=-1)
            expected += math.log(p[row[t]].item())
            if row[t] == END:
                break
        assert found.item() == pytest.approx(expected, abs=1e-9)


def test_the_loss_has_the_gradient_of_the_expected_reward():
    """Enumerate all sentences; the mean reward may be subtracted, or anything else."""
    model, rows = policy(), all_sentences()
    p, r = sentence_log_p(model, rows).exp(), rewards_of(rows)
    exact = gradient(p @ r, model)
    p = p.detach()
    for baseline in (0.0, (p @ r).item(), 5.0):
        loss = at.policy_loss(model, rows, (r - baseline) * p * len(rows))
        torch.testing.assert_close(gradient(loss, model), -exact)


def test_the_gradient_is_the_slope_of_the_loss():
    model, ids = policy(2), all_sentences()[:7]
    advantages = torch.linspace(-1, 1, 7).double()
    found = gradient(at.policy_loss(model, ids, advantages), model)
    weights, step = [*model.parameters()], 1e-6
    shift = torch.randn(len(found), generator=torch.Generator().manual_seed(0)).double()
    losses = []
    with torch.no_grad():
        for sign in (1, -1):
            for part, weight in zip(
                shift.split([w.numel() for w in weights]), weights, strict=True
            ):
                weight += sign * step * part.view_as(weight)
            losses.append(at.policy_loss(model, ids, advantages).item())
            for part, weight in zip(
                shift.split([w.numel() for w in weights]), weights, strict=True
            ):
                weight -= sign * step * part.view_as(weight)
    slope = (losses[0] - losses[1]) / (2 * step)
    assert (found @ shift).item() == pytest.approx(slope, rel=1e-5)


def test_a_training_repeats_itself_and_equal_rewards_teach_nothing():
    first, second, idle = policy().float(), policy().float(), policy().float()
    reward = lambda ids: rewards_of(ids).float()  # noqa: E731
    means = [[*at.reinforce(m, reward, 5, max_len=4)] for m in (first, second)]
    assert means[0] == means[1]
    same = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in same)
    for _ in at.reinforce(idle, lambda ids: torch.ones(len(ids)), 3, max_len=4):
        pass
    assert torch.equal(
        parameters_to_vector(idle.parameters()),
        parameters_to_vector(policy().float().parameters()),
    )


def test_the_divergence_is_that_of_the_tokens():
    """Beside the estimate, sum the exact divergences of each next word."""
    first, model = verifier.captions_gpt(), verifier.captions_gpt()
    with torch.no_grad():
        model.norm.weight *= 1.15  # a lower temperature
    assert verifier.measure(first, first, number=20)["KL"] == 0
    measured = verifier.measure(model, first, number=100, seed=3)
    draw = torch.Generator().manual_seed(3)
    ids = at.generate(model, torch.full((100, 1), END), 40, END, draw=draw)
    with torch.no_grad():
        p, q = (m(ids[:, :-1]).log_softmax(-1) for m in (model, first))
    each = (p.exp() * (p - q)).sum(-1)
    ends = (ids[:, 1:] == END).int()
    exact = (each * (ends.cumsum(-1) - ends == 0)).sum(-1).mean().item()
    assert exact > 0.1
    assert measured["KL"] == pytest.approx(exact, rel=0.35)
    lines = verifier.as_text(ids)
    assert measured["distinct"] == len(set(lines))
    from recognize import could_say  # on the path since something was measured

    good = [line for line in lines if could_say(line)]
    assert measured["possible"] == len(good)
    training = (ROOT / "data/captions/train.en").read_text().splitlines()
    new = set(good) - set(training)
    assert measured["new"] == len(new) and "unseen" not in measured
    hidden = {*sorted(new)[:3], training[0], "This is no caption."}
    half = verifier.measure(model, first, 100, 3, hidden=hidden.__contains__)
    assert half == measured | {"unseen": 2 * 3.0}


@pytest.mark.parametrize("small", [0, 1e-6, 1e-4])
def test_the_advantages_of_the_fields_programs_are_right(small):
    def advantages(rewards):
        centered = rewards - rewards.mean(1, keepdim=True)
        spread = rewards.std(1, correction=0, keepdim=True)
        if not small:
            return centered / spread.masked_fill(spread < 1e-6, 1)
        return centered / (spread + small)

    judge_of("several_groups")(advantages)


COPIES = "A man is jogging.", "A woman is jogging.", "A man are jogging."


def ids_of(*lines: str) -> torch.Tensor:
    """Return the ids of sentences, as ``generate`` does."""
    _, vocab, tokenizer, _ = verifier.english_captions()
    rows = [[END, *vocab(tokenizer.tokenize(line)), END] for line in lines]
    longest = max(map(len, rows))
    return torch.tensor([row + [END] * (longest - len(row)) for row in rows])


@pytest.fixture
def of_the_chapter(monkeypatch):
    """Return the functions that the chapter's cells define, without executing more."""
    monkeypatch.setattr(verifier, "known_captions", lambda: frozenset(COPIES[1:2]))
    names = {
        "torch": torch, "Tensor": torch.Tensor, "as_text": verifier.as_text,
        "parse": verifier.parse, "known_captions": lambda: frozenset(COPIES[1:2]),
        "Callable": Callable, "GPT": at.GPT, "sentence_log_p": sentence_log_p,
    }  # fmt: skip
    for cell in read(CHAPTER):
        if cell.cell_type == "code":
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.FunctionDef) and node.name in (
                    "possible", "shared", "paid_once", "on_a_leash",
                ):  # fmt: skip
                    exec(ast.unparse(node), names)
    return names


def test_rewards_of_chapter_and_benchmark_are_those_of_the_text(
    of_the_chapter, monkeypatch
):
    monkeypatch.setattr(benchmark, "known_captions", lambda: frozenset(COPIES[1:2]))
    ids = ids_of(COPIES[0], COPIES[1], COPIES[2], COPIES[0])
    for possible, shared in (
        (of_the_chapter["possible"], of_the_chapter["shared"]),
        (benchmark.possible, benchmark.shared),
    ):
        assert possible(ids).tolist() == [1, 1, 0, 1]
        assert shared(ids).tolist() == [0.5, 0, 0, 0.5]
    for paid_once in (of_the_chapter["paid_once"], benchmark.paid_once):
        reward = paid_once()
        assert reward(ids_of(COPIES[1], COPIES[2])).tolist() == [0, 0]
        assert reward(ids).tolist() == [0.5, 0, 0, 0.5]
        assert reward(ids).tolist() == [0, 0, 0, 0]  # all were written before
        assert paid_once()(ids).tolist() == [0.5, 0, 0, 0.5]  # another training


def test_the_leash_costs_what_was_gained_in_likelihood(of_the_chapter):
    model, first = verifier.captions_gpt(), verifier.captions_gpt()
    ids = ids_of(*COPIES)
    free = benchmark.on_a_leash(benchmark.possible, model, first, benchmark.BETA)
    assert free(ids).tolist() == [1, 1, 0]
    with torch.no_grad():
        model.norm.weight *= 1.3
    gone = sentence_log_p(model, ids) - sentence_log_p(first, ids)
    expected = benchmark.possible(ids) - benchmark.BETA * gone
    leash = of_the_chapter["on_a_leash"]
    held = leash(of_the_chapter["possible"], model, first, benchmark.BETA)
    assert torch.allclose(free(ids), expected)
    assert torch.allclose(held(ids), expected)


def test_what_is_covered_is_counted_once():
    lines = [COPIES[0], COPIES[1], COPIES[2], COPIES[0]]
    assert verifier.coverage(lines) == {"patterns": 1, "verbs": 1}
    assert verifier.coverage([]) == {"patterns": 0, "verbs": 0}


def tables(spec: dict) -> list[list[dict]]:
    """Return the data of each panel."""
    return [panel["data"]["values"] for panel in spec["hconcat"]]


def test_the_chart_shows_means_and_ranges_of_the_runs():
    runs = [
        {"way": way, "groups": [{"possible": a, "distinct": 1 - a}] * 2}
        for way in ("possible", "shared")
        for a in (0.25, 0.5)
    ]
    other = {"way": "kept samples", "groups": []}
    panels = tables(chapter_7.groups_chart({"runs": [*runs, other]}).to_dict())
    assert len(panels) == 2
    for rows in panels:
        assert len(rows) == 4
        assert rows[0] == {
            "update": 1, "sentences": "possible", "share": 0.375, "low": 0.25,
            "high": 0.5,
        }  # fmt: skip
        assert rows[3]["update"] == 2 and rows[3]["share"] == 0.625


def test_the_settings_with_the_most_unseen_sentences_are_chosen():
    choices = {"a": [{}], "b": [{"rate": 1.0}, {"rate": 2.0}]}

    def row(cold, warm, **given):
        return {**given, "at": {"0.5": {"unseen": cold}, "1.0": {"unseen": warm}}}

    rows = [
        row(3, 2, way="a"), row(1, 5, way="b", rate=1.0),
        row(6, 6, way="b", rate=2.0), row(1, 9, way="b", rate=2.0),
    ]  # fmt: skip
    assert [benchmark.best(rows, *choice) for choice in choices.items()] == [
        {"temperature": 0.5}, {"rate": 2.0, "temperature": 1.0},
    ]  # fmt: skip


def test_a_coin_hides_half_of_all_sentences_at_each_seed():
    lines = [f"A man is reading {n} books." for n in range(2000)]
    coins = [[verifier.is_hidden(line, seed) for line in lines] for seed in (0, 1)]
    for coin in coins:
        assert 900 < sum(coin) < 1100
    same = sum(a == b for a, b in zip(*coins, strict=True))
    assert 900 < same < 1100  # they know nothing of each other
    assert coins[0] == [verifier.is_hidden(line, 0) for line in lines]


@pytest.mark.parametrize(("way", "settings"), [
    ("kept", {"rounds": 2}), ("paid once", {"beta": 0.05}),
    ("paid once, without the mean", {}), ("again, ratio and clip", {}),
])  # fmt: skip
def test_no_training_learns_from_a_hidden_sentence(way, settings, monkeypatch):
    """Whatever is written, the sentences that get a gradient are the others."""
    shown: list[tuple[str, float]] = []
    plain, clipped = at.policy_loss, benchmark.clipped_loss

    def seen(loss):
        def noted(model, ids, advantages, *more):
            shown.extend(zip(verifier.as_text(ids), advantages.tolist(), strict=True))
            return loss(model, ids, advantages, *more)

        return noted

    monkeypatch.setattr(at, "policy_loss", seen(plain))
    monkeypatch.setattr(benchmark, "clipped_loss", seen(clipped))
    for name, value in {"UPDATES": 2, "DRAWN": 320, "FEW": 1, "USES": 2}.items():
        monkeypatch.setattr(benchmark, name, value)
    benchmark.trained(way, 5, 1e-4, **settings)
    hidden = [weight for line, weight in shown if verifier.is_hidden(line, 5)]
    assert max(map(abs, hidden), default=0.0) < 1e-7
    assert any(abs(weight) > 0.1 for _, weight in shown)


def test_twice_the_hidden_half_is_what_is_not_learned_by_heart():
    """A toy that only repeats what it was taught, another that learns of it."""
    numbers = torch.Generator().manual_seed(0)
    lines = [f"sentence {n}" for n in range(4000)]
    chance = torch.rand(4000, generator=numbers) ** 8
    chance /= chance.sum()
    good = torch.rand(4000, generator=numbers) < 0.5
    for boost_by_heart, boost_of_good in ((0.0, 0.0), (3.0, 0.0), (3.0, 1.0)):
        found, expected = [], []
        for seed in range(20):
            hidden = torch.tensor([verifier.is_hidden(line, seed) for line in lines])
            log_p, taught = chance.log(), torch.zeros(4000, dtype=torch.bool)
            for _ in range(4):  # each round draws from what has become of the model
                drawn = log_p.softmax(0).multinomial(300, True, generator=numbers)
                taught[drawn[(good & ~hidden)[drawn]]] = True
                log_p = chance.log() + boost_by_heart * taught + boost_of_good * good
            p = log_p.softmax(0)
            found.append(2 * p[good & hidden].sum().item())
            without = p / torch.where(taught, math.exp(boost_by_heart), 1.0)
            expected.append(without[good].sum().item())
        assert mean(found) == pytest.approx(mean(expected), rel=0.05)


def test_the_race_is_drawn_at_all_temperatures():
    def row(way, n):
        row = {"possible": 2 * n, "unseen": n, "patterns": n, "held-out loss": 1}
        return {"way": way, "at": {"0.5": row, "1.0": row}}

    chosen = {"a": {"temperature": 0.5}, "b": {"temperature": 1.0}}
    rows = [row("a", 1), row("a", 3), row("b", 4)]
    results = {"race": rows, "chosen": chosen}
    spec = chapter_7.race_chart(results).to_dict()
    path = spec["hconcat"][0]["data"]["values"]
    assert [(r["way"], r["temperature"], r["unseen"], r["chosen"]) for r in path] == [
        ("a", 0.5, 2, True), ("a", 1.0, 2, False),
        ("b", 0.5, 4, False), ("b", 1.0, 4, True),
    ]  # fmt: skip
    patterns = spec["hconcat"][1]["vconcat"][0]["data"]["values"]
    assert [(r["low"], r["value"], r["high"]) for r in patterns] == [
        (1, 2, 3), (4, 4, 4),
    ]  # fmt: skip


# What the chapter says of the stored trainings

STORED = json.loads((ROOT / "results/reinforce.json").read_text(encoding="utf-8"))


def values(way: str, what: str) -> list[float]:
    """Return a measure of all stored trainings of one kind."""
    return [run[what] for run in STORED["runs"] if run["way"] == way]


def at_best(way: str, what: str) -> list[float]:
    """Return a measure of all trainings of the race, at the chosen temperature."""
    chosen = str(STORED["chosen"][way]["temperature"])
    return [run["at"][chosen][what] for run in STORED["race"] if run["way"] == way]


def of_part(what: str, way: str, **settings: float) -> list[float]:
    """Return a measure of a way of the race with some of its settings."""
    wanted = {"way": way, **settings}
    [part] = [part for part in STORED["parts"] if wanted.items() <= part.items()]
    return [run["at"][str(part["temperature"])][what] for run in part["runs"]]


def drawn_at(way: str, temperature: str, what: str) -> list[float]:
    """Return a measure of all trainings of the race at one temperature."""
    return [run["at"][temperature][what] for run in STORED["race"] if run["way"] == way]


def of_7_2(temperature: str, what: str) -> list[float]:
    """Return a measure of the trainings on all kept samples at once, as in 7.2."""
    [part] = [p for p in STORED["parts"] if (p["way"], p.get("rounds")) == ("kept", 1)]
    assert part["rate"] == 7e-4
    return [run["at"][temperature][what] for run in part["runs"]]


def test_the_stored_trainings_have_the_chapters_settings():
    defaults = at.reinforce.__kwdefaults__
    assert STORED["group"] == defaults["group"] and STORED["rate"] == defaults["rate"]
    text = CHAPTER.read_text(encoding="utf-8")
    assert f"UPDATES, GROUP = {STORED['updates']}, {STORED['group']}\n" in text
    assert f"\\beta = {benchmark.BETA}" in text
    seeds = {run["seed"] for run in STORED["race"]}
    assert len(seeds) >= 2 and not seeds & set(STORED["tuned on"])
    assert STORED["drawn"] == 6400 == 2 * STORED["group"] * STORED["updates"]
    for way in STORED["chosen"]:  # what is stored is whole
        assert len(at_best(way, "unseen")) == len(seeds)


def test_what_the_chapter_says_holds_in_every_stored_training():
    for possible, patterns in zip(
        drawn_at("first model", "1.0", "possible"),
        drawn_at("first model", "1.0", "patterns"),
        strict=True,
    ):
        assert 18 <= possible <= 28
        assert patterns >= 30
    assert 21 < mean(drawn_at("first model", "1.0", "possible")) < 25  # "one in five"
    for run in STORED["runs"]:
        if run["way"] == "possible":
            assert len(set(run["samples"])) <= 4
            assert run["possible"] > 95 and run["distinct"] < 15 and run["new"] < 10
            assert run["patterns"] <= 3 and run["verbs"] <= 6
    for possible in of_7_2("1.0", "possible"):
        assert 40 < possible < 60  # "about half"
    first = "first model"
    assert min(drawn_at(first, "0.5", "possible")) > max(of_7_2("1.0", "possible"))
    assert mean(drawn_at(first, "0.5", "new")) > mean(of_7_2("1.0", "new")) + 5
    assert min(of_7_2("0.5", "possible")) > max(drawn_at(first, "0.5", "possible"))
    furthest = max(of_7_2("1.0", "KL"))
    assert all(far > 2 * furthest for far in values("possible", "KL"))
    assert min(values("shared", "new")) > 1.5 * max(drawn_at(first, "1.0", "new"))
    assert (
        max(values("shared", "patterns")) < min(drawn_at(first, "1.0", "patterns")) / 2
    )
    for way, settings in STORED["chosen"].items():  # no best one is at an end
        assert 0.4 < settings["temperature"] < 1.0
        rates = {run.get("rate", 0) for run in STORED["tuning"] if run["way"] == way}
        assert len(rates) == 1 or min(rates) < settings["rate"] < max(rates)


def rounded(ones: list[float], others: list[float]) -> tuple[int, int]:
    """Return a mean difference and half of its interval, as the chapter says them."""
    found, low, high = apart(ones, others)
    return round(found), math.ceil((high - low) / 2 - 0.5)


WAYS = "first model", "kept", "kept new", "shared", "paid once"


def test_what_the_chapter_says_of_the_race():
    first, kept, new, shared, paid = (at_best(way, "unseen") for way in WAYS)
    means = [mean(found) for found in (first, kept, new, shared, paid)]
    assert [round(found) for found in means] == [49, 51, 59, 57, 71]
    assert apart(kept, first)[1] < 0 < apart(kept, first)[2]  # can't be told apart
    assert rounded(paid, first) == (22, 4) and rounded(paid, new) == (13, 6)
    assert rounded(new, first) == (10, 4) and rounded(shared, first) == (8, 4)
    for way in WAYS[:-1]:
        assert apart(paid, at_best(way, "unseen"))[1] > 6
    patterns = [mean(at_best(way, "patterns")) for way in WAYS]
    assert [round(found) for found in patterns] == [33, 17, 15, 15, 13]
    for way in WAYS[1:]:
        losses = (at_best(each, "held-out loss") for each in (way, WAYS[0]))
        assert apart(*losses)[1] > 0


def test_who_knows_sentences_by_heart():
    by_new = {way: at_best(way, "new") for way in WAYS}
    _, low, high = apart(by_new["paid once"], by_new["kept new"])
    assert low < 0 < high  # "as good"
    assert [round(mean(by_new[way])) for way in ("kept new", "paid once")] == [73, 72]
    by_heart = {way: apart(by_new[way], at_best(way, "unseen")) for way in WAYS}
    assert round(by_heart["kept"][0]) == 16 and round(by_heart["kept new"][0]) == 15
    assert min(by_heart["kept"][1], by_heart["kept new"][1]) > 10
    assert by_heart["paid once"][1] < 0 < by_heart["paid once"][2]
    assert rounded(by_new["paid once"], at_best("paid once", "unseen")) == (1, 2)
    _, low, high = by_heart["first model"]
    assert low < 0.5 and high > -0.5  # the coins are fair


def test_what_paid_once_rests_on():
    paid, new = at_best("paid once", "unseen"), at_best("kept new", "unseen")
    alone = of_race("taken apart", "paid once, without the mean")
    assert round(mean(alone)) == 68
    assert rounded(paid, alone) == (3, 5)  # "can't be told"
    assert apart(alone, new)[1] > 0
    held = of_race("taken apart", "kept new, on a leash")
    assert apart(held, new)[1] < 0 < apart(held, new)[2]
    kept_patterns = of_race("taken apart", "paid once, without the mean", "patterns")
    assert round(mean(kept_patterns)) == 19
    assert rounded(kept_patterns, at_best("paid once", "patterns")) == (6, 2)
    parts = [of_part("patterns", "kept new", rounds=n) for n in (1, 4, 40)]
    assert [round(mean(found)) for found in parts] == [29, 22, 15]
    by_heart = [
        mean(of_part("new", "kept new", rounds=n))
        - mean(of_part("unseen", "kept new", rounds=n))
        for n in (1, 4, 40)
    ]
    assert 1.8 < by_heart[2] / by_heart[0] < 2.2
    for rounds in (1, 4):
        fewer = of_part("unseen", "kept new", rounds=rounds)
        assert apart(fewer, new)[1] < 0 < apart(fewer, new)[2]
    free = of_part("unseen", "paid once", beta=0.0)
    assert round(mean(free)) == 70
    assert rounded(paid, free) == (1, 8)
    neither = of_race("taken apart", "paid once, with neither")
    assert round(mean(neither)) == 64 and rounded(paid, neither) == (7, 5)
    assert apart(paid, neither)[1] > 0
    cool, five = of_race("cool", "kept new, cool"), new[:5]
    assert apart(cool, five)[1] < 0 < apart(cool, five)[2]


def test_patterns_in_k_samples():
    found = {way: [covered(way, k) for k in (1, 10, 30, 100, 300)] for way in WAYS}
    first = found.pop("first model")
    assert min(each[0] for each in found.values()) > first[0]
    assert abs(found["kept"][1] - first[1]) < 0.5
    for each in found.values():
        assert all(a < b for a, b in zip(each[2:], first[2:], strict=True))


def test_small_steps_collapse_as_well_and_a_leash_softens_it():
    runs = [run for run in STORED["runs"] if run["way"] == "possible"]
    small = [run for run in STORED["gentler"] if "updates" in run]
    held = [run for run in STORED["gentler"] if "beta" in run]
    assert len(small) == len(held) == len(runs)
    assert max(run["distinct"] for run in small) <= max(r["distinct"] for r in runs)
    assert max(run["patterns"] for run in small) <= 3
    assert min(r["distinct"] for r in held) > 2 * max(r["distinct"] for r in runs)
    assert 25 < min(r["distinct"] for r in held)  # "a quarter to a half"
    assert max(r["distinct"] for r in held) < 60
    assert max(run["patterns"] for run in held) < 15
    assert {run["updates"] * run["rate"] for run in small} == {
        STORED["updates"] * STORED["rate"]
    }


def apart(ones: list[float], others: list[float]) -> tuple[float, float, float]:
    """Return the mean difference of pairs and its 95% interval."""
    found = ttest_rel(ones, others)
    low, high = found.confidence_interval()
    return mean(ones) - mean(others), low, high


def test_which_part_of_the_shared_reward_keeps_samples_different():
    def distinct(way):
        return [row["distinct"] for row in STORED["runs"] if row["way"] == way]

    assert max(distinct("only new")) < 15 and min(distinct("only divided")) > 50


def test_what_every_training_with_a_reward_did():
    first = {run["seed"]: run["at"]["1.0"] for run in of_way("first model")}
    rows = [run for run in STORED["race"] if run["way"] in ("shared", "paid once")]
    rows = [(run["seed"], run["at"]["1.0"]) for run in rows]
    rows += [(run["seed"], run) for run in STORED["runs"]]
    assert len(rows) == 40
    for seed, row in rows:
        assert row["possible"] > first[seed]["possible"]
        assert row["patterns"] < first[seed]["patterns"]
        assert row["held-out loss"] > first[seed]["held-out loss"]
    less = [row["distinct"] < first[seed]["distinct"] for seed, row in rows]
    assert mean(less) > 0.75  # "most"


def of_way(way: str) -> list[dict]:
    """Return the race's trainings of one way."""
    return [run for run in STORED["race"] if run["way"] == way]


def test_what_the_chapter_says_of_the_controls():
    five = at_best("first model", "unseen")[:5]
    for way in ("captions", "unfiltered"):  # "no more"
        more, margin = rounded(of_race("controls", way), five)
        assert more <= 0 and margin <= 7
    assert 1200 < mean(STORED["drawn and filtered"].values()) < 1260
    few = {way: of_race("few samples", way) for way in STORED["few samples"]["chosen"]}
    assert len(few) == 4
    for found in few.values():  # can't be told from the dial
        _, low, high = apart(found, five)
        assert low < 0 < high
    for one, other in itertools.combinations(benchmark.AGAIN, 2):
        _, low, high = apart(few[one], few[other])
        assert low < 0 < high
    at_high = [best_at(way, 0.00035) for way in benchmark.AGAIN]
    assert [round(found) for found in at_high] == [9, 22, 37]
    kept = [of_race("few samples", way, "patterns") for way in benchmark.AGAIN]
    assert [round(mean(found)) for found in kept] == [15, 17, 25]
    assert min(apart(kept[2], kept[0])[1], apart(kept[2], kept[1])[1]) > 0


def test_the_clipped_loss_is_the_one_that_was_measured():
    names = dict(vars(at)) | {"torch": torch, "Tensor": torch.Tensor}
    for cell in read(CHAPTER):
        if cell.source.startswith("def clipped_loss("):
            exec(cell.source, names)
    model = policy()
    ids = torch.randint(VOCAB, (6, 5))
    old = at.token_log_p(model, ids).detach() + torch.randn(6, 4)
    advantages = torch.randn(6)
    for clip in (0.2, math.inf):
        one, two = (f["clipped_loss"](model, ids, advantages, old, clip)
                    for f in (names, vars(benchmark)))  # fmt: skip
        assert torch.equal(one, two)


def test_a_clip_stops_tokens_that_have_gone_too_far():
    """The gradient is the policy's at a ratio of 1, and none beyond the bounds."""
    model, ids = policy(), torch.full((1, 4), VOCAB - 1)
    now = at.token_log_p(model, ids).detach()
    for advantage, gone, is_still in (
        (1.0, 0.0, True), (1.0, 0.5, False), (1.0, -0.5, True),
        (-1.0, -0.5, False), (-1.0, 0.5, True),
    ):  # fmt: skip
        given = torch.tensor([advantage])
        loss = benchmark.clipped_loss(model, ids, given, now - gone, 0.2)
        slopes = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)
        assert any(s is not None and s.any() for s in slopes) == is_still
    fresh = benchmark.clipped_loss(model, ids, given, now, 0.2)
    plain = at.policy_loss(model, ids, given)
    both = (torch.autograd.grad(x, [*model.parameters()]) for x in (fresh, plain))
    for a, b in zip(*both, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def of_race(name: str, way: str, what: str = "unseen") -> list[float]:
    """Return a measure of all trainings of a smaller race."""
    race = STORED[name]
    at_best = str(race["chosen"][way]["temperature"])
    return [run["at"][at_best][what] for run in race["race"] if run["way"] == way]


def best_at(way: str, rate: float) -> float:
    """Return the mean share of unseen ones at one rate, at its best temperature."""
    rows = STORED["few samples"]["tuning"]
    runs = [run["at"] for run in rows if (run["way"], run.get("rate")) == (way, rate)]
    return max(mean(drawn[t]["unseen"] for drawn in runs) for t in runs[0])


def covered(way: str, k: int) -> float:
    """Return the patterns in k samples of five seeds; five others choose how warm."""
    runs = [run["at"] for run in STORED["race"] if run["way"] == way]
    what = f"patterns in {k}"
    best = max(runs[0], key=lambda t: mean(at[t][what] for at in runs[:5]))
    return mean(at[best][what] for at in runs[5:])


def test_what_a_repeat_costs():
    """A reward for each repeat has fewer unseen ones, and less is known by heart."""
    paid, shared = at_best("paid once", "unseen"), at_best("shared", "unseen")
    assert rounded(paid, shared) == (14, 6)
    alone = [
        of_race("taken apart", "paid once, without the mean", what)
        for what in ("new", "unseen")
    ]
    assert round(apart(*alone)[0]) == 5 and apart(*alone)[1] > 0
    for rounds in (1, 4):
        few = of_part("unseen", "kept", rounds=rounds)
        assert rounded(few, at_best("first model", "unseen")) == (4, 3)
