"""Chapter 93: models exported to CTranslate2, and what can't be exported."""

import dataclasses
import json
import sys
from contextlib import suppress

import pytest
import torch
from small_runs import SIX, needs_multi30k, refused, small_config
from torch import nn

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop import engine as the_engine
from transformer_workshop.terminal import main

ROOT = at.project_folder()
CAPTIONS, MULTI30K = ROOT / "models" / "captions", ROOT / "models" / "multi30k"
WEIGHTS = "model.bin"


def untrained(folder, seed=0, **own):
    """Return a translator with random weights; its outputs are long and senseless."""
    torch.manual_seed(seed)
    config = small_config(folder, SIX, N=2, max_tokens=40, **own)
    text = at.prepare_text(SIX, config.bpe_size, config.min_freq)
    model = at.build_model(config, text.vocab_src, text.vocab_tgt)
    for weight in model.parameters():  # norms and biases have to arrive, too
        weight.data += 0.1 * torch.randn_like(weight)
    return at.Translator(model, text, config)


def exported(translator, folder, *quantization):
    at.export_to_ctranslate2(translator, folder / "engine", *quantization)
    return at.load_exported(folder / "engine", "cpu")


@pytest.fixture(scope="module")
def captions():
    return at.load_translator(CAPTIONS, "cpu")


@pytest.fixture(scope="module")
def engine(tmp_path_factory, captions):
    """Export the captions model; return the folder."""
    folder = tmp_path_factory.mktemp("exported") / "engine"
    at.export_to_ctranslate2(captions, folder)
    return folder


@pytest.fixture(scope="module")
def german(captions):
    return [src for src, _ in at.load_pairs(captions.config, "test")]


def test_a_run_does_not_take_the_folder_of_an_exported_model(engine):
    before = {path: path.read_bytes() for path in engine.iterdir()}
    with pytest.raises(DataError, match="exported for an inference engine"):
        at.open_run_folder(at.TrainingConfig(run_dir=str(engine)))
    assert {path: path.read_bytes() for path in engine.iterdir()} == before


# the same outputs


def test_greedy_is_equal_line_by_line_on_captions(captions, engine, german):
    loaded = at.load_exported(engine, "cpu")
    assert loaded.translate(german, 1) == captions.translate(german, 1)


@needs_multi30k
@pytest.mark.slow
def test_greedy_is_equal_line_by_line_on_multi30k(tmp_path):
    """Compare outputs on test_2016_flickr; no choice is based on them."""
    translator = at.load_translator(MULTI30K, "cpu")
    loaded = exported(translator, tmp_path)
    sentences = [src for src, _ in at.load_pairs(translator.config, "test")]
    assert loaded.translate(sentences, 1) == translator.translate(sentences, 1)


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"norm_first": False},
        {"positions": "learned"},
        {"norm_first": False, "positions": "learned", "tie": "none"},
        {"tie": "target", "h": 4, "seed": 2},
        {"bpe_size": 0, "tie": "none", "min_freq": 1, "seed": 3},
    ],
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_models_of_all_kinds_write_the_same(tmp_path, own, beam_size):
    translator = untrained(tmp_path, **own)
    loaded = exported(translator, tmp_path)
    sentences = [src for src, _ in SIX]
    same = translator.translate(sentences, beam_size, 0.6)
    assert len(set(same)) > 1
    assert loaded.translate(sentences, beam_size, 0.6) == same


def test_the_penalty_is_ours(captions, engine, german):
    """Check that it changes outputs, and those of both programs alike."""
    loaded, some = at.load_exported(engine, "cpu"), german[:60]
    short, long = (captions.translate(some, 5, alpha) for alpha in (-3.0, 3.0))
    assert short != long
    for alpha, same in ((-3.0, short), (3.0, long)):
        found = loaded.translate(some, 5, alpha)
        assert sum(a != b for a, b in zip(found, same, strict=True)) <= 2


def test_an_output_that_does_not_end_is_cut_at_the_same_place(tmp_path):
    translator = untrained(tmp_path)
    translator.model.generator.proj.bias.data[at.END] = -1e4
    rows = [translator.check("Ein Hund.")]
    loaded = exported(translator, tmp_path)
    for beam_size in (1, 3):
        [(ids, confidence)] = translator.decode(rows, beam_size, 1.0)
        [(theirs, likewise)] = loaded.decode(rows, beam_size, 1.0)
        assert len(ids) == 39 and theirs == ids
        assert likewise == pytest.approx(confidence, rel=1e-4)


def test_an_output_may_be_empty(tmp_path):
    translator = untrained(tmp_path)
    translator.model.generator.proj.bias.data[at.END] = 1e4
    loaded = exported(translator, tmp_path)
    for beam_size in (1, 3):
        assert loaded.translate(["Ein Hund."], beam_size) == [""]


def test_a_quantized_folder_is_smaller_and_nearly_as_good(
    tmp_path, captions, engine, german
):
    loaded = exported(captions, tmp_path, "int8")
    sizes = [(f / WEIGHTS).stat().st_size for f in (tmp_path / "engine", engine)]
    assert sizes[0] < 0.35 * sizes[1]
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


def with_a_large_table(model):
    model.tgt_embed[0].lut = nn.Embedding(2**20, 2**10, device="meta")


