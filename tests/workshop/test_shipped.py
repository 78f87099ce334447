"""The weights in models/: their size, their card, and what they reach today."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from small_runs import program

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS, read_config_file
from transformer_workshop.base.data_sets import data_file, project_folder
from transformer_workshop.base.files import (
    append_line,
    fingerprint,
    load_tensors,
    read_json,
    write_json,
)
from transformer_workshop.base.shipped_models import DEFAULT_MODEL
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.evaluation import evaluate
from transformer_workshop.models.translator import (
    Translator,
    load_translator,
    save_translator,
)
from transformer_workshop.text import corpora
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import prepare_text

ROOT = project_folder()
CAPTIONS = ROOT / "models" / "captions"
MULTI30K = [ROOT / "models" / "multi30k", ROOT / "models" / "multi30k-2026"]
shipped = pytest.mark.parametrize("folder", MULTI30K, ids=lambda path: path.name)
SAID = ["A man reads a book.", "Two dogs run.", "A woman is singing.", "A red car."]
SCORES = {
    "bleu": 41.5,
    "interval": [40.02, 43.13],
    "chrf": 60.86,
    "sentences": 1000,
    "signature": "nrefs:1|case:mixed",
    "seconds": 1.0,
}


def size(folder: Path) -> float:
    """Return the size of a folder's files in megabytes."""
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def rows(card: str) -> dict[str, list[float]]:
    """Return the numbers in the card's table: split to BLEU, low, high, chrF."""
    number = r"(\d+\.\d)"
    line = rf"\| (\w+) \| [\d,]+ \| {number} \({number}–{number}\) \| {number} \|"
    return {split: list(map(float, rest)) for split, *rest in re.findall(line, card)}


def tenths(scores: dict) -> list[float]:
    """Return what the card says about these scores."""
    return [round(x, 1) for x in (scores["bleu"], *scores["interval"], scores["chrf"])]


# --- what is there -----------------------------------------------------------------


def test_the_gpt_is_that_of_its_results_and_card():
    """Run benchmarks/gpt.py again after the model is retrained."""
    folder = ROOT / "models" / "captions-gpt"
    stored, card = read_json(ROOT / "results" / "gpt.json"), folder / "README.md"
    weights = folder / "gpt.safetensors"
    assert fingerprint(weights.read_bytes()) == stored["weights"]
    assert size(folder) < 1
    model = at.GPT(stored["words"], **stored["sizes"])
    model.load_state_dict(load_tensors(weights))
    assert f"{at.count_parameters(model):,} parameters" in card.read_text("utf-8")

    _, tokenizer = at.load_tokenizers()
    train, valid = (
        read_lines(data_file("captions", f"{split}.en")) for split in ("train", "valid")
    )
    _, vocab = at.token_stream(train, tokenizer)
    words = [[*vocab(tokenizer.tokenize(line)), at.END] for line in valid]
    ids = torch.tensor([at.END, *(i for line in words for i in line)])
    windows = ids[: 64 * 100].view(100, 64)
    with torch.no_grad():
        log_p = model(windows[:, :-1]).log_softmax(-1)
    loss = -log_p.gather(-1, windows[:, 1:, None]).mean().item()
    said = stored["runs"][0]["validation loss in 16 bits"]  # other windows of the split
    assert loss == pytest.approx(said, abs=0.02)


def test_the_captions_model_is_small_and_its_scores_are_its_own():
    """Run benchmarks/captions.py again after models/captions is retrained."""
    assert size(CAPTIONS) <= 3
    scores = read_json(ROOT / "results" / "captions.json")
    weights = (CAPTIONS / "model.safetensors").read_bytes()
    assert scores["weights"] == fingerprint(weights)


