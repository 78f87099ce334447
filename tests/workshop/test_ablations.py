"""benchmarks/ablations.py: what it compares, and what results/ablations.json holds."""

import dataclasses

from small_runs import program

from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json

ablations = program("benchmarks/ablations.py")
STORED = project_folder() / "results" / "ablations.json"


def test_a_variant_differs_in_what_it_says_alone():
    fields = {f.name for f in dataclasses.fields(TrainingConfig)}
    reference = ablations.settings_of("reference", 600)
    for name, (_, changed) in ablations.VARIANTS.items():
        settings = ablations.settings_of(name, 600)
        differ = {key for key in settings if settings[key] != reference[key]}
        assert settings.keys() == reference.keys() and differ == changed.keys(), name
        assert changed.keys() <= fields | {"share"}
    assert list(ablations.VARIANTS)[0] == "reference"
    assert {"greedy", "beam 10", "no averaging", "words"} <= ablations.VARIANTS.keys()


def test_the_stored_results_are_of_todays_variants():
    stored = read_json(STORED)
    records = {record["variant"]: record for record in stored["variants"]}
    assert list(records) == list(ablations.VARIANTS)
    settings = ablations.settings_of("reference", ablations.STEPS)
    reference = {k: v for k, v in stored["reference"].items() if k != "r_drop"}
    assert ablations.completed(reference) == settings
    assert stored["split"] == "valid" and stored["bootstrap"]["resamples"] == 1000
    for name, record in records.items():
        assert [record["group"], record["changed"]] == list(ablations.VARIANTS[name])
        assert record.get("training_cpu_seconds", 0) <= 360
        if name != "reference":
            low, high = record["interval"]
            assert low <= record["difference"] <= high
