"""The model that learns in the page has the losses and gradients of the chapters'."""

from __future__ import annotations

import json
import re
import shutil
import sys
from urllib.parse import parse_qs

import pytest
import torch
import torch.nn.functional as F
from test_site import ROOT, chromium
from torch import nn

import annotated_transformer as at
from transformer_workshop.lab.riddles import clause, hunts

sys.path.append(str(ROOT / "site"))
import riddles  # noqa: E402

pytestmark = pytest.mark.slow

SETTINGS = [
    {},
    {"exam": "write"},
    {"residual": False, "norm": False, "network": False, "heads": 1, "layers": 1},
    {"residual": False, "norm": False, "network": False},
    {"layers": 4, "residual": False},
    {"norm": False, "network": False},
    {"positions": False, "divide": False},
    {"attention": False},
    {"exam": "write", "mask": False, "heads": 2},
    {"exam": "write", "attention": False, "layers": 1},
]


@pytest.fixture(scope="module")
def page():
    """Open an empty page with the learner and both exams."""
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(0)
        riddles.open_exams(page)
        yield page


def from_page(page, function, argument):
    """Return what a function returns in the page; as text it arrives much sooner."""
    text = page.evaluate(f"given => JSON.stringify(({function})(given))", argument)
    return json.loads(text)


class Average(nn.Module):
    """An average in the place of attention."""

    def forward(self, x, mask):
        weights = mask.double() / mask.sum(-1, keepdim=True)
        return weights @ x


