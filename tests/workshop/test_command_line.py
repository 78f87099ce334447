"""Chapter 91: train, translate and evaluate as commands."""

import dataclasses
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_runs import SIX as PAIRS
from small_runs import refused, write_text

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop.base import data_sets
from transformer_workshop.base.config import CONFIGS, TrainingConfig, choose_config
from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.shipped_models import (
    CAPTIONS_MODEL,
    DEFAULT_MODEL,
    REPOSITORY_MODELS,
)
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.cli import evaluation_commands, training_commands
from transformer_workshop.cli.lines import encode_or_refuse, read_available_lines
from transformer_workshop.cli.terminal import _command_line, main
from transformer_workshop.models import translator
from transformer_workshop.models.translator import Notes, load_translator
from transformer_workshop.names_of_2022 import train_worker
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import load_text, prepare_text
from transformer_workshop.text.spelling import respell, split_sentences
from transformer_workshop.training.checkpoints import Run

MODULE = Path(at.__file__)
CAPTIONS = MODULE.parent / CAPTIONS_MODEL
SMALL = (
    "--config tiny --bpe-size 280 --N 1 --d-model 16 --d-ff 16 --h 2 --tie all "
    "--batch-tokens 60 --max-tokens 40 --warmup 3 --base-lr 0.01 --device cpu"
).split()


def write_pairs(folder):
    """Write the four files of one's own data set; return them as flags of `train`."""
    flags = []
    for side, path in zip(("src", "tgt"), write_text(folder, PAIRS)):
        for split in ("train", "valid"):
            flags += [f"--{split}-{side}", path]
    return flags


OWN = {"dataset": "files", "run_dir": "runs/files"}  # the data are one's own


def small_run(folder, *changes):
    """Return the flags of `train` for a run that takes a moment, without epochs.

    ``changes`` are flags that replace or follow its own.
    """
    own = [*write_pairs(folder), *SMALL, "--run-dir", str(folder / "run")]
    kept = [pair for pair in zip(own[::2], own[1::2]) if pair[0] not in changes]
    return [*sum(kept, ()), *changes]


def train(*flags):
    assert main(["train", *flags]) == 0


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Run in a folder where a run's default folder may be made."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Train a run by the command line, in this process; return its folder."""
    folder = tmp_path_factory.mktemp("model")
    train(*small_run(folder), "--epochs", "2")
    write_json(folder / "run" / "confidence.json", {"threshold": 0.0})
    return folder / "run"


@pytest.fixture(scope="module")
def captions():
    """Load the captions model."""
    return load_translator(CAPTIONS, "cpu")


# the flags


def config_of(*argv):
    """Return the configuration that `train` uses with these flags."""
    arguments = _command_line().parse_args(["train", *argv])
    return choose_config(
        arguments.config, **training_commands.given_settings(arguments)
    )


@pytest.mark.parametrize(
    ("flags", "preset", "changes"),
    [
        ("--config small --seed 3", "small", {"seed": 3}),
        ("--dataset multi30k", "small", {}),
        ("--run-dir here", "tiny", {"run_dir": "here"}),
        ("--train-src a", "small", OWN | {"train_src": "a"}),
        ("--store a", "small", OWN | {"store": "a"}),
        ("--store a --dataset multi30k", "small", {"store": "a"}),
    ],
)
def test_flags_change_the_preset_that_fits_the_data(flags, preset, changes):
    expected = dataclasses.replace(CONFIGS[preset], **changes)
    assert config_of(*flags.split()) == expected


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", ["COMMAND"]),
        ("fly", ["fly", "train", "translate", "evaluate"]),
        ("train --dataset wmt", ["wmt", "multi30k", "captions"]),
        ("train --config huge", ["huge", "tiny", "small"]),
        ("train --epochs many", ["--epochs", "many"]),
        ("train --device abacus", ["abacus", "cpu"]),
        ("train --beem", ["--beem", "train --help"]),
        ("translate --modle", ["--modle (did you mean --model?). See"]),
        (
            "translate --beam-szie=3 --strit",
            ["--beam-szie=3 --strit (did you mean --beam-size or --strict?)"],
        ),
        ("translate --model no/such/folder Hund", ["no/such/folder"]),
        ("evaluate", ["--src", "--ref", "--dataset"]),
        ("evaluate --src a", ["only one file", "--ref"]),
        ("evaluate --src a --dataset captions", ["--dataset", "--src"]),
        ("evaluate --src no.de --ref no.en", ["no.de"]),
        ("evaluate --dataset captions --split train", ["train", "valid"]),
    ],
)
def test_a_wrong_command_line_is_one_line(command, words, capfd):
    error = refused(capfd, *command.split())
    assert all(word in error for word in words), error