def with_a_hook(model):
    heads = model.decoder.layers[0].src_attn
    heads.register_forward_hook(lambda module, inputs, output: 0 * output)


def with_other_heads(model):
    heads = model.encoder.layers[0].self_attn
    heads.h, heads.d_k = heads.d_k, heads.h
    assert heads.h != heads.d_k


def with_another_function(model):
    forward = model.encoder.layers[0].feed_forward
    forward.forward = lambda x: forward.w_2(forward.w_1(x).sigmoid())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_another_layer, ["encoder.layers.1.feed_forward", "Gated"]),
        (with_a_large_table, ["tgt_embed.0.lut.weight", "4 GiB"]),
        (with_a_hook, ["nats off", "hook"]),
        (with_other_heads, ["nats off"]),
        (with_another_function, ["nats off", "replaced function"]),
    ],
)
def test_another_model_is_refused(tmp_path, change, words):
    translator = untrained(tmp_path)
    change(translator.model)
    before = set(tmp_path.iterdir())
    with pytest.raises(DataError) as refusal:
        at.export_to_ctranslate2(translator, tmp_path / "engine")
    line = str(refusal.value)
    assert "cannot express" in line and all(word in line for word in words), line
    assert set(tmp_path.iterdir()) == before


def test_a_rounding_that_does_not_exist_is_refused(tmp_path, captions):
    with pytest.raises(DataError, match="int3.*float32, int8"):
        at.export_to_ctranslate2(captions, tmp_path / "engine", "int3")


# the folder appears whole or not at all


def test_what_is_there_is_left_alone(tmp_path, captions):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "thoughts.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        at.export_to_ctranslate2(captions, tmp_path / "engine")
    assert [p.name for p in tmp_path.rglob("*.*")] == ["thoughts.txt"]


def test_an_empty_folder_is_filled(tmp_path, captions):
    (tmp_path / "engine").mkdir()
    assert exported(captions, tmp_path).translate(["Ein Hund."])


@pytest.mark.parametrize(
    "name",
    [*(f"transformer_workshop.engine.{x}"
       for x in ("write_json", "_sha256", "_check_scores")), "os.fsync"],
)  # fmt: skip
def test_a_failing_export_leaves_nothing(tmp_path, captions, monkeypatch, name):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(name, full)
    with pytest.raises(DataError, match="engine.*can't be written .No space left"):
        at.export_to_ctranslate2(captions, tmp_path / "engine")
    assert not any(tmp_path.iterdir())


def test_a_killed_export_is_no_model_and_does_not_block_the_next(
    tmp_path, captions, monkeypatch, capfd
):
    with monkeypatch.context() as killed:
        killed.setattr("os.replace", lambda *_: (_ for _ in ()).throw(SystemExit))
        killed.setattr("shutil.rmtree", lambda *_, **__: None)
        with suppress(SystemExit):
            at.export_to_ctranslate2(captions, tmp_path / "engine")
    assert any(tmp_path.iterdir()) and not (tmp_path / "engine").exists()
    error = refused(capfd, "translate", "--model", str(tmp_path / "engine"), "Hund")
    assert "is not a folder" in error
    exported(captions, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def spoil_bit(folder):
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / WEIGHTS).write_bytes(data)


def spoil_length(folder):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:1000])


def spoil_vocabulary(folder):
    (folder / "vocabulary.json").unlink()


def spoil_engine_vocabulary(folder):
    (folder / "source_vocabulary.json").unlink()


def spoil_settings(folder):
    settings = json.loads((folder / "config.json").read_text())
    del settings["config"]
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (spoil_bit, "model.bin"),
        (spoil_length, "model.bin"),
        (spoil_vocabulary, "vocabulary.json"),
        (spoil_engine_vocabulary, "model.bin"),
        (spoil_settings, "config.json"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, captions, capfd, spoil, name):
    exported(captions, tmp_path)
    spoil(tmp_path / "engine")
    error = refused(capfd, "translate", "--model", str(tmp_path / "engine"), "Hund")
    assert name in error


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


def test_a_flag_of_the_search_is_checked(engine, capfd):
    error = refused(capfd, "translate", "--model", str(engine), "--beam-size", "0", "x")
    assert "beam_size=0" in error


def test_evaluate_takes_an_exported_folder(engine, capfd, captions):
    argv = "--dataset captions --beam-size 1 --model".split()
    scores = []
    for model in (str(engine), str(CAPTIONS)):
        assert main(["evaluate", *argv, model]) == 0
        scores.append(json.loads(capfd.readouterr().out))
    assert scores[0]["bleu"] == scores[1]["bleu"]


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
    monkeypatch.setattr(the_engine, "choose_device", lambda name: torch.device("mps"))
    assert at.load_exported(engine, "auto").translate(["Ein Hund."])
    with pytest.raises(DataError, match="device mps.*Use cpu"):
        at.load_exported(engine, "mps")


def test_the_folder_names_no_unknown_setting(engine, captions):
    config = at.load_config(engine)
    assert dataclasses.asdict(config) == dataclasses.asdict(captions.config)
    assert at.is_exported(engine) and not at.is_exported(CAPTIONS)