class Attend(nn.Module):
    """The chapters' attention, with its divisor or without."""

    def __init__(self, settings):
        super().__init__()
        self.heads = at.MultiHeadedAttention(settings["heads"], settings["width"], 0.0)
        if not settings["divide"]:
            scale = (settings["width"] // settings["heads"]) ** 0.5
            self.heads.attention_function = lambda q, k, v, *rest: at.attention(
                q * scale, k, v, *rest
            )

    def forward(self, x, mask):
        return self.heads(x, x, x, mask)


class Same(nn.Module):
    """The same model, in the chapters' classes, with the page's weights."""

    def __init__(self, settings, weights, task):
        super().__init__()
        self.s, d = settings, settings["width"]
        self.task, self.read = task, len(task["frame"])
        self.table = nn.Embedding(len(task["words"]), d)
        length = self.read + (task["answers"] if task["exam"] == "write" else 0)
        self.places = nn.Embedding(length, d)
        layers = range(settings["layers"])
        make = Attend if settings["attention"] else lambda settings: Average()
        self.attention = nn.ModuleList(make(settings) for _ in layers)
        self.network = nn.ModuleList(
            at.PositionwiseFeedForward(d, 4 * d, 0.0) for _ in layers
        )
        self.norms = nn.ModuleDict()
        for name in [f"{n}{kind}" for n in layers for kind in ("norm", "second")]:
            self.norms[name] = at.LayerNorm(d)
        self.norms["norm"] = at.LayerNorm(d)
        self.scores = nn.Linear(d, weights["scores.bias"].numel())
        self.double()
        self.fill(weights)

    def fill(self, weights):
        self.named = {"words": self.table.weight, "places": self.places.weight}
        for n in range(self.s["layers"]):
            maps = [f"{n}.{name}" for name in ("query", "key", "value", "out")]
            linears = self.attention[n].heads.linears if self.s["attention"] else []
            network = self.network[n]
            pairs = zip(
                [*maps[: len(linears)], f"{n}.wide", f"{n}.narrow"],
                [*linears, network.w_1, network.w_2],
            )
            for name, linear in pairs:
                self.name_linear(name, linear)
            for kind in ("norm", "second"):
                self.name_norm(f"{n}.{kind}", self.norms[f"{n}{kind}"])
        self.name_norm("norm", self.norms["norm"])
        self.name_linear("scores", self.scores)
        self.named = {name: self.named[name] for name in weights}
        with torch.no_grad():
            for name, value in weights.items():
                weight = self.named[name]
                turned = value.view(*reversed(weight.shape)) if "matrix" in name else 0
                weight.copy_(turned.mT if "matrix" in name else value.view_as(weight))

    def name_linear(self, name, linear):
        self.named |= {f"{name}.matrix": linear.weight, f"{name}.bias": linear.bias}

    def name_norm(self, name, norm):
        scale, shift = norm.parameters()
        self.named |= {f"{name}.scale": scale, f"{name}.shift": shift}

    def sublayer(self, x, norm, work):
        y = work(self.norms[norm](x) if self.s["norm"] else x)
        return x + y if self.s["residual"] else y

    def forward(self, ids, answers):
        length = ids.size(1)
        mask = torch.ones(length, length, dtype=torch.bool)
        if self.s["mask"]:
            mask = mask.tril()
        mask[:, : self.read] = True
        x = self.table(ids)
        if self.s["positions"]:
            x = x + self.places.weight
        for n in range(self.s["layers"]):
            x = self.sublayer(
                x, f"{n}norm", lambda u, n=n: self.attention[n](u, mask[None])
            )
            if self.s["network"]:
                x = self.sublayer(x, f"{n}second", self.network[n])
        if self.s["norm"]:
            x = self.norms["norm"](x)
        if self.task["exam"] == "write":
            scores = self.scores(x[:, self.read :])
        else:
            scores = self.scores(x[:, self.task["asking"]])
            scores = scores.unflatten(-1, (self.task["answers"], -1))
        return F.cross_entropy(scores.flatten(0, 1), answers.flatten())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_losses_and_gradients_are_those_of_pytorch(page, settings):
    exam = settings.get("exam", "read")
    given = from_page(
        page,
        """([settings, exam]) => {
            const run = learner.makeRun(settings, tasks[exam]), numbers = name =>
                Object.fromEntries(Object.entries(run.weights).map(
                    ([key, each]) => [key, [...each[name]]]));
            const start = numbers("data"), batches = [], losses = [];
            run.draw();
            run.model.forward();
            run.model.backward();
            const first = [[...run.model.ids], [...run.model.answers]];
            const loss = run.model.loss.value, slopes = numbers("grad");
            for (const { grad } of Object.values(run.weights)) grad.fill(0);
            for (let i = 0; i < 5; i++) {
                losses.push(run.learn());
                batches.push([[...run.model.ids], [...run.model.answers]]);
            }
            return { start, first, loss, slopes, batches, losses,
                     settings: run.settings, count: run.count() };
        }""",
        [settings, exam],
    )
    settings, batch = given["settings"], given["settings"]["batch"]
    weights = {
        k: torch.tensor(v, dtype=torch.double) for k, v in given["start"].items()
    }
    model = Same(settings, weights, riddles.packed(exam))
    assert given["count"] == sum(weight.numel() for weight in model.named.values())

    def loss_of(ids, answers):
        return model(*(torch.tensor(each).view(batch, -1) for each in (ids, answers)))

    loss = loss_of(*given["first"])
    assert loss.item() == pytest.approx(given["loss"], abs=1e-12)
    loss.backward()
    for name, weight in model.named.items():
        slopes = torch.tensor(given["slopes"][name], dtype=torch.double)
        slopes = slopes.view(*reversed(weight.shape)).mT if "matrix" in name else slopes
        torch.testing.assert_close(
            slopes.reshape(-1), weight.grad.reshape(-1), rtol=0, atol=1e-12
        )
    optimizer = torch.optim.Adam(model.named.values(), lr=settings["rate"])
    for batch_of, theirs in zip(given["batches"], given["losses"]):
        optimizer.zero_grad()
        loss = loss_of(*batch_of)
        loss.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(theirs, abs=1e-9)


def test_the_exams_are_those_of_chapter_1(page):
    for exam in ("read", "write"):
        task = from_page(page, "exam => tasks[exam]", exam)
        words, theirs = task["words"], hunts(questions=2)
        said = task["choices"] or words
        pairs = {
            (
                " ".join(words[i] for i in row["ids"]),
                tuple(said[i] for i in row["answers"]),
            )
            for row in task["rows"]
        }
        assert pairs == {
            (
                row.sentence,
                row.answers if exam == "read" else tuple(clause(row).split()[2:-1]),
            )
            for row in theirs.learned + theirs.held_out
        }
        held = from_page(
            page, "([exam, seed]) => learner.split(tasks[exam], seed)", [exam, 3]
        )
        groups = [{row["group"] for row in held[name]} for name in ("learned", "held")]
        assert not groups[0] & groups[1]
        assert len(groups[1]) == 9
        assert 0 in groups[1]


LESSONS = {  # the shares of right answers that the page's sentences speak of
    "read whole": (0.95, 1),
    "read positions": (0, 0.15),
    "read attention": (0.2, 0.66),
    "read residuals": (0.2, 0.9),
    "write whole": (0.95, 1),
    "write mask": (0, 0.6),
    "write positions": (0, 0.7),
}


def test_each_part_is_missed_with_every_seed():
    runs = json.loads(riddles.STORED.read_text(encoding="utf-8"))["runs"]
    assert set(runs) == {"every", *LESSONS}
    for name, (least, most) in LESSONS.items():
        assert len(runs[name]) == riddles.SEEDS
        assert all(least <= run[-1] <= most for run in runs[name]), name


def test_what_is_said_of_single_answers_holds_with_every_seed():
    answers = json.loads(riddles.STORED.read_text(encoding="utf-8"))["answers"]
    assert all(len(answers[name]) == riddles.SEEDS for name in LESSONS)
    chased, it = zip(*answers["read attention"], strict=True)
    assert min(chased) > 0.9  # "it gets right"
    assert max(it) < 0.65  # "mostly guesses"
    chased, it = zip(*answers["read residuals"], strict=True)
    assert min(chased) > 0.85
    assert sorted(it)[6] < 0.36  # seven of eight: right where it is the one that chased
    assert max(pronoun for pronoun, *_ in answers["write mask"]) < 0.55
    assert max(pronoun for pronoun, *_ in answers["write positions"]) < 0.65


@pytest.mark.parametrize("name", ["read residuals", "write mask"])
def test_the_stored_runs_are_those_of_this_model(page, name):
    runs = json.loads(riddles.STORED.read_text(encoding="utf-8"))["runs"]
    every = runs["every"]
    shares, _ = page.evaluate(riddles.MEASURE, [*name.split(), 1, every, every])
    assert shares == pytest.approx(runs[name][1][:2], abs=0.03)


LINKS = sorted(
    {
        state
        for path in (ROOT / "notebooks").glob("0*.md")
        for state in re.findall(r"<!-- learn (\S+) -->", path.read_text("utf-8"))
    }
)


def test_a_chapters_link_sets_the_switches(page, tmp_path):
    """What is named in the address is away, and nothing else is."""
    for name in ("learner.js", "learn.js"):
        shutil.copy(ROOT / "site/static" / name, tmp_path)
    (tmp_path / "riddles.js").write_text(riddles.script(), encoding="utf-8")
    helpers = (ROOT / "site/static/site.js").read_text("utf-8").partition("// Charts:")
    tags = "".join(
        f'<script src="{name}.js"></script>' for name in ("learner", "riddles", "learn")
    )
    html = f"<!doctype html>{riddles.figure('')}<script>{helpers[0]}</script>{tags}"
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    assert len(LINKS) >= 4
    for state in LINKS:
        figure = page.context.browser.new_page()
        figure.goto((tmp_path / "page.html").as_uri() + f"#learn?{state}")
        [away] = figure.locator(".learn-parts [aria-pressed=false]").all_inner_texts()
        [part] = parse_qs(state)["without"]
        name = riddles.AWAY[part]["en"].removeprefix("the ")
        assert away.removeprefix("the ").startswith(name)
        figure.close()
