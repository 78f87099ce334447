"""Chapter 96: a corpus on disk gives what the same corpus in lists gives."""

import dataclasses
import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import PAIRS, Killed, assert_same_run, flags, small_config, write_text

import annotated_transformer as at
from annotated_transformer import DataError, load_text, main, open_store, prepare_store

MODULE = Path(at.__file__)


@pytest.fixture
def config(tmp_path):
    own = {"run_dir": str(tmp_path / "run"), "store": str(tmp_path / "store")}
    return small_config(tmp_path, PAIRS * 5, **own)


@pytest.fixture
def prepared(config):
    prepare_store(config, chunk=4)
    return config


def opened(config):
    return open_store(config, load_text(config.store))


def in_lists(config):
    """The same corpus as chapter 3 reads it without a store."""
    plain = dataclasses.replace(config, store=None)
    text = at.prepare_text(plain, at.load_pairs(plain, "train"))
    return at.load_examples(plain, "train", text), text


def edit(path, **changes):
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, **changes}))


# what is written


def test_a_store_holds_what_lists_hold(prepared):
    examples, text = in_lists(prepared)
    store = opened(prepared)
    assert list(store) == list(examples) and len(store) == len(examples)
    assert at._pack_text(*load_text(prepared.store)) == at._pack_text(*text)
    known = json.loads((Path(prepared.store) / "store.json").read_text())
    assert (known["pairs"], known["left_out"]) == (len(examples), 0)
    assert known["tokens"] == [sum(len(e[side]) for e in examples) for side in (0, 1)]
    assert at.load_examples(prepared, "train", text).sides[0][0].dtype == np.uint16


def test_words_too(tmp_path):
    config = small_config(
        tmp_path, PAIRS * 2, bpe_size=0, tie="none", store=str(tmp_path / "store")
    )
    prepare_store(config)
    examples, _ = in_lists(config)
    assert list(opened(config)) == list(examples)


def test_workers_and_chunks_do_not_show(config, tmp_path):
    folders = []
    for workers, chunk in ((1, 1), (1, 1000), (2, 3)):
        folder = tmp_path / f"{workers}-{chunk}"
        prepare_store(dataclasses.replace(config, store=str(folder)), workers, chunk)
        folders.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert folders[0] == folders[1] == folders[2]
    assert len(folders[0]) == 6


def test_long_and_blank_pairs_are_left_out_and_counted(tmp_path, capsys):
    pairs = [*PAIRS, ("", "A cat."), ("Ein Hund.", " "), ("Hund " * 50, "Dogs.")]
    config = small_config(tmp_path, pairs, store=str(tmp_path / "s"), max_tokens=40)
    assert prepare_store(config) == len(PAIRS)
    assert "3 were blank or too long" in capsys.readouterr().err
    assert len(opened(config)) == len(PAIRS)


def test_chunks_in_which_nothing_is_left(tmp_path):
    pairs = [("", "x"), *PAIRS[:1], ("", "y"), ("", "z"), *PAIRS[1:]]
    config = small_config(tmp_path, pairs, store=str(tmp_path / "store"))
    prepare_store(config, chunk=1)
    assert len(opened(config)) == len(PAIRS)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_no_pair_at_all(tmp_path, content):
    config = small_config(tmp_path, PAIRS, store=str(tmp_path / "store"))
    for path in (config.train_src, config.train_tgt):
        Path(path).write_text(content)
    with pytest.raises(DataError, match="hold no pair"):
        prepare_store(config)
    with pytest.raises(DataError, match="half of one"):
        open_store(config, at.prepare_text(config, PAIRS))


@pytest.mark.parametrize(
    ("side", "content", "what"),
    [
        ("tgt", "A dog.\n", "ends after 1 lines"),
        ("src", "Ein Hund.\n", "ends after 1 lines"),
        ("src", b"Eine K\xfcche.\n" * 35, "line 1: is not UTF-8"),
        ("src", None, "can't be read"),
    ],
)
def test_text_that_is_refused(config, side, content, what):
    path = Path(getattr(config, f"train_{side}"))
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=what):
        prepare_store(config)
    assert not (Path(config.store) / "store.json").exists()


