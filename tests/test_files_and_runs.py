"""Chapter 90: files that come in, checkpoints that go out, runs that go on."""

import dataclasses
import functools
import gzip
import hashlib
import http.server
import json
import math
import os
import pickle
import subprocess
import sys
import threading
import typing
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_runs import SIX as PAIRS
from small_runs import needs_multi30k, small_run, train, train_until

import annotated_transformer as at
from annotated_transformer import DataError, read_lines
from transformer_workshop.files import (
    load_tensors,
    load_with_notes,
    reported,
    save_tensors,
    write_atomically,
)
from transformer_workshop.runs import read_metrics, run_files
from transformer_workshop.settings import TrainingConfig
from transformer_workshop.translator import load_translator


@pytest.fixture
def tiny(tmp_path):
    return small_run(tmp_path)


# errors


def test_an_error_says_where_what_and_what_to_do():
    error = DataError(Path("a.txt"), "is blank", "Fill it.")
    assert str(error) == "a.txt: is blank. Fill it."
    copy = pickle.loads(pickle.dumps(error))  # as between processes
    assert (copy.where, copy.what, copy.do) == ("a.txt", "is blank", "Fill it.")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nowhere_to_be_found", "pip install nowhere_to_be_found"),
        ("nowhere_to_be_found.part", "pip install nowhere_to_be_found"),
    ],
)
def test_a_missing_package_is_named_with_the_line_to_install_it(name, line):
    with pytest.raises(ImportError) as caught:
        at.optional_import(name)
    assert str(caught.value).endswith(line)


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("torchtext", "pip install torchtext==0.6.0"),
        ("vl_convert", "pip install vl-convert-python"),
        ("GPUtil", "pip install GPUtil setuptools"),
    ],
)
def test_install_lines_that_differ_from_the_import(package, line, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as caught:
        at.optional_import(package)
    assert str(caught.value).endswith(line)


def test_other_errors_are_reported_but_those_that_say_what_to_do_stay():
    def text_of(error, cause=None):
        with (
            pytest.raises(Exception) as caught,
            reported(Exception, "x", "is {}", "Go."),
        ):
            raise error from cause
        return f"{type(caught.value).__name__} {caught.value}"

    own = DataError("y", "is blank", "Fill it.")
    assert text_of(ValueError("bad")) == "DataError x: is bad. Go."
    assert text_of(ValueError("bad"), KeyError(7)) == "DataError x: is 7. Go."
    for cause in (None, ValueError("bad")):
        assert text_of(own, cause) == "DataError y: is blank. Fill it."
    assert text_of(ValueError("bad"), own) == "DataError y: is blank. Fill it."
    assert text_of(MemoryError()) == "MemoryError "


def test_files_are_written_without_pytorch(tmp_path):
    code = "import sys, transformer_workshop.files as f; f.write_json('x', [1]); "
    code += "print(f.read_json('x'), 'torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(at.project_folder())}
    command = [sys.executable, "-c", code]
    said = subprocess.check_output(command, cwd=tmp_path, env=environment)
    assert said == b"[1] False\n"


# reading text


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\n", ["one"]),
        (b"one\n\n", ["one", ""]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        ("a\u2028b\x0cc\x85d\n".encode(), ["a\u2028b\x0cc\x85d"]),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_end_at_newlines_only(tmp_path, data, lines, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(gzip.compress(data) if suffix else data)
    assert read_lines(path) == lines


def test_invalid_utf8_is_refused_with_its_line(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("eins\nzwei\nschön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.txt, line 3: is not UTF-8"):
        read_lines(path)


@pytest.mark.parametrize("keep", [1, 5, 12, 40, -9, -1])
def test_a_truncated_gzip_is_refused(tmp_path, keep):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(os.urandom(100).hex().encode())[:keep])
    with pytest.raises(DataError, match="damaged or cut off gzip"):
        read_lines(path)


def test_a_file_that_is_no_gzip_and_one_with_a_wrong_sum(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(b"plain text\n")
    with pytest.raises(DataError, match="gzip"):
        read_lines(path)
    data = bytearray(gzip.compress(b"ein Hund\n" * 9))
    data[-6] ^= 1  # the checksum
    path.write_bytes(data)
    with pytest.raises(DataError, match="gzip"):
        read_lines(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "missing.txt", tmp_path):
        with pytest.raises(DataError, match="can't be read"):
            read_lines(path)


# finding and fetching data


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """Make an empty data folder, and name it in ANNOTATED_TRANSFORMER_DATA."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ANNOTATED_TRANSFORMER_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    return folder


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Run a web server in place of Multi30k's; yield its folder and the requests."""
    folder, asked = tmp_path / "web", []
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    monkeypatch.setattr(at, "_MULTI30K_URL", url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    yield folder, asked
    server.shutdown()
    server.server_close()
    thread.join()


def publish(monkeypatch, name, data):
    """Pretend that a file of Multi30k was published with this content."""
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(at._MULTI30K_SHA256, name, digest)


def test_the_named_folder_comes_first(data_folder):
    (data_folder / "captions").mkdir()
    ours = data_folder / "captions" / "train.de"
    ours.write_text("Hund\n")
    assert at.data_file("captions", "train.de") == ours
    here = at.data_file("captions", "train.en")
    assert here == at.project_folder() / "data" / "captions" / "train.en"


def test_a_relative_data_folder_is_made_absolute(data_folder, monkeypatch):
    (data_folder / "captions").mkdir()
    (data_folder / "captions" / "train.de").write_text("Hund\n")
    monkeypatch.chdir(data_folder.parent)
    monkeypatch.setenv("ANNOTATED_TRANSFORMER_DATA", "data")
    found = at.data_file("captions", "train.de")
    assert found == data_folder / "captions" / "train.de" and found.is_absolute()


def test_an_unknown_data_set_is_refused_with_the_places_tried(data_folder):
    with pytest.raises(DataError) as caught:
        at.data_file("wmt", "train.de")
    assert str(data_folder / "wmt") in caught.value.what
    assert "ANNOTATED_TRANSFORMER_DATA" in caught.value.do


def test_a_local_file_with_a_wrong_checksum_is_refused(data_folder):
    (data_folder / "multi30k").mkdir()
    path = data_folder / "multi30k" / "train.de.gz"
    path.write_bytes(gzip.compress(b"Hund\n"))
    with pytest.raises(DataError, match="not the published file"):
        at.data_file("multi30k", "train.de.gz")


def test_without_network_the_error_says_where_to_put_the_file(
    data_folder, monkeypatch, tmp_path
):
    monkeypatch.setattr(at, "_MULTI30K_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError) as caught:
        at.data_file("multi30k", "train.de.gz")
    assert "can't be fetched" in caught.value.what
    assert str(tmp_path / "cache") in caught.value.do
    assert "ANNOTATED_TRANSFORMER_DATA" in caught.value.do


def test_a_file_is_fetched_once(data_folder, web, monkeypatch):
    folder, asked = web
    data = gzip.compress(b"Hund\n")
    (folder / "val.de.gz").write_bytes(data)
    publish(monkeypatch, "val.de.gz", data)
    first = at.data_file("multi30k", "val.de.gz")
    assert read_lines(first) == ["Hund"] and len(asked) == 1
    assert at.data_file("multi30k", "val.de.gz") == first and len(asked) == 1


def test_a_download_with_a_wrong_checksum_is_tried_again_then_refused(data_folder, web):
    folder, asked = web
    (folder / "val.de.gz").write_bytes(gzip.compress(b"Katze\n"))
    with pytest.raises(DataError, match="wrong SHA-256"):
        at.data_file("multi30k", "val.de.gz")
    assert len(asked) == 3


@needs_multi30k
def test_multi30k_itself():
    """Check the real files: their checksums and their sizes."""
    sizes = {"train": 29000, "val": 1014, "test_2016_flickr": 1000}
    for name, size in sizes.items():
        for side in ("de", "en"):
            path = at.data_file("multi30k", f"{name}.{side}.gz")
            assert len(read_lines(path)) == size


# writing


def test_writing_makes_folders_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "a" / "b" / "c.bin"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(DataError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]  # and nothing half written


def test_data_is_on_the_disk_before_the_file_is_renamed(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))
        )
    write_atomically(tmp_path / "file", b"data")
    assert calls == ["fsync", "replace", "fsync"]  # the folder comes last


def test_damaged_json_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [1, 2')
    with pytest.raises(DataError, match="is not JSON"):
        at.read_json(tmp_path / "x.json")


# tensors


def some_tensors():
    table = torch.randn(6, 4)
    return {
        "table": table,
        "tied": table,
        "turned": torch.randn(3, 5).T,
        "half": torch.randn(3).bfloat16(),
        "double": torch.randn(2, dtype=torch.float64),
        "count": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 3),
        "also_nothing": torch.zeros(0, 4),
    }


def test_tensors_come_back_as_they_were(tmp_path):
    tensors = some_tensors()
    save_tensors(tmp_path / "x.safetensors", tensors, {"step": 3, "name": "schön"})
    loaded, notes = load_with_notes(tmp_path / "x.safetensors")
    assert notes == {"step": 3, "name": "schön"}
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor), name


def test_tied_weights_are_stored_once(tmp_path):
    table = torch.randn(1000)
    save_tensors(tmp_path / "x", {"source": table, "output": table})
    assert 4000 < (tmp_path / "x").stat().st_size < 5000
    loaded = load_tensors(tmp_path / "x")
    assert torch.equal(loaded["source"], table)
    assert torch.equal(loaded["output"], table)


def test_weights_of_older_versions_have_todays_names(tmp_path):
    """Average a checkpoint of 2026.2 with a later one, as a resumed run does."""
    paths = [tmp_path / "before.safetensors", tmp_path / "after.safetensors"]
    names = (
        "layers.0.self_attn.attention.key_norm.weight",
        "layers.0.self_attn.key_norm.weight",
    )
    for value, (path, name) in enumerate(zip(paths, names, strict=True)):
        save_tensors(path, {name: torch.full((2,), float(value))})
    assert at.average_checkpoints(paths)[names[1]].tolist() == [0.5, 0.5]


def test_two_views_of_one_storage_are_not_taken_for_tied(tmp_path):
    table = torch.arange(6.0)
    save_tensors(tmp_path / "x", {"all": table, "first": table[:2]})
    loaded = load_tensors(tmp_path / "x")
    assert loaded["first"].tolist() == [0, 1] and loaded["all"].tolist()[-1] == 5


@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_changed_byte_goes_unnoticed(tmp_path, place, change):
    path = tmp_path / "x.safetensors"
    torch.manual_seed(0)
    tensors, notes = some_tensors(), {"step": 3}
    save_tensors(path, tensors, notes)
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= change
    path.write_bytes(data)
    try:
        loaded, read = load_with_notes(path)
    except DataError:
        return
    # a change that means nothing, such as another space in the header
    assert read == notes and loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("keep", [0, 4, 8, 50, -200, -1])
def test_a_file_that_was_cut_off_is_refused(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    save_tensors(path, some_tensors())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="is damaged"):
        load_tensors(path)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "x.safetensors"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    torch.save({"weights": Trap()}, path)
    with pytest.raises(DataError, match="is damaged"):
        load_tensors(path)
    assert not (tmp_path / "sprung").exists()


def test_a_file_of_another_program_is_taken_as_it_is(tmp_path):
    from safetensors.torch import save_file

    save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    assert load_tensors(tmp_path / "x.safetensors")["x"].tolist() == [1, 1]


@pytest.mark.parametrize("other", [torch.nn.Linear(3, 4), torch.nn.ReLU()])
def test_weights_of_another_model_are_refused(tiny, other):
    folder = train(tiny, epochs=1)
    save_tensors(folder / "model.safetensors", other.state_dict())
    with pytest.raises(DataError, match="another model"):
        load_translator(folder, "cpu")


# runs


def test_another_configuration_is_refused_with_the_fields_that_differ(tiny):
    folder = train(tiny, epochs=1)
    before = {path: path.read_bytes() for path in run_files(folder)}
    with pytest.raises(DataError) as caught:
        train(tiny, epochs=1, d_model=32, seed=7)
    assert "d_model (16 there, 32 now), seed (0 there, 7 now)" in caught.value.what
    assert "h (" not in caught.value.what and "--restart" in caught.value.do
    assert before == {path: path.read_bytes() for path in run_files(folder)}


def test_epochs_may_grow_unless_they_shape_the_schedule(tiny):
    folder = train(tiny, epochs=1, schedule="inverse_sqrt")
    train(tiny, epochs=2, schedule="inverse_sqrt")
    assert [record["epoch"] for record in read_metrics(folder)] == [1, 2]
    linear = train(tiny, epochs=1, run_dir=str(folder) + "-linear")
    with pytest.raises(DataError, match="epochs"):
        train(tiny, epochs=2, run_dir=str(linear))


def test_what_does_not_change_the_weights_may_change(tiny):
    endless = {"schedule": "inverse_sqrt"}
    folder = train(tiny, epochs=1, **endless)
    more = {"epochs": 2, "beam_size": 2, "length_penalty": 0.2}
    at.open_run_folder(dataclasses.replace(tiny[0], **endless, **more))
    assert at.load_config(folder).beam_size == 2


def test_a_start_without_checkpoints_may_change_everything(tiny):
    at.open_run_folder(tiny[0])
    other = dataclasses.replace(tiny[0], d_model=32)
    at.open_run_folder(other)
    assert at.load_config(other.run_dir) == other


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("content", ["{}", "[1]", '{"name": "a web site"}', "{"])
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path, content, restart):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(DataError):
        at.open_run_folder(TrainingConfig(run_dir=str(tmp_path)), restart)
    assert (tmp_path / "config.json").read_text() == content
    assert len(list(tmp_path.iterdir())) == 1


def test_restart_deletes_the_run_and_nothing_else(tiny):
    folder = train(tiny, epochs=1)
    for name in ("notes.txt", "checkpoints/mine.safetensors", "step-1.safetensors"):
        (folder / name).write_text("mine")
    at.open_run_folder(dataclasses.replace(tiny[0], seed=5), restart=True)
    left = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert left == {
        "config.json",
        "notes.txt",
        "checkpoints/mine.safetensors",
        "step-1.safetensors",
    }


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file, not a folder")
    with pytest.raises(DataError, match="can't be written"):
        at.open_run_folder(TrainingConfig(run_dir=str(tmp_path / "file" / "run")))
    with pytest.raises(DataError, match="can't be written"):
        with at.claim_folder(tmp_path / "file" / "run"):
            raise AssertionError("it was claimed")


def test_the_configuration_file_says_what_it_was_run_with(tiny):
    folder = train(tiny, epochs=1)
    written = json.loads((folder / "config.json").read_text())
    assert written["config"] == dataclasses.asdict(tiny[0]) | {"epochs": 1}
    assert {"seed", "threads", "precision"} <= written["config"].keys()
    (start,) = written["starts"]
    assert start["versions"]["torch"] == torch.__version__
    assert start["processor"] and "commit" in start and start["command"]
    if (at.project_folder() / ".git").exists():
        assert len(start["commit"].removesuffix("-dirty")) == 40


# translators


def test_a_finished_run_is_a_translator(tiny):
    folder = train(tiny)
    translator = load_translator(folder, "cpu")
    weights = load_tensors(folder / "model.safetensors")
    for name, weight in translator.model.state_dict().items():
        assert torch.equal(weight, weights[name])
    sentences = [german for german, _ in PAIRS]
    said = translator.translate(sentences)
    at.save_translator(folder.parent / "copy", translator)
    copy = load_translator(folder.parent / "copy", "cpu")
    assert copy.translate(sentences) == said
    assert copy.config == translator.config


def test_a_translator_by_words_comes_back_too(tiny, tmp_path):
    config = dataclasses.replace(tiny[0], bpe_size=0, min_freq=1, tie="none")
    text = at.prepare_text(PAIRS, config.bpe_size, config.min_freq)
    model = at.build_model(config, text.vocab_src, text.vocab_tgt)
    translator = at.Translator(model, text, config)
    at.save_translator(tmp_path / "words", translator)
    copy = load_translator(tmp_path / "words", "cpu")
    assert copy.text.vocab_src.itos == text.vocab_src.itos
    assert copy.text.vocab_tgt.itos == text.vocab_tgt.itos
    assert copy.translate(["Ein Hund."]) == translator.translate(["Ein Hund."])


def test_an_unfinished_run_translates_with_its_best_weights(tiny, monkeypatch):
    train_until(tiny, monkeypatch, ((at.Run, "save"), 3))
    best = load_tensors(Path(tiny[0].run_dir) / "best.safetensors")
    model = load_translator(tiny[0].run_dir, "cpu").model
    assert torch.equal(model.state_dict()["generator.proj.weight"],
                       best["generator.proj.weight"])  # fmt: skip


@pytest.mark.parametrize(
    "name", ["config.json", "vocabulary.json", "model.safetensors"]
)
@pytest.mark.parametrize("how", ["missing", "cut", "other"])
def test_an_incomplete_translator_is_refused(tiny, name, how):
    folder = train(tiny, epochs=1)
    (folder / "best.safetensors").unlink()
    path = folder / name
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    elif name == "config.json":
        settings = json.loads(path.read_text())
        settings["config"]["colour"] = "blue"
        path.write_text(json.dumps(settings))
    elif name == "vocabulary.json":
        path.write_text('{"source": []}')
    else:
        save_tensors(path, {"weight": torch.ones(3)})
    with pytest.raises(DataError):
        load_translator(folder, "cpu")


def test_a_folder_with_weights_and_no_state_is_left_alone(tiny):
    """Try this with a folder like that of a model that somebody has shared."""
    folder = train(tiny, epochs=1)
    for path in at.saved_steps(folder / "resume"):
        path.unlink()
    before = {path: path.read_bytes() for path in run_files(folder)}
    with pytest.raises(DataError, match="no checkpoint to continue from"):
        train(tiny, epochs=1)
    assert before == {path: path.read_bytes() for path in run_files(folder)}


def test_a_restart_that_is_broken_off_can_be_given_again(tiny, monkeypatch):
    folder = train(tiny, epochs=1)
    real, calls = Path.unlink, []

    def unlink(path, **options):
        calls.append(path)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            at.open_run_folder(tiny[0], restart=True)
    assert (folder / "config.json").exists()
    at.open_run_folder(tiny[0], restart=True)
    assert [path.name for path in run_files(folder)] == ["config.json"]


@pytest.mark.parametrize(
    "settings",
    [
        {"N": 0}, {"N": "2"}, {"N": 2.0}, {"N": True}, {"N": None}, {"norm_first": 1},
        {"dropout": 1.0}, {"dropout": float("nan")}, {"base_lr": float("inf")},
        {"max_norm": 0.0}, {"seed": -1}, {"warmup": 0}, {"save_seconds": -1.0},
        {"train_src": 3}, {"tie": None}, {"positions": "none"},
        {"length_penalty": 99.0}, {"run_dir": "a\0b"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_by_name(settings):
    ((name, value),) = settings.items()
    with pytest.raises(DataError) as caught:
        TrainingConfig(**settings)
    assert caught.value.where == f"{name}={value!r}"


ALLOWED = {f.name: f.metadata["allowed"] for f in dataclasses.fields(TrainingConfig)}


def test_every_number_has_limits_and_every_change_is_checked():
    hints = typing.get_type_hints(TrainingConfig).items()
    kinds = {name: {kind, *typing.get_args(kind)} for name, kind in hints}
    numbers = {name for name, kind in kinds.items() if kind & {int, float}}
    limited = {name for name, allowed in ALLOWED.items() if allowed}
    assert numbers == {n for n in limited if not isinstance(ALLOWED[n][0], str)}
    with pytest.raises(DataError, match="r_drop"):
        dataclasses.replace(TrainingConfig(), r_drop=math.nan)


def test_a_setting_younger_than_a_run_had_its_default_there(tiny):
    folder = train(tiny, epochs=1)
    settings = json.loads((folder / "config.json").read_text())
    del settings["config"]["r_drop"]
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(DataError, match=r"r_drop \(0.0 there, 1.0 now\)"):
        train(tiny, epochs=1, r_drop=1.0)
    train(tiny, epochs=1)


def test_settings_in_their_limits_pass():
    for name, allowed in ALLOWED.items():
        for value in allowed:  # the lowest and the highest number, or each text
            TrainingConfig(**{"d_model": 2**16, "h": 1} | {name: value})
    TrainingConfig(max_norm=None, dropout=0, base_lr=1)
