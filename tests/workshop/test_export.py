"""Chapter 93: models exported to CTranslate2, and what can't be exported."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from small_runs import (
    SIX,
    break_off,
    contents,
    open_folder,
    refused,
    small_config,
    write_text,
)
from torch import nn

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop.base.config import TrainingConfig, load_config
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.cli.terminal import main
from transformer_workshop.models import export
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.export import (
    export_to_ctranslate2,
    is_exported,
    load_exported,
)
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import prepare_text

ROOT = project_folder()
CAPTIONS = ROOT / "models" / "captions"


def untrained(folder, seed=0, **own):
    """Return a translator with random weights; its outputs are long and senseless."""
    torch.manual_seed(seed)
    config = small_config(folder, SIX, N=2, max_tokens=40, **own)
    text = prepare_text(SIX, config.bpe_size, config.min_freq)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    for weight in model.parameters():  # norms and biases have to arrive, too
        weight.data += 0.1 * torch.randn_like(weight)
    return Translator(model, text, config)


def exported(translator, folder, *quantization):
    export_to_ctranslate2(translator, folder / "engine", *quantization)
    return load_exported(folder / "engine", "cpu")


@pytest.fixture(scope="module")
def captions():
    return load_translator(CAPTIONS, "cpu")


@pytest.fixture(scope="module")
def engine(tmp_path_factory, captions):
    """Export the captions model; return the folder."""
    folder = tmp_path_factory.mktemp("exported") / "engine"
    export_to_ctranslate2(captions, folder)
    return folder


@pytest.fixture(scope="module")
def german(captions):
    return [src for src, _ in load_pairs(captions.config, "test")]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("small"))


# the same outputs


@pytest.mark.multi30k
@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi30k", "multi30k-2026"])
def test_greedy_is_equal_line_by_line_on_multi30k(tmp_path, name):
    """Compare outputs on test_2016_flickr; no choice is based on them."""
    translator = load_translator(ROOT / "models" / name, "cpu")
    loaded = exported(translator, tmp_path)
    sentences = [src for src, _ in load_pairs(translator.config, "test")[:300]]
    assert loaded.translate(sentences, 1) == translator.translate(sentences, 1)


@pytest.mark.parametrize(
    "own",
    [
        {"seed": 6},
        {"norm_first": False, "positions": "learned", "tie": "none", "seed": 6},
        {"tie": "target", "h": 4, "seed": 6},
        {"bpe_size": 0, "tie": "none", "min_freq": 1, "seed": 6},
        {"block": "2026", "tie": "none", "seed": 6},
        {"block": "2026", "h": 4, "seed": 6},
    ],
)
def test_models_of_all_kinds_write_the_same(tmp_path, own):
    translator = untrained(tmp_path, **own)
    loaded = exported(translator, tmp_path)
    sentences = [src for src, _ in SIX]
    for beam_size in (1, 3):
        same = translator.translate(sentences, beam_size, 0.6)
        assert len(set(same)) > 1
        assert loaded.translate(sentences, beam_size, 0.6) == same


def test_the_penalty_is_ours(captions, engine, german):
    """Check that it changes outputs, and those of both programs alike."""
    loaded, some = load_exported(engine, "cpu"), german[:60]
    short, long = (captions.translate(some, 5, alpha) for alpha in (-3.0, 3.0))
    assert short != long
    for alpha, same in ((-3.0, short), (3.0, long)):
        found = loaded.translate(some, 5, alpha)
        assert sum(a != b for a, b in zip(found, same, strict=True)) <= 2


@pytest.mark.parametrize(("bias", "length"), [(-1e4, 39), (1e4, 0)])
def test_an_output_ends_at_the_same_place(tmp_path, bias, length):
    """Try one that never ends by itself, and one that is empty."""
    translator = untrained(tmp_path)
    translator.model.generator.proj.bias.data[at.END] = bias
    rows = [translator.encode("Ein Hund.")]
    loaded = exported(translator, tmp_path)
    for beam_size in (1, 3):
        [(ids, confidence)] = translator.decode(rows, beam_size, 1.0)
        [(theirs, likewise)] = loaded.decode(rows, beam_size, 1.0)
        assert len(ids) == length and theirs == ids
        assert likewise == pytest.approx(confidence, rel=1e-4)


def test_a_quantized_folder_is_smaller_and_nearly_as_good(
    tmp_path, captions, engine, german
):
    loaded = exported(captions, tmp_path, "int8")
    small, large = (f / "model.bin" for f in (tmp_path / "engine", engine))
    assert small.stat().st_size < 0.35 * large.stat().st_size
    some = german[:100]
    pairs = zip(loaded.translate(some, 1), captions.translate(some, 1), strict=True)
    assert sum(a == b for a, b in pairs) >= 95


def test_exporting_leaves_the_model_as_it_was(tmp_path):
    translator = untrained(tmp_path, dropout=0.3)
    translator.model.train()
    before = {k: v.clone() for k, v in translator.model.state_dict().items()}
    threads = torch.get_num_threads()
    exported(translator, tmp_path)
    assert translator.model.training and torch.get_num_threads() == threads
    after = translator.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


# what can't be expressed


class Gated(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.w_1, self.w_2 = inner.w_1, inner.w_2

    def forward(self, x):
        return self.w_2(self.w_1(x).sigmoid())


def with_another_layer(model):
    model.encoder.layers[1].feed_forward = Gated(model.encoder.layers[1].feed_forward)


def with_other_parts(model):
    model.decoder.layers[1].feed_forward = nn.Linear(16, 16)


def with_a_hook(model):
    heads = model.decoder.layers[0].src_attn
    heads.register_forward_hook(lambda module, inputs, output: 0 * output)


def with_another_function(model):
    forward = model.encoder.layers[0].feed_forward
    forward.forward = lambda x: forward.w_2(forward.w_1(x).sigmoid())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_another_layer, ["nats off", "another layer"]),
        (with_other_parts, ["w_1"]),
        (with_a_hook, ["nats off", "hook"]),
        (with_another_function, ["nats off", "replaced function"]),
    ],
)
def test_another_model_is_refused(tmp_path, change, words):
    translator = untrained(tmp_path)
    change(translator.model)
    before = set(tmp_path.iterdir())
    with pytest.raises(DataError) as refusal:
        export_to_ctranslate2(translator, tmp_path / "engine")
    line = str(refusal.value)
    assert "cannot express" in line and all(word in line for word in words), line
    assert set(tmp_path.iterdir()) == before


# the folder appears whole or not at all


def test_what_is_there_is_left_alone(tmp_path, small):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "thoughts.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        export_to_ctranslate2(small, tmp_path / "engine")
    assert list(contents(tmp_path)) == ["engine/thoughts.txt"]


@pytest.mark.parametrize(
    "moment",
    [
        ((export, "write_json"), 1),
        ((export, "_sha256"), 1),
        ((export, "_check_scores"), 1),
        ((os, "fsync"), 1),
    ],
)
def test_a_failing_export_leaves_nothing(tmp_path, small, monkeypatch, moment):
    break_off(monkeypatch, moment, OSError(28, "No space left on device"))
    with pytest.raises(DataError, match="engine.*can't be written .No space left"):
        export_to_ctranslate2(small, tmp_path / "engine")
    assert not any(tmp_path.iterdir())


def test_a_killed_export_is_no_model_and_does_not_block_the_next(
    tmp_path, small, monkeypatch, capfd
):
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        break_off(patch, ((os, "replace"), 3), SystemExit)
        export_to_ctranslate2(small, tmp_path / "engine")
    assert any(tmp_path.iterdir()) and not (tmp_path / "engine").exists()
    error = refused(capfd, "translate", "--model", str(tmp_path / "engine"), "Hund")
    assert "is not a folder" in error
    (tmp_path / "engine").mkdir()  # an empty one is filled
    assert exported(small, tmp_path).translate(["Ein Hund."])
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def changed(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_off(path):
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("name", "spoil", "named"),
    [
        ("model.bin", changed, "model.bin"),
        ("model.bin", cut_off, "model.bin"),
        ("vocabulary.json", cut_off, "vocabulary.json"),
        ("vocabulary.json", Path.unlink, "vocabulary.json"),
        ("source_vocabulary.json", Path.unlink, "model.bin"),
        ("config.json", cut_off, "config.json"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, engine, capfd, name, spoil, named):
    folder = shutil.copytree(engine, tmp_path / "engine")
    spoil(folder / name)
    assert named in refused(capfd, "translate", "--model", str(folder), "Hund")


# the command line


def test_export_and_translate_as_commands(tmp_path, capfd, feed):
    folder = str(tmp_path / "engine")
    command = f"export --to ctranslate2 --model {CAPTIONS} --out {folder}"
    assert main(command.split()) == 0
    out, err = capfd.readouterr()
    assert out == "" and f"translate --model {folder}" in err
    text = "Ein Hund läuft.\n\nEin Gnu und ein Hund.\n\xe4".encode("latin-1")
    text = text.replace(b"\xe4uft", "äuft".encode())
    said = {}
    for model in (str(CAPTIONS), folder):
        feed(text)
        status = main(["translate", "--model", model, "--beam-size", "1"])
        said[model] = (status, *capfd.readouterr())
    status, out, err = said[folder]
    assert said[folder] == said[str(CAPTIONS)]
    assert status == 1 and out.count("\n") == 4 and out.split("\n")[1] == ""
    assert "line 3: unknown words: 'Gnu'" in err and "line 4" in err


def test_a_line_that_is_too_long_is_refused_alike(engine, capfd, feed):
    feed(b"Ein Hund.\n" + b"Ein Hund " * 70 + b"\nEin Hund.\n")
    assert main(["translate", "--model", str(engine)]) == 1
    out, err = capfd.readouterr()
    one, none, other = out.splitlines()
    assert one == other != "" and none == "" and "line 2: has 142 tokens" in err


def test_evaluate_takes_an_exported_folder(engine, capfd, captions, tmp_path):
    src, ref = write_text(tmp_path, load_pairs(captions.config, "test")[:20])
    scores = []
    for model in (engine, CAPTIONS):
        files = f"--model={model}", f"--src={src}", f"--ref={ref}"
        assert main(["evaluate", "--beam-size=1", *files]) == 0
        scores.append(json.loads(capfd.readouterr().out)["bleu"])
    assert scores[0] == scores[1] > 0


@pytest.mark.parametrize("command", ["attend Hund", "export --to ctranslate2 --out x"])
def test_commands_that_need_the_weights_say_so(engine, capfd, command, tmp_path):
    error = refused(capfd, *command.split(), "--model", str(engine))
    assert "is an exported model" in error


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("--to onnx --out x", ["onnx", "ctranslate2"]),
        ("--to ctranslate2", ["--out"]),
        ("--out x", ["--to"]),
        ("--to ctranslate2 --out x --quantization int3", ["int3", "int8"]),
        ("--to ctranslate2 --out x --model no/such", ["no/such"]),
    ],
)
def test_a_wrong_command_line_is_one_line(argv, words, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = refused(capfd, "export", *argv.split())
    assert all(word in error for word in words), error
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("argv", ["export --to ctranslate2 --out x", "translate Hund"])
def test_a_missing_package_is_named(argv, engine, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.startswith("ctranslate2")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    model = engine if argv.startswith("translate") else CAPTIONS
    error = refused(capfd, *argv.split(), "--model", str(model))
    assert "pip install ctranslate2" in error
    assert not any(tmp_path.iterdir())


def test_apples_gpu_is_not_the_engines(engine, monkeypatch):
    monkeypatch.setattr(export, "choose_device", lambda name: torch.device("mps"))
    assert load_exported(engine, "auto").translate(["Ein Hund."])
    with pytest.raises(DataError, match="device mps.*Use cpu"):
        load_exported(engine, "mps")


def test_a_run_does_not_take_the_folder_of_an_exported_model(engine, captions):
    assert is_exported(engine) and not is_exported(CAPTIONS)
    assert load_config(engine) == captions.config
    before = contents(engine)
    with pytest.raises(DataError, match="exported for an inference engine"):
        open_folder(TrainingConfig(run_dir=str(engine)))
    assert contents(engine) == before