@shipped
def test_the_model_is_small_enough_to_be_fetched_with_the_project(folder):
    assert size(folder) <= 25
    stored = load_tensors(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    translator = load_translator(folder, "cpu")
    weights = list(translator.model.parameters())
    assert {weight.dtype for weight in weights} == {torch.float32}
    assert at.count_parameters(translator.model) <= 12_000_000


@shipped
def test_the_card_says_what_was_measured(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    scores = read_json(folder / "evaluate.json")
    assert rows(card) == {split: tenths(scores[split]) for split in ("valid", "test")}
    assert scores["test"]["sentences"] == 1000 and scores["test"]["signature"] in card
    translator = load_translator(folder, "cpu")
    assert f"{at.count_parameters(translator.model):,} parameters" in card
    for words in ("not for commercial use", "**Limits.**", "Flickr30k", "| command |"):
        assert words in card


@shipped
def test_no_folder_of_another_machine_is_named(folder):
    text = (folder / "config.json").read_text(encoding="utf-8")
    assert not re.search(r'[" =]/\w', text)


@pytest.fixture(scope="module")
def thousand():
    """Return all 1,000 pairs; no choice is based on them, so no look is logged."""
    pairs = load_pairs(CONFIGS["small"], "test")
    assert len(pairs) == 1000
    return pairs


@pytest.mark.multi30k
@pytest.mark.slow
def test_the_default_model_reaches_what_its_card_says(thousand):
    assert DEFAULT_MODEL == "models/multi30k-2026"
    folder = ROOT / DEFAULT_MODEL
    card = rows((folder / "README.md").read_text(encoding="utf-8"))
    found = evaluate(load_translator(folder, "cpu"), thousand)
    assert abs(found["bleu"] - card["test"][0]) <= 0.3
    assert abs(found["chrf"] - card["test"][3]) <= 0.3


@pytest.mark.multi30k
@pytest.mark.slow
def test_the_model_of_block_2017_reaches_what_was_measured_greedily(thousand):
    engines = read_json(ROOT / "results" / "engine.json")
    stored = engines["multi30k"]["greedy"]["outputs"]["ours"]
    translator = load_translator(ROOT / "models" / "multi30k", "cpu")
    output = translator.translate([src for src, _ in thousand], beam_size=1)
    found = at.score(output, [reference for _, reference in thousand])
    assert abs(found["bleu"] - stored["bleu"]) <= 0.3


# --- the program that packs ---------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Make the folder of a tiny finished run, on four pairs posing as Multi30k."""
    pairs = list(zip(["Ein Mann.", "Zwei Hunde.", "Eine Frau.", "Ein Auto."], SAID))
    load = load_pairs
    monkeypatch.setattr(
        corpora,
        "load_pairs",
        lambda c, split: load(c, split) if c.train_src else pairs,
    )
    config = dataclasses.replace(
        CONFIGS["small"], run_dir="/somewhere/runs/mine", bpe_size=300, N=1,
        d_model=16, d_ff=16, h=2, max_tokens=40, epochs=2,
    )  # fmt: skip
    torch.manual_seed(0)
    text = prepare_text(pairs, config.bpe_size, config.min_freq)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    folder = tmp_path / "runs" / "mine"
    save_translator(folder, Translator(model, text, config))
    settings = read_json(folder / "config.json")
    command = "annotated_transformer.py train --run-dir /somewhere/runs/mine"
    settings["starts"][0]["command"] = command
    write_json(folder / "config.json", settings)
    for _ in range(2):
        append_line(folder / "metrics.jsonl", {"seconds": 90, "precision": "auto"})
    write_json(folder / "evaluate.json", SCORES)
    return folder


@pytest.mark.multi30k
def test_a_run_is_packed_with_its_card(run, tmp_path):
    """Expect half the bytes, rounded weights, and tables that are tied as before."""
    ship, into = program("benchmarks/ship.py"), tmp_path / "models" / "multi30k"
    card = ship.ship(run, into, run / "evaluate.json")
    names = {"README.md", "config.json", "evaluate.json", "model.safetensors"}
    assert {file.name for file in into.iterdir()} == names | {"vocabulary.json"}
    assert (into / "README.md").read_text(encoding="utf-8") == card
    assert rows(card)["test"] == tenths(SCORES) == [41.5, 40.0, 43.1, 60.9]
    assert "3 minutes at 2 threads" in card and "{" not in card
    assert "/somewhere" not in (into / "config.json").read_text() + card
    command = read_config_file(into)["starts"][0]["command"]
    assert command == "annotated_transformer.py train --run-dir runs/mine"

    before, after = (load_translator(folder, "cpu") for folder in (run, into))
    bytes_of = [(f / "model.safetensors").stat().st_size for f in (run, into)]
    count = at.count_parameters(before.model)
    assert bytes_of[0] - bytes_of[1] == pytest.approx(2 * count, rel=0.02)
    pairs = zip(before.model.parameters(), after.model.parameters(), strict=True)
    for one, two in pairs:
        assert two.dtype == torch.float32 and torch.equal(one.half().float(), two)
    tables = after.model.src_embed[0].lut, after.model.generator.proj
    assert tables[0].weight is tables[1].weight
