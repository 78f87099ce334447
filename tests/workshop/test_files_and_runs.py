"""Chapter 90: files that come in, checkpoints that go out, runs that go on."""

import dataclasses
import functools
import gzip
import hashlib
import http.server
import math
import os
import pickle
import shutil
import stat
import subprocess
import sys
import threading
import typing
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from small_runs import SIX, break_off, open_folder, small_run, train

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop.base import data_sets
from transformer_workshop.base.config import TrainingConfig, load_config
from transformer_workshop.base.data_sets import data_file, project_folder
from transformer_workshop.base.files import (
    atomic_folder,
    check_writable,
    load_tensors,
    load_with_notes,
    read_json,
    reported,
    save_tensors,
    write_atomically,
    write_json,
)
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.translator import (
    Translator,
    load_translator,
    save_translator,
)
from transformer_workshop.text.encoding import prepare_text
from transformer_workshop.training.checkpoints import average_checkpoints
from transformer_workshop.training.run_folder import run_files

# errors


def test_an_error_says_where_what_and_what_to_do():
    error = DataError("a.txt", "is blank", "Fill it.")
    assert str(error) == "a.txt: is blank. Fill it."
    copy = pickle.loads(pickle.dumps(error))  # as between processes
    assert (copy.where, copy.what, copy.do) == ("a.txt", "is blank", "Fill it.")


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("nowhere_to_be_found.part", "pip install nowhere_to_be_found"),
        ("torchtext", "pip install torchtext==0.6.0"),
        ("vl_convert", "pip install vl-convert-python"),
        ("GPUtil", "pip install GPUtil setuptools"),
    ],
)
def test_a_missing_package_is_named_with_the_line_to_install_it(
    package, line, monkeypatch
):
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


