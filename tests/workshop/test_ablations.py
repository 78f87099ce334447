"""benchmarks/ablations.py: what it compares, how, and that nothing is done twice."""

import dataclasses

import pytest
import sacrebleu
import torch
from small_runs import program

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.lab import tasks
from transformer_workshop.text import corpora
from transformer_workshop.text.corpora import load_pairs

ROOT = project_folder()
PAIRS = load_pairs(TrainingConfig(), "train")[:400]
STORED = ROOT / "results" / "ablations.json"


@pytest.fixture
def ablations(monkeypatch):
    """Load the program with a tiny reference and a few captions."""
    module = program("benchmarks/ablations.py")
    tiny = dataclasses.replace(
        module.REFERENCE, dataset="captions", bpe_size=300, N=1, d_model=16, d_ff=16,
        h=2, max_tokens=60, warmup=5, batch_tokens=400, beam_size=3,
    )  # fmt: skip
    splits = {"train": PAIRS, "valid": PAIRS[:10]}  # a KeyError for the test split
    monkeypatch.setattr(module, "REFERENCE", tiny)
    for reader in (module, tasks, corpora):
        read = lambda config, split: splits[split]  # noqa: E731
        monkeypatch.setattr(reader, "load_pairs", read)
    tasks.encoded.cache_clear()
    yield module
    tasks.encoded.cache_clear()


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


# --- the program --------------------------------------------------------------------


@pytest.mark.slow
def test_variants_are_compared_with_the_reference_and_kept(ablations, tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "ablations.json"
    for name in ("reference", "greedy", "no averaging", "no smoothing"):
        record = ablations.make(name, 20, runs)
        write_json(runs / name / "result.json", record)
        lines = read_lines(runs / name / "valid.en")
        references = [english for _, english in PAIRS[:10]]
        bleu = sacrebleu.corpus_bleu(lines, [references]).score
        assert record["bleu"] == pytest.approx(bleu, abs=0.005)
    assert len(ablations.finished(runs, 20)) == 4
    assert ablations.finished(runs, 21) == {}
    reference, *others = ablations.sum_up(runs, 20, out)
    assert "difference" not in reference and "p" not in reference
    for record in others:
        low, high = record["interval"]
        assert low <= high and 0 < record["p"] <= 1
        difference = record["bleu"] - reference["bleu"]
        assert record["difference"] == pytest.approx(difference, abs=0.02)
    found = read_json(out)
    assert {"commit", "versions", "processor", "command"} <= found.keys()
    assert found["split"] == "valid" and len(found["variants"]) == 4


@pytest.mark.parametrize("arguments", [["--only", "greedy"], ["--steps", "20"]])
def test_a_try_writes_no_tracked_results(ablations, monkeypatch, tmp_path, arguments):
    written = []
    monkeypatch.setattr(ablations, "compute", lambda *_: None)
    monkeypatch.setattr(ablations, "table", lambda _: "")
    monkeypatch.setattr(ablations, "sum_up", lambda *a: written.append(a[-1]))
    argv = ["ablations.py", "--runs", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*argv, *arguments])
    ablations.main()
    monkeypatch.setattr("sys.argv", argv)
    ablations.main()
    assert written == [tmp_path / "ablations.json", STORED]


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
