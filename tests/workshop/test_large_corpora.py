"""Chapter 92: a corpus on disk gives what the same corpus in lists gives."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st
from small_runs import (
    PAIRS,
    SIX,
    Killed,
    break_off,
    contents,
    flags,
    open_folder,
    refused,
    small_config,
    write_text,
)

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.text import store
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import load_text, pack_text, prepare_text
from transformer_workshop.text.store import load_examples, open_store, prepare_store

MODULE = Path(at.__file__)


@pytest.fixture
def config(tmp_path):
    own = {"run_dir": str(tmp_path / "run"), "store": str(tmp_path / "store")}
    return small_config(tmp_path, PAIRS * 5, **own)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Prepare a store; return its configuration."""
    folder = tmp_path_factory.mktemp("stored")
    config = small_config(folder, PAIRS * 5, store=str(folder / "store"))
    prepare_store(config)
    return config


@pytest.fixture
def prepared(stored, tmp_path):
    """Return the configuration of a copy of that store."""
    copy = tmp_path / "store"
    shutil.copytree(stored.store, copy)
    return dataclasses.replace(stored, store=str(copy), run_dir=str(tmp_path / "run"))


def opened(config):
    return open_store(config, load_text(config.store))


def in_lists(config):
    """Read the same corpus as chapter 3 does, without a store."""
    plain = dataclasses.replace(config, store=None)
    pairs = load_pairs(plain, "train")
    text = prepare_text(pairs, plain.bpe_size, plain.min_freq)
    return load_examples(plain, "train", text), text


# what is written


@pytest.mark.parametrize("workers", [1, 2])
def test_a_store_holds_what_lists_hold(config, workers):
    assert prepare_store(config, workers) == 35
    examples, text = in_lists(config)
    store = opened(config)
    assert list(store) == [store[i] for i in range(len(store))] == examples
    assert store[-1] == examples[-1] and len(store) == len(examples)
    assert pack_text(load_text(config.store)) == pack_text(text)
    with pytest.raises(IndexError):
        store[len(store)]


def test_words_too_and_more_workers_than_pairs(tmp_path):
    own = {"bpe_size": 0, "tie": "none", "store": str(tmp_path / "store")}
    config = small_config(tmp_path, PAIRS[:3], **own)
    assert prepare_store(config, workers=50) == 3
    assert list(opened(config)) == in_lists(config)[0]


def test_a_clean_store_has_no_repetitions_no_validation_no_odd_lengths(
    tmp_path, capsys
):
    odd = ("Hund.", "A dog, and much that no one would say in place of one word.")
    pairs = [*SIX, SIX[2], odd, ("Ein Hund, der schläft.", "Held out.")]
    (tmp_path / "valid").mkdir()
    valid = write_text(tmp_path / "valid", [("Gut aufgehoben.", "Held out.")])
    files = dict(zip(("valid_src", "valid_tgt"), valid))
    config = small_config(tmp_path, pairs, store=str(tmp_path / "clean"), **files)
    assert prepare_store(config, clean=True) == 6
    said = "train: left out 1 repeated, 1 of odd length, 1 in validation\n"
    assert said in capsys.readouterr().err
    expected, _ = at.encode_pairs(SIX, load_text(config.store), config.max_tokens)
    assert list(opened(config)) == expected
    with pytest.raises(DataError, match="other settings"):
        prepare_store(config)


def test_large_ids_come_back(config, monkeypatch):
    def large(pairs, *_):
        return [([0, 70000], [1]) for _ in pairs], 0

    monkeypatch.setattr(store, "encode_pairs", large)
    prepare_store(config)
    assert list(opened(config)) == [([0, 70000], [1])] * 35


def test_long_pairs_are_left_out_and_counted(tmp_path, capsys):
    """Give the first of two workers nothing but long pairs."""
    pairs = [("Hund " * 50, "Dogs.")] * 6 + PAIRS[:6]
    config = small_config(tmp_path, pairs, store=str(tmp_path / "s"), max_tokens=40)
    assert prepare_store(config, workers=2) == 6
    said = "train: left out 6 of 12 pairs, longer than max_tokens=40\n"
    assert said in capsys.readouterr().err
    assert list(opened(config)) == in_lists(config)[0]
    assert said in capsys.readouterr().err  # the note for lists is the same


