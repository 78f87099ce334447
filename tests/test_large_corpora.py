"""Chapter 92: a corpus on disk gives what the same corpus in lists gives."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import PAIRS, Killed, assert_same_run, flags, small_config, write_text

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop import corpora
from transformer_workshop.corpora import (
    load_text,
    open_store,
    pack_text,
    prepare_store,
    stream_parallel,
)
from transformer_workshop.terminal import main

MODULE = Path(at.__file__)


@pytest.fixture
def config(tmp_path):
    own = {"run_dir": str(tmp_path / "run"), "store": str(tmp_path / "store")}
    return small_config(tmp_path, PAIRS * 5, **own)


@pytest.fixture
def prepared(config):
    prepare_store(config)
    return config


def opened(config):
    return open_store(config, load_text(config.store))


def in_lists(config):
    """Read the same corpus as chapter 3 does, without a store."""
    plain = dataclasses.replace(config, store=None)
    text = at.prepare_text(
        at.load_pairs(plain, "train"), plain.bpe_size, plain.min_freq
    )
    return at.load_examples(plain, "train", text), text


def in_chapter_3(config):
    return at.read_parallel(config.train_src, config.train_tgt)


def edit(path, **changes):
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, **changes}))


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# what is written


@pytest.mark.parametrize("workers", [1, 2, 50])
def test_a_store_holds_what_lists_hold(config, workers):
    assert prepare_store(config, workers) == 35
    examples, text = in_lists(config)
    store = opened(config)
    assert list(store) == [store[i] for i in range(len(store))] == examples
    assert store[-1] == examples[-1] and len(store) == len(examples)
    assert pack_text(load_text(config.store)) == pack_text(text)
    names = {"store.json", "vocabulary.json", "dataset_info.json", "state.json"}
    assert names < {path.name for path in Path(config.store).iterdir()}
    with pytest.raises(IndexError):
        store[len(store)]


def test_words_too(tmp_path):
    config = small_config(
        tmp_path, PAIRS * 2, bpe_size=0, tie="none", store=str(tmp_path / "store")
    )
    prepare_store(config, workers=2)
    examples, _ = in_lists(config)
    assert list(opened(config)) == examples


def test_large_ids_come_back(config, monkeypatch):
    def large(pairs, *_):
        return [([0, 70000], [1]) for _ in pairs], 0

    monkeypatch.setattr(corpora, "encode_pairs", large)
    prepare_store(config)
    assert list(opened(config)) == [([0, 70000], [1])] * 35


@pytest.mark.parametrize("workers", [1, 2])
def test_long_pairs_are_left_out_and_counted(tmp_path, capsys, workers):
    """Give the first of two workers nothing but long pairs."""
    pairs = [("Hund " * 50, "Dogs.")] * 6 + PAIRS[:6]
    config = small_config(tmp_path, pairs, store=str(tmp_path / "s"), max_tokens=40)
    assert prepare_store(config, workers) == 6
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


FAULTS = {
    "empty": (b"", b"A dog.\n"),
    "both empty": (b"", b""),
    "other side empty": (b"Ein Hund.\n", b""),
    "a line missing": (b"a\nb\n", b"x\n"),
    "two lines missing": (b"a\n", b"x\ny\nz\n"),
    "blank": (b"a\n \nc\n", b"x\ny\nz\n"),
    "blank on the other side": (b"a\nb\n", b"x\n\n"),
    "not UTF-8": (b"a\nb\xff\n", b"x\ny\n"),
    "a damaged gzip file": (None, b"x\ny\n"),
    "gone": ("gone", b"x\ny\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_text_is_refused_as_in_memory(config, fault, tmp_path):
    src, tgt = FAULTS[fault]
    Path(config.train_tgt).write_bytes(tgt)
    if src is None:
        path = tmp_path / "train.de.gz"
        path.write_bytes(b"\x1f\x8b\x08\x00 no gzip")
        config = dataclasses.replace(config, train_src=str(path))
    elif src == "gone":
        Path(config.train_src).unlink()
    else:
        Path(config.train_src).write_bytes(src)
    messages = []
    for reading in (prepare_store, in_lists, in_chapter_3):
        with pytest.raises(DataError) as error:
            reading(config)
        messages.append(str(error.value))
    assert len(set(messages)) == 1
    assert not Path(config.store).exists()


LINES = st.lists(st.sampled_from(["a", "b c", "d", "d", "e", " "]), max_size=4)


@given(LINES, LINES)
@settings(max_examples=60, deadline=None)
def test_pairs_of_a_stream_are_those_of_a_list(tmp_path_factory, src, tgt):
    folder = tmp_path_factory.mktemp("text")
    files = [str(folder / side) for side in ("src", "tgt")]
    for file, lines in zip(files, (src, tgt), strict=True):
        Path(file).write_text("".join(line + "\n" for line in lines))
    found = []
    for read in (at.read_parallel, stream_parallel):
        try:
            found.append(list(read(*files)))
        except DataError as error:
            found.append((error.do, "blank" in error.what))
    blank_before = any(not x.strip() for pair in zip(src, tgt) for x in pair)
    assert found[0] == found[1] or (blank_before and len(src) != len(tgt))


def test_nothing_is_written_outside_and_nothing_fetched(config, tmp_path):
    code = f"""
        import socket, sys
        def refuse(*args, **kwargs):
            raise AssertionError("no network")
        socket.getaddrinfo = refuse
        import annotated_transformer as at
        config = at.TrainingConfig(**{dataclasses.asdict(config)!r})
        at.prepare_store(config)
        at.open_store(config, at.load_text(config.store))[0]
    """
    home = tmp_path / "home"
    home.mkdir()
    hidden = {name: v for name, v in os.environ.items() if not name.startswith("HF_")}
    environment = hidden | {"HOME": str(home), "PYTHONPATH": str(MODULE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines())],
        env=environment, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1 and "35 pairs" in done.stderr  # no progress bar
    assert not list(home.iterdir())


# what is refused


def test_a_finished_store_is_kept(prepared, capsys, monkeypatch):
    never = "transformer_workshop.corpora.prepare_text"
    monkeypatch.setattr(never, None)  # it would be called
    assert prepare_store(prepared) == len(PAIRS) * 5
    assert "is prepared already" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"bpe_size": 290}, {"max_tokens": 64}, "text"])
def test_a_store_of_other_text_or_settings_is_not_overwritten(
    prepared, change, tmp_path
):
    before = contents(prepared.store)
    if change == "text":
        write_text(tmp_path, PAIRS * 6)
        change = {}
    with pytest.raises(DataError, match="other text, or by other settings"):
        prepare_store(dataclasses.replace(prepared, **change))
    assert before == contents(prepared.store)


def test_a_store_does_not_overwrite_a_run(config):
    run = Path(config.run_dir)
    at.open_run_folder(config)
    before = contents(run)
    with pytest.raises(DataError, match="exists already"):
        prepare_store(dataclasses.replace(config, store=str(run)))
    assert before == contents(run)


def test_another_vocabulary_is_refused(prepared):
    other = at.prepare_text(PAIRS, 270)
    with pytest.raises(DataError, match="another vocabulary"):
        open_store(prepared, other)


def test_another_longest_sentence_is_refused(prepared):
    with pytest.raises(DataError, match="another max_tokens"):
        opened(dataclasses.replace(prepared, max_tokens=64))


def test_a_store_of_an_older_version_is_refused_in_one_line(prepared, capsys):
    """Imitate an older store, which had flat files and this description."""
    folder = Path(prepared.store)
    for path in folder.glob("*.arrow"):
        path.rename(folder / "src.ids")
    old = {"pairs": 35, "ids": "<u2", "made_from": {}, "max_tokens": 128}
    (folder / "store.json").write_text(json.dumps(old))
    for command in ("prepare", "train"):
        assert main([command, *flags(prepared)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"error: {folder}: was not prepared by this version. ")
        assert error.endswith("Delete it and prepare it again.\n")
        assert error.count("\n") == 1


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


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": 1}', "nothing"])
def test_a_description_that_is_none_is_refused(prepared, content):
    (Path(prepared.store) / "store.json").write_text(content)
    for refused in (opened, prepare_store):
        with pytest.raises(DataError):
            refused(prepared)


def test_a_description_of_other_data_is_refused(prepared):
    edit(Path(prepared.store) / "store.json", pairs=34)
    with pytest.raises(DataError, match="35 of 34 pairs"):
        opened(prepared)


# cut off


@pytest.mark.parametrize("count", range(1, 4))
def test_half_a_store_is_none_and_is_made_anew(config, monkeypatch, count):
    """Kill it at each renaming: of the vocabulary, the description, and the folder."""
    with monkeypatch.context() as patch:
        real, calls = os.replace, []

        def replace(*paths):
            ours = not str(paths[0]).endswith(".incomplete")
            calls.extend([paths] * ours)
            if len(calls) == count:
                raise Killed
            real(*paths)

        patch.setattr(os, "replace", replace)
        with pytest.raises(Killed):
            prepare_store(config)
    with pytest.raises(DataError, match="holds no prepared corpus. Write it"):
        open_store(config, at.prepare_text(PAIRS, config.bpe_size, config.min_freq))
    assert prepare_store(config) == 35
    assert list(opened(config)) == in_lists(config)[0]
    assert not list(Path(config.store).parent.glob("*.tmp"))


@pytest.mark.slow
def test_a_preparation_that_is_killed_leaves_no_store(tmp_path):
    config = small_config(tmp_path, PAIRS * 3000, store=str(tmp_path / "store"))
    command = [sys.executable, str(MODULE), "prepare", "--workers", "2", *flags(config)]
    process = subprocess.Popen(command, start_new_session=True)
    while not list(tmp_path.glob("store*/*/*")):  # until the workers write
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not Path(config.store).exists() and list(tmp_path.glob("store*"))
    with pytest.raises(DataError, match="holds no prepared corpus"):
        open_store(config, at.prepare_text(PAIRS, config.bpe_size, config.min_freq))
    assert prepare_store(config, workers=2) == len(PAIRS) * 3000
    assert [path.name for path in tmp_path.glob("store*")] == ["store"]


def test_a_full_disk_is_said(config, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
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
    monkeypatch.setattr(corpora, "encode_pairs", worker)
    with pytest.raises(DataError, match=f"could not be prepared.*{said}"):
        prepare_store(config, workers=2)
    assert not list(Path(config.store).parent.glob("store*"))


# batches


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_from_a_store_are_those_from_lists(prepared, shuffle):
    examples, _ = in_lists(prepared)
    store = opened(prepared)
    for epoch in (0, 3):
        stored = at.batches(
            store,
            prepared.batch_tokens,
            at.epoch_draw(prepared.seed, epoch) if shuffle else None,
            "cpu",
        )
        listed = at.batches(
            examples,
            prepared.batch_tokens,
            at.epoch_draw(prepared.seed, epoch) if shuffle else None,
            "cpu",
        )
        for one, two in zip(stored, listed, strict=True):
            for name in ("src", "tgt", "tgt_y", "src_mask", "tgt_mask"):
                assert torch.equal(getattr(one, name), getattr(two, name))
    assert at.count_updates(
        store, prepared.batch_tokens, prepared.epochs, prepared.accum_iter
    ) == at.count_updates(
        examples, prepared.batch_tokens, prepared.epochs, prepared.accum_iter
    )


def test_a_store_has_no_batching_of_its_own(prepared, monkeypatch):
    """Break chapter 3's function: training from a store breaks, too."""

    def broken(*_):
        raise NotImplementedError

    monkeypatch.setattr(at, "token_budget_batches", broken)
    store = opened(prepared)
    with pytest.raises(NotImplementedError):
        next(
            at.batches(
                store, prepared.batch_tokens, at.epoch_draw(prepared.seed, 0), "cpu"
            )
        )
    with pytest.raises(NotImplementedError):
        main(["train", *flags(prepared)])