def test_a_gzip_file_that_was_cut_off(config, tmp_path):
    path = tmp_path / "train.de.gz"
    path.write_bytes(gzip.compress(Path(config.train_src).read_bytes())[:-9])
    with pytest.raises(DataError, match="cut off gzip"):
        prepare_store(dataclasses.replace(config, train_src=str(path)))


def test_lines_are_those_of_read_lines(tmp_path):
    path = tmp_path / "text"
    for content in (b"", b"\n", b"a", b"a\r\nb\n", b"\xef\xbb\xbfa\x0cb\xc2\x85\n\nc"):
        path.write_bytes(content)
        assert list(at._stream_lines(path)) == at.read_lines(path), content


# wide ids


def test_a_large_vocabulary_takes_four_bytes():
    many = [*at.SPECIALS, *map(str, range(2**16))]
    exact, more = at.Vocabulary(many[: 2**16]), at.Vocabulary(many[: 2**16 + 1])
    assert at._id_type((exact, exact)) == "<u2"
    assert at._id_type((exact, more)) == at._id_type((more, exact)) == "<u4"


def test_large_ids_come_back(config, monkeypatch):
    monkeypatch.setattr(at, "encode_pairs", lambda *a, **k: ([([0, 70000], [1])], 0))
    monkeypatch.setattr(at, "_id_type", lambda text: "<u4")
    prepare_store(config, chunk=1000)
    assert list(opened(config)) == [([0, 70000], [1])]


def test_an_id_that_does_not_fit_is_an_error(config, monkeypatch):
    monkeypatch.setattr(at, "encode_pairs", lambda *a, **k: ([([0, 70000], [1])], 0))
    with pytest.raises(OverflowError):
        prepare_store(config)
    assert not list(Path(config.store).glob("src*"))


# what is refused


def test_a_finished_store_is_kept(prepared, capsys, monkeypatch):
    monkeypatch.setattr(at, "prepare_text", None)  # would be called
    assert prepare_store(prepared) == len(PAIRS) * 5
    assert "is prepared already" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"bpe_size": 290}, {"max_tokens": 64}, "text"])
def test_a_store_of_other_text_or_settings_is_not_overwritten(
    prepared, change, tmp_path
):
    before = {p.name: p.read_bytes() for p in Path(prepared.store).iterdir()}
    if change == "text":
        write_text(tmp_path, PAIRS * 6)
        change = {}
    with pytest.raises(DataError, match="other text, or by other settings"):
        prepare_store(dataclasses.replace(prepared, **change))
    assert before == {p.name: p.read_bytes() for p in Path(prepared.store).iterdir()}


def test_a_store_does_not_overwrite_a_runs_vocabulary(config):
    run = Path(config.run_dir)
    at.Run(config)
    (run / "vocabulary.json").write_text("the run's")
    with pytest.raises(DataError, match="holds a run"):
        prepare_store(dataclasses.replace(config, store=str(run)))
    assert (run / "vocabulary.json").read_text() == "the run's"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_text_without_a_pair_is_refused(config, text):
    for file in (config.train_src, config.train_tgt):
        Path(file).write_text(text)
    with pytest.raises(DataError, match="no pair that is neither blank nor too long"):
        prepare_store(config)


def test_another_vocabulary_is_refused(prepared):
    other = at.prepare_text(dataclasses.replace(prepared, bpe_size=270), PAIRS)
    with pytest.raises(DataError, match="another vocabulary"):
        open_store(prepared, other)


def test_another_longest_sentence_is_refused(prepared):
    with pytest.raises(DataError, match="another max_tokens"):
        opened(dataclasses.replace(prepared, max_tokens=64))


@pytest.mark.parametrize("name", ["src.ids", "tgt.ids", "src.starts", "tgt.starts"])
def test_a_file_that_is_gone_or_cut_off_is_refused(prepared, name):
    path = Path(prepared.store) / name
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=name):
        opened(prepared)
    path.unlink()
    with pytest.raises(DataError, match="has 0 bytes"):
        opened(prepared)


