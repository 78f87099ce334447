"""benchmarks/ablations.py: what it compares, how, and that nothing is done twice."""

import dataclasses
import json
import random

import pytest
import sacrebleu
import torch
from sacrebleu.significance import PairedTest
from small_runs import program

import annotated_transformer as at
from transformer_workshop.corpora import load_pairs
from transformer_workshop.files import read_json
from transformer_workshop.runs import count_updates
from transformer_workshop.settings import TrainingConfig

ROOT = at.project_folder()
PAIRS = load_pairs(TrainingConfig(), "train")[:400]
TEXT = [english for _, english in PAIRS[:120]]
STORED = ROOT / "results" / "ablations.json"


@pytest.fixture
def ablations(monkeypatch):
    """Load the program with a tiny reference and a few captions."""
    module = program("benchmarks/ablations.py")
    tiny = dataclasses.replace(
        module.REFERENCE, bpe_size=300, N=1, d_model=16, d_ff=16, h=2, max_tokens=60,
        warmup=5, batch_tokens=400, beam_size=3,
    )  # fmt: skip
    splits = {"train": PAIRS, "valid": PAIRS[:10]}  # a KeyError for the test split
    monkeypatch.setattr(module, "REFERENCE", tiny)
    monkeypatch.setattr(module, "load_pairs", lambda config, split: splits[split])
    return module


@pytest.fixture
def run(ablations, tmp_path, monkeypatch):
    """Call the program; return its status and what it wrote, if anything."""

    def call(*arguments: str) -> tuple[int, dict | None]:
        out = tmp_path / "ablations.json"
        places = ["--runs", str(tmp_path / "runs"), "--out", str(out)]
        argv = ["ablations.py", *arguments, *places]
        monkeypatch.setattr("sys.argv", argv)
        with torch.random.fork_rng():
            status = ablations.main()
        return status, json.loads(out.read_text()) if out.exists() else None

    return call


def worse(lines: list[str], share: float) -> list[str]:
    """Leave a word out of some of the lines."""
    draw = random.Random(0)
    return [
        " ".join(line.split()[1:]) if draw.random() < share else line for line in lines
    ]


# --- the comparison -----------------------------------------------------------------


@pytest.mark.parametrize("shares", [(0.5, 0.1), (0.3, 0.35)])
def test_the_paired_bootstrap_is_sacrebleus(ablations, shares):
    one, two = (worse(TEXT, share) for share in shares)
    found = ablations.compare(one, two, TEXT)
    systems = [("base", two), ("system", one)]
    _, scores = PairedTest(systems, {"BLEU": sacrebleu.BLEU()}, [TEXT], "bs")()
    base, system = scores["BLEU"]
    assert found["bleu"] == pytest.approx(system.score, abs=0.005)
    assert found["difference"] == pytest.approx(system.score - base.score, abs=0.01)
    assert found["p"] == pytest.approx(system.p_value, abs=2e-3)
    low, high = found["interval"]
    assert low < found["difference"] < high
    back = ablations.compare(two, one, TEXT)
    assert back["difference"] == -found["difference"] and back["p"] == found["p"]
    assert back["interval"] == pytest.approx([-high, -low], abs=0.011)


def test_a_clear_difference_is_seen_and_a_tiny_one_is_not(ablations):
    same = ablations.compare(TEXT, TEXT, TEXT)
    assert same["bleu"] == 100 and same["length"] == 1
    assert same["difference"] == 0 and same["interval"] == [0, 0]
    one_word = [TEXT[0].upper(), *TEXT[1:]]
    assert ablations.compare(worse(TEXT, 0.9), TEXT, TEXT)["p"] < 0.01
    low, high = ablations.compare(one_word, TEXT, TEXT)["interval"]
    assert low <= 0 <= high + 1e-9


# --- the variants -------------------------------------------------------------------


def test_a_variant_differs_in_what_it_says_alone(ablations):
    fields = {f.name for f in dataclasses.fields(TrainingConfig)}
    reference = ablations.settings_of("reference", 600)
    for name, (_, changed) in ablations.VARIANTS.items():
        settings = ablations.settings_of(name, 600)
        differ = {key for key in settings if settings[key] != reference[key]}
        assert settings.keys() == reference.keys() and differ == changed.keys(), name
        assert changed.keys() <= fields | {"share"}
    assert list(ablations.VARIANTS)[0] == "reference"
    assert {"greedy", "beam 10", "no averaging", "words"} <= ablations.VARIANTS.keys()