# training and the command line


def test_a_run_from_a_store_is_the_run_from_lists(config, tmp_path):
    one, two = (str(tmp_path / name) for name in "ab")
    plain = dataclasses.replace(config, store=None, epochs=2, run_dir=one)
    assert main(["train", *flags(plain)]) == 0
    stored = dataclasses.replace(plain, store=config.store, run_dir=two)
    assert main(["prepare", *flags(stored)]) == 0
    Path(config.train_tgt).rename(tmp_path / "elsewhere")  # no longer needed
    valid = tmp_path / "valid.en"
    (tmp_path / "elsewhere").rename(valid)
    stored = dataclasses.replace(stored, valid_tgt=str(valid), train_tgt=None)
    assert main(["train", *flags(stored)]) == 0
    assert_same_run(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prepare"], "needs two files of text"),
        (["prepare", "--workers", "0"], "--workers: is 0"),
        (["train", "--store", "nowhere"], "nowhere"),
    ],
)
def test_what_the_command_line_says(arguments, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and said in error and error.count("\n") == 1


@pytest.mark.slow
def test_prepare_by_workers_as_a_program(config):
    command = [sys.executable, str(MODULE), "prepare", "--workers", "2", *flags(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{config.store}: 35 pairs.\n" and not done.stdout
    assert list(opened(config)) == in_lists(config)[0]