@pytest.mark.parametrize(
    "changes",
    [{"tokens": None}, {"tokens": [1]}, {"pairs": "many"}, {"ids": "nothing"}],
)
def test_a_description_that_makes_no_sense_is_refused(prepared, changes):
    edit(Path(prepared.store) / "store.json", **changes)
    with pytest.raises(DataError):
        opened(prepared)


def test_a_description_that_is_no_description(prepared):
    (Path(prepared.store) / "store.json").write_text("[]")
    with pytest.raises(DataError, match="does not describe"):
        opened(prepared)
    with pytest.raises(DataError):
        prepare_store(prepared)


@pytest.mark.parametrize("count", range(1, 6))
def test_half_a_store_is_none_and_is_made_anew(config, monkeypatch, count):
    """Killed at each renaming but the last: the vocabulary's, those of four files."""
    real, calls = os.replace, []

    def replace(*paths):
        calls.append(paths)
        if len(calls) == count:
            raise Killed
        real(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(Killed):
            prepare_store(config)
    with pytest.raises(DataError, match="half of one"):
        open_store(config, at.prepare_text(config, PAIRS))
    assert prepare_store(config) == 35
    assert list(opened(config)) == list(in_lists(config)[0])
    assert not list(Path(config.store).glob("*.tmp"))


def test_a_full_disk_is_said(config, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        prepare_store(config)
    assert not list(Path(config.store).glob("*.ids*"))


def die(item):
    os._exit(9)


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(DataError, match="a worker ended"):
        list(at._in_order(die, range(3), 2))


# batches


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_from_a_store_are_those_from_lists(prepared, shuffle):
    examples, _ = in_lists(prepared)
    store = opened(prepared)
    for epoch in (0, 3):
        stored = at.store_batches(store, prepared, epoch, "cpu", shuffle=shuffle)
        listed = at.batches(examples, prepared, epoch, "cpu", shuffle=shuffle)
        for one, two in zip(stored, listed, strict=True):
            for name in ("src", "tgt", "tgt_y", "src_mask", "tgt_mask"):
                assert torch.equal(getattr(one, name), getattr(two, name))
    assert at._count_steps(store, prepared) == at._count_steps(examples, prepared)


LENGTHS = st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), max_size=80)


@given(LENGTHS, st.integers(1, 200))
@settings(max_examples=300, deadline=None)
def test_groups_of_an_array_are_those_of_a_list(lengths, budget):
    array = np.array(lengths, np.int32).reshape(-1, 2)
    groups = [group.tolist() for group in at.array_batches(array, budget)]
    assert groups == at.token_budget_batches(lengths, budget)


ROWS = st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=9)


@given(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=30), st.randoms())
@settings(max_examples=200, deadline=None)
def test_a_store_is_the_sequence_that_went_in(examples, draw):
    sides = []
    for rows in zip(*examples, strict=True):
        ids = np.array([i for row in rows for i in row], "<u2")
        sides.append((ids, np.cumsum([0, *map(len, rows)])))
    store = at.Store(sides, np.arange(len(examples), dtype=np.uint32))
    assert list(store) == examples and store[-1] == examples[-1]
    assert list(store[1::3]) == examples[1::3]
    assert list(store[::2]) == examples[::2]
    assert store.lengths.tolist() == [[len(a), len(b)] for a, b in examples]
    assert at._target_tokens(store) == at._target_tokens(examples)
    seed = draw.getrandbits(32)
    two = random.Random(seed).sample(examples, len(examples))
    assert list(at._shuffled(store, random.Random(seed))) == two


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


def test_half_a_store_is_no_corpus_to_train_on(prepared, capsys):
    (Path(prepared.store) / "store.json").unlink()
    assert main(["train", *flags(prepared)]) == 2
    assert "half of one. Write it with `prepare`" in capsys.readouterr().err


@pytest.mark.slow
def test_prepare_by_workers_as_a_program(config):
    command = [sys.executable, str(MODULE), "prepare", "--workers", "2", *flags(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1 and "35 pairs; 0 were blank" in done.stderr
    assert list(opened(config)) == list(in_lists(config)[0])