# train


def test_a_finished_run_says_so_and_another_configuration_is_refused(model, capfd):
    flags = [*small_run(model.parent), "--epochs", "2"]
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    for changes in ([], ["--average", "3"]):
        train(*flags, *changes)
        assert "finished" in capfd.readouterr().err
    deeper = small_run(model.parent, "--epochs", "2", "--N", "2")
    error = refused(capfd, "train", *deeper)
    assert "N (1 there, 2 now)" in error and "--restart" in error
    assert {path: path.read_bytes() for path in before} == before


def test_a_finished_run_in_a_read_only_folder_says_so(model, capfd, monkeypatch):
    def refuse(folder):
        raise at.DataError(folder, "can't be written", "Choose another folder.")

    monkeypatch.setattr(training_commands, "claim_folder", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    train(*small_run(model.parent, "--epochs", "2"))
    assert "finished" in capfd.readouterr().err
    deeper = small_run(model.parent, "--epochs", "2", "--N", "2")
    assert "N (1 there, 2 now)" in refused(capfd, "train", *deeper)
    for more in (["--epochs", "3"], ["--epochs", "2", "--restart"]):
        again = small_run(model.parent, *more)
        assert "can't be written" in refused(capfd, "train", *again)


@pytest.mark.parametrize(
    ("flag", "wrong"),
    [("--train-src", "no.de"), ("--valid-src", "no.de"), ("--bpe-size", "3"),
     ("--h", "3")],
)  # fmt: skip
def test_a_restart_that_cannot_train_deletes_nothing(model, capfd, flag, wrong):
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    refused(capfd, "train", "--restart", *small_run(model.parent, flag, wrong))
    assert {path: path.read_bytes() for path in before} == before


def test_a_rank_without_torchrun_is_refused(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert "torchrun" in refused(capfd, "train", *small_run(tmp_path))


def test_a_byte_order_mark_is_no_part_of_the_first_word(model):
    translator = load_translator(model, "cpu")
    ids = encode_or_refuse(Notes(translator), 1, b"\xef\xbb\xbfEin Hund.")
    assert ids == [translator.encode("Ein Hund.")]


def test_a_resumed_run_keeps_its_vocabulary(tmp_path, monkeypatch):
    flags = small_run(tmp_path, "--epochs", "1")
    config = config_of(*flags)
    text = prepare_text(PAIRS[:5], config.bpe_size, config.min_freq)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", lambda self: None)
        train_worker(0, 1, *text, config)
    before = (tmp_path / "run" / "vocabulary.json").read_bytes()
    train(*flags)
    assert (tmp_path / "run" / "vocabulary.json").read_bytes() == before


# translate


def probabilities(translator, ids, output):
    """Return the probability of each token of an output, computed all at once."""
    src, tgt = torch.tensor([ids]), torch.tensor([[at.START, *output]])
    mask = torch.ones(1, 1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        seen = at.subsequent_mask(len(output))
        out = translator.model(src, tgt[:, :-1], mask, seen)
        log_p = translator.model.generator(out)[0]
    return log_p.exp()[torch.arange(len(output)), tgt[0, 1:]].tolist()


def test_confidence_is_the_geometric_mean_of_the_probabilities(captions):
    ids = captions.encode("Ein Hund läuft durch den Schnee.")
    for beam_size, alpha in ((1, 1.0), (5, 0.0), (5, 1.4)):
        [(found, confidence)] = captions.decode([ids], beam_size, alpha)
        mean = statistics.geometric_mean(probabilities(captions, ids, [*found, at.END]))
        assert confidence == pytest.approx(mean, rel=1e-4)


def test_an_output_that_is_cut_has_no_end_that_counts(captions, monkeypatch):
    ids = captions.encode("Ein Hund läuft durch den Schnee.")
    monkeypatch.setattr(captions, "limit", lambda src: 4)  # with the start symbol
    [(found, confidence)] = captions.decode([ids], 1)
    assert len(found) == 3
    mean = statistics.geometric_mean(probabilities(captions, ids, found))
    assert confidence == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_batch_holds_so_many_tokens_with_all_its_hypotheses(
    captions, monkeypatch, beam_size
):
    """Translate sentences of two lengths, whose batches can be counted by hand."""
    config = dataclasses.replace(captions.config, batch_tokens=200)
    seen = []

    def decode_batch(rows, **_):
        seen.append([len(row) for row in rows])
        return [(row, 1.0) for row in rows]

    monkeypatch.setattr(captions, "config", config)
    monkeypatch.setattr(captions, "decode_batch", decode_batch)
    short, long = ([at.START, *[7] * n, at.END] for n in (3, 8))
    rows = [long, short] * 20
    assert captions.decode(rows, beam_size, 1.0) == [(row, 1.0) for row in rows]
    width = 200 // beam_size  # tokens for the sentences of a batch
    full = [[10] * (width // 10)] * (20 * 10 // width)
    assert [batch for batch in seen if 5 not in batch] == full
    assert all(max(batch) * len(batch) * beam_size <= 200 for batch in seen)


def test_a_line_is_as_trustworthy_as_its_least_certain_sentence(captions):
    lines = ["Ein Hund läuft.", "Der der Hund Hund.", ""]
    first, second, blank = captions.translations(lines)
    [both] = captions.translations([" ".join(lines)])
    assert both.text == f"{first.text} {second.text}"
    assert both.confidence == pytest.approx(second.confidence)
    assert second.confidence < first.confidence
    assert blank == ("", 1.0, "")


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("Zwei Männer mit Hut bzw. Mütze.", 1),
        ("Ein Mann arbeitet auf Höhe des 2. Stocks.", 1),
        ("Er ruht sich aus. Sie liest! Warum?", 3),
        ("kein Punkt", 1),
        (" \t", 0),
        ("Er liest. Sie schläft. \t", 2),
        ("." * 100_000, 1),  # in no time
        ("Er sagt: „Ja.“ Sie geht. (Warum?) Er bleibt.", 4),
        ("„Halt!“ ruft er. 3 Kinder lachen.", 1),
        ("ein hund läuft. eine katze schläft.", 1),
        ("Frau Dr. E. Weber wohnt in der Goethestr. Der Hund bellt.", 2),
    ],
)
def test_sentence_ends(line, count):
    sentences = split_sentences(line)
    assert len(sentences) == count
    assert "".join("".join(sentences).split()) == "".join(line.split())


@pytest.mark.parametrize("model", [CAPTIONS_MODEL, DEFAULT_MODEL])
def test_respelling(model):
    text = load_text(MODULE.parent / model)
    right = "Drei Mädchen spielen auf der Straße."
    for typed in (
        right.upper(), right.lower(), "Drei Maedchen spielen auf der Strasse.", right
    ):  # fmt: skip
        assert respell(typed, text) == right
    shouted, spoken = (
        "AUF DER STRASSE STEHT EIN MANN.",
        "Auf der Straße steht ein Mann.",
    )
    assert respell(shouted, text) == spoken
    for split in ("valid", "test"):
        for src, _ in load_pairs(TrainingConfig(dataset="captions"), split):
            assert respell(src, text) == src
    for odd in ("", "123", "…", "日本", "Neue DVD"):
        assert respell(odd, text) == odd


@pytest.mark.parametrize(
    "sentence",
    [
        "eine graue katze", "eventuell ein tuell", "DER POET", "EINE AUTOMESSE",
        "zwei rot-graue jacken", "AKTUELLE POESIE", "virtuelle abenteuer",
        "michael isst eine reissuppe", "ein manuelles duell", "eine blaue statue",
        "Ein Koeffizient",
    ],
)  # fmt: skip
def test_no_umlaut_appears_where_none_belongs(sentence):
    found = respell(sentence, load_text(MODULE.parent / DEFAULT_MODEL))
    assert found.lower() == sentence.lower()


@pytest.mark.parametrize("model", ["models/multi30k", DEFAULT_MODEL])
def test_a_name_gets_its_capital_inside_a_line_of_capitals(model):
    text = load_text(MODULE.parent / model)
    line = "Ein Hund und Michael spielen mit Anna."
    assert respell(line.upper(), text) == line
    assert "Michael" in respell(line.lower(), text)
    assert "michael" in respell(line.upper(), text, "xx")  # by frequency


def test_words_that_are_known_stay():
    """Train on words that differ in their capitals alone."""
    pairs = [(line, line) for line in ("IT", "it", "I see it", "I see IT", "It is me")]
    for size in (0, 400):
        text = prepare_text(pairs * 9, size, 1)
        for sentence in ("IT", "it", "see it", "I", "It is"):
            assert respell(sentence, text, "en") == sentence
        if not size:
            assert respell("SEE IT ME", text, "en") == "see IT me"


@pytest.mark.multi30k
@pytest.mark.slow
def test_no_sentence_of_multi30k_is_respelled():
    text = load_text(MODULE.parent / DEFAULT_MODEL)
    for split in ("valid", "test"):
        for src, _ in load_pairs(CONFIGS["small"], split):
            assert respell(src, text) == src


def serious(err):
    """Return the notes of `translate`, but for those on what a raw model writes."""
    return [x for x in err.decode().splitlines() if "don't rely on" not in x]


def test_one_line_out_for_one_line_in(model, feed, capfdbinary):
    feed("Ein Hund läuft.\n\nZwei Hunde.\r\n   \nEin Kind.".encode())
    assert main(["translate", "--model", str(model)]) == 0
    out, err = capfdbinary.readouterr()
    lines = out.split(b"\n")
    assert len(lines) == 6 and lines[1] == lines[3] == lines[5] == b""
    assert lines[0] and lines[2] and lines[4] and serious(err) == []
    translator = load_translator(model, "cpu")
    alone = translator.translate(["Zwei Hunde."])[0]
    assert lines[2].decode() == " ".join(alone.split())


def test_arguments_are_translated_like_lines(model, feed, capfd):
    sentences = ["Ein Hund läuft.", "", "Ein Kind."]
    assert main(["translate", "--model", str(model), *sentences]) == 0
    lines = capfd.readouterr().out.split("\n")
    assert len(lines) == 4 and lines[1] == "" and lines[0] and lines[2]
    feed(b"")  # nothing at all
    assert main(["translate", "--model", str(model)]) == 0
    assert capfd.readouterr() == ("", "")


def test_python_and_the_terminal_give_the_same_answers_and_notes(feed, capfd):
    lines = ["Ein Hund läuft.", "Ein Zebra schläft.", "Der der der Hund Hund."] * 6
    feed("\n".join(lines).encode())
    assert main(["translate", "--model", str(CAPTIONS)]) == 0
    out, notes = capfd.readouterr()
    assert "'Zebra'" in notes and "don't rely on" in notes
    translations = load_translator(CAPTIONS, "cpu").translate(lines)
    assert translations == out.splitlines()
    assert capfd.readouterr() == ("", notes)


def test_a_note_says_which_translations_not_to_rely_on(tmp_path, feed, capfd):
    folder = tmp_path / "model"
    shutil.copytree(CAPTIONS, folder)
    write_json(folder / "confidence.json", {"threshold": 0.8})
    sure, unsure = "Ein Hund läuft.", "Der der der Hund Hund."
    feed(f"{sure}\n{unsure}\n".encode())
    flags = ["translate", "--model", str(folder)]
    assert main(flags) == 0
    out, note = capfd.readouterr()
    assert len(out.splitlines()) == 2
    assert note.startswith("input, line 2: don't rely on this translation (confidence")
    feed(f"{unsure}\n".encode() * 12)
    assert main([*flags, "--strict"]) == 1
    notes = capfd.readouterr().err.splitlines()
    assert len(notes) == 11 and "12 of 12 lines" in notes[-1]
    feed(sure.encode())
    assert main([*flags, "--strict"]) == 0
    assert capfd.readouterr().err == ""
    (folder / "confidence.json").write_text("{}")
    assert "holds no threshold" in refused(capfd, *flags, sure)
    (folder / "confidence.json").unlink()
    assert main([*flags, unsure]) == 0
    assert f"{folder}: not calibrated" in capfd.readouterr().err


def write_reference(folder, pairs):
    """Write pairs to judge a model by; return them as flags."""
    german, english = write_text(folder, pairs)
    return ["--src", german, "--ref", english]


def test_the_threshold_is_what_one_in_twenty_falls_below(tmp_path, capfd):
    folder = shutil.copytree(CAPTIONS, tmp_path / "model")
    pairs = load_pairs(TrainingConfig(dataset="captions"), "valid")[:200]
    files = write_reference(tmp_path, pairs)
    flags = ["--model", str(folder), "--beam-size", "1"]
    assert main(["calibrate", *flags, *files]) == 0
    out, err = capfd.readouterr()
    printed = json.loads(out)
    assert "confidence.json" in err and str(printed["threshold"]) in err
    translator = load_translator(folder, "cpu")
    assert translator.threshold == printed["threshold"]
    found = translator.translations([src for src, _ in pairs], beam_size=1)
    below = sum(each.confidence < printed["threshold"] for each in found)
    assert below == pytest.approx(0.05 * len(pairs), abs=2)
    assert printed["chrf_below"] < printed["chrf_above"]
    assert "mean little" not in err


def test_strict_needs_a_threshold(model, tmp_path, capfd):
    folder = shutil.copytree(model, tmp_path / "run")
    (folder / "confidence.json").unlink()
    flags = ["--model", str(folder), "--strict", "Ein Hund."]
    error = refused(capfd, "translate", *flags)
    assert "not calibrated" in error and "calibrate" in error


def test_a_threshold_needs_a_hundred_sentences(model, tmp_path, capfd):
    files = write_reference(tmp_path, [("Ein Hund.", "A dog.")] * 99)
    error = refused(capfd, "calibrate", "--model", str(model), *files)
    assert "99" in error and "100" in error


def test_half_a_character_leaves_its_line_empty(tmp_path, capfd):
    rows = ['{"de": "Ein Hund."}', r'{"de": "Ein \ud83d"}', '{"de": "Ein Kind."}']
    (tmp_path / "text.jsonl").write_text("\n".join(rows))
    path = f"{tmp_path}/text.jsonl:de"
    assert main(["translate", "--model", str(CAPTIONS), path]) == 1
    out, err = capfd.readouterr()
    assert out.split("\n")[1] == "" and len(out.splitlines()) == 3
    assert "input, line 2: is not UTF-8" in err


def test_a_file_is_not_taken_for_a_sentence(tmp_path, capfd):
    (tmp_path / "five.de").write_text("Ein Hund.\n\nEin Kind.\n")
    flags = ["--model", str(CAPTIONS), "Ein Hund.", str(tmp_path / "five.de")]
    assert main(["translate", *flags]) == 0
    first, second, blank, _ = capfd.readouterr().out.splitlines()
    assert first == second and blank == ""


@pytest.mark.parametrize(
    ("argument", "note"),
    [
        ("www.example.de", "www.example.de: is no file here"),
        ("six.csv:de", "six.csv:de: is no file here"),
        ("Öffnen Sie liste.csv", ""),
        ("kinder: ein Hund", ""),
        ("kinder", "kinder: is a folder"),
        ("12:30", ""),
    ],
)
def test_a_sentence_that_looks_like_a_file_is_a_sentence(
    argument, note, tmp_path, capfd
):
    (tmp_path / "kinder").mkdir()
    assert main(["translate", "--model", str(CAPTIONS), argument]) == 0
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 1
    assert err.startswith(f"{note}, so it is" if note else "input, line 1: "), err


def test_files_are_what_exists(tmp_path, feed, capfd):
    (tmp_path / "Hund").write_text("Ein Kind.\nEin Hund.\n")
    (tmp_path / "leer.de").write_text("")
    flags = ["translate", "--model", str(CAPTIONS)]
    assert main([*flags, "Hund", "leer.de"]) == 0
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 2
    assert err.startswith("Hund: is a file here, so its lines are translated\n")
    feed(b"Ein Hund.\n")
    assert main([*flags, "leer.de"]) == 0  # and not standard input
    assert capfd.readouterr().out == ""


def test_a_hyphen_is_standard_input(feed, capfd):
    lines = []
    for arguments in ([], ["-"], ["-", "Ein Hund läuft."]):
        feed("Eine Frau schläft.\nEin Kind lacht.\n".encode())
        assert main(["translate", "--model", str(CAPTIONS), *arguments]) == 0
        lines.append(capfd.readouterr().out.splitlines())
    assert lines[0] == lines[1] == lines[2][:2] and len(lines[2]) == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train --train-src a --train-src b", "--train-src is given twice"),
        ("train --seed 1 --seed=1", "--seed is given twice"),
        ("train --restart --restart", "--restart is given twice"),
        ("translate --respell --no-respell x", "--no-respell is given twice"),
        ("evaluate --src a --ref b --ref c", "--ref is given twice"),
        ("evaluate --src a --ref b --split test", "--split: is a part of a data set"),
        ("train --h", "expected one argument (--h: attention heads"),
        ("translate --h", "--h (did you mean --help?)"),
        ("translate --beam 3 x", "--beam (did you mean --beam-size?)"),
        ("--vers train", "--vers"),
    ],
)
def test_no_flag_is_dropped_or_guessed(command, words, capfd):
    assert words in refused(capfd, *command.split())


def test_a_text_in_utf_16_is_refused_as_a_whole(model, feed, capfd):
    for coding in ("utf-16-le", "utf-16-be"):
        feed("\ufeffEin Hund.\nEin Kind.\n".encode(coding))
        error = refused(capfd, "translate", "--model", str(model))
        assert "input: is UTF-16" in error and "iconv" in error


def test_a_misspelled_model_leads_to_those_that_exist(tmp_path, capfd):
    misspelled = CAPTIONS.parent / "multi3k"
    error = refused(capfd, "translate", "--model", str(misspelled), "Ein Hund.")
    assert "such as" in error and str(CAPTIONS.parent / "multi30k") in error
    alone = tmp_path / "nothing" / "here"
    error = refused(capfd, "translate", "--model", str(alone), "Ein Hund.")
    assert str(CAPTIONS.parent) not in error
    assert "with the project: captions, multi30k, multi30k-2026." in error
    error = refused(capfd, "translate", "--model", "multi30K", "Ein Hund.")
    assert "Did you mean multi30k? Name the folder" in error


def test_a_model_of_the_repository_is_said_to_be_there(monkeypatch):
    """As where the package was installed by pip, which brings the captions' alone."""
    monkeypatch.setattr(translator, "our_models", dict)
    monkeypatch.setattr(translator, "model_folder", Path)
    for name in REPOSITORY_MODELS:
        assert (CAPTIONS.parent / name / "model.safetensors").exists()
        with pytest.raises(DataError, match=f"(?s)Clone.* models/{name}"):
            load_translator(name)


def test_a_model_of_ours_is_finished_by_its_name_too(capfd):
    assert main(["translate", "--model", "captions", "Ein Hund läuft."]) == 0
    out, error = capfd.readouterr()
    assert "dog" in out and error == ""


def test_a_model_that_is_still_in_training_says_so(model, tmp_path, capfd):
    folder = shutil.copytree(model, tmp_path / "run")
    (folder / "model.safetensors").replace(folder / "best.safetensors")
    assert main(["translate", "--model", str(folder), "Ein Hund."]) == 0
    assert "isn't finished" in capfd.readouterr().err


def test_a_warmup_that_never_ends_is_said(tmp_path, capfd):
    train(*small_run(tmp_path, "--epochs", "1", "--warmup", "99"))
    err = capfd.readouterr().err
    assert "warmup=99 is longer than the run" in err and "lower warmup" in err
    assert re.search(r"On validation: perplexity \d+\.\d\d ", err)


def test_the_front_page_shows_what_translate_prints(capfd):
    text = (MODULE.parent / "README.md").read_text()
    example = text.split("annotated_transformer.py translate ")[1]
    command, *shown = example.splitlines()[:4]
    assert main(["translate", *shlex.split(command)]) == 0
    out, err = capfd.readouterr()
    assert (err + out).splitlines() == shown


def test_more_training_discards_the_threshold(tmp_path):
    flags = small_run(tmp_path, "--schedule", "inverse_sqrt")
    train(*flags, "--epochs", "1")
    file = tmp_path / "run" / "confidence.json"
    write_json(file, {"threshold": 0.5})
    train(*flags, "--epochs", "1")  # it is finished
    assert file.exists()
    train(*flags, "--epochs", "2")
    assert not file.exists()


def test_lines_are_translated_as_they_arrive():
    class Slow(io.RawIOBase):
        def __init__(self, *pieces):
            self.pieces = list(pieces)

        def read1(self, size):
            return self.pieces.pop(0) if self.pieces else b""

    stream = Slow(b"ei", b"ns\nzwei\ndr", b"ei\n", b"\n", b"vier")
    pieces = list(read_available_lines(stream))
    assert pieces == [[b"eins", b"zwei"], [b"drei"], [b""], [b"vier"]]


def test_numbers_of_refused_lines_count_on_over_pieces(model, feed, capfdbinary):
    feed(b"\n" * 9000 + b"\xff\n")  # more than one read
    assert main(["translate", "--model", str(model)]) == 1
    out, err = capfdbinary.readouterr()
    assert out.count(b"\n") == 9001 and b"line 9001:" in err


# evaluate


@pytest.fixture
def looks(tmp_path, monkeypatch):
    """Have looks at the test set logged here, not in the project; return the file."""
    monkeypatch.setattr(evaluation_commands, "project_folder", lambda: tmp_path)
    (tmp_path / "results").mkdir()
    return tmp_path / "runs" / "test_looks.jsonl"


def score(capfd, *argv):
    assert main(["evaluate", *argv]) == 0
    return json.loads(capfd.readouterr().out)


@pytest.fixture
def on_pairs(model):
    """Return the flags of `evaluate` for the model's own training pairs."""
    german, english = (str(model.parent / f"text.{side}") for side in ("de", "en"))
    return ["--model", str(model), "--src", german, "--ref", english]


def test_evaluate_prints_one_object(on_pairs, looks, capfd):
    """Leave the test set's looks alone."""
    result = score(capfd, *on_pairs)
    assert result["sentences"] == len(PAIRS) and "seconds" in result
    assert result["interval"][0] <= result["bleu"] <= result["interval"][1]
    assert not looks.exists()


def test_a_look_that_cannot_be_written_does_not_cost_the_scores(
    on_pairs, looks, capfd, monkeypatch
):
    digest = hashlib.sha256("\n".join(e for _, e in PAIRS).encode()).hexdigest()
    monkeypatch.setattr(evaluation_commands, "TEST_2016", {digest})
    looks.mkdir(parents=True)  # in place of the file
    assert main(["evaluate", *on_pairs]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["sentences"] == len(PAIRS)
    assert "this look at a test isn't counted" in err


def test_each_look_at_the_test_set_is_counted(on_pairs, looks, capfd, monkeypatch):
    """Count looks by the sentences, whatever the files are called."""
    text = "\n".join(english for _, english in PAIRS)
    digest = hashlib.sha256(text.encode()).hexdigest()
    monkeypatch.setattr(evaluation_commands, "TEST_2016", {digest})
    other = ["--beam-size", "1", "--length-penalty", "0"]
    results = [score(capfd, *on_pairs), score(capfd, *on_pairs, *other)]
    written = [json.loads(line) for line in looks.read_text().splitlines()]
    assert [look["bleu"] for look in written] == [r["bleu"] for r in results]
    assert all({"date", "model", "config"} <= look.keys() for look in written)


def test_compare_leaves_out_blank_lines_and_counts_looks(
    model, looks, tmp_path, capfd, monkeypatch
):
    lines = [("", "A dog."), *PAIRS, ("Ein Hund.", " ")]
    files = []
    for name, side in zip(("src", "ref"), zip(*lines, strict=True), strict=True):
        files += [f"--{name}", str(tmp_path / name)]
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    digest = hashlib.sha256("\n".join(e for _, e in PAIRS).encode()).hexdigest()
    monkeypatch.setattr(evaluation_commands, "TEST_2016", {digest})
    assert main(["compare", str(model), str(model), *files]) == 0
    out, _ = capfd.readouterr()
    assert f"{len(PAIRS)} sentences, {len(PAIRS)} translated alike" in out
    assert out.count("can't be told apart") == 2
    assert len(looks.read_text().splitlines()) == 2


@pytest.mark.multi30k
def test_the_digests_of_the_test_set_are_those_of_its_sentences():
    files = (f"test_2016_flickr.{side}.gz" for side in ("en", "de"))
    texts = ("\n".join(read_lines(data_file("multi30k", f))) for f in files)
    digests = {hashlib.sha256(text.encode()).hexdigest() for text in texts}
    assert digests == evaluation_commands.TEST_2016


# as a program


@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        ("stderr", 0, ""),
        ("stdout", 2, "standard output: is closed"),
        ("stdin", 2, "standard input: is closed"),
    ],
)
def test_a_closed_stream(monkeypatch, capsysbinary, feed, model, closed, status, said):
    """Python has None in its place; notes don't move to standard output."""
    feed(b"Ein Hund.\n")
    monkeypatch.setattr(sys, closed, None)
    assert main(["translate", "--model", str(model)]) == status
    monkeypatch.undo()
    out, err = capsysbinary.readouterr()
    assert out.count(b"\n") == (closed == "stderr") and said in err.decode()