def test_shares_of_the_data_are_nested(ablations):
    tenth, third, whole = (
        ablations.training_pairs({"share": share}) for share in (0.1, 0.3, 1.0)
    )
    assert (len(tenth), len(third), len(whole)) == (40, 120, 400)
    assert set(tenth) <= set(third) <= set(whole)


def test_without_positions_the_encoder_reads_a_bag_of_words(ablations):
    torch.manual_seed(0)
    settings = ablations.settings_of("no positions", 20)
    translator, _ = ablations.train(settings)
    ids = torch.tensor([[5, 9, 7, 8]])
    mask = torch.ones(1, 1, 4, dtype=torch.bool)
    with at.in_mode(translator.model, training=False):
        read = translator.model.encode(ids, mask)[0]
        turned = translator.model.encode(ids.flip(1), mask)[0]
    assert torch.allclose(read, turned.flip(0), atol=1e-6)


def test_all_data_is_seen_again_and_again_until_the_steps_are_done(ablations):
    settings = ablations.settings_of("10 % of the data", 33)
    translator, last = ablations.train(settings)
    assert len(last) == ablations.REFERENCE.average
    states = [model.state_dict() for model in last]
    for one, two in zip(states, states[1:]):
        assert any(not torch.equal(one[name], two[name]) for name in one)
    final = translator.model.state_dict()
    assert all(torch.equal(states[-1][name], final[name]) for name in final)


@pytest.mark.multi30k
@pytest.mark.slow
def test_the_reference_sees_each_pair_about_once():
    """Check chapter 95's claim; a tenth of the data is then seen about ten times."""
    module = program("benchmarks/ablations.py")
    config = dataclasses.replace(module.REFERENCE, epochs=1)
    pairs = load_pairs(config, "train")
    text = at.prepare_text(pairs, config.bpe_size, config.min_freq)
    examples, _ = at.encode_pairs(pairs, text, config.max_tokens)
    passes = module.STEPS / count_updates(examples, config.batch_tokens, epochs=1)
    assert 0.9 < passes < 1.2


# --- the program --------------------------------------------------------------------


def names(found: dict) -> list[str]:
    return [record["variant"] for record in found["variants"]]


@pytest.mark.multi30k
def test_it_goes_on_after_an_interruption_and_does_nothing_twice(
    run, ablations, monkeypatch
):
    train, begun = ablations.train, []

    def stopping(settings):
        begun.append(settings["smoothing"])
        if len(begun) == 2:
            raise KeyboardInterrupt
        return train(settings)

    monkeypatch.setattr(ablations, "train", stopping)
    command = ["--steps", "20", "--only", "greedy", "no smoothing"]
    status, found = run(*command)
    assert status == 130 and begun == [0.1, 0.0]
    assert names(found) == ["reference", "greedy"]  # which is decoded otherwise only
    status, found = run(*command)
    assert status == 0 and begun == [0.1, 0.0, 0.0]
    assert names(found) == ["reference", "greedy", "no smoothing"]
    assert run(*command) == (0, found) and len(begun) == 3
    _, other = run("--steps", "21", "--only", "greedy")
    assert names(other) == ["reference", "greedy"] and len(begun) == 4
    assert {"commit", "versions", "processor", "command"} <= found.keys()
    assert found["split"] == "valid"
    reference, *others = found["variants"]
    assert "difference" not in reference and "p" not in reference
    for record in others:
        low, high = record["interval"]
        assert low <= high and 0 < record["p"] <= 1
        difference = record["bleu"] - reference["bleu"]
        assert record["difference"] == pytest.approx(difference, abs=0.02)


def test_a_wrong_name_is_refused_with_the_right_ones(run, capsys):
    with pytest.raises(SystemExit):
        run("--only", "no sense")
    assert "no averaging" in capsys.readouterr().err


# --- the stored results ---------------------------------------------------------------


def test_the_stored_results_are_of_todays_variants():
    module = program("benchmarks/ablations.py")
    stored = read_json(STORED)
    records = {record["variant"]: record for record in stored["variants"]}
    assert list(records) == list(module.VARIANTS)
    settings = module.settings_of("reference", module.STEPS)
    reference = {k: v for k, v in stored["reference"].items() if k != "r_drop"}
    assert module.completed(reference) == settings
    assert stored["split"] == "valid" and stored["bootstrap"]["resamples"] == 1000
    for name, record in records.items():
        assert [record["group"], record["changed"]] == list(module.VARIANTS[name])
        assert record.get("training_cpu_seconds", 0) <= 360
        if name != "reference":
            low, high = record["interval"]
            assert low <= record["difference"] <= high