def test_no_pair_is_short_enough(config):
    config = dataclasses.replace(config, max_tokens=3)
    for reading in (prepare_store, in_lists):
        with pytest.raises(DataError, match="train split: holds no pair that is short"):
            reading(config)
    assert not Path(config.store).exists()


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        (b"", b"A dog.\n"),
        (b"", b""),
        (b"a\nb\n", b"x\n"),
        (b"a\nb\n", b"\n\n"),
        (b"a\nb\xff\n", b"x\ny\n"),
        (None, b"x\ny\n"),
    ],
    ids=["empty", "both empty", "lines missing", "blank", "not UTF-8", "gone"],
)
def test_text_is_refused_as_in_memory(config, src, tgt):
    Path(config.train_tgt).write_bytes(tgt)
    if src is None:
        Path(config.train_src).unlink()
    else:
        Path(config.train_src).write_bytes(src)
    messages = set()
    for reading in (prepare_store, in_lists):
        with pytest.raises(DataError) as error:
            reading(config)
        messages.add(str(error.value))
    assert len(messages) == 1
    assert not Path(config.store).exists()


LINES = st.lists(st.sampled_from(["a", "b c", "d", " "]), max_size=4)


@pytest.mark.slow
def test_the_program_writes_nothing_else_and_fetches_nothing(config, tmp_path):
    program = f"""if True:
        import socket
        def refuse(*args, **kwargs):
            raise AssertionError("no network")
        socket.getaddrinfo = refuse
        from transformer_workshop.cli.terminal import main
        raise SystemExit(main(["prepare", "--workers", "2", *{flags(config)!r}]))
    """
    home = tmp_path / "home"
    home.mkdir()
    hidden = {name: v for name, v in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=hidden | {"HOME": str(home)},
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, third, last = done.stderr.splitlines()
    assert "→" in second and "→" in third and not done.stdout
    assert last == f"{config.store}: 35 pairs."
    assert not list(home.iterdir())
    assert list(opened(config)) == in_lists(config)[0]


# what is refused


def test_a_finished_store_is_kept(prepared, capsys, monkeypatch):
    break_off(monkeypatch, ((store, "prepare_text"), 1), AssertionError)
    assert prepare_store(prepared) == 35
    assert "is prepared already" in capsys.readouterr().err


def test_a_store_of_other_text_or_settings_is_not_overwritten(prepared, tmp_path):
    before = contents(prepared.store)
    src, tgt = write_text(tmp_path, PAIRS * 6)
    for change in ({"bpe_size": 290}, {"train_src": src, "train_tgt": tgt}):
        with pytest.raises(DataError, match="other text, or by other settings"):
            prepare_store(dataclasses.replace(prepared, **change))
    assert before == contents(prepared.store)


@pytest.mark.parametrize("clean", [False, True])
def test_another_text_of_the_same_size_is_noticed(config, clean):
    """For `prepare`, and for a training that names the text; validation, if cleaned."""
    config = dataclasses.replace(config, min_freq=1)
    if clean:
        Path(config.valid_src).write_text("x y\n")
        Path(config.valid_tgt).write_text("z\n")
    prepare_store(config, clean=clean)
    file = Path(config.valid_src if clean else config.train_tgt)
    file.write_text(file.read_text()[::-1])
    name = "valid_src" if clean else "train_tgt"
    with pytest.raises(DataError, match=f"the text of {name} .{file}. has changed"):
        prepare_store(config, clean=clean)
    if not clean:
        with pytest.raises(DataError, match=f"another text: {name} .* has changed"):
            opened(config)
    file.unlink()
    assert len(opened(config))  # a store needs no text


def test_a_store_does_not_overwrite_a_run(config):
    open_folder(config)
    before = contents(config.run_dir)
    with pytest.raises(DataError, match="exists already"):
        prepare_store(dataclasses.replace(config, store=config.run_dir))
    assert before == contents(config.run_dir)


def test_a_store_of_another_vocabulary_or_length_is_refused(stored):
    with pytest.raises(DataError, match="another vocabulary"):
        open_store(stored, prepare_text(PAIRS, 270))
    with pytest.raises(DataError, match="another max_tokens"):
        opened(dataclasses.replace(stored, max_tokens=64))


@pytest.mark.parametrize("about", [{"pairs": 35, "ids": "<u2"}, [], {"format": 1}])
@pytest.mark.parametrize("command", ["prepare", "train"])
def test_a_store_of_an_older_version_is_refused(prepared, capfd, about, command):
    folder = Path(prepared.store)
    (folder / "store.json").write_text(json.dumps(about))
    error = refused(capfd, command, *flags(prepared))
    assert error.startswith(f"error: {folder}: was not prepared by this version. ")
    assert error.endswith("Delete it and prepare it again.\n")


@pytest.mark.parametrize("name", ["data-", "state", "dataset_info", "vocabulary"])
def test_a_file_that_is_gone_or_cut_off_is_refused(prepared, name):
    text = load_text(prepared.store)
    [path] = (p for p in Path(prepared.store).iterdir() if p.name.startswith(name))
    path.write_bytes(path.read_bytes()[: -path.stat().st_size // 2])
    with pytest.raises(DataError):
        open_store(prepared, text)
    path.unlink()
    with pytest.raises(DataError):
        open_store(prepared, text)


def test_a_description_of_other_data_is_refused(prepared):
    path = Path(prepared.store) / "store.json"
    write_json(path, read_json(path) | {"pairs": 34})
    with pytest.raises(DataError, match="35 of 34 pairs"):
        opened(prepared)


# cut off


@pytest.mark.parametrize("name", ["vocabulary.json", "store.json", "store"])
def test_half_a_store_is_none_and_is_made_anew(config, monkeypatch, name):
    """Kill it where a file, or at last the folder, gets its name."""

    def replace(old, new):
        if Path(new).name == name:
            raise Killed
        real(old, new)

    real = os.replace
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", replace)
        prepare_store(config)
    with pytest.raises(DataError, match="holds no prepared corpus. Write it"):
        open_store(config, prepare_text(PAIRS, config.bpe_size, config.min_freq))
    assert prepare_store(config) == 35
    assert list(opened(config)) == in_lists(config)[0]
    assert not list(Path(config.store).parent.glob("*.tmp"))


def test_a_full_disk_is_said(config, monkeypatch):
    break_off(monkeypatch, ((os, "fsync"), 1), OSError(28, "No space left on device"))
    with pytest.raises(DataError, match="No space left"):
        prepare_store(config)
    assert not list(Path(config.store).parent.glob("store*"))


def die(*_):
    os._exit(9)


def fail(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("worker", "said"), [(die, "abruptly died"), (fail, "")])
def test_a_worker_that_ends_without_an_answer_is_an_error(
    config, monkeypatch, worker, said
):
    monkeypatch.setattr(store, "encode_pairs", worker)
    with pytest.raises(DataError, match=f"could not be prepared.*{said}"):
        prepare_store(config, workers=2)
    assert not list(Path(config.store).parent.glob("store*"))


# training


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_from_a_store_are_those_from_lists(stored, shuffle):
    sources = opened(stored), in_lists(stored)[0]
    for epoch in (0, 3):
        both = (
            at.batches(
                source,
                stored.batch_tokens,
                at.epoch_rng(stored.seed, epoch) if shuffle else None,
                "cpu",
            )
            for source in sources
        )
        for one, two in zip(*both, strict=True):
            for name in ("src", "tgt", "tgt_y", "src_mask", "tgt_mask"):
                assert torch.equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prepare"], "needs two files of text"),
        (["prepare", "--workers", "0"], "--workers: is 0"),
        (["train", "--store", "nowhere"], "nowhere"),
    ],
)
def test_what_the_command_line_says(arguments, said, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capfd, *arguments)