def test_the_program_is_a_filter_in_any_locale(model):
    command = [sys.executable, str(MODULE), "translate", "--model", str(model)]
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "LANG": "C"}
    text = "schön\n\n".encode() + b"\xff\n"
    done = subprocess.run(command, input=text, capture_output=True, env=environment)
    assert done.returncode == 1 and done.stdout.count(b"\n") == 3
    [note] = serious(done.stderr)
    assert "line 3" in note


def test_the_module_runs_by_its_name_too_and_an_error_is_a_line(tmp_path):
    command = [sys.executable, "-m", "annotated_transformer", "train", "--dataset", "x"]
    environment = os.environ | {"PYTHONPATH": str(MODULE.parent)}
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == b""
    assert b"multi30k" in done.stderr and done.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_reader_that_goes_away_is_no_error(model):
    """Close the pipe as in `… | head -1`: the filter ends without a word."""
    command = [sys.executable, str(MODULE), "translate", "--model", str(model)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.write(b"Ein Hund.\n")
        process.stdin.flush()
        assert process.stdout.readline()  # answered while the input stays open
        process.stdout.close()
        process.stdin.write(b"Ein Kind.\n")
        process.stdin.close()
        assert serious(process.stderr.read()) == []
        assert process.wait(timeout=1200) == 141


def test_without_training_data_nothing_is_begun(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(data_sets, "_data_folders", lambda: [tmp_path / "nowhere"])
    error = refused(capfd, "train", "--run-dir", str(tmp_path / "run"))
    assert "train.de" in error and str(tmp_path / "nowhere") in error
    assert not (tmp_path / "run").exists()


def test_words_of_the_validation_pairs_are_not_learnt(tmp_path):
    by_words = ["--bpe-size", "0", "--tie", "none", "--min-freq", "1"]
    (tmp_path / "valid").mkdir()
    german, english = write_text(tmp_path / "valid", [("Zebra .", "zebra .")] * 9)
    valid = ["--valid-src", german, "--valid-tgt", english]
    train(*small_run(tmp_path, *by_words, "--epochs", "1", *valid))
    vocabulary = read_json(tmp_path / "run" / "vocabulary.json")
    assert "Hund" in vocabulary["source"] and "dog" in vocabulary["target"]
    assert "Zebra" not in vocabulary["source"] and "zebra" not in vocabulary["target"]