# reading text


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\n\n", ["one", ""]),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", ["one", "two"]),
        ("a\u2028b\x0cc\x85d\n".encode(), ["a\u2028b\x0cc\x85d"]),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_end_at_newlines_only(tmp_path, data, lines, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(gzip.compress(data) if suffix else data)
    assert read_lines(path) == lines


ZIPPED = gzip.compress(b"ein Hund\n" * 9, mtime=0)


@pytest.mark.parametrize(
    "data",
    [b"plain text\n", ZIPPED[:5], ZIPPED[:-1], ZIPPED[:-6] + b"sums!!"],
    ids=["no gzip", "cut in its header", "cut at its end", "a wrong checksum"],
)
def test_a_damaged_gzip_is_refused(tmp_path, data):
    (tmp_path / "text.gz").write_bytes(data)
    with pytest.raises(DataError, match="damaged or cut off gzip"):
        read_lines(tmp_path / "text.gz")


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
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        monkeypatch.setattr(data_sets, "_MULTI30K_URL", url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield folder, asked
        server.shutdown()


def test_the_named_folder_comes_first(data_folder, monkeypatch):
    ours = data_folder / "captions" / "train.de"
    ours.parent.mkdir()
    ours.write_text("Hund\n")
    assert data_file("captions", "train.de") == ours
    here = data_file("captions", "train.en")
    assert here == project_folder() / "data" / "captions" / "train.en"
    monkeypatch.chdir(data_folder.parent)
    monkeypatch.setenv("ANNOTATED_TRANSFORMER_DATA", "data")
    found = data_file("captions", "train.de")
    assert found == ours and found.is_absolute()


def test_an_unknown_data_set_is_refused_with_the_places_tried(data_folder):
    with pytest.raises(DataError) as caught:
        data_file("wmt", "train.de")
    assert str(data_folder / "wmt") in caught.value.what
    assert "ANNOTATED_TRANSFORMER_DATA" in caught.value.do


def test_a_local_file_with_a_wrong_checksum_is_refused(data_folder):
    (data_folder / "multi30k").mkdir()
    path = data_folder / "multi30k" / "train.de.gz"
    path.write_bytes(gzip.compress(b"Hund\n"))
    with pytest.raises(DataError, match="not the published file"):
        data_file("multi30k", "train.de.gz")


def test_without_network_the_error_says_where_to_put_the_file(
    data_folder, monkeypatch, tmp_path
):
    monkeypatch.setattr(data_sets, "_MULTI30K_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError) as caught:
        data_file("multi30k", "train.de.gz")
    assert "can't be fetched" in caught.value.what
    assert str(tmp_path / "cache") in caught.value.do
    assert "ANNOTATED_TRANSFORMER_DATA" in caught.value.do


def test_a_file_is_fetched_once(data_folder, web, monkeypatch):
    folder, asked = web
    data = gzip.compress(b"Hund\n")
    (folder / "val.de.gz").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(data_sets._MULTI30K_SHA256, "val.de.gz", digest)
    first = data_file("multi30k", "val.de.gz")
    assert read_lines(first) == ["Hund"] and len(asked) == 1
    assert data_file("multi30k", "val.de.gz") == first and len(asked) == 1


def test_a_download_with_a_wrong_checksum_is_tried_again_then_refused(data_folder, web):
    folder, asked = web
    (folder / "val.de.gz").write_bytes(gzip.compress(b"Katze\n"))
    with pytest.raises(DataError, match="wrong SHA-256"):
        data_file("multi30k", "val.de.gz")
    assert len(asked) == 3


# writing


def test_writing_makes_folders_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "a" / "b" / "c.bin"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_check_leaves_no_file(tmp_path):
    check_writable(tmp_path / "new" / "file")
    assert not list((tmp_path / "new").iterdir())
    with pytest.raises(at.DataError, match="can't be written"):
        check_writable(tmp_path)


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_bytes(b"keep")
    link.symlink_to(target)
    check_writable(link)
    assert target.read_bytes() == b"keep"
    write_atomically(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    (tmp_path / "null").symlink_to(os.devnull)
    for device in (os.devnull, tmp_path / "null"):
        check_writable(device)
        write_atomically(device, b"gone")
        assert stat.S_ISCHR(os.stat(device).st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "link",
        "null",
        "target",
    ]


def test_a_folder_behind_a_link_is_filled(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with atomic_folder(tmp_path / "link") as folder:
        (folder / "file").write_bytes(b"data")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "file").read_bytes() == b"data"


def test_what_standard_output_writes_to_is_not_replaced(tmp_path):
    """As in `evaluate --out FILE > FILE`, or --out /dev/stdout."""
    path = tmp_path / "both"
    code = (
        "import sys; from transformer_workshop.base.files import write_atomically;"
        f"write_atomically({str(path)!r}, b'translations '); print('scores')"
    )
    with open(path, "wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert path.read_text() == "translations scores\n"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    break_off(monkeypatch, ((os, step), 1), OSError(28, "No space left on device"))
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


# tensors

TABLE = torch.randn(6, 4)
TENSORS = {
    "table": TABLE,
    "tied": TABLE,
    "a view": TABLE[:2],
    "turned": torch.randn(3, 5).T,
    "half": torch.randn(3).bfloat16(),
    "double": torch.randn(2, dtype=torch.float64),
    "count": torch.tensor(7),
    "flags": torch.tensor([True, False]),
    "nothing": torch.zeros(0, 3),
    "also nothing": torch.zeros(0, 4),
}
NOTES = {"step": 3, "name": "schön"}


def assert_saved(path):
    """Assert that a file holds these tensors and notes."""
    loaded, notes = load_with_notes(path)
    assert notes == NOTES and loaded.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor), name


def test_tensors_come_back_as_they_were(tmp_path):
    save_tensors(tmp_path / "x.safetensors", TENSORS, NOTES)
    assert_saved(tmp_path / "x.safetensors")


def test_two_views_of_the_same_memory_are_stored_apart(tmp_path):
    square = torch.arange(9.0).view(3, 3)
    save_tensors(tmp_path / "a.safetensors", {"rows": square, "columns": square.T})
    found = load_tensors(tmp_path / "a.safetensors")
    assert torch.equal(found["rows"], square)
    assert torch.equal(found["columns"], square.T)


def test_weights_of_older_versions_have_todays_names(tmp_path):
    """Average a checkpoint of 2026.2 with a later one, as a resumed run does."""
    before, after = tmp_path / "before.safetensors", tmp_path / "after.safetensors"
    name = "layers.0.self_attn.k_norm.weight"
    save_tensors(before, {name.replace("k_norm", "attention.key_norm"): torch.zeros(2)})
    save_tensors(after, {name: torch.ones(2)})
    assert average_checkpoints([before, after])[name].tolist() == [0.5, 0.5]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a path for copies of a file, and its content."""
    path = tmp_path_factory.mktemp("saved") / "x.safetensors"
    save_tensors(path, TENSORS, NOTES)
    return path, path.read_bytes()


@given(share=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@settings(max_examples=50)
def test_no_changed_byte_goes_unnoticed(saved, share, change):
    """Accept a change that means nothing, such as another space in the header."""
    path, content = saved
    data = bytearray(content)
    data[int(share * len(data))] ^= change
    path.write_bytes(data)
    try:
        load_tensors(path)
    except DataError:
        return
    assert_saved(path)


@pytest.mark.parametrize("keep", [0, 8, 50, -200, -1])
def test_a_file_that_was_cut_off_is_refused(saved, keep):
    path, content = saved
    path.write_bytes(content[:keep])
    with pytest.raises(DataError, match="is damaged"):
        load_tensors(path)


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    torch.save({"weights": Trap()}, tmp_path / "x.safetensors")
    with pytest.raises(DataError, match="is damaged"):
        load_tensors(tmp_path / "x.safetensors")
    assert not (tmp_path / "sprung").exists()


def test_a_file_of_another_program_is_taken_as_it_is(tmp_path):
    save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    assert load_tensors(tmp_path / "x.safetensors")["x"].tolist() == [1, 1]


# folders of runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train for an epoch; return the configuration."""
    config, text = small_run(
        tmp_path_factory.mktemp("trained"), epochs=1, max_tokens=40
    )
    train((config, text))
    return config


@pytest.fixture
def run(trained, tmp_path):
    """Return the folder of a copy of that run, and its configuration."""
    folder = tmp_path / "run"
    shutil.copytree(trained.run_dir, folder)
    return folder, dataclasses.replace(trained, run_dir=str(folder))


def edit_config(folder, edit):
    """Edit the settings in a folder's config.json."""
    written = read_json(folder / "config.json")
    edit(written["config"])
    write_json(folder / "config.json", written)


def test_what_does_not_change_the_weights_may_change(run):
    folder, config = run
    other = dataclasses.replace(config, beam_size=2, length_penalty=0.2)
    open_folder(other)
    assert load_config(folder) == other


def test_epochs_may_grow_and_shrink_only_if_they_do_not_shape_the_schedule(run):
    folder, config = run
    more = dataclasses.replace(config, epochs=2)
    open_folder(more)
    assert load_config(folder) == more
    with pytest.raises(DataError, match=r"epochs \(2 there, 1 now\)"):
        open_folder(config)
    edit_config(folder, lambda settings: settings.update(schedule="inverse_sqrt"))
    open_folder(dataclasses.replace(config, schedule="inverse_sqrt"))


def test_a_setting_younger_than_a_run_had_its_default_there(run):
    folder, config = run
    edit_config(folder, lambda settings: settings.pop("decay"))
    with pytest.raises(DataError, match=r"decay \(1.0 there, 0.5 now\)"):
        open_folder(dataclasses.replace(config, decay=0.5))
    open_folder(config)


def test_a_start_without_checkpoints_may_change_everything(tmp_path):
    config = TrainingConfig(run_dir=str(tmp_path))
    open_folder(config)
    other = dataclasses.replace(config, d_model=32)
    open_folder(other)
    assert load_config(tmp_path) == other


@pytest.mark.parametrize("name", ["train_tgt", "valid_src"])
def test_another_text_is_noticed_whatever_its_size(run, name):
    """By a finished run, too; a text that is gone says nothing."""
    folder, config = run
    path = Path(getattr(config, name))
    before = path.read_bytes()
    try:
        path.write_bytes(before[::-1])
        with pytest.raises(DataError, match=f"another text: {name} .* has changed"):
            open_folder(config)
        path.unlink()
        open_folder(config)
    finally:
        path.write_bytes(before)
    path.write_bytes(before[::-1])
    try:
        open_folder(config, restart=True)
        open_folder(config)
    finally:
        path.write_bytes(before)


def test_restart_deletes_the_run_and_nothing_else(run):
    folder, config = run
    mine = {"notes.txt", "checkpoints/mine.safetensors", "step-1.safetensors"}
    for name in mine:
        (folder / name).write_text("mine")
    open_folder(dataclasses.replace(config, seed=5), restart=True)
    left = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert left == mine | {"config.json"}


def test_a_restart_that_is_broken_off_can_be_given_again(run, monkeypatch):
    folder, config = run
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        break_off(patch, ((Path, "unlink"), 3), KeyboardInterrupt())
        open_folder(config, restart=True)
    assert (folder / "config.json").exists()
    open_folder(config, restart=True)
    assert [path.name for path in run_files(folder)] == ["config.json"]


def test_the_configuration_file_says_what_it_was_run_with(trained):
    written = read_json(f"{trained.run_dir}/config.json")
    assert written["config"] == dataclasses.asdict(trained)
    assert {"seed", "threads", "precision"} <= written["config"].keys()
    (start,) = written["starts"]
    assert start["versions"]["torch"] == torch.__version__
    assert start["processor"] and "commit" in start and start["command"]
    if (project_folder() / ".git").exists():
        assert len(start["commit"].removesuffix("-dirty")) == 40


# translators


def test_a_finished_run_is_a_translator(trained, tmp_path):
    translator = load_translator(trained.run_dir, "cpu")
    weights = load_tensors(f"{trained.run_dir}/model.safetensors")
    for name, weight in translator.model.state_dict().items():
        assert torch.equal(weight, weights[name])
    save_translator(tmp_path / "copy", translator)
    copy = load_translator(tmp_path / "copy", "cpu")
    sentences = [german for german, _ in SIX]
    assert copy.translate(sentences) == translator.translate(sentences)
    assert copy.config == translator.config


def test_a_translator_by_words_comes_back_too(trained, tmp_path):
    config = dataclasses.replace(trained, bpe_size=0, min_freq=1, tie="none")
    text = prepare_text(SIX, config.bpe_size, config.min_freq)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    translator = Translator(model, text, config)
    save_translator(tmp_path / "words", translator)
    copy = load_translator(tmp_path / "words", "cpu")
    assert copy.text.vocab_src.itos == text.vocab_src.itos
    assert copy.text.vocab_tgt.itos == text.vocab_tgt.itos
    assert copy.translate(["Ein Hund."]) == translator.translate(["Ein Hund."])


def test_an_unfinished_run_translates_with_its_best_weights(run):
    folder, _ = run
    (folder / "model.safetensors").unlink()
    best = {n: w + 1 for n, w in load_tensors(folder / "best.safetensors").items()}
    save_tensors(folder / "best.safetensors", best)
    model = load_translator(folder, "cpu").model
    assert all(torch.equal(w, best[name]) for name, w in model.state_dict().items())


# settings


@pytest.mark.parametrize(
    "settings",
    [
        {"N": 0}, {"N": "2"}, {"N": 2.0}, {"N": True}, {"N": None}, {"norm_first": 1},
        {"dropout": float("nan")}, {"base_lr": float("inf")}, {"save_seconds": -1.0},
        {"train_src": 3}, {"tie": None}, {"positions": "none"}, {"run_dir": "a\0b"},
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
    with pytest.raises(DataError, match="decay"):
        dataclasses.replace(TrainingConfig(), decay=math.nan)


def test_settings_in_their_limits_pass():
    for name, allowed in ALLOWED.items():
        for value in allowed:  # the lowest and the highest number, or each text
            TrainingConfig(**{"d_model": 2**16, "h": 1} | {name: value})
    TrainingConfig(max_norm=None, dropout=0, base_lr=1)
