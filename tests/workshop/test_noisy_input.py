"""benchmarks/noisy_input.py: its noise, and what it measures on two sentences."""

import pytest
from small_runs import program

from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json
from transformer_workshop.base.shipped_models import DEFAULT_MODEL
from transformer_workshop.models.translator import load_translator

FOLDER = project_folder()
PAIRS = [
    ("Ein Mädchen läuft über die Straße.", "A girl is running across the street."),
    ("Zwei Hunde spielen am Strand.", "Two dogs are playing on the beach."),
]


@pytest.fixture
def noisy_input(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER / "benchmarks"))
    return program("benchmarks/noisy_input.py")


def test_what_noise_leaves_alone_is_translated_as_before(noisy_input):
    translator = load_translator(FOLDER / DEFAULT_MODEL, "cpu")
    translator.config.max_tokens = 20  # in capitals, both sentences have more subwords
    whole, found = noisy_input.measure(translator, PAIRS)
    assert whole["sentences"] == 2
    umlauts, sharp = found["ae, oe, ue for umlauts"], found["ss for ß"]
    assert umlauts["changed"] == sharp["changed"] == 1
    assert sharp["as typed"]["other translation"] <= 1
    for ways in (umlauts, sharp, found["all capitals"], found["all lower case"]):
        assert ways["respelled"]["other translation"] == 0  # both are known words
    assert found["all capitals"]["as typed"]["empty"] == 2


def test_what_training_on_noisy_text_costs_is_what_the_chapter_says():
    def scores(name):
        models = read_json(FOLDER / f"results/noisy_input_{name}.json")["models"]
        return [model["as it is"]["bleu"] for model in models.values()]

    pairs = zip(scores("plain"), scores("augmented"), strict=True)
    lost = [plain - augmented for plain, augmented in pairs]
    assert len(lost) == 3
    page = (FOLDER / "notebooks/91_from_the_terminal.md").read_text("utf-8")
    assert f"{min(lost):.1f} to {max(lost):.1f} BLEU" in page
